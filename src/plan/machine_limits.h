// What rates and times of a machine may be: with less or more, times of plans would be infinite.
#ifndef MILLRACE_SRC_PLAN_MACHINE_LIMITS_H_
#define MILLRACE_SRC_PLAN_MACHINE_LIMITS_H_

namespace millrace {

inline constexpr double kLeastRate = 1, kMostRate = 1e30;  // per second
inline constexpr double kMostGbps = kMostRate / 1e9;
inline constexpr double kMostMachineSeconds = 1e9;
// Of a step of a plan: more than such a machine takes for the largest tensors, and sums of it are finite.
inline constexpr double kMostStepSeconds = 1e100;

}  // namespace millrace

#endif  // MILLRACE_SRC_PLAN_MACHINE_LIMITS_H_
