// The host's kernels where the device has none.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_MERGE_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_MERGE_H_

#include <functional>
#include <memory>

#include "millrace/kernel.h"

namespace millrace::cuda {

// For every op of either: `device`'s kernel; where it has none, or its factory refuses a node as Unimplemented, what
// `wrap` makes of `host`'s, but for ops that only passes make (_SumProducts). The factories of `host` outlive the result. --v=1 logs
// each node that is left to the host.
using WrapKernel = std::function<std::unique_ptr<Kernel>(const OpInstance& instance, std::unique_ptr<Kernel> kernel)>;
KernelRegistry MergeKernels(const KernelRegistry& device, const KernelRegistry& host, WrapKernel wrap);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_MERGE_H_
