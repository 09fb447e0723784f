// Kernels of complex numbers of ops that have kernels of real ones.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_COMPLEX_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_COMPLEX_H_

#include "cuda/kernels/common.h"

namespace millrace::cuda {

// For instances with complex inputs or outputs. Unimplemented for ops that are not covered.
absl::StatusOr<std::unique_ptr<Kernel>> MakeComplexUnary(DeviceServices& services, const OpInstance& instance);
// Equal and NotEqual, too.
absl::StatusOr<std::unique_ptr<Kernel>> MakeComplexBinary(DeviceServices& services, const OpInstance& instance);
absl::StatusOr<std::unique_ptr<Kernel>> MakeComplexCast(DeviceServices& services, const OpInstance& instance);
absl::StatusOr<std::unique_ptr<Kernel>> MakeComplexAddN(DeviceServices& services, const OpInstance& instance);
absl::StatusOr<std::unique_ptr<Kernel>> MakeComplexReduction(DeviceServices& services, const OpInstance& instance);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_COMPLEX_H_
