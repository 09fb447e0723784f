// Local response normalisation and resizing, channels last.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_IMAGE_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_IMAGE_H_

#include "cuda/launch/queue.h"

namespace millrace::cuda {

struct LrnShape {
  int64_t positions = 0, channels = 0, radius = 0;
  float bias = 1, alpha = 1, beta = 0.5f;
};
void LaunchLrn(const Queue& queue, Type type, const LrnShape& shape, const void* x, void* y);
// Two floats for each element of a part: large tensors are gone through in parts.
int64_t LrnGradScratchBytes(const LrnShape& shape);
void LaunchLrnGrad(const Queue& queue, Type type, const LrnShape& shape, const void* dy, const void* x, const void* y,
                   void* dx, void* scratch);

// How positions of the output of one dimension fall on the input.
struct ResizeAxis {
  int64_t input = 1, output = 1;
  float scale = 1;
};
struct ResizeShape {
  bool nearest = false, cubic = false, align_corners = false, half_pixel_centers = false;
  int64_t batch = 0, channels = 0;
  ResizeAxis rows, columns;
};
// Bilinear and bicubic results are float; nearest ones are elements of `bytes` bytes, moved.
void LaunchResizeBlended(const Queue& queue, Type type, const ResizeShape& shape, const void* x, float* y);
void LaunchResizeNearest(const Queue& queue, int bytes, const ResizeShape& shape, const void* x, void* y);
// `dy` is of `type` for nearest, else float; `shape` is the forward op's.
void LaunchResizeGrad(const Queue& queue, Type type, const ResizeShape& shape, const void* dy, void* dx);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_IMAGE_H_
