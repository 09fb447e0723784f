// Sums of 16-bit floats that are rounded once, behind the last term.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_WIDE_SUMS_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_WIDE_SUMS_H_

#include <type_traits>

#include <Eigen/Core>

namespace millrace::cpu {

// What numbers of type T are added up in.
template <typename T>
using WideSum = std::conditional_t<std::is_same_v<T, Eigen::half> || std::is_same_v<T, Eigen::bfloat16>, float, T>;

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_WIDE_SUMS_H_
