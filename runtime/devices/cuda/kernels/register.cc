#include "cuda/kernels/register.h"

namespace millrace::cuda {

void RegisterCudaKernels(KernelRegistry& registry, DeviceServices& services) {
  RegisterElementwise(registry, services);
  RegisterLayout(registry, services);
  RegisterReductions(registry, services);
  RegisterVariables(registry, services);
  RegisterProducts(registry, services);
  RegisterConvolutions(registry, services);
  RegisterNorms(registry, services);
  RegisterPools(registry, services);
  RegisterRandom(registry, services);
  RegisterRandomRare(registry, services);
  RegisterScans(registry, services);
  RegisterScatters(registry, services);
  RegisterImages(registry, services);
  RegisterOptimizers(registry, services);
  RegisterIntegers(registry, services);
  RegisterEinsum(registry, services);
  RegisterChecks(registry, services);
  RegisterSpecial(registry, services);
  RegisterSegments(registry, services);
  RegisterSparseRows(registry, services);
  RegisterRearranging(registry, services);
  RegisterDiagonals(registry, services);
  RegisterRegions(registry, services);
  RegisterResampling(registry, services);
  RegisterQuantizing(registry, services);
  RegisterRecurrent(registry, services);
  RegisterCudnnRnn(registry, services);
  RegisterDecompositions(registry, services);
  RegisterComplex(registry, services);
  RegisterFourier(registry, services);
  RegisterFused(registry, services);
  RegisterFusedReductions(registry, services);
}

}  // namespace millrace::cuda
