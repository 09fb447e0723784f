#include "testlib/test_ops.h"

#include "ops/register.h"
#include "ops/rules.h"

namespace millrace {
namespace {

absl::Status DeclaredShape(InferenceContext& context) {
  context.AddOutput(DataType::kFloat, context.attrs().GetOr<Shape>("shape", Shape({4})));
  return absl::OkStatus();
}

absl::Status TwoShapes(InferenceContext& context) {
  (void)DeclaredShape(context);
  return DeclaredShape(context);
}

Cost OneSecond(const OpInstance&) { return {1, 0, 0}; }
Cost TenMicroseconds(const OpInstance&) { return {1e-5, 0, 0}; }

}  // namespace

OpRegistry TestOps() {
  OpRegistry ops;
  RegisterGraphOps(ops);
  AddOp(ops, {.name = "Op", .shape = DeclaredShape, .cost = OneSecond});
  AddOp(ops, {.name = "InPlace", .shape = DeclaredShape, .cost = OneSecond, .in_place = {{0, 0}}});
  AddOp(ops, {.name = "Small", .shape = DeclaredShape, .cost = TenMicroseconds});
  AddOp(ops, {.name = "Two", .shape = TwoShapes, .cost = OneSecond});
  AddOp(ops, {.name = "Var", .shape = DeclaredShape, .is_variable = true, .stateful = true});
  AddOp(ops, {.name = "VariableV2", .shape = DeclaredShape, .is_variable = true, .stateful = true});
  AddOp(ops, {.name = "Read", .shape = SameAsFirstInput, .is_view = true,
              .variables = {{0, VariableAccess::kRead}}});
  AddOp(ops, {.name = "Update", .shape = SameAsFirstInput, .cost = OneSecond,
              .variables = {{0, VariableAccess::kReadWrite}}, .returns_variable = true, .stateful = true});
  AddOp(ops, {.name = "UpdateRows", .shape = SameAsFirstInput, .cost = OneSecond,
              .variables = {{0, VariableAccess::kReadWrite}}, .returns_variable = true, .writes_chosen_rows = true, .stateful = true});
  AddOp(ops, {.name = "Set", .shape = SameAsFirstInput, .cost = OneSecond,
              .variables = {{0, VariableAccess::kWrite}}, .returns_variable = true, .stateful = true});
  return ops;
}

Machine UnitMachine() {
  Machine machine;
  machine.name = "unit";
  machine.flops_per_second = 1;
  machine.memory_bytes_per_second = 1e18;
  machine.to_host_bytes_per_second = 16;
  machine.to_device_bytes_per_second = 16;
  machine.copy_latency_seconds = 0;
  machine.launch_seconds = 0;
  return machine;
}

absl::StatusOr<int64_t> StubOracle::ScratchBytes(const OpInstance& instance) {
  return instance.attrs.GetOr<int64_t>("scratch", 0);
}

absl::StatusOr<std::vector<Tensor>> StubOracle::Evaluate(const OpDef&, const OpInstance&, std::vector<Tensor>) {
  return absl::UnimplementedError("test ops are not folded");
}

}  // namespace millrace
