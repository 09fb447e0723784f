#include "cuda/emulated/emulated_kernels.h"

#include "cuda/emulated/host_services.h"
#include "cuda/kernels/merge.h"
#include "cuda/kernels/register.h"

namespace millrace::cuda {

std::shared_ptr<const KernelRegistry> MakeEmulatedKernels(const KernelRegistry& host) {
  struct Owned {
    HostServices services{/*written_out=*/false};
    KernelRegistry device, merged;
  };
  auto owned = std::make_shared<Owned>();
  RegisterCudaKernels(owned->device, owned->services);
  owned->merged = MergeKernels(owned->device, host,
                               [](const OpInstance&, std::unique_ptr<Kernel> kernel) { return kernel; });
  return std::shared_ptr<const KernelRegistry>(owned, &owned->merged);
}

}  // namespace millrace::cuda
