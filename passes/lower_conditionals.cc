#include "passes/lower_conditionals.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"

namespace millrace {
namespace {

constexpr int kMaxDepth = 50;  // of functions in functions: more is recursion

bool IsIf(const Node& node) { return node.op == "If" || node.op == "StatelessIf"; }
bool IsCase(const Node& node) { return node.op == "Case" || node.op == "StatelessCase"; }
bool IsCall(const Node& node) { return node.op == "PartitionedCall" || node.op == "StatefulPartitionedCall"; }

// The functions that a node's attributes name: branches in order, or the one that is called.
std::vector<FunctionRef> FunctionsOf(const Node& node) {
  if (IsCase(node)) return node.attrs.GetOr<std::vector<FunctionRef>>("branches", {});
  std::vector<FunctionRef> functions;
  for (const char* name : {"then_branch", "else_branch", "f"}) {
    const AttrValue* value = node.attrs.Find(name);
    if (value == nullptr) continue;
    if (const FunctionRef* function = std::get_if<FunctionRef>(value)) functions.push_back(*function);
  }
  return functions;
}

class ConditionalLowering {
 public:
  ConditionalLowering(Graph& graph, const OpRegistry& ops) : graph_(graph), ops_(ops), library_(graph.library()) {}

  absl::StatusOr<bool> Run() {
    const int32_t ids = graph_.num_ids();
    for (int32_t i = 0; i < ids; ++i) {
      const Node& node = graph_.node(NodeId{i});
      if (node.removed || !(IsIf(node) || IsCase(node))) continue;
      MR_ASSIGN_OR_RETURN(const bool lowerable, Lowerable(node));
      if (lowerable) Lower(NodeId{i});
    }
    if (!changed_) return false;
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      if (!graph_.alive(NodeId{i})) continue;
      for (OutputRef& input : graph_.mutable_node(NodeId{i}).inputs) input = Replacement(input);
    }
    return true;
  }

 private:
  absl::StatusOr<const Function*> Find(const Node& node, const FunctionRef& ref) const {
    const auto found = library_ == nullptr ? Graph::Library::const_iterator() : library_->find(ref.name);
    if (library_ != nullptr && found != library_->end()) return &found->second;
    return absl::InvalidArgumentError(absl::StrCat("node '", node.name, "' (", node.op, "): branch '", ref.name,
                                                   "' is not in the graph's library"));
  }

  // Behind the Identity nodes of one graph.
  static OutputRef Source(const Graph& graph, OutputRef ref) {
    while (graph.node(ref.node).op == "Identity" && !graph.node(ref.node).inputs.empty()) ref = graph.node(ref.node).inputs[0];
    return ref;
  }

  absl::StatusOr<bool> Lowerable(const Node& node) const {
    const std::vector<FunctionRef> branches = FunctionsOf(node);
    if (branches.size() < (IsIf(node) ? 2 : 1) || node.inputs.empty()) return false;
    if (IsIf(node) && node.attrs.GetOr<DataType>("Tcond", DataType::kBool) != DataType::kBool) return false;
    const OutputRef predicate = Source(graph_, node.inputs[0]);
    const std::string& asked = graph_.node(predicate.node).op;
    const bool may_read = asked != "VarIsInitializedOp" && asked != "IsVariableInitialized";
    for (size_t b = 0; b < branches.size(); ++b) {
      MR_ASSIGN_OR_RETURN(const Function* function, Find(node, branches[b]));
      std::vector<bool> is_predicate(function->arg_names.size(), false);
      if (IsIf(node) && b == 1) {
        for (size_t i = 0; i < is_predicate.size() && i + 1 < node.inputs.size(); ++i) {
          is_predicate[i] = Source(graph_, node.inputs[i + 1]) == predicate;
        }
      }
      MR_ASSIGN_OR_RETURN(const bool pure, Pure(*function, may_read, is_predicate, 0));
      if (!pure) return false;
      for (DataType type : function->ret_types) {
        if (DataTypeSize(type) == 0) return false;
      }
    }
    return true;
  }

  // is_predicate: arguments that are true whenever the branch would not have been taken.
  absl::StatusOr<bool> Pure(const Function& function, bool may_read, const std::vector<bool>& is_predicate, int depth) const {
    if (depth > kMaxDepth) return false;
    const Graph& body = *function.body;
    for (int32_t i = 0; i < body.num_ids(); ++i) {
      const Node& node = body.node(NodeId{i});
      if (node.removed || node.op == kArgOp || node.op == kRetvalOp) continue;
      if (node.op == "Assert") {
        const Node& condition = body.node(Source(body, node.inputs[0]).node);
        const int64_t argument = condition.op == kArgOp ? condition.attrs.GetOr<int64_t>("index", 0) : -1;
        if (argument < 0 || argument >= static_cast<int64_t>(is_predicate.size()) || !is_predicate[argument]) return false;
        continue;
      }
      if (IsIf(node) || IsCase(node) || IsCall(node)) {
        for (const FunctionRef& ref : FunctionsOf(node)) {
          MR_ASSIGN_OR_RETURN(const Function* inner, Find(node, ref));
          MR_ASSIGN_OR_RETURN(const bool pure, Pure(*inner, may_read, {}, depth + 1));
          if (!pure) return false;
        }
        continue;
      }
      const OpDef* def = ops_.Find(node.op);
      if (def == nullptr) return false;
      const bool reads = may_read && !def->variables.empty() &&
                         std::all_of(def->variables.begin(), def->variables.end(),
                                     [](const VariableUse& use) { return use.access == VariableAccess::kRead; });
      if (def->stateful && !def->is_no_op && !reads) return false;
    }
    return true;
  }

  void Lower(NodeId id) {
    changed_ = true;
    const Node node = graph_.node(id);
    const std::vector<FunctionRef> branches = FunctionsOf(node);
    std::vector<NodeId> calls;
    for (size_t b = 0; b < branches.size(); ++b) {
      Node call;
      call.name = absl::StrCat(node.name, "/branch_", b);
      call.op = "StatefulPartitionedCall";
      call.requested_device = node.requested_device;
      call.inputs.assign(node.inputs.begin() + 1, node.inputs.end());
      call.control_inputs = node.control_inputs;
      call.attrs.Set("f", branches[b]);
      calls.push_back(graph_.AddUnique(std::move(call)));
    }
    const Function& first = library_->find(branches[0].name)->second;
    for (size_t output = 0; output < first.ret_types.size(); ++output) {
      const int32_t index = static_cast<int32_t>(output);
      OutputRef value{calls.back(), index};
      for (size_t b = calls.size() - 1; b-- > 0;) {
        Node select;
        select.name = absl::StrCat(node.name, "/select_", output);
        select.op = "Select";
        select.requested_device = node.requested_device;
        select.inputs = {Taken(node, static_cast<int32_t>(b)), OutputRef{calls[b], index}, value};
        select.attrs.Set("T", first.ret_types[output]);
        value = {graph_.AddUnique(std::move(select)), 0};
      }
      replaced_[{id, index}] = value;
    }
    // Who waited for the conditional waits for its branches.
    Node& done = graph_.mutable_node(id);
    done.op = "NoOp";
    done.inputs.clear();
    done.attrs = AttrMap();
    done.control_inputs.assign(calls.begin(), calls.end());
  }

  // Whether branch `b` is the one: the predicate itself, or index == b.
  OutputRef Taken(const Node& node, int32_t b) {
    if (IsIf(node)) return node.inputs[0];
    Node number;
    number.name = absl::StrCat(node.name, "/number_", b);
    number.op = "Const";
    number.attrs.Set("dtype", DataType::kInt32);
    number.attrs.Set("value", Tensor::Scalar<int32_t>(b));
    Node equal;
    equal.name = absl::StrCat(node.name, "/is_", b);
    equal.op = "Equal";
    equal.requested_device = node.requested_device;
    equal.attrs.Set("T", DataType::kInt32);
    equal.inputs = {node.inputs[0], OutputRef{graph_.AddUnique(std::move(number)), 0}};
    return {graph_.AddUnique(std::move(equal)), 0};
  }

  OutputRef Replacement(OutputRef ref) const {
    const auto found = replaced_.find(ref);
    return found == replaced_.end() ? ref : found->second;
  }

  Graph& graph_;
  const OpRegistry& ops_;
  std::shared_ptr<const Graph::Library> library_;
  bool changed_ = false;
  std::map<OutputRef, OutputRef> replaced_;
};

}  // namespace

absl::StatusOr<bool> LowerConditionals(Graph& graph, const OpRegistry& ops) {
  return ConditionalLowering(graph, ops).Run();
}

}  // namespace millrace
