#include "passes/rewrite/group_ops.h"

#include <algorithm>
#include <set>

#include "millrace/guard.h"
#include "passes/rewrite/strided_views.h"

namespace millrace {
namespace {

// Elements of a tensor for one of a much smaller one, at least: what is kept for longer beside the tensor.
constexpr int64_t kMuchSmaller = 64;

// Of larger tensors a device's kernel for reductions is slower than one for elements where fewer neighbours than a warp has threads
// belong to one sum, or to neighbouring sums; and results are much smaller than what is reduced.
constexpr int64_t kFewElements = 1 << 16, kLeastNeighbours = 32, kLeastTerms = 16;

// More dimensions no device's kernel takes.
constexpr int kMostDims = 8;

// Elements beside each other that are all of one sum, or of as many sums that are beside each other.
int64_t NeighboursOf(const Shape& shape, const std::vector<bool>& reduced) {
  int64_t neighbours = 1;
  std::optional<bool> of_one;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    if (shape.dim(d) == 1) continue;
    if (of_one.value_or(reduced[d]) != reduced[d]) break;
    of_one = reduced[d];
    neighbours *= shape.dim(d);
  }
  return neighbours;
}

bool IsStatic(const Graph& graph, const Node& node) {
  if (node.removed || node.dynamic_outputs != 0 || node.run_time_values != 0 || node.attrs.GetOr(kGuarded, false)) return false;
  return std::all_of(node.inputs.begin(), node.inputs.end(), [&](OutputRef input) {
    return !graph.node(input.node).dynamic_output(input.index) && graph.type(input).shape.fully_known();
  });
}

}  // namespace

bool IsElementwise(const std::string& op) {
  static const auto* const ops = new std::set<std::string>{
      "Abs",        "Neg",        "Sign",      "Square",     "Sqrt",         "Rsqrt",     "Reciprocal",
      "Inv",        "Floor",      "Ceil",      "Round",      "Rint",         "LogicalNot", "Relu",
      "Relu6",      "LeakyRelu",  "Softsign",  "Exp",        "Expm1",        "Log",       "Log1p",
      "Sigmoid",    "Softplus",   "Sin",       "Cos",        "Tanh",         "Elu",       "Selu",
      "Erf",        "Erfc",       "Add",       "AddV2",      "Sub",          "Mul",       "RealDiv",
      "Div",        "Maximum",    "Minimum",   "Pow",        "SquaredDifference", "DivNoNan", "MulNoNan",
      "LogicalAnd", "LogicalOr",  "Less",      "LessEqual",  "Greater",      "GreaterEqual", "Equal",
      "NotEqual",   "ReluGrad",   "Relu6Grad", "LeakyReluGrad", "SoftsignGrad", "SoftplusGrad", "EluGrad",
      "SeluGrad",   "TanhGrad",   "SigmoidGrad", "ReciprocalGrad", "InvGrad", "SqrtGrad", "RsqrtGrad",
      "Cast",       "AddN",       "BiasAdd",   "SelectV2",   "Select",       "ZerosLike", "OnesLike"};
  return ops->count(op) > 0;
}

bool IsSum(const std::string& op) { return op == "Add" || op == "AddV2"; }

std::optional<ReducedAxes> ReductionOf(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const bool bias = node.op == "BiasAddGrad";
  const bool axes_given = node.op == "Sum" || node.op == "Mean" || node.op == "Max" || node.op == "Min";
  if ((!bias && !axes_given) || node.inputs.size() != (bias ? 1 : 2) || !IsStatic(graph, node)) return std::nullopt;
  const TensorType& type = graph.type(node.inputs[0]);
  if (!IsFloating(type.dtype) || type.shape.num_elements() == 0) return std::nullopt;
  const int rank = type.shape.rank();
  if (rank > kMostDims) return std::nullopt;
  ReducedAxes result{bias ? "Sum" : node.op, std::vector<bool>(rank, bias)};
  if (bias) {
    const bool first = node.attrs.GetOr<std::string>("data_format", "NHWC") != "NHWC";
    result.reduced[first ? 1 : rank - 1] = false;
  } else {
    for (int64_t axis : ConstantIntegers(graph, node.inputs[1])) {
      if (axis < -rank || axis >= rank) return std::nullopt;
      result.reduced[axis < 0 ? axis + rank : axis] = true;
    }
  }
  for (int d = 0; d < rank; ++d) result.reduced[d] = result.reduced[d] && type.shape.dim(d) > 1;
  int64_t terms = 1;
  for (int d = 0; d < rank; ++d) terms *= result.reduced[d] ? type.shape.dim(d) : 1;
  const bool few = type.shape.num_elements() <= kFewElements;
  if (terms == 1 || (!few && (terms < kLeastTerms || NeighboursOf(type.shape, result.reduced) < kLeastNeighbours))) return std::nullopt;
  return result;
}

bool IsCheapOfOne(const Graph& graph, NodeId id) {
  static const auto* const ops = new std::set<std::string>{"Add", "AddV2", "Sub", "Mul", "Neg", "Square"};
  const Node& node = graph.node(id);
  if (ops->count(node.op) == 0 || !IsStatic(graph, node)) return false;
  const TensorType& type = node.outputs[0];
  int whole = 0;
  for (OutputRef input : node.inputs) {
    const TensorType& operand = graph.type(input);
    const bool small = operand.shape.num_elements() * kMuchSmaller <= type.shape.num_elements();
    if (small) continue;
    // Parts of a tensor are left out for the one group that reads them.
    if (operand.shape != type.shape || graph.node(input.node).op == "Const" || ViewOf(graph, input)) return false;
    ++whole;
  }
  return whole == 1;
}

}  // namespace millrace
