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
  } kind = Kind::kState;
  uint64_t given_key = 0, given_high = 0;
  const void* counter = nullptr;
  const void* key = nullptr;
  bool wide_seed = true;  // kSeed: int64 or int32
};

void LaunchRandom(const Queue& queue, RandomKind kind, Type type, const RandomSource& source, void* y, int64_t n);
// Adds to the counter of a kState source.
void LaunchAdvance(const Queue& queue, uint64_t* counter, uint64_t samples);
// Key, and counter of two words, of a kSeed source.
void LaunchKeyOfSeed(const Queue& queue, const RandomSource& source, uint64_t* key, uint64_t* counter);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_RANDOM_H_
