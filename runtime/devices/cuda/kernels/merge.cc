#include "cuda/kernels/merge.h"

#include <set>
#include <string>
#include <utility>

#include <glog/logging.h>

#include "millrace/status.h"

namespace millrace::cuda {

KernelRegistry MergeKernels(const KernelRegistry& device, const KernelRegistry& host, WrapKernel wrap) {
  KernelRegistry merged;
  std::set<std::string> names;
  for (const KernelRegistry* registry : {&device, &host}) {
    for (const std::string& name : registry->Names()) names.insert(name);
  }
  for (const std::string& name : names) {
    const KernelFactory* device_factory = device.Find(name);
    const KernelFactory* host_factory = host.Find(name);
    const auto make = [on_device = device_factory != nullptr ? *device_factory : KernelFactory(), host_factory,
                       wrap](const OpInstance& instance) -> absl::StatusOr<std::unique_ptr<Kernel>> {
      std::string why = "no kernel of the device";
      if (on_device) {
        absl::StatusOr<std::unique_ptr<Kernel>> kernel = on_device(instance);
        if (kernel.ok() || !absl::IsUnimplemented(kernel.status()) || host_factory == nullptr) return kernel;
        why = std::string(kernel.status().message());
      }
      MR_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, (*host_factory)(instance));
      VLOG(1) << "node '" << instance.name << "' (" << instance.op << ") runs on the host: " << why;
      return wrap(instance, std::move(kernel));
    };
    const absl::Status registered = merged.Register(name, make);
    CHECK(registered.ok()) << registered;
  }
  return merged;
}

}  // namespace millrace::cuda
