#include "cuda/launch/special.h"

#include <map>
#include <string>

#include "cuda/kernels/common.h"
#include "cuda/kernels/register.h"

namespace millrace::cuda {
namespace {

const std::map<std::string, SpecialOp>& SpecialOps() {
  static const auto* const ops = new std::map<std::string, SpecialOp>{
      {"Lgamma", SpecialOp::kLgamma}, {"Digamma", SpecialOp::kDigamma}, {"Erfinv", SpecialOp::kErfinv}, {"Ndtri", SpecialOp::kNdtri}};
  return *ops;
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeSpecial(DeviceServices& services, const OpInstance& instance) {
  const SpecialOp op = SpecialOps().at(instance.op);
  MR_ASSIGN_OR_RETURN(const Type type, FloatingTypeOf(instance, instance.inputs[0].dtype));
  const int64_t n = instance.outputs[0].shape.num_elements();
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchSpecial(queue, op, type, context.inputs[0], context.outputs[0], n);
  });
}

}  // namespace

void RegisterSpecial(KernelRegistry& registry, DeviceServices& services) {
  for (const auto& [name, op] : SpecialOps()) Add(registry, services, name, MakeSpecial);
}

}  // namespace millrace::cuda
