// Rows by indices that each batch has of its own.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_BATCH_GATHER_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_BATCH_GATHER_H_

#include "cuda/kernels/services.h"

namespace millrace::cuda {

// Of GatherV2, whose axis is known when planning, and of ResourceGather, with any batch_dims.
absl::StatusOr<std::unique_ptr<Kernel>> MakeBatchGather(DeviceServices& services, const OpInstance& instance);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_BATCH_GATHER_H_
