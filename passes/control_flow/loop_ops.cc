#include "passes/control_flow/loop_ops.h"

#include "absl/strings/match.h"
#include "passes/control_flow/control_flow_ops.h"
#include "passes/control_flow/expand_ops.h"
#include "passes/control_flow/lower_collectives.h"
#include "passes/control_flow/lower_sparse_matrices.h"
#include "passes/control_flow/xla_ops.h"

namespace millrace {

bool IsRaggedVariantOp(const Node& node) {
  return node.op == "RaggedTensorToVariant" || node.op == "RaggedTensorFromVariant" || node.op == "RaggedTensorToVariantGradient";
}
bool IsSparseVariantOp(const Node& node) {
  return node.op == "SerializeManySparse" || node.op == "SerializeSparse" || node.op == "DeserializeSparse";
}
bool IsMapOp(const Node& node) { return node.op == "EmptyTensorMap" || absl::StartsWith(node.op, "TensorMap"); }
bool IsListOp(const Node& node) {
  return node.op == "EmptyTensorList" || absl::StartsWith(node.op, "TensorList") || IsRaggedVariantOp(node) || IsSparseVariantOp(node) || IsMapOp(node);
}
bool IsArrayOp(const Node& node) {
  return absl::StartsWith(node.op, "TensorArray") || node.op == "StackV2" || node.op == "StackPushV2" ||
         node.op == "StackPopV2" || node.op == "StackCloseV2";
}
bool IsOptionalOp(const Node& node) { return absl::StartsWith(node.op, "Optional"); }

bool IsLoopOp(const Node& node) {
  return IsWhile(node) || IsEnter(node) || IsExit(node) || IsNextIteration(node) || node.op == "LoopCond" ||
         IsListOp(node) || IsArrayOp(node);
}

bool IsPlannedAway(const std::string& op) {
  Node node;
  node.op = op;
  return IsLoopOp(node) || IsSwitch(node) || IsMerge(node) || IsOptionalOp(node) || IsIf(node) || IsCase(node) ||
         IsCollective(op) || IsExpanded(op) || IsSparseMatrixOp(op) || IsTableOp(node) ||
         IsXlaOp(op);
}

}  // namespace millrace
