// The lowest finite number of a type. Included by launch/*.cu alone.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_LOWEST_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_LOWEST_H_

#include <limits>

#include "cuda/launch/scalar.h"

namespace millrace::cuda {

// As the type that arithmetic is done in.
template <typename T>
inline constexpr typename Wide<T>::type kLowest = std::numeric_limits<T>::lowest();
template <>
inline constexpr float kLowest<Half> = -65504.0f;
template <>
inline constexpr float kLowest<Bfloat16> = -3.38953138925153547590e38f;

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_LOWEST_H_
