#include "passes/unroll/loop_ops.h"

#include "passes/control_flow/control_flow_ops.h"
#include "passes/control_flow/expand_ops.h"
#include "passes/control_flow/lower_collectives.h"
#include "passes/control_flow/lower_sparse_matrices.h"
#include "passes/unroll/alternatives.h"
#include "passes/unroll/lists.h"

namespace millrace {

bool IsLoopOp(const Node& node) {
  return IsWhile(node) || IsEnter(node) || IsExit(node) || IsNextIteration(node) || node.op == "LoopCond" ||
         IsListOp(node) || IsArrayOp(node);
}

bool IsPlannedAway(const std::string& op) {
  Node node;
  node.op = op;
  return IsLoopOp(node) || IsSwitch(node) || IsMerge(node) || IsOptionalOp(node) || IsIf(node) || IsCase(node) ||
         IsCollective(op) || IsExpanded(op) || IsSparseMatrixOp(op) || IsTableOp(node);
}

}  // namespace millrace
