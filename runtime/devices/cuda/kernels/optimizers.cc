// Updates of variables: whole ones, several of them in one launch where they follow one another, and rows of them.
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "cuda/kernels/common.h"
#include "cuda/kernels/register.h"
#include "cuda/kernels/rows.h"
#include "cuda/launch/update.h"
#include "stream/grouped_kernel.h"

namespace millrace::cuda {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

// Inputs of an op: the variable and its slots, then scalars in the order of the rule, the gradient at `gradient`, the
// indices of a sparse op behind it.
struct OptimizerOp {
  UpdateRule rule;
  int slots;
  int gradient;
  bool sparse = false;  // has an op on rows
  // An attribute, and its value that stands for `other`.
  const char* attr = nullptr;
  bool attr_value = true;
  UpdateRule other = UpdateRule::kGradientDescent;
};

const std::map<std::string, OptimizerOp>& OptimizerOps() {
  using R = UpdateRule;
  static const auto* const ops = new std::map<std::string, OptimizerOp>{
      {"GradientDescent", {R::kGradientDescent, 1, 2}},
      {"Momentum", {R::kMomentum, 2, 3, true, "use_nesterov", true, R::kNesterovMomentum}},
      {"KerasMomentum", {R::kKerasMomentum, 2, 3, true, "use_nesterov", true, R::kKerasNesterovMomentum}},
      {"Adam", {R::kAdam, 3, 9, false, "use_nesterov", true, R::kNesterovAdam}},
      {"AdamWithAmsgrad", {R::kAmsgradAdam, 4, 10}},
      {"AdaMax", {R::kAdaMax, 3, 8}},
      {"Adagrad", {R::kAdagrad, 2, 3, true, "update_slots", false, R::kFrozenAdagrad}},
      {"AdagradV2", {R::kAdagradV2, 2, 4, true, "update_slots", false, R::kFrozenAdagradV2}},
      {"AdagradDA", {R::kAdagradDA, 3, 3, true}},
      {"ProximalGradientDescent", {R::kProximalGradientDescent, 1, 4, true}},
      {"ProximalAdagrad", {R::kProximalAdagrad, 2, 5, true}},
      {"Adadelta", {R::kAdadelta, 3, 6, true}},
      {"Ftrl", {R::kFtrl, 3, 3, true, "multiply_linear_by_lr", true, R::kScaledFtrl}},
      {"FtrlV2", {R::kFtrlV2, 3, 3, true, "multiply_linear_by_lr", true, R::kScaledFtrlV2}},
      {"RMSProp", {R::kRmsProp, 3, 7, true}},
      {"CenteredRMSProp", {R::kCenteredRmsProp, 4, 8, true}},
      {"AddSign", {R::kAddSign, 2, 6}},
      {"PowerSign", {R::kPowerSign, 2, 6}}};
  return *ops;
}

// What of an update is known when planning: all but addresses.
struct BoundUpdate {
  UpdateRule rule;
  Type type;
  int slots = 0, gradient = 0;
  std::vector<int> scalars;  // inputs
  UpdateArguments known;

  UpdateArguments Arguments(const KernelContext& context) const {
    UpdateArguments arguments = known;
    for (int i = 0; i < slots; ++i) arguments.slots[i] = context.inputs[i];
    for (size_t k = 0; k < scalars.size(); ++k) {
      if (scalars[k] >= 0) arguments.scalars[k] = context.inputs[scalars[k]];
    }
    arguments.gradient = context.inputs[gradient];
    return arguments;
  }
};

double NumberOf(const Tensor& value) {
  switch (value.dtype()) {
    case DataType::kFloat: return *static_cast<const float*>(value.data());
    case DataType::kDouble: return *static_cast<const double*>(value.data());
    default: return static_cast<double>(value.IntAt(0));
  }
}

absl::StatusOr<BoundUpdate> Bind(const OpInstance& instance, const OptimizerOp& op, bool sparse) {
  BoundUpdate update;
  MR_ASSIGN_OR_RETURN(update.type, FloatingTypeOf(instance, instance.inputs[0].dtype));
  const bool other = op.attr != nullptr && instance.attrs.GetOr<bool>(op.attr, !op.attr_value) == op.attr_value;
  update.rule = other ? op.other : op.rule;
  update.slots = op.slots;
  update.gradient = op.gradient;
  for (int i = op.slots; i < static_cast<int>(instance.inputs.size()); ++i) {
    const Tensor* value = ValueOf(instance, i);
    if (i == op.gradient || (sparse && i == op.gradient + 1)) {
      if (value != nullptr) return Refused(instance, "a gradient that is on the host");
      continue;
    }
    const DataType dtype = instance.inputs[i].dtype;
    if (update.scalars.size() == kMaxScalars) return Refused(instance, "this many inputs");
    if (!IsFloating(dtype) && dtype != DataType::kInt32 && dtype != DataType::kInt64) return Refused(instance, "these scalars");
    MR_ASSIGN_OR_RETURN(update.known.scalar_types[update.scalars.size()], TypeOf(instance, dtype));
    if (value != nullptr) {
      if (DataTypeSize(dtype) == 2) return Refused(instance, "a value that is on the host");
      update.known.values[update.scalars.size()] = NumberOf(*value);
    }
    update.scalars.push_back(value != nullptr ? -1 : i);
  }
  if (instance.inputs[op.gradient].dtype != instance.inputs[0].dtype) return Refused(instance, "inputs of several types");
  update.known.elements = instance.inputs[op.gradient].shape.num_elements();
  return update;
}

class UpdateKernel final : public GroupedKernel {
 public:
  UpdateKernel(DeviceServices& services, BoundUpdate update) : services_(services), update_(std::move(update)) {}

  absl::Status Run(const KernelContext& context) const override {
    const Queue queue = services_.QueueOf(context);
    LaunchUpdate(queue, update_.rule, update_.type, update_.slots, update_.Arguments(context));
    return services_.Launched(queue, *context.instance);
  }
  int64_t group() const override {
    return (static_cast<int64_t>(update_.rule) << 8 | static_cast<int64_t>(update_.type)) << 8 | update_.slots;
  }
  int written_inputs() const override { return update_.slots; }
  absl::Status RunTogether(absl::Span<const GroupMember> members) const override {
    std::vector<UpdateArguments> updates;
    for (const GroupMember& member : members) {
      updates.push_back(static_cast<const UpdateKernel*>(member.kernel)->update_.Arguments(member.context));
    }
    const Queue queue = services_.QueueOf(members[0].context);
    LaunchUpdates(queue, update_.rule, update_.type, update_.slots, updates.data(), static_cast<int>(updates.size()));
    return services_.Launched(queue, *members[0].context.instance);
  }

 private:
  DeviceServices& services_;
  const BoundUpdate update_;
};

KernelOr MakeUpdate(DeviceServices& services, const OpInstance& instance, const OptimizerOp& op) {
  MR_ASSIGN_OR_RETURN(BoundUpdate update, Bind(instance, op, /*sparse=*/false));
  return std::make_unique<UpdateKernel>(services, std::move(update));
}

KernelOr MakeSparseUpdate(DeviceServices& services, const OpInstance& instance, const OptimizerOp& op) {
  MR_ASSIGN_OR_RETURN(BoundUpdate update, Bind(instance, op, /*sparse=*/true));
  const int indices = op.gradient + 1;
  MR_ASSIGN_OR_RETURN(const Rows rows, RowsOf(instance, instance.inputs[0].shape, indices, /*nd=*/false));
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        LaunchSparseUpdate(queue, update.rule, update.type, update.slots, update.Arguments(context), rows.index, rows.rows,
                           rows.inner, context.inputs[indices], context.scratch);
      },
      ScatterScratchBytes(rows.index.count, rows.rows));
}

}  // namespace

KernelOr MakeFloatingAssignUpdate(DeviceServices& services, const OpInstance& instance, bool add) {
  return MakeUpdate(services, instance, {.rule = add ? UpdateRule::kAssignAdd : UpdateRule::kAssignSub, .slots = 1, .gradient = 1});
}

std::unique_ptr<Kernel> MakeGroupedAssign(DeviceServices& services, const OpInstance& instance) {
  // Elements of these types are moved as they are; those of two bytes would be widened in between.
  BoundUpdate update;
  update.rule = UpdateRule::kAssign;
  update.type = DataTypeSize(instance.inputs[1].dtype) == 8 ? Type::kDouble : Type::kFloat;
  update.slots = update.gradient = 1;
  update.known.elements = instance.inputs[1].shape.num_elements();
  return std::make_unique<UpdateKernel>(services, std::move(update));
}

void RegisterOptimizers(KernelRegistry& registry, DeviceServices& services) {
  for (const auto& [name, op] : OptimizerOps()) {
    for (const char* prefix : {"Apply", "ResourceApply", "SparseApply", "ResourceSparseApply"}) {
      const bool sparse = absl::StrContains(prefix, "Sparse");
      if (sparse && !op.sparse) continue;
      const absl::Status added = registry.Register(
          absl::StrCat(prefix, name), [&services, &op = op, sparse](const OpInstance& instance) {
            return sparse ? MakeSparseUpdate(services, instance, op) : MakeUpdate(services, instance, op);
          });
      CHECK(added.ok()) << added;
    }
  }
  Add(registry, services, "_AssignMovingAverage", [](DeviceServices& of, const OpInstance& instance) {
    return MakeUpdate(of, instance, {.rule = UpdateRule::kMovingAverage, .slots = 1, .gradient = 2});
  });
}

}  // namespace millrace::cuda
