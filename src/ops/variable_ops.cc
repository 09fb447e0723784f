// Variables: their declarations, reads, assignments and queries.
#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace millrace {
namespace {

// The type of the variable that the node declares. Its shape may be unknown: assignments then say it.
absl::Status DeclareVariable(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(0));
  absl::StatusOr<DataType> dtype = context.attrs().Get<DataType>("dtype");
  if (!dtype.ok()) return ErrorAtNode(context, dtype.status());
  context.AddOutput(*dtype, context.attrs().GetOr<Shape>("shape", Shape::UnknownRank()));
  return absl::OkStatus();
}

// Input 0 is a variable and input 1 a value that fits it.
absl::Status CheckAssigned(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  if (context.dtype(0) != context.dtype(1) || !MayBeEqual(context.shape(0), context.shape(1))) {
    return context.Error(
        absl::StrCat("assigns ", context.input(1).ToString(), " to a variable of ", context.input(0).ToString(), ", and variables keep the shape of their first value"));
  }
  return absl::OkStatus();
}

// The variable's type, made known by the value where the variable's own shape is not.
absl::Status AssignReference(InferenceContext& context) {
  MR_RETURN_IF_ERROR(CheckAssigned(context));
  context.AddOutput(context.dtype(0), context.shape(0).fully_known() ? context.shape(0) : context.shape(1));
  return absl::OkStatus();
}

absl::Status PresenceShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  context.AddOutput(DataType::kBool, Shape());
  return absl::OkStatus();
}

absl::Status VariableShapeShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  const int rank = context.shape(0).rank();
  MR_ASSIGN_OR_RETURN(const DataType type, IndexTypeAttr(context, "out_type", DataType::kInt32));
  context.AddOutput(type, Shape({rank}));
  return absl::OkStatus();
}

// The value before it counts.
absl::Status CountShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  if (context.dtype(0) != DataType::kInt32 && context.dtype(0) != DataType::kInt64) {
    return context.Error(absl::StrCat("counts in ", context.input(0).ToString(), ", expected a scalar int32 or int64"));
  }
  MR_RETURN_IF_ERROR(ExpectScalar(context, 0, "the variable"));
  MR_RETURN_IF_ERROR(RequiredAttr<int64_t>(context, "limit").status());
  context.AddOutput(context.dtype(0), Shape({}));
  return absl::OkStatus();
}

absl::Status ReadShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  return SameAsFirstInput(context);
}

}  // namespace

void RegisterVariableOps(OpRegistry& registry) {
  for (const char* name : {"VariableV2", "Variable", "VarHandleOp"}) {
    AddOp(registry, {.name = name, .shape = DeclareVariable, .is_variable = true, .stateful = true});
  }
  AddOp(registry, {.name = "ReadVariableOp",
                   .shape = ReadShape,
                   .is_view = true,
                   .variables = {{0, VariableAccess::kRead}},
                   .stateful = true});
  // The variable itself again, which who takes it may write.
  AddOp(registry, {.name = "RefIdentity", .shape = ReadShape, .is_view = true, .returns_variable = true, .stateful = true});
  for (const char* name : {"VarIsInitializedOp", "IsVariableInitialized"}) {
    AddOp(registry,
          {.name = name, .shape = PresenceShape, .variables = {{0, VariableAccess::kPresence}}, .stateful = true});
  }
  AddOp(registry, {.name = "VariableShape",
                   .shape = VariableShapeShape,
                   .variables = {{0, VariableAccess::kPresence}},
                   .from_types = true});
  AddOp(registry, {.name = "Assign",
                   .shape = AssignReference,
                   .variables = {{0, VariableAccess::kWrite}},
                   .returns_variable = true,
                   .stateful = true});
  for (const char* name : {"AssignAdd", "AssignSub"}) {
    AddOp(registry, {.name = name,
                     .shape = AssignReference,
                     .variables = {{0, VariableAccess::kReadWrite}},
                     .returns_variable = true,
                     .stateful = true});
  }
  for (const char* name : {"CountUpTo", "ResourceCountUpTo"}) {
    AddOp(registry, {.name = name, .shape = CountShape, .variables = {{0, VariableAccess::kReadWrite}}, .stateful = true});
  }
  AddOp(registry, {.name = "AssignVariableOp",
                   .shape = CheckAssigned,
                   .variables = {{0, VariableAccess::kWrite}},
                   .stateful = true});
  for (const char* name : {"AssignAddVariableOp", "AssignSubVariableOp"}) {
    AddOp(registry,
          {.name = name, .shape = CheckAssigned, .variables = {{0, VariableAccess::kReadWrite}}, .stateful = true});
  }
}

}  // namespace millrace
