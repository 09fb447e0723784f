#include "cuda/launch/special.h"

#include <map>
#include <string>

#include "cuda/kernels/common.h"
#include "cuda/kernels/register.h"

namespace millrace::cuda {
namespace {

const std::map<std::string, SpecialOp>& SpecialOps() {
  static const auto* const ops = new std::map<std::string, SpecialOp>{
      {"Lgamma", SpecialOp::kLgamma}, {"Digamma", SpecialOp::kDigamma}, {"Erfinv", SpecialOp::kErfinv}, {"Ndtri", SpecialOp::kNdtri},
      {"BesselI0", SpecialOp::kBesselI0}, {"BesselI0e", SpecialOp::kBesselI0e}, {"BesselI1", SpecialOp::kBesselI1}, {"BesselI1e", SpecialOp::kBesselI1e},
      {"BesselK0", SpecialOp::kBesselK0}, {"BesselK0e", SpecialOp::kBesselK0e}, {"BesselK1", SpecialOp::kBesselK1}, {"BesselK1e", SpecialOp::kBesselK1e},
      {"BesselJ0", SpecialOp::kBesselJ0}, {"BesselJ1", SpecialOp::kBesselJ1}, {"BesselY0", SpecialOp::kBesselY0}, {"BesselY1", SpecialOp::kBesselY1},
      {"Dawsn", SpecialOp::kDawsn}, {"Expint", SpecialOp::kExpint}, {"FresnelCos", SpecialOp::kFresnelCos}, {"FresnelSin", SpecialOp::kFresnelSin},
      {"Spence", SpecialOp::kSpence}};
  return *ops;
}

const std::map<std::string, SpecialPairOp>& SpecialPairOps() {
  static const auto* const ops = new std::map<std::string, SpecialPairOp>{
      {"Igamma", SpecialPairOp::kIgamma}, {"Igammac", SpecialPairOp::kIgammac}, {"IgammaGradA", SpecialPairOp::kIgammaGradA},
      {"RandomGammaGrad", SpecialPairOp::kRandomGammaGrad}, {"Zeta", SpecialPairOp::kZeta}, {"Polygamma", SpecialPairOp::kPolygamma}};
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

absl::StatusOr<std::unique_ptr<Kernel>> MakeSpecialPairs(DeviceServices& services, const OpInstance& instance) {
  const SpecialPairOp op = SpecialPairOps().at(instance.op);
  MR_ASSIGN_OR_RETURN(const Type type, FloatingTypeOf(instance, instance.inputs[0].dtype));
  MR_ASSIGN_OR_RETURN(const Broadcast shape,
                      BroadcastOf(instance, instance.outputs[0].shape, {instance.inputs[0].shape, instance.inputs[1].shape}));
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchSpecialPairs(queue, op, type, shape, context.inputs[0], context.inputs[1], context.outputs[0]);
  });
}

// (a, b, x): scalars are taken for every element.
absl::StatusOr<std::unique_ptr<Kernel>> MakeBetainc(DeviceServices& services, const OpInstance& instance) {
  const DataType dtype = instance.inputs[0].dtype;
  if (dtype != DataType::kFloat && dtype != DataType::kDouble) return Refused(instance, "this element type");
  MR_ASSIGN_OR_RETURN(const Type type, TypeOf(instance, dtype));
  const auto step = [&](int input) -> int64_t { return instance.inputs[input].shape.rank() == 0 ? 0 : 1; };
  const BetaSteps steps = {step(0), step(1), step(2)};
  const int64_t n = instance.outputs[0].shape.num_elements();
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchIncompleteBeta(queue, type, steps, context.inputs[0], context.inputs[1], context.inputs[2], context.outputs[0], n);
  });
}

}  // namespace

void RegisterSpecial(KernelRegistry& registry, DeviceServices& services) {
  for (const auto& [name, op] : SpecialOps()) Add(registry, services, name, MakeSpecial);
  for (const auto& [name, op] : SpecialPairOps()) Add(registry, services, name, MakeSpecialPairs);
  Add(registry, services, "Betainc", MakeBetainc);
}

}  // namespace millrace::cuda
