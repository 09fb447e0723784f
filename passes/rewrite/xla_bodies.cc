#include "passes/rewrite/xla_bodies.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <variant>

#include "passes/control_flow/control_flow_ops.h"

namespace millrace {
namespace {

const Graph* XlaBodyNamed(const Graph& graph, const AttrMap& attrs, const char* attr) {
  if (graph.library() == nullptr) return nullptr;
  const auto found = graph.library()->find(attrs.GetOr<FunctionRef>(attr, {}).name);
  return found == graph.library()->end() ? nullptr : found->second.body.get();
}

int64_t XlaPlaceOf(const Node& node) { return node.attrs.GetOr<int64_t>("index", -1); }

// One function of scalars.
class XlaBody {
 public:
  // `body` may be null: then it has no results.
  explicit XlaBody(const Graph* body) : body_(body) {
    for (int32_t i = 0; body != nullptr && i < body->num_ids(); ++i) {
      const Node& node = body->node(NodeId{i});
      if (!node.removed && node.op == kRetvalOp && !node.inputs.empty()) results_[XlaPlaceOf(node)] = node.inputs[0];
    }
  }

  size_t num_results() const { return results_.size(); }
  OutputRef result(int64_t place) const { return Through(results_.at(place)); }
  bool has_result(int64_t place) const { return results_.count(place) > 0; }
  const Node& node(OutputRef ref) const { return body_->node(ref.node); }
  OutputRef input(OutputRef ref, int i) const { return Through(node(ref).inputs[i]); }
  size_t num_inputs(OutputRef ref) const { return node(ref).inputs.size(); }
  bool IsArgument(OutputRef ref, int64_t place) const { return node(ref).op == kArgOp && XlaPlaceOf(node(ref)) == place; }

 private:
  OutputRef Through(OutputRef ref) const {
    while (body_->node(ref.node).op == "Identity" && !body_->node(ref.node).inputs.empty()) ref = body_->node(ref.node).inputs[0];
    return ref;
  }

  const Graph* body_;
  std::map<int64_t, OutputRef> results_;
};

std::string XlaOpOfTwo(const Graph& graph, const Graph* body, int depth) {
  constexpr int kMostCalls = 8;
  const XlaBody of(body);
  if (of.num_results() != 1 || !of.has_result(0) || depth > kMostCalls) return "";
  const OutputRef result = of.result(0);
  if (of.IsArgument(result, 1)) return kXlaSecond;
  if (of.num_inputs(result) != 2 || !of.IsArgument(of.input(result, 0), 0) || !of.IsArgument(of.input(result, 1), 1)) return "";
  const Node& node = of.node(result);
  if (IsPartitionedCall(node)) return XlaOpOfTwo(graph, XlaBodyNamed(graph, node.attrs, "f"), depth + 1);
  static const auto& known = *new std::set<std::string>{"AddV2",      "Mul",  "Maximum",   "Minimum", "LogicalAnd",
                                                        "LogicalOr", "Less", "LessEqual", "Greater", "GreaterEqual"};
  const std::string op = node.op == "Add" ? "AddV2" : node.op;
  return known.count(op) > 0 ? op : "";
}

// Which arguments a key is made of, through ops that keep the order of numbers together (what a total order of floats is made of).
class XlaKeySources {
 public:
  explicit XlaKeySources(const XlaBody& body) : body_(body) {}
  // nullopt where another op is there.
  std::optional<std::set<int64_t>> Of(OutputRef ref) {
    std::set<int64_t> arguments;
    std::vector<OutputRef> open = {ref};
    std::set<OutputRef> seen;
    static const auto& kept = *new std::set<std::string>{"SelectV2", "Select", "Equal", "NotEqual", "Bitcast", "RightShift", "BitwiseXor"};
    while (!open.empty()) {
      const OutputRef now = open.back();
      open.pop_back();
      if (!seen.insert(now).second) continue;
      const Node& node = body_.node(now);
      if (node.op == kArgOp) arguments.insert(XlaPlaceOf(node));
      if (node.op == kArgOp || node.op == "Const") continue;
      if (kept.count(node.op) == 0 && !KeepsOrder(node, now)) return std::nullopt;
      for (size_t i = 0; i < node.inputs.size(); ++i) open.push_back(body_.input(now, static_cast<int>(i)));
    }
    return arguments;
  }

 private:
  // A cast of a constant, or to a type that has all numbers of the other.
  bool KeepsOrder(const Node& node, OutputRef ref) const {
    if (node.op != "Cast") return false;
    const DataType from = node.attrs.GetOr("SrcT", DataType::kInvalid), to = node.attrs.GetOr("DstT", DataType::kInvalid);
    if (body_.num_inputs(ref) == 1 && body_.node(body_.input(ref, 0)).op == "Const") return true;
    return IsFloating(from) && IsFloating(to) && DataTypeSize(from) < DataTypeSize(to);
  }

  const XlaBody& body_;
};

bool AddXlaKeys(const XlaBody& body, OutputRef order, std::vector<XlaSortKey>& keys) {
  XlaKeySources sources(body);
  const std::string& op = body.node(order).op;
  if (body.num_inputs(order) != 2) return false;
  const OutputRef left = body.input(order, 0), right = body.input(order, 1);
  if (op == "Less" || op == "Greater") {
    const auto first = sources.Of(left), second = sources.Of(right);
    if (!first || !second || first->size() != 1 || second->size() != 1) return false;
    const int64_t a = *first->begin(), b = *second->begin();
    if (a < 0 || b < 0 || a / 2 != b / 2 || a == b) return false;
    keys.push_back({static_cast<int>(a / 2), (op == "Greater") != (a > b)});
    return true;
  }
  // less, or equal and what follows
  if (op != "LogicalOr" || body.node(right).op != "LogicalAnd" || body.num_inputs(right) != 2 || !AddXlaKeys(body, left, keys)) return false;
  const OutputRef equal = body.input(right, 0);
  if (body.node(equal).op != "Equal" || sources.Of(equal) != std::set<int64_t>{2 * keys.back().operand, 2 * keys.back().operand + 1}) return false;
  return AddXlaKeys(body, body.input(right, 1), keys);
}

// What a function makes of numbers; nullopt where it holds an op that is not known here.
class XlaScalars {
 public:
  XlaScalars(const XlaBody& body, const std::vector<double>& arguments) : body_(body), arguments_(arguments) {}
  std::optional<double> Of(OutputRef ref) {
    if (const auto found = known_.find(ref); found != known_.end()) return found->second;
    const std::optional<double> value = Compute(ref);
    known_.emplace(ref, value);
    return value;
  }

 private:
  std::optional<double> Compute(OutputRef ref) {
    const Node& node = body_.node(ref);
    if (node.op == kArgOp) {
      const int64_t place = XlaPlaceOf(node);
      if (place < 0 || place >= static_cast<int64_t>(arguments_.size())) return std::nullopt;
      return arguments_[place];
    }
    std::vector<double> in;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const std::optional<double> value = Of(body_.input(ref, static_cast<int>(i)));
      if (!value) return std::nullopt;
      in.push_back(*value);
    }
    if (in.size() == 3 && (node.op == "SelectV2" || node.op == "Select")) return in[0] != 0 ? in[1] : in[2];
    if (in.size() == 1 && node.op == "LogicalNot") return in[0] == 0;
    if (in.size() != 2) return std::nullopt;
    if (node.op == "Greater") return in[0] > in[1];
    if (node.op == "GreaterEqual") return in[0] >= in[1];
    if (node.op == "Less") return in[0] < in[1];
    if (node.op == "LessEqual") return in[0] <= in[1];
    if (node.op == "Equal") return in[0] == in[1];
    if (node.op == "NotEqual") return in[0] != in[1];
    if (node.op == "LogicalAnd") return in[0] != 0 && in[1] != 0;
    if (node.op == "LogicalOr") return in[0] != 0 || in[1] != 0;
    if (node.op == "Maximum") return std::max(in[0], in[1]);
    if (node.op == "Minimum") return std::min(in[0], in[1]);
    return std::nullopt;
  }

  const XlaBody& body_;
  const std::vector<double>& arguments_;
  std::map<OutputRef, std::optional<double>> known_;
};

// Of arguments (a, index, b, index).
bool XlaChooses(const XlaBody& body, bool first, const std::vector<double>& arguments) {
  XlaScalars scalars(body, arguments);
  const std::optional<double> value = scalars.Of(body.result(0)), index = scalars.Of(body.result(1));
  const double of_value = arguments[first ? 0 : 2];
  return value && index && (*value == of_value || (std::isnan(*value) && std::isnan(of_value))) && *index == arguments[first ? 1 : 3];
}

bool XlaChoosesLike(const XlaBody& body, bool larger) {
  for (double a : {1.0, 2.0}) {
    for (double b : {1.0, 2.0}) {
      for (const bool first_is_earlier : {true, false}) {
        const double index = first_is_earlier ? 3 : 4;
        if (!XlaChooses(body, a == b ? first_is_earlier : (a > b) == larger, {a, index, b, 7 - index})) return false;
      }
    }
  }
  return true;
}

bool XlaChoosesNan(const XlaBody& body) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  return XlaChooses(body, true, {nan, 4, 1, 3}) && XlaChooses(body, false, {1, 3, nan, 4}) && XlaChooses(body, true, {nan, 3, nan, 4});
}

// Reshapes of a scalar, which stays one.
bool XlaKeepsScalar(const Node& node) {
  static const auto& kept = *new std::set<std::string>{"BroadcastTo", "Reshape", "Squeeze", "StopGradient", "PreventGradient", "EnsureShape"};
  return kept.count(node.op) > 0;
}

bool XlaIsOfElement(const Node& node) {
  static const auto& known = *new std::set<std::string>{
      "Abs", "Acos", "Acosh", "Add", "AddV2", "Asin", "Asinh", "Atan", "Atan2", "Atanh", "BesselI0e", "BesselI1e", "Betainc", "BitwiseAnd", "BitwiseOr",
      "BitwiseXor", "Cast", "Ceil", "Cos", "Cosh", "Digamma", "Div", "DivNoNan", "Equal", "Erf", "Erfc", "Erfinv", "Exp", "Expm1", "Floor", "FloorDiv",
      "FloorMod", "Greater", "GreaterEqual", "Igamma", "Igammac", "Inv", "Invert", "IsFinite", "IsInf", "IsNan", "LeftShift", "Less", "LessEqual", "Lgamma",
      "Log", "Log1p", "LogicalAnd", "LogicalNot", "LogicalOr", "Maximum", "Minimum", "Mod", "Mul", "MulNoNan", "Ndtri", "Neg", "NextAfter", "NotEqual",
      "Polygamma", "Pow", "RealDiv", "Reciprocal", "Relu", "Relu6", "RightShift", "Rint", "Round", "Rsqrt", "Select", "SelectV2", "Sigmoid", "Sign", "Sin",
      "Sinh", "Softplus", "Softsign", "Sqrt", "Square", "SquaredDifference", "Sub", "Tan", "Tanh", "TruncateDiv", "TruncateMod", "Xdivy", "Xlog1py", "Xlogy",
      "Zeta"};
  return known.count(node.op) > 0;
}

const Tensor* XlaScalarConst(const Node& node) {
  const AttrValue* value = node.op == "Const" ? node.attrs.Find("value") : nullptr;
  const Tensor* tensor = value == nullptr ? nullptr : std::get_if<Tensor>(value);
  return tensor != nullptr && tensor->num_elements() == 1 ? tensor : nullptr;
}

bool XlaCalls(const Node& node) { return node.op == "PartitionedCall" || node.op == "StatefulPartitionedCall"; }

// Whether results are made by ops of single elements alone, here and in the functions that are called.
class XlaOfElements {
 public:
  explicit XlaOfElements(const Graph& graph) : graph_(graph) {}

  bool Holds(const XlaBody& body, int64_t result, size_t arguments) {
    std::set<OutputRef> seen;
    return body.has_result(result) && HoldsAt(body, body.result(result), arguments, seen);
  }

 private:
  bool HoldsAt(const XlaBody& body, OutputRef ref, size_t arguments, std::set<OutputRef>& seen) {
    constexpr int kMostNodes = 1000;  // calls may be nested, or of themselves
    if (!seen.insert(ref).second) return true;
    if (++nodes_ > kMostNodes) return false;
    const Node& node = body.node(ref);
    if (node.op == kArgOp) return XlaPlaceOf(node) >= 0 && XlaPlaceOf(node) < static_cast<int64_t>(arguments);
    if (XlaScalarConst(node) != nullptr) return true;
    if (XlaKeepsScalar(node)) return !node.inputs.empty() && HoldsAt(body, body.input(ref, 0), arguments, seen);
    const bool same_size = DataTypeSize(node.attrs.GetOr("T", DataType::kFloat)) == DataTypeSize(node.attrs.GetOr("type", DataType::kFloat));
    const bool known = XlaIsOfElement(node) || (node.op == "Bitcast" && same_size) || (XlaCalls(node) && CalledHolds(node, ref.index));
    if (!known || node.inputs.empty()) return false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!HoldsAt(body, body.input(ref, static_cast<int>(i)), arguments, seen)) return false;
    }
    return true;
  }
  bool CalledHolds(const Node& call, int64_t result) {
    return Holds(XlaBody(XlaBodyNamed(graph_, call.attrs, "f")), result, call.inputs.size());
  }

  const Graph& graph_;
  int nodes_ = 0;
};

DataType XlaTypeOf(const Node& node, const std::vector<XlaValue>& inputs) {
  static const auto& truths = *new std::set<std::string>{"Equal",  "NotEqual",   "Less",      "LessEqual", "Greater", "GreaterEqual", "LogicalAnd",
                                                         "LogicalOr", "LogicalNot", "IsFinite", "IsInf",    "IsNan"};
  if (truths.count(node.op) > 0) return DataType::kBool;
  if (node.op == "Cast") return node.attrs.GetOr("DstT", DataType::kInvalid);
  if (node.op == "Bitcast") return node.attrs.GetOr("type", DataType::kInvalid);
  return inputs[inputs.size() == 3 ? 1 : 0].dtype;  // a Select has a condition before its values
}

// Writes the ops of one function, scalars as tensors.
class XlaApplying {
 public:
  XlaApplying(XlaWriter& writer, const XlaBody& body, const std::vector<XlaValue>& arguments) : writer_(writer), body_(body), arguments_(arguments) {}

  XlaValue Of(OutputRef ref) {
    const auto found = made_.find(ref);
    return found != made_.end() ? found->second : made_.emplace(ref, Make(ref)).first->second;
  }

 private:
  XlaValue Make(OutputRef ref) {
    const Node& node = body_.node(ref);
    if (node.op == kArgOp) return arguments_[XlaPlaceOf(node)];
    if (const Tensor* value = XlaScalarConst(node)) return writer_.Constant(value->Reshaped(Shape()));
    if (XlaKeepsScalar(node)) return Of(body_.input(ref, 0));
    std::vector<XlaValue> inputs;
    std::vector<int64_t> dims;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      inputs.push_back(Of(body_.input(ref, static_cast<int>(i))));
      if (inputs.back().rank() > 0) dims = inputs.back().dims;
    }
    if (XlaCalls(node)) {
      const XlaBody called(XlaBodyNamed(writer_.graph(), node.attrs, "f"));
      return XlaApplying(writer_, called, inputs).Of(called.result(ref.index));
    }
    return writer_.Add(node.op == "Select" ? "SelectV2" : node.op, inputs, XlaTypeOf(node, inputs), dims, node.attrs);
  }

  XlaWriter& writer_;
  const XlaBody& body_;
  const std::vector<XlaValue>& arguments_;
  std::map<OutputRef, XlaValue> made_;
};

}  // namespace

std::string XlaBinaryOp(const Graph& graph, const Node& node, const char* attr) {
  return XlaOpOfTwo(graph, XlaBodyNamed(graph, node.attrs, attr), 0);
}

std::vector<XlaSortKey> XlaSortKeys(const Graph& graph, const Node& node, const char* attr) {
  const XlaBody body(XlaBodyNamed(graph, node.attrs, attr));
  std::vector<XlaSortKey> keys;
  if (body.num_results() != 1 || !body.has_result(0) || !AddXlaKeys(body, body.result(0), keys)) keys.clear();
  return keys;
}

XlaArg XlaArgOp(const Graph& graph, const Node& node, const char* attr) {
  const XlaBody body(XlaBodyNamed(graph, node.attrs, attr));
  if (body.num_results() != 2 || !body.has_result(0) || !body.has_result(1)) return {};
  return {XlaChoosesLike(body, true) ? "ArgMax" : XlaChoosesLike(body, false) ? "ArgMin" : "", XlaChoosesNan(body)};
}

bool XlaIsOfElements(const Graph& graph, const Node& node, const char* attr, size_t results) {
  const XlaBody body(XlaBodyNamed(graph, node.attrs, attr));
  if (body.num_results() != results) return false;
  XlaOfElements of_elements(graph);
  for (size_t i = 0; i < results; ++i) {
    if (!of_elements.Holds(body, static_cast<int64_t>(i), 2 * results)) return false;
  }
  return true;
}

std::vector<XlaValue> XlaAppliedTo(XlaWriter& writer, const char* attr, const std::vector<XlaValue>& arguments) {
  const XlaBody body(XlaBodyNamed(writer.graph(), writer.node().attrs, attr));
  std::vector<int64_t> dims;
  for (const XlaValue& argument : arguments) dims = argument.rank() > 0 ? argument.dims : dims;
  XlaApplying applying(writer, body, arguments);
  std::vector<XlaValue> results;
  for (size_t i = 0; i < body.num_results(); ++i) results.push_back(writer.Broadcast(applying.Of(body.result(static_cast<int64_t>(i))), dims));
  return results;
}

}  // namespace millrace
