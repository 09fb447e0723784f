// Random numbers: the CPU's streams (Philox 4x32-10), number by number.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_RANDOM_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_RANDOM_H_

#include "cuda/launch/queue.h"

namespace millrace::cuda {

enum class RandomKind { kUniform, kNormal, kTruncatedNormal };

// Where the stream of numbers comes from.
struct RandomSource {
  enum class Kind {
    kState,    // key and high counter are given, `counter` is one uint64_t: samples used so far
    kSeed,     // `counter` is a pair of integers that are scrambled into key and counter
    kKeyed,    // `counter` is two uint64_t, `key` is one
    kVariable  // `counter` is two uint64_t and the key
  } kind = Kind::kState;
  uint64_t given_key = 0, given_high = 0;
  const void* counter = nullptr;
  const void* key = nullptr;
  bool wide_seed = true;  // kSeed: int64 or int32
};

void LaunchRandom(const Queue& queue, RandomKind kind, Type type, const RandomSource& source, void* y, int64_t n);

// Integers of 4 or 8 bytes: every one alike, or those in [low, high).
struct RandomIntegers {
  bool wide = false, is_signed = true, bounded = false;
  uint64_t low = 0, high = 0;                        // where they are not in the memory that kernels reach
  const void *low_at = nullptr, *high_at = nullptr;  // else there, as wide as the results
};
// A fault (FaultCode::kNotBelow) where there is none between the bounds.
void LaunchRandomIntegers(const Queue& queue, const RandomIntegers& integers, const RandomSource& source, void* y, int64_t n);

// Adds to the counter of a kState source.
void LaunchAdvance(const Queue& queue, uint64_t* counter, uint64_t samples);
// Adds `factor` samples, and as many again for each that `count` says, where there is one, to the counter of a kVariable source, which is
// copied to `former`, if any, before.
void LaunchAdvanceVariable(const Queue& queue, uint64_t* state, uint64_t factor, const uint64_t* count, uint64_t* former);
// Key, and counter of two words, of a kSeed source.
void LaunchKeyOfSeed(const Queue& queue, const RandomSource& source, uint64_t* key, uint64_t* counter);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_RANDOM_H_
