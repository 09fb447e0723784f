// Images resampled by areas and by filters, channels last.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_RESAMPLING_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_RESAMPLING_H_

#include "cuda/launch/queue.h"
#include "graph/resampling.h"

namespace millrace::cuda {

// ResizeArea. `scale`: input pixels that an output pixel is wide.
struct AreaAxis {
  int64_t input = 1, output = 1;
  float scale = 1;
};
struct AreaShape {
  int64_t batch = 0, channels = 0;
  AreaAxis rows, columns;
};
int64_t ResizeAreaScratchBytes(const AreaShape& shape);
void LaunchResizeArea(const Queue& queue, Type type, const AreaShape& shape, const void* x, float* y, void* scratch);

// ScaleAndTranslate, and its gradient, which is float; of rows and of columns.
struct ScaleShape {
  ResampleFilter filter = ResampleFilter::kLanczos3;
  bool antialias = true;
  int64_t batch = 0, channels = 0;
  int64_t input[2] = {1, 1}, output[2] = {0, 0};  // of the forward op
};
int64_t ScaleScratchBytes(const ScaleShape& shape);
// A scale that is not above 0 is a fault (FaultCode::kIndexOutOfRange of input 2; its value is the bits of the scale as a double).
void LaunchScaleAndTranslate(const Queue& queue, Type type, const ScaleShape& shape, const void* x, const float* scale, const float* translation,
                 float* y, void* scratch);
void LaunchScaleAndTranslateGrad(const Queue& queue, const ScaleShape& shape, const float* dy, const float* scale, const float* translation, float* dx,
                     void* scratch);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_RESAMPLING_H_
