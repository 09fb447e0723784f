// More families of CPU kernels. Only register.cc and the family itself need these: a new family here does not rebuild
// every kernel, as one in register.h does.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_FAMILIES_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_FAMILIES_H_

#include "cpu/kernels/register.h"

namespace millrace::cpu {

void RegisterColourKernels(KernelRegistry& registry);
void RegisterProjectKernels(KernelRegistry& registry);
void RegisterCropKernels(KernelRegistry& registry);
void RegisterCountingKernels(KernelRegistry& registry);
void RegisterRandomGammaKernels(KernelRegistry& registry);
void RegisterRandomGeneratorKernels(KernelRegistry& registry);
void RegisterCandidateKernels(KernelRegistry& registry);
void RegisterFakeQuantKernels(KernelRegistry& registry);
void RegisterLinalgKernels(KernelRegistry& registry);
void RegisterDecomposeKernels(KernelRegistry& registry);
void RegisterSingularValueKernels(KernelRegistry& registry);
void RegisterMatrixRootKernels(KernelRegistry& registry);
void RegisterEigenvalueKernels(KernelRegistry& registry);
void RegisterSparseKernels(KernelRegistry& registry);
void RegisterMaxPoolArgmaxKernels(KernelRegistry& registry);
void RegisterComplexKernels(KernelRegistry& registry);
void RegisterFourierKernels(KernelRegistry& registry);

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_FAMILIES_H_
