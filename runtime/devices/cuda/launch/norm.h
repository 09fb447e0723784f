// Batch norm, alone or with a sum and a Relu behind.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_NORM_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_NORM_H_

#include "cuda/launch/queue.h"

namespace millrace::cuda {

struct BatchNormShape {
  int64_t pixels = 0;  // over batch and space
  int64_t plane = 1;   // over space
  bool channels_first = false;
  int64_t channels = 0;
  float epsilon = 0;
  float average = 1;  // weight of this batch in the moving values
  bool training = true;
};
int64_t BatchNormScratchBytes(const BatchNormShape& shape);
struct BatchNormForward {
  const void* x;
  const void* side;  // added to the result; nullptr: there is none
  const float *scale, *offset, *old_mean, *old_variance;
  void* y;
  float *mean_out, *variance_out, *mean_saved, *variance_saved;
  float* reserve;  // set to 0; nullptr: there is none
  bool relu;       // comes last
};
void LaunchBatchNorm(const Queue& queue, Type type, const BatchNormShape& shape, const BatchNormForward& arguments,
                     void* scratch);
struct BatchNormBackward {
  const void *dy, *x;
  const float *scale, *mean, *variance;
  const float* offset;  // of the batch norm, with a Relu behind it; nullptr: there is none
  void* dx;
  float *d_scale, *d_offset;
};
void LaunchBatchNormGrad(const Queue& queue, Type type, const BatchNormShape& shape, const BatchNormBackward& arguments,
                         void* scratch);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_NORM_H_
