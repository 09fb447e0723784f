// The CUDA device's kernels without a device: compiled for the host, with the CPU's for the rest. For the emulated driver.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_EMULATED_EMULATED_KERNELS_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_EMULATED_EMULATED_KERNELS_H_

#include <memory>

#include "millrace/kernel.h"

namespace millrace::cuda {

// `host` outlives the result. Products and convolutions are the host's.
std::shared_ptr<const KernelRegistry> MakeEmulatedKernels(const KernelRegistry& host);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_EMULATED_EMULATED_KERNELS_H_
