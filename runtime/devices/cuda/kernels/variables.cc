#include <map>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "cuda/kernels/common.h"
#include "cuda/kernels/register.h"
#include "cuda/launch/layout.h"
#include "cuda/launch/update.h"

namespace millrace::cuda {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

bool OnHost(const OpInstance& instance, size_t i) {
  return i < instance.input_values.size() && !instance.input_values[i].empty();
}

KernelOr MakeAssign(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, instance.inputs[1].dtype));
  if (OnHost(instance, 1)) return Refused(instance, "a value that is on the host");
  StridedCopy copy;
  copy.elements = instance.inputs[1].shape.num_elements();
  copy.rank = 1;
  copy.dims[0] = copy.elements;
  copy.from_strides[0] = copy.to_strides[0] = 1;
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    if (context.inputs[0] == context.inputs[1]) return;
    LaunchStridedCopy(queue, bytes, copy, context.inputs[1], context.inputs[0]);
  });
}

KernelOr MakeAssignUpdate(DeviceServices& services, const OpInstance& instance) {
  const BinaryOp op = absl::StrContains(instance.op, "Add") ? BinaryOp::kAdd : BinaryOp::kSub;
  MR_ASSIGN_OR_RETURN(const Type type, NumericTypeOf(instance, instance.inputs[1].dtype));
  if (OnHost(instance, 1)) return Refused(instance, "a value that is on the host");
  const Shape& shape = instance.inputs[1].shape;
  MR_ASSIGN_OR_RETURN(const Broadcast same, BroadcastOf(instance, shape, {shape, shape}));
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchBinary(queue, op, type, same, context.inputs[0], context.inputs[1], context.inputs[0], 0);
  });
}

// Inputs of an op: slots first, then scalars in the order of the rule, the gradient at `gradient`.
struct OptimizerOp {
  UpdateRule rule;
  UpdateRule with_nesterov;
  int slots;
  int gradient;
  int inputs;
};

const std::map<std::string, OptimizerOp>& OptimizerOps() {
  using R = UpdateRule;
  static const auto* const ops = new std::map<std::string, OptimizerOp>{
      {"ApplyGradientDescent", {R::kGradientDescent, R::kGradientDescent, 1, 2, 3}},
      {"ApplyMomentum", {R::kMomentum, R::kNesterovMomentum, 2, 3, 5}},
      {"ApplyKerasMomentum", {R::kKerasMomentum, R::kKerasNesterovMomentum, 2, 3, 5}},
      {"ApplyAdam", {R::kAdam, R::kNesterovAdam, 3, 9, 10}},
      {"ApplyAdagrad", {R::kAdagrad, R::kAdagrad, 2, 3, 4}},
      {"ApplyRMSProp", {R::kRmsProp, R::kRmsProp, 3, 7, 8}}};
  return *ops;
}

KernelOr MakeOptimizer(DeviceServices& services, const OpInstance& instance) {
  const OptimizerOp& op = OptimizerOps().at(std::string(absl::StripPrefix(instance.op, "Resource")));
  MR_ASSIGN_OR_RETURN(const Type type, FloatingTypeOf(instance, instance.inputs[0].dtype));
  if (static_cast<int>(instance.inputs.size()) != op.inputs) return Refused(instance, "this many inputs");
  if (instance.op.find("Adagrad") != std::string::npos && !instance.attrs.GetOr<bool>("update_slots", true)) {
    return Refused(instance, "frozen slots");
  }
  std::vector<int> scalars;
  for (int i = op.slots; i < op.inputs; ++i) {
    if (OnHost(instance, i)) return Refused(instance, "a value that is on the host");
    if (instance.inputs[i].dtype != instance.inputs[0].dtype) return Refused(instance, "inputs of several types");
    if (i != op.gradient) scalars.push_back(i);
  }
  const UpdateRule rule = instance.attrs.GetOr<bool>("use_nesterov", false) ? op.with_nesterov : op.rule;
  const int64_t elements = instance.inputs[op.gradient].shape.num_elements();
  return MakeLaunch(services, [=, slots = op.slots, gradient = op.gradient](const Queue& queue,
                                                                          const KernelContext& context) {
    UpdateArguments arguments;
    for (int i = 0; i < slots; ++i) arguments.slots[i] = context.inputs[i];
    for (size_t i = 0; i < scalars.size(); ++i) arguments.scalars[i] = context.inputs[scalars[i]];
    arguments.gradient = context.inputs[gradient];
    arguments.elements = elements;
    LaunchUpdate(queue, rule, type, arguments);
  });
}

}  // namespace

void RegisterVariables(KernelRegistry& registry, DeviceServices& services) {
  for (const char* op : {"Assign", "AssignVariableOp"}) Add(registry, services, op, MakeAssign);
  for (const char* op : {"AssignAdd", "AssignAddVariableOp", "AssignSub", "AssignSubVariableOp"}) {
    Add(registry, services, op, MakeAssignUpdate);
  }
  for (const auto& [name, op] : OptimizerOps()) {
    Add(registry, services, name, MakeOptimizer);
    Add(registry, services, absl::StrCat("Resource", name), MakeOptimizer);
  }
}

}  // namespace millrace::cuda
