// Random numbers that take as many samples as they need, classes, orders: the CPU's, number by number (graph/distributions.h,
// graph/truncated_normal.h, graph/index_shuffle.h).
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_RANDOM_RARE_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_RANDOM_RARE_H_

#include "cuda/launch/elementwise.h"
#include "cuda/launch/random.h"

namespace millrace::cuda {

// Numbers of the distributions here are of these types: floating ones, kInt32, kInt64.

// A fault of input `input` (kIndexOutOfRange) where the algorithm in device memory is not Philox.
void LaunchCheckAlgorithm(const Queue& queue, int input, const int32_t* algorithm);

enum class Distribution { kGamma, kPoisson };
// y[s][p] = sample s of the distribution of parameter p.
struct ParameterDraws {
  Distribution distribution = Distribution::kGamma;
  Type from = Type::kFloat, to = Type::kFloat;
  int64_t parameters = 0, samples = 0;
};
void LaunchParameterDraws(const Queue& queue, const ParameterDraws& draws, const RandomSource& source, const void* parameters, void* y);

// Which elements of up to four tensors of parameters are broadcast to each set of them, in row-major order.
struct ParameterSets {
  static constexpr int kMost = 4;
  int rank = 0;
  int64_t count = 1;
  int64_t dims[kMaxDims] = {};
  int64_t strides[kMost][kMaxDims] = {};
};

// y[s][i] = sample s of the successes of set i: of how many tries, and how probable each is.
void LaunchBinomial(const Queue& queue, Type from, Type to, const ParameterSets& sets, int64_t samples, const RandomSource& source,
                    const void* counts, const void* probabilities, void* y);

// Number k of set i goes to y[i * set_stride + k * number_stride]; as many as `numbers` of each set, `last_numbers` of the last one, one
// set after another from one stream. Of float or double. parameters: means, deviations, lower and upper bounds.
struct TruncatedDraws {
  Type type = Type::kFloat;
  ParameterSets sets;
  int64_t numbers = 0, last_numbers = 0, set_stride = 0, number_stride = 0;
  const void* parameters[ParameterSets::kMost] = {};
};
// What a fault (kIndexOutOfRange of input 2, whose element is the set) has as its value; its tuple has the parameters' bits as doubles.
enum class TruncatedFault : int64_t { kParameters = 0, kNothingAccepted = 1 };
void LaunchTruncated(const Queue& queue, const TruncatedDraws& draws, const RandomSource& source, void* y);

// y[r][s] = a class by unnormalised log probabilities logits[r][:], int64 where `wide`, else int32.
struct ClassDraws {
  Type type = Type::kFloat;
  bool wide = true;
  int64_t rows = 0, classes = 0, samples = 0;
};
int64_t ClassDrawsScratchBytes(const ClassDraws& draws);
void LaunchClassDraws(const Queue& queue, const ClassDraws& draws, const RandomSource& source, const void* logits, void* y, void* scratch);

// order[0, rows): a permutation of [0, rows), fewer than 2^31 of them. Scratch: as many numbers again.
void LaunchShuffledOrder(const Queue& queue, const RandomSource& source, int64_t rows, int32_t* order, int32_t* scratch);

// y[i] = where index[i] goes among [0, most[i]]. Integers of 4 or 8 bytes, seeds of three; a step of 0: one is for all. Faults
// (kIndexOutOfRange of input 0).
struct IndexShuffle {
  bool wide = false, is_signed = true, wide_seed = true;
  int64_t count = 0, rounds = 4;
  int64_t index_step = 0, seed_step = 0, most_step = 0;
};
void LaunchIndexShuffle(const Queue& queue, const IndexShuffle& shuffle, const void* index, const void* seeds, const void* most, void* y);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_RANDOM_RARE_H_
