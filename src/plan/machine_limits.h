// What rates and times of a machine may be: with less or more, times of plans would be infinite.
#ifndef MILLRACE_SRC_PLAN_MACHINE_LIMITS_H_
#define MILLRACE_SRC_PLAN_MACHINE_LIMITS_H_

#include <bit>
#include <cstdint>

#include "millrace/types.h"

namespace millrace {

inline constexpr int64_t kMostAlignment = int64_t{1} << 40;  // sums of aligned sizes stay numbers
inline bool IsAlignment(int64_t bytes) {
  return bytes >= kTensorAlignment && bytes <= kMostAlignment && std::has_single_bit(static_cast<uint64_t>(bytes));
}

inline constexpr double kLeastRate = 1, kMostRate = 1e30;  // per second
inline constexpr double kMostGbps = kMostRate / 1e9;
inline constexpr double kMostMachineSeconds = 1e9;
// Of a step of a plan: more than such a machine takes for the largest tensors, and sums of it are finite.
inline constexpr double kMostStepSeconds = 1e100;

}  // namespace millrace

#endif  // MILLRACE_SRC_PLAN_MACHINE_LIMITS_H_
