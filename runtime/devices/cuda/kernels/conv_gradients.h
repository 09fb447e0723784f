// Gradients of convolutions as what libraries have faster kernels for: another convolution, or a product.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_CONV_GRADIENTS_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_CONV_GRADIENTS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cuda/kernels/common.h"
#include "cuda/kernels/services.h"

namespace millrace::cuda {

// For kInput and kFilter; of `shape`, in the layout that tensors have. `choice` is what Kernel::choice() of one of these says,
// "" for whatever there is. Unimplemented where the gradient is none of these, the library lacks what it takes, or `choice` is
// another kernel's.
absl::StatusOr<std::unique_ptr<Kernel>> MakeConvGradient(DeviceServices& services, ConvShape shape, absl::string_view choice);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_CONV_GRADIENTS_H_
