#include "passes/control_flow/symbolic_gradients.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/function.h"
#include "millrace/status.h"
#include "passes/control_flow/function_gradients.h"

namespace millrace {
namespace {

AttrValue TypeAttr(const Node& node) {
  const AttrValue* const type = node.attrs.Find("T");
  return type == nullptr ? AttrValue(DataType::kFloat) : *type;
}

bool Is(const AttrValue& type, DataType dtype) {
  const DataType* const known = std::get_if<DataType>(&type);
  return known != nullptr && *known == dtype;
}

constexpr size_t kMostOutputs = 65536;  // of a node; what its attributes say may be anything

// The gradient of one function, being written.
class GradientFunction {
 public:
  GradientFunction(const Function& function, const Graph::Library& library) : function_(function), library_(library), graph_(function.body->Clone()) {}

  absl::StatusOr<Function> Build(std::string name) {
    TakeResults();
    MarkWhatLeadsToResults();
    MarkWhatFollowsFromArguments();
    for (size_t i = 0; i < results_.size(); ++i) {
      const AttrMap attrs{{"T", results_[i].type}, {"index", static_cast<int64_t>(function_.arg_names.size() + i)}};
      GoBack({Add(kArgOp, {}, attrs), results_[i].type}, results_[i].ref);
    }
    while (!ready_.empty()) {
      const NodeId id = ready_.front();
      ready_.pop_front();
      if (follows_[id.value]) MR_RETURN_IF_ERROR(Visit(id));
    }
    for (size_t i = 0; i < function_.arg_names.size(); ++i) {
      const Typed sum = Sum({graph_.Find(function_.arg_names[i]), 0});
      Add(kRetvalOp, {sum.ref}, {{"T", sum.type}, {"index", static_cast<int64_t>(i)}});
    }
    return MakeFunction(std::move(name), {}, std::move(graph_), {});
  }

 private:
  struct Typed {
    OutputRef ref;
    AttrValue type;
  };

  OutputRef Add(const char* op, const std::vector<OutputRef>& inputs, AttrMap attrs) {
    Node node;
    node.name = absl::StrCat("gradient/", op);
    node.op = op;
    node.inputs.assign(inputs.begin(), inputs.end());
    node.attrs = std::move(attrs);
    return {graph_.AddUnique(std::move(node)), 0};
  }

  void TakeResults() {
    for (const std::string& name : function_.ret_names) {
      const NodeId id = graph_.Find(name);
      results_.push_back({graph_.node(id).inputs[0], TypeAttr(graph_.node(id))});
      graph_.RemoveNode(id);
    }
    forward_nodes_ = graph_.num_ids();
    uses_.resize(forward_nodes_);
    leads_.resize(forward_nodes_);
    follows_.resize(forward_nodes_);
  }

  // How often each node is used on the way to the results: its gradients are all there when as many came.
  void MarkWhatLeadsToResults() {
    std::vector<NodeId> open;
    const auto use = [&](NodeId id) {
      ++uses_[id.value];
      if (leads_[id.value]) return;
      leads_[id.value] = true;
      open.push_back(id);
    };
    for (const Typed& result : results_) use(result.ref.node);
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      for (OutputRef input : graph_.node(id).inputs) use(input.node);
    }
  }

  void MarkWhatFollowsFromArguments() {
    std::vector<std::vector<int32_t>> takers(forward_nodes_);
    for (int32_t i = 0; i < forward_nodes_; ++i) {
      if (!graph_.alive(NodeId{i})) continue;
      for (OutputRef input : graph_.node(NodeId{i}).inputs) takers[input.node.value].push_back(i);
    }
    std::vector<int32_t> open;
    for (const std::string& name : function_.arg_names) open.push_back(graph_.Find(name).value);
    while (!open.empty()) {
      const int32_t id = open.back();
      open.pop_back();
      if (follows_[id]) continue;
      follows_[id] = true;
      open.insert(open.end(), takers[id].begin(), takers[id].end());
    }
  }

  // A gradient, or an invalid one for zero, of one use of what the node takes.
  void GoBack(Typed gradient, OutputRef to) {
    if (!leads_[to.node.value]) return;
    if (gradient.ref.node.valid()) gradients_[to].push_back(std::move(gradient));
    if (--uses_[to.node.value] == 0) ready_.push_back(to.node);
  }

  Typed Sum(OutputRef of) {
    const std::vector<Typed>& parts = gradients_[of];
    if (parts.empty() || Is(parts[0].type, DataType::kBool)) return Zeros(of);
    if (parts.size() == 1) return parts[0];
    std::vector<OutputRef> refs;
    for (const Typed& part : parts) refs.push_back(part.ref);
    return {Add("AddN", refs, {{"N", static_cast<int64_t>(refs.size())}, {"T", parts[0].type}}), parts[0].type};
  }

  AttrValue TypeOf(OutputRef of) const {
    const Node& node = graph_.node(of.node);
    const auto called = library_.find(node.op);
    if (called != library_.end() && of.index < static_cast<int32_t>(called->second.ret_types.size())) return called->second.ret_types[of.index];
    const AttrValue* const cast_to = node.op == "Cast" ? node.attrs.Find("DstT") : nullptr;
    return cast_to == nullptr ? TypeAttr(node) : *cast_to;
  }

  Typed Zeros(OutputRef of) {
    AttrValue type = TypeOf(of);
    if (Is(type, DataType::kResource)) {
      type = DataType::kFloat;
      of = Add("ReadVariableOp", {of}, {{"dtype", type}});
    }
    return {Add("ZerosLike", {of}, {{"T", type}}), type};
  }

  size_t OutputsOf(NodeId id) const {
    const Node& node = graph_.node(id);
    if (const auto called = library_.find(node.op); called != library_.end()) return called->second.ret_names.size();
    const char* const count = node.op == "Unpack" ? "num" : "num_split";
    return static_cast<size_t>(std::max<int64_t>(node.attrs.GetOr<int64_t>(count, 1), 1));
  }

  absl::Status Visit(NodeId id) {
    const Node node = graph_.node(id);
    if (node.op == kArgOp) return absl::OkStatus();
    if (const size_t outputs = OutputsOf(id); outputs > kMostOutputs) {
      return absl::UnimplementedError(absl::StrCat("node '", node.name, "' (", node.op, ") has ", outputs, " outputs, expected at most ", kMostOutputs,
                                                   " where it has a gradient in a function"));
    }
    std::vector<Typed> gradients(node.inputs.size());
    const auto called = library_.find(node.op);
    if (called != library_.end()) {
      gradients = CallGradient(id, called->second);
    } else if (HasGradientRule(node)) {
      MR_ASSIGN_OR_RETURN(const std::vector<OutputRef> refs, AddGradient(graph_, id, OfOutputs(id)));
      for (size_t i = 0; i < refs.size(); ++i) gradients[i] = {refs[i], TypeOfGradient(node)};
    } else if (!PassesNoGradient(node.op)) {
      return absl::UnimplementedError(absl::StrCat("op ", node.op, " of its node '", node.name, "' has no gradient in a function"));
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) GoBack(std::move(gradients[i]), node.inputs[i]);
    return absl::OkStatus();
  }

  std::vector<OutputRef> OfOutputs(NodeId id) {
    std::vector<OutputRef> refs;
    for (size_t i = 0; i < OutputsOf(id); ++i) refs.push_back(Sum({id, static_cast<int32_t>(i)}).ref);
    return refs;
  }

  std::vector<Typed> CallGradient(NodeId id, const Function& called) {
    const Node node = graph_.node(id);
    std::vector<OutputRef> inputs(node.inputs.begin(), node.inputs.end());
    const std::vector<OutputRef> of_outputs = OfOutputs(id);
    inputs.insert(inputs.end(), of_outputs.begin(), of_outputs.end());
    const FunctionRef f{node.op, std::make_shared<const AttrMap>(node.attrs)};
    const NodeId call = Add(kSymbolicGradientOp, inputs, {{"f", f}}).node;
    std::vector<Typed> gradients(node.inputs.size());
    for (size_t i = 0; i < gradients.size() && i < called.arg_types.size(); ++i) {
      const DataType type = called.arg_types[i];
      gradients[i] = {{call, static_cast<int32_t>(i)}, type == DataType::kResource ? DataType::kFloat : type};
    }
    return gradients;
  }

  const Function& function_;
  const Graph::Library& library_;
  Graph graph_;
  int32_t forward_nodes_ = 0;
  std::vector<Typed> results_;
  std::vector<int32_t> uses_;          // that no gradient came back from yet, by node of the body
  std::vector<bool> leads_, follows_;  // to a result; from an argument
  std::map<OutputRef, std::vector<Typed>> gradients_;
  std::deque<NodeId> ready_;
};

// Functions whose gradients the nodes call.
void FindCalled(const Graph& graph, std::set<std::string>& called) {
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (!graph.alive(NodeId{i}) || node.op != kSymbolicGradientOp) continue;
    const std::string name = node.attrs.GetOr<FunctionRef>("f", {}).name;
    if (!name.empty()) called.insert(name);
  }
}

// Whether it is one that could have a gradient, names none, and does not say why.
bool LacksGradient(const Graph::Library& library, const std::string& name) {
  const auto found = library.find(name);
  if (found == library.end() || found->second.body == nullptr) return false;
  const AttrMap& attrs = found->second.attrs;
  return !attrs.Has(kGradientFunctionAttr) && !attrs.Has(kWhyNoGradientAttr);
}

}  // namespace

void AddSymbolicGradients(Graph& graph) {
  if (graph.library() == nullptr) return;
  std::set<std::string> open;
  FindCalled(graph, open);
  for (const auto& [name, function] : *graph.library()) {
    if (function.body != nullptr) FindCalled(*function.body, open);
  }
  const auto has_gradient = [&](const std::string& name) { return !LacksGradient(*graph.library(), name); };
  if (std::all_of(open.begin(), open.end(), has_gradient)) return;
  Graph::Library library = *graph.library();
  std::set<std::string> seen;
  while (!open.empty()) {
    const std::string name = *open.begin();
    open.erase(open.begin());
    if (!seen.insert(name).second || !LacksGradient(library, name)) continue;
    const auto found = library.find(name);
    std::string gradient_name = absl::StrCat(name, "Grad");
    for (int k = 1; library.count(gradient_name) > 0; ++k) gradient_name = absl::StrCat(name, "Grad_", k);
    absl::StatusOr<Function> gradient = GradientFunction(found->second, library).Build(gradient_name);
    if (!gradient.ok()) {
      found->second.attrs.Set(kWhyNoGradientAttr, std::string(gradient.status().message()));
      continue;
    }
    FindCalled(*gradient->body, open);
    found->second.attrs.Set(kGradientFunctionAttr, FunctionRef{gradient_name});
    library[gradient_name] = *std::move(gradient);
  }
  graph.set_library(std::make_shared<const Graph::Library>(std::move(library)));
}

}  // namespace millrace
