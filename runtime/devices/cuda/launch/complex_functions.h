// Functions of complex numbers, with the special values and branch cuts that C gives them (C11, annex G).
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_COMPLEX_FUNCTIONS_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_COMPLEX_FUNCTIONS_H_

#include "cuda/launch/elementwise.h"

namespace millrace::cuda {

// kOne: 1 of whatever number.
enum class ComplexFunction { kSqrt, kRsqrt, kExp, kLog, kSin, kCos, kTanh, kSigmoid, kOne };

// `type`: of the parts, kFloat or kDouble. `y` may be `x`.
void LaunchComplexFunction(const Queue& queue, ComplexFunction function, Type type, const void* x, void* y, int64_t n);
void LaunchComplexPow(const Queue& queue, Type type, const Broadcast& shape, const void* a, const void* b, void* y);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_COMPLEX_FUNCTIONS_H_
