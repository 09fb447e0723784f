// Special functions.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SPECIAL_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SPECIAL_H_

#include "cuda/launch/queue.h"

namespace millrace::cuda {

// The logarithm of the gamma function's magnitude and its derivative; the inverses of erf and of the normal distribution function.
enum class SpecialOp { kLgamma, kDigamma, kErfinv, kNdtri };

// y = f(x), n floating numbers, computed in double.
void LaunchSpecial(const Queue& queue, SpecialOp op, Type type, const void* x, void* y, int64_t n);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SPECIAL_H_
