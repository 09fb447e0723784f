// Several ops as one node: groups of elementwise ops (passes/rewrite/fuse_elementwise.h), products and convolutions with a
// bias and an activation (passes/rewrite/fuse_biases.h), groups with reductions (graph/fused_reduce.h).
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_FUSED_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_FUSED_H_

#include "millrace/kernel.h"

namespace millrace::cpu {

void RegisterFusedKernels(KernelRegistry& registry);
void RegisterFusedProducts(KernelRegistry& registry);
void RegisterFusedReductions(KernelRegistry& registry);
// The kernels of single ops, for nodes that run several.
const KernelRegistry& OpKernels();

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_FUSED_H_
