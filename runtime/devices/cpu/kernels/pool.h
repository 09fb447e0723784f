// What the max and average pooling kernels share: their geometry from a node.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_POOL_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_POOL_H_

#include "graph/pool_geometry.h"
#include "millrace/kernel.h"

namespace millrace::cpu {

// Of a node with input `input` (a shape): ksize and strides from the attributes, or, with window_input >= 0, from the
// values of inputs window_input and window_input + 1.
absl::StatusOr<PoolGeometry> PoolGeometryOf(const OpInstance& node, const Shape& input, int window_input = -1);

void RegisterMaxPoolKernels(KernelRegistry& registry);
void RegisterMaxPoolGradKernels(KernelRegistry& registry);
void RegisterAvgPoolKernels(KernelRegistry& registry);

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_POOL_H_
