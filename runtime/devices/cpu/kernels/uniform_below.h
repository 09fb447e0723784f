// A number in [0, n) from a stream of words, every one alike.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_UNIFORM_BELOW_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_UNIFORM_BELOW_H_

#include <limits>

#include "cpu/kernels/philox.h"

namespace millrace::cpu {

// Requires n > 0.
inline uint64_t UniformBelow(uint64_t n, PhiloxWords& words) {
  const uint64_t rest = std::numeric_limits<uint64_t>::max() % n + 1;  // numbers below it would favour small results
  uint64_t number;
  do {
    const uint32_t low = words(), high = words();
    number = JoinWords(low, high);
  } while (rest != n && number < rest);
  return number % n;
}

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_UNIFORM_BELOW_H_
