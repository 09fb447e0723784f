#include "absl/strings/match.h"
#include "cuda/kernels/common.h"
#include "cuda/kernels/register.h"
#include "cuda/launch/layout.h"

namespace millrace::cuda {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

KernelOr MakeAssign(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, instance.inputs[1].dtype));
  if (ValueOf(instance, 1) != nullptr) return Refused(instance, "a value that is on the host");
  if (bytes >= 4) return MakeGroupedAssign(services, instance);
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
  const bool add = absl::StrContains(instance.op, "Add");
  MR_ASSIGN_OR_RETURN(const Type type, NumericTypeOf(instance, instance.inputs[1].dtype));
  if (ValueOf(instance, 1) != nullptr) return Refused(instance, "a value that is on the host");
  if (IsFloating(instance.inputs[1].dtype)) return MakeFloatingAssignUpdate(services, instance, add);
  const BinaryOp op = add ? BinaryOp::kAdd : BinaryOp::kSub;
  const Shape& shape = instance.inputs[1].shape;
  MR_ASSIGN_OR_RETURN(const Broadcast same, BroadcastOf(instance, shape, {shape, shape}));
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchBinary(queue, op, type, same, context.inputs[0], context.inputs[1], context.inputs[0], 0);
  });
}

}  // namespace

void RegisterVariables(KernelRegistry& registry, DeviceServices& services) {
  for (const char* op : {"Assign", "AssignVariableOp"}) Add(registry, services, op, MakeAssign);
  for (const char* op : {"AssignAdd", "AssignAddVariableOp", "AssignSub", "AssignSubVariableOp"}) {
    Add(registry, services, op, MakeAssignUpdate);
  }
}

}  // namespace millrace::cuda
