#include "passes/rewrite/xla_bodies.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>

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
      if (kept.count(node.op) == 0) return std::nullopt;
      for (size_t i = 0; i < node.inputs.size(); ++i) open.push_back(body_.input(now, static_cast<int>(i)));
    }
    return arguments;
  }

 private:
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

bool XlaChoosesLike(const XlaBody& body, bool larger) {
  for (double a : {1.0, 2.0}) {
    for (double b : {1.0, 2.0}) {
      for (const bool first_is_earlier : {true, false}) {
        const std::vector<double> arguments = {a, first_is_earlier ? 3.0 : 4.0, b, first_is_earlier ? 4.0 : 3.0};
        const bool takes_first = a == b ? first_is_earlier : (a > b) == larger;
        XlaScalars scalars(body, arguments);
        if (scalars.Of(body.result(0)) != (takes_first ? arguments[0] : arguments[2])) return false;
        if (scalars.Of(body.result(1)) != (takes_first ? arguments[1] : arguments[3])) return false;
      }
    }
  }
  return true;
}

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

std::string XlaArgOp(const Graph& graph, const Node& node, const char* attr) {
  const XlaBody body(XlaBodyNamed(graph, node.attrs, attr));
  if (body.num_results() != 2 || !body.has_result(0) || !body.has_result(1)) return "";
  return XlaChoosesLike(body, true) ? "ArgMax" : XlaChoosesLike(body, false) ? "ArgMin" : "";
}

}  // namespace millrace
