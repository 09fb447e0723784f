// Pooling over three dimensions of [batch, d0, d1, d2, channels].
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_POOL_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_POOL_H_

#include "cuda/launch/queue.h"

namespace millrace::cuda {

struct PoolShape {
  int64_t batch = 0, channels = 0;
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, window[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, pad[3] = {0, 0, 0};
};
// A maximum starts from the lowest finite number, and NaN never wins; as XLA has it, it starts from -inf, and NaN always wins, as the one
// quiet NaN that has no sign and no payload.
enum class PoolRule { kAverage, kMaximum, kMaximumAsXla };
void LaunchPool(const Queue& queue, Type type, PoolRule rule, const PoolShape& shape, const void* x, void* y);
// The gradient of a window goes to all its elements in equal parts, to its first maximum, or to every element less
// than 1e-5 below its maximum `y`.
enum class PoolGradRule { kAverage, kFirstMaximum, kEveryMaximum };
int64_t PoolGradScratchBytes(PoolGradRule rule, const PoolShape& shape);
void LaunchPoolGrad(const Queue& queue, Type type, PoolGradRule rule, const PoolShape& shape, const void* x, const void* y,
                    const void* dy, void* dx, void* scratch);
// From every window, the element of `ddx` at the first maximum of `x`.
void LaunchPoolGradGrad(const Queue& queue, Type type, const PoolShape& shape, const void* x, const void* ddx, void* dy);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_POOL_H_
