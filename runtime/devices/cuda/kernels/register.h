// The CUDA device's kernels, by family. What is not here, or refuses a type as Unimplemented, runs on the host.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_REGISTER_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_REGISTER_H_

#include "cuda/kernels/services.h"
#include "millrace/kernel.h"

namespace millrace::cuda {

// `services` outlives the registry and its kernels.
void RegisterCudaKernels(KernelRegistry& registry, DeviceServices& services);

void RegisterElementwise(KernelRegistry& registry, DeviceServices& services);
void RegisterLayout(KernelRegistry& registry, DeviceServices& services);
void RegisterReductions(KernelRegistry& registry, DeviceServices& services);
void RegisterVariables(KernelRegistry& registry, DeviceServices& services);
void RegisterProducts(KernelRegistry& registry, DeviceServices& services);
void RegisterConvolutions(KernelRegistry& registry, DeviceServices& services);
void RegisterOptimizers(KernelRegistry& registry, DeviceServices& services);
// Of AssignAdd and AssignSub and their kin on floating numbers, of which several may be one launch.
absl::StatusOr<std::unique_ptr<Kernel>> MakeFloatingAssignUpdate(DeviceServices& services, const OpInstance& instance, bool add);
// Of Assign and AssignVariableOp on elements of four or eight bytes, likewise.
std::unique_ptr<Kernel> MakeGroupedAssign(DeviceServices& services, const OpInstance& instance);
// Div and RealDiv of integers.
absl::StatusOr<std::unique_ptr<Kernel>> MakeIntegerDivision(DeviceServices& services, const OpInstance& instance);
void RegisterIntegers(KernelRegistry& registry, DeviceServices& services);
void RegisterEinsum(KernelRegistry& registry, DeviceServices& services);
// Of a `_Fused` node.
absl::StatusOr<std::unique_ptr<Kernel>> MakeGroup(DeviceServices& services, const OpInstance& node);
void RegisterChecks(KernelRegistry& registry, DeviceServices& services);
void RegisterFused(KernelRegistry& registry, DeviceServices& services);
void RegisterFusedReductions(KernelRegistry& registry, DeviceServices& services);
void RegisterImages(KernelRegistry& registry, DeviceServices& services);
void RegisterRandom(KernelRegistry& registry, DeviceServices& services);
// Numbers of distributions, draws of classes, shuffles.
void RegisterRandomRare(KernelRegistry& registry, DeviceServices& services);
void RegisterScans(KernelRegistry& registry, DeviceServices& services);
void RegisterScatters(KernelRegistry& registry, DeviceServices& services);
void RegisterPools(KernelRegistry& registry, DeviceServices& services);
void RegisterSpecial(KernelRegistry& registry, DeviceServices& services);
void RegisterSegments(KernelRegistry& registry, DeviceServices& services);
void RegisterSparseRows(KernelRegistry& registry, DeviceServices& services);
void RegisterRearranging(KernelRegistry& registry, DeviceServices& services);
void RegisterDiagonals(KernelRegistry& registry, DeviceServices& services);
void RegisterRegions(KernelRegistry& registry, DeviceServices& services);
void RegisterResampling(KernelRegistry& registry, DeviceServices& services);
void RegisterQuantizing(KernelRegistry& registry, DeviceServices& services);
void RegisterRecurrent(KernelRegistry& registry, DeviceServices& services);
void RegisterCudnnRnn(KernelRegistry& registry, DeviceServices& services);
void RegisterDecompositions(KernelRegistry& registry, DeviceServices& services);
void RegisterComplex(KernelRegistry& registry, DeviceServices& services);
void RegisterFourier(KernelRegistry& registry, DeviceServices& services);
void RegisterNorms(KernelRegistry& registry, DeviceServices& services);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_REGISTER_H_
