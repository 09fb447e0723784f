// What rates and times of a machine may be: with less or more, times of plans would be infinite.
#ifndef MILLRACE_SRC_PLAN_MACHINE_LIMITS_H_
#define MILLRACE_SRC_PLAN_MACHINE_LIMITS_H_

namespace millrace {

inline constexpr double kLeastRate = 1, kMostRate = 1e30;  // per second
inline constexpr double kMostMachineSeconds = 1e9;

}  // namespace millrace

#endif  // MILLRACE_SRC_PLAN_MACHINE_LIMITS_H_
