// The families of CPU kernels, one function and source file each; RegisterCpuKernels calls them all.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_REGISTER_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_REGISTER_H_

#include "millrace/kernel.h"

namespace millrace::cpu {

void RegisterCpuKernels(KernelRegistry& registry);

// CHECK-fails when the op has a kernel already: built-in names are ours.
void AddKernel(KernelRegistry& registry, std::string_view op, KernelFactory factory);

void RegisterGraphKernels(KernelRegistry& registry);
void RegisterVariableKernels(KernelRegistry& registry);
void RegisterVariableScatterKernels(KernelRegistry& registry);
void RegisterOptimizerKernels(KernelRegistry& registry);
void RegisterSparseOptimizerKernels(KernelRegistry& registry);
void RegisterElementwiseKernels(KernelRegistry& registry);
void RegisterShapeKernels(KernelRegistry& registry);
void RegisterConcatSplitKernels(KernelRegistry& registry);
void RegisterSliceKernels(KernelRegistry& registry);
void RegisterPadKernels(KernelRegistry& registry);
void RegisterGatherKernels(KernelRegistry& registry);
void RegisterScatterKernels(KernelRegistry& registry);
void RegisterSegmentKernels(KernelRegistry& registry);
void RegisterUniqueKernels(KernelRegistry& registry);
void RegisterLayoutKernels(KernelRegistry& registry);
void RegisterTopKKernels(KernelRegistry& registry);
void RegisterDiagonalKernels(KernelRegistry& registry);
void RegisterStringKernels(KernelRegistry& registry);
void RegisterReductionKernels(KernelRegistry& registry);
void RegisterArgReductionKernels(KernelRegistry& registry);
void RegisterCumulativeKernels(KernelRegistry& registry);
void RegisterMatMulKernels(KernelRegistry& registry);
void RegisterEinsumKernels(KernelRegistry& registry);
void RegisterConvKernels(KernelRegistry& registry);
void RegisterBatchNormKernels(KernelRegistry& registry);
void RegisterLrnKernels(KernelRegistry& registry);
void RegisterPoolKernels(KernelRegistry& registry);
void RegisterSoftmaxKernels(KernelRegistry& registry);
void RegisterLossKernels(KernelRegistry& registry);
void RegisterRandomKernels(KernelRegistry& registry);
void RegisterStatelessRandomKernels(KernelRegistry& registry);
void RegisterResizeKernels(KernelRegistry& registry);
void RegisterCtcKernels(KernelRegistry& registry);
void RegisterRankKernels(KernelRegistry& registry);

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_REGISTER_H_
