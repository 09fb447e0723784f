// Regions of images [batch, height, width, channels]: boxes that are resampled.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_REGION_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_REGION_H_

#include "cuda/launch/queue.h"

namespace millrace::cuda {

// Boxes are y and x of their lower, then of their upper corner, 1 being the last pixel; box b is of image owners[b], or else that is
// a fault of input `owners_input`.
struct CropShape {
  int64_t batch = 0, height = 0, width = 0, channels = 0;
  int64_t boxes = 0, crop_height = 0, crop_width = 0;
  bool nearest = false;
  float extrapolation = 0;
  int owners_input = 0;
};
// Boxes that are not finite are a fault (FaultCode::kNotFinite).
void LaunchCrop(const Queue& queue, Type type, const CropShape& shape, const void* images, const float* boxes, const int32_t* owners,
                float* crops);
// The gradient of the images, of floating numbers; sides of crops and the number of boxes are below 2^31.
int64_t CropGradImageScratchBytes(const CropShape& shape);
void LaunchCropGradImage(const Queue& queue, Type type, const CropShape& shape, const float* gradient, const float* boxes,
                         const int32_t* owners, void* images, void* scratch);
int64_t CropGradBoxesScratchBytes(const CropShape& shape);
void LaunchCropGradBoxes(const Queue& queue, Type type, const CropShape& shape, const float* gradient, const void* images,
                         const float* boxes, const int32_t* owners, float* gradient_of_boxes, void* scratch);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_REGION_H_
