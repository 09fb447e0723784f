// Windows over images [batch, rows, columns, channels]: largest sums under a filter, and largest elements with their places.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_WINDOW_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_WINDOW_H_

#include "cuda/launch/pool.h"
#include "cuda/launch/queue.h"
#include "graph/dilation_geometry.h"

namespace millrace::cuda {

// An image has fewer than 2^31 pixels, a filter fewer taps.
using DilationShape = DilationGeometry;
void LaunchDilation(const Queue& queue, Type type, const DilationShape& shape, const void* images, const void* filter, void* out);
// Each result's gradient goes to the pixel and the weight of its first largest sum.
int64_t DilationGradScratchBytes(bool of_filter, const DilationShape& shape);
void LaunchDilationGrad(const Queue& queue, Type type, bool of_filter, const DilationShape& shape, const void* images,
                        const void* filter, const void* gradient, void* out, void* scratch);

// Each window's first largest element, and where it is in its image, or, in_batch, in the batch: int32, or int64 where `wide`.
void LaunchArgmaxPool(const Queue& queue, Type type, const PoolShape& shape, bool in_batch, bool wide, const void* x, void* y,
                      void* places);
// The gradient goes to the places, which are in their images, or else are a fault of input 2. Images of fewer than 2^31 elements.
int64_t ArgmaxPoolGradScratchBytes(const PoolShape& shape);
void LaunchArgmaxPoolGrad(const Queue& queue, Type type, const PoolShape& shape, bool in_batch, bool wide, const void* dy,
                          const void* places, void* dx, void* scratch);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_WINDOW_H_
