// Checks of values, which pass what they check on.
#include "cuda/launch/check.h"

#include "cuda/kernels/common.h"
#include "cuda/kernels/register.h"

namespace millrace::cuda {
namespace {

absl::StatusOr<std::unique_ptr<Kernel>> MakeCheckNumerics(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, FloatingTypeOf(instance, instance.inputs[0].dtype));
  const int64_t n = instance.inputs[0].shape.num_elements();
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        LaunchCheckNumerics(queue, type, context.inputs[0], context.outputs[0], n, context.scratch);
      },
      kCheckNumericsScratchBytes);
}

}  // namespace

void RegisterChecks(KernelRegistry& registry, DeviceServices& services) {
  for (const char* op : {"CheckNumerics", "CheckNumericsV2"}) Add(registry, services, op, MakeCheckNumerics);
}

}  // namespace millrace::cuda
