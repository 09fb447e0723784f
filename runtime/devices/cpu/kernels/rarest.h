// The rarest families of ops. Only register.cc and the family itself need these.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_RAREST_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_RAREST_H_

#include "cpu/kernels/register.h"

namespace millrace::cpu {

void RegisterQuantizeKernels(KernelRegistry& registry);      // QuantizeV2, Dequantize
void RegisterQuantizedKernels(KernelRegistry& registry);     // QuantizedConv2D, Requantize
void RegisterClusteringKernels(KernelRegistry& registry);    // NearestNeighbors, KmeansPlusPlusInitialization
void RegisterIndexShuffleKernels(KernelRegistry& registry);  // RandomIndexShuffle
void RegisterSparseProductKernels(KernelRegistry& registry);  // _SparseMatrixProduct
void RegisterDrawBoxesKernels(KernelRegistry& registry);     // DrawBoundingBoxes
void RegisterUnicodeScriptKernels(KernelRegistry& registry);
void RegisterArgmaxGatherKernels(KernelRegistry& registry);  // MaxPoolGradGradWithArgmax

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_RAREST_H_
