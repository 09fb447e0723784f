// Trees of elementwise ops as one node (passes/rewrite/fuse_elementwise.h).
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_FUSED_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_FUSED_H_

#include "millrace/kernel.h"

namespace millrace::cpu {

void RegisterFusedKernels(KernelRegistry& registry);

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_FUSED_H_
