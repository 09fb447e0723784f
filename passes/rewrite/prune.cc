#include "passes/rewrite/prune.h"

#include <algorithm>
#include <set>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/needed_nodes.h"
#include "graph/parameters.h"
#include "graph/with_message.h"
#include "millrace/options.h"
#include "millrace/status.h"
#include "passes/control_flow/control_flow_ops.h"
#include "passes/control_flow/inline_functions.h"
#include "passes/control_flow/loop_ops.h"
#include "passes/control_flow/lower_function_ops.h"
#include "passes/control_flow/symbolic_gradients.h"
#include "passes/shapes/effects.h"

namespace millrace {
namespace {

bool Compatible(const Shape& declared, const Shape& fed) {
  if (declared.unknown_rank()) return true;
  if (declared.rank() != fed.rank()) return false;
  for (int i = 0; i < fed.rank(); ++i) {
    if (declared.dim(i) >= 0 && declared.dim(i) != fed.dim(i)) return false;
  }
  return true;
}

bool IsPlaceholder(const Node& node) { return node.op == "Placeholder" || node.op == "PlaceholderV2"; }

// Nothing that can be run takes anything of an iterator, so what fills one has no effect: it only waits for others.
bool StartsPipeline(const Node& node) { return node.op == "MakeIterator"; }

// Of what leads to a pipeline: nodes that do nothing themselves. Who waits for one waits for what it takes.
bool OnlyLeadsOn(const Node& node) {
  if (node.op == "Const" || IsVariable(node) || IsTable(node) || IsChangingTable(node)) return true;
  return !IsPlaceholder(node) && !RunsThoughFed(node) && !IsPlannedAway(node.op);
}

// The first nodes on the way back from the start of a pipeline that do something, or must be fed and are not.
std::vector<NodeId> ComesBeforePipeline(const Graph& graph, const Node& start, absl::FunctionRef<bool(OutputRef)> is_fed,
                                        absl::FunctionRef<bool(NodeId)> is_waited_for) {
  std::vector<NodeId> found, open;
  std::set<NodeId> seen;
  const auto go_back = [&](const Node& node) {
    for (OutputRef input : node.inputs) {
      if (is_fed(input) || !seen.insert(input.node).second) continue;
      (OnlyLeadsOn(graph.node(input.node)) ? open : found).push_back(input.node);
    }
  };
  go_back(start);
  while (!open.empty()) {
    const Node& node = graph.node(open.back());
    open.pop_back();
    go_back(node);
    for (NodeId control : node.control_inputs) {
      if (is_waited_for(control) && seen.insert(control).second) found.push_back(control);
    }
  }
  return found;
}

void WaitOnly(Node& start, const std::vector<NodeId>& before) {
  start.control_inputs.insert(start.control_inputs.end(), before.begin(), before.end());
  start.op = "NoOp";
  start.inputs.clear();
  start.attrs = AttrMap();
}

absl::Status CheckFeed(const Node& node, const std::string& name, const TensorType& fed) {
  if (!IsPlaceholder(node)) return absl::OkStatus();
  const DataType dtype = node.attrs.GetOr<DataType>("dtype", DataType::kInvalid);
  const Shape shape = node.attrs.GetOr<Shape>("shape", Shape::UnknownRank());
  // Graphs of old producers leave a rank-0 shape for "unknown"; TensorFlow reads it so, too.
  const bool declared_unknown = shape.rank() == 0 && fed.shape.rank() != 0 && !node.attrs.Has("_output_shapes");
  if (dtype != fed.dtype || (!declared_unknown && !Compatible(shape, fed.shape))) {
    return absl::InvalidArgumentError(absl::StrCat("feed '", name, "' has type ", fed.ToString(), ", expected ",
                                                   TensorType{dtype, shape}.ToString()));
  }
  return absl::OkStatus();
}

absl::Status CheckPart(const Node& node, const std::string& name, int32_t index, const TensorType& fed) {
  const auto types = node.attrs.GetOr<std::vector<DataType>>("output_types", {});
  const auto shapes = node.attrs.GetOr<std::vector<Shape>>("output_shapes", {});
  if (index >= static_cast<int32_t>(types.size())) {
    return absl::InvalidArgumentError(absl::StrCat("feed '", name, "': node '", node.name, "' (", node.op, ") hands over ", types.size(), " tensors"));
  }
  const Shape shape = index < static_cast<int32_t>(shapes.size()) ? shapes[index] : Shape::UnknownRank();
  if (types[index] == fed.dtype && Compatible(shape, fed.shape)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("feed '", name, "' has type ", fed.ToString(), ", expected ", TensorType{types[index], shape}.ToString()));
}

constexpr const char* kOwnOps[] = {"_Feed", "_Fetch", "Send", "Recv", "SwapOut", "SwapIn"};

class Pruner {
 public:
  Pruner(const Graph& graph, const Signature& signature)
      : graph_(graph), signature_(signature), needed_(graph.num_ids(), false), is_fed_(graph.num_ids(), false) {}

  absl::StatusOr<Graph> Run() {
    MR_RETURN_IF_ERROR(ResolveNames());
    MarkNeeded();
    MR_RETURN_IF_ERROR(CheckOptionals());
    MR_RETURN_IF_ERROR(CheckOps());
    MR_RETURN_IF_ERROR(CheckPlaceholders());
    MR_RETURN_IF_ERROR(CopyNodes());
    return std::move(result_);
  }

 private:
  absl::Status ResolveNames() {
    for (const auto& [name, type] : signature_.feeds) {
      absl::StatusOr<OutputRef> ref = graph_.FindTensor(name);
      if (!ref.ok()) return WithPrefix(ref.status(), "feed");
      const Node& node = graph_.node(ref->node);
      MR_RETURN_IF_ERROR(CheckFeed(node, name, type));
      MR_RETURN_IF_ERROR(IsNextAsOptional(node) ? CheckPart(node, name, ref->index, type) : CheckTaken(*ref, "feed", name));
      feeds_.emplace(*ref, FeedNode{name, type, NodeId()});
      is_fed_[ref->node.value] = true;
    }
    for (const std::string& name : signature_.fetches) {
      absl::StatusOr<OutputRef> ref = graph_.FindTensor(name);
      if (!ref.ok()) return WithPrefix(ref.status(), "fetch");
      fetches_.push_back(*ref);
    }
    for (const std::string& name : signature_.targets) {
      absl::StatusOr<OutputRef> ref = graph_.FindTensor(name);
      if (!ref.ok()) return WithPrefix(ref.status(), "target");
      MR_RETURN_IF_ERROR(CheckTaken(*ref, "target", name));
      targets_.push_back(ref->node);
    }
    return absl::OkStatus();
  }

  // How many outputs a node has is not known yet. Past the first, one that no node takes is most likely none.
  absl::Status CheckTaken(OutputRef ref, const char* what, const std::string& name) const {
    if (ref.index == 0) return absl::OkStatus();
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      const Node& node = graph_.node(NodeId{i});
      if (!node.removed && std::find(node.inputs.begin(), node.inputs.end(), ref) != node.inputs.end()) return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(what, " '", name, "': no node takes output ", ref.index, " of '", graph_.node(ref.node).name, "'"));
  }

  void MarkNeeded() {
    const auto need_tensor = [&](OutputRef ref, const auto& need) {
      if (!is_fed_[ref.node.value]) return need(ref.node);
      if (IsNextAsOptional(graph_.node(ref.node))) return UseParts(ref.node);
      auto fed = feeds_.find(ref);
      if (fed == feeds_.end()) need(ref.node);
      else fed->second.used = true;
    };
    const auto mark = [&](NodeId id) { needed_[id.value] = true; };
    for (OutputRef ref : fetches_) {
      const auto fed = feeds_.find(ref);
      if (fed == feeds_.end()) need_tensor(ref, mark);
      else fed->second.used = true;
    }
    for (NodeId id : targets_) {
      const Node& node = graph_.node(id);
      if (IsPlaceholder(node) || (IsNextAsOptional(node) && is_fed_[id.value])) need_tensor({id, 0}, mark);
      else mark(id);
    }
    const auto for_each_need = [&](NodeId id, const auto& need) {
      const Node& node = graph_.node(id);
      if (StartsPipeline(node)) {
        for (NodeId waited_for : ComesBefore(node)) need(waited_for);
      } else {
        for (OutputRef input : node.inputs) need_tensor(input, need);
      }
      for (NodeId control : node.control_inputs) {
        if (IsWaitedFor(control)) need(control);
      }
    };
    MarkNeeds(needed_, for_each_need);
  }

  // By control edges.
  bool IsWaitedFor(NodeId id) const { return feeds_.count({id, 0}) == 0 || RunsThoughFed(graph_.node(id)); }

  std::vector<NodeId> ComesBefore(const Node& start) const {
    const auto is_fed = [&](OutputRef input) {
      return feeds_.count(input) > 0 || (is_fed_[input.node.value] && IsNextAsOptional(graph_.node(input.node)));
    };
    return ComesBeforePipeline(graph_, start, is_fed, [&](NodeId control) { return IsWaitedFor(control); });
  }

  void UseParts(NodeId optional) {
    optionals_[optional.value];
    for (auto fed = feeds_.lower_bound({optional, 0}); fed != feeds_.end() && fed->first.node == optional; ++fed) fed->second.used = true;
  }

  // What is there is there whole.
  absl::Status CheckOptionals() const {
    for (const auto& [id, added] : optionals_) {
      const Node& node = graph_.node(NodeId{id});
      const auto parts = static_cast<int32_t>(node.attrs.GetOr<std::vector<DataType>>("output_types", {}).size());
      for (int32_t i = 0; i < parts; ++i) {
        if (feeds_.count({NodeId{id}, i}) > 0) continue;
        return absl::InvalidArgumentError(absl::StrCat("'", graph_.TensorName({NodeId{id}, i}), "' is not fed, but others of the ", parts,
                                                       " tensors that node '", node.name, "' (", node.op, ") hands over are"));
      }
    }
    return absl::OkStatus();
  }

  // What passes put in is not what a graph may bring.
  absl::Status CheckOps() const {
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      const Node& node = graph_.node(NodeId{i});
      if (!needed_[i] || std::find(std::begin(kOwnOps), std::end(kOwnOps), node.op) == std::end(kOwnOps)) continue;
      return absl::InvalidArgumentError(absl::StrCat("node '", node.name, "' is of op '", node.op, "', which only plans have"));
    }
    return absl::OkStatus();
  }

  // Of a placeholder that is needed although it is fed.
  absl::Status CheckOneOutput(NodeId placeholder) const {
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      const Node& node = graph_.node(NodeId{i});
      for (size_t k = 0; needed_[i] && k < node.inputs.size(); ++k) {
        const OutputRef input = node.inputs[k];
        if (input.node != placeholder || input.index == 0 || feeds_.count(input) > 0) continue;
        return absl::InvalidArgumentError(absl::StrCat("node '", node.name, "' (", node.op, ") takes output ", input.index, " of '",
                                                       graph_.node(placeholder).name, "' (", graph_.node(placeholder).op, "), which has 1"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status NotFedInParts(NodeId id) const {
    const Node& node = graph_.node(id);
    const auto types = node.attrs.GetOr<std::vector<DataType>>("output_types", {});
    std::vector<std::string> parts;
    for (int32_t i = 0; i < static_cast<int32_t>(types.size()); ++i) parts.push_back(absl::StrCat("'", graph_.TensorName({id, i}), "'"));
    return absl::InvalidArgumentError(absl::StrCat("node '", node.name, "' (", node.op, ") is needed by the fetches and targets, but what it hands over, ",
                                                   absl::StrJoin(parts, ", "), ", is not fed; input pipelines do not run"));
  }

  absl::Status CheckPlaceholders() const {
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      if (!needed_[i]) continue;
      const Node& node = graph_.node(NodeId{i});
      if (IsNextAsOptional(node)) return NotFedInParts(NodeId{i});
      if (!IsPlaceholder(node)) continue;
      if (is_fed_[i]) MR_RETURN_IF_ERROR(CheckOneOutput(NodeId{i}));
      const TensorType type{node.attrs.GetOr<DataType>("dtype", DataType::kInvalid),
                            node.attrs.GetOr<Shape>("shape", Shape::UnknownRank())};
      return absl::InvalidArgumentError(absl::StrCat("placeholder '", node.name, "' (", type.ToString(),
                                                     ") is needed by the fetches and targets, but is not fed"));
    }
    return absl::OkStatus();
  }

  OutputRef Renamed(OutputRef ref) const {
    if (const auto optional = optionals_.find(ref.node.value); optional != optionals_.end()) return {optional->second, ref.index};
    auto fed = is_fed_[ref.node.value] ? feeds_.find(ref) : feeds_.end();
    if (fed != feeds_.end()) return {fed->second.id, 0};
    return {renamed_[ref.node.value], ref.index};
  }

  absl::Status CopyNodes() {
    result_.producer_version = graph_.producer_version;
    result_.set_library(graph_.library());
    for (auto& [ref, feed] : feeds_) {
      if (!feed.used) continue;
      Node node;
      node.name = feed.name.substr(0, feed.name.rfind(':'));
      if (needed_[ref.node.value] || ref.index != 0 || optionals_.count(ref.node.value) > 0) node.name += "/feed";
      node.attrs.Set("dtype", feed.type.dtype);
      const auto value = signature_.feed_values.find(feed.name);
      if (value != signature_.feed_values.end()) {
        node.op = "Const";
        node.attrs.Set("value", value->second);
      } else {
        node.op = "_Feed";
        node.attrs.Set("shape", feed.type.shape);
        node.attrs.Set("tensor", feed.name);
      }
      feed.id = result_.AddUnique(std::move(node));
    }
    for (auto& [id, added] : optionals_) added = AddOptional(NodeId{id});
    // With room for the copies that come later.
    const auto needed = static_cast<int64_t>(std::count(needed_.begin(), needed_.end(), true));
    result_.Reserve(needed + needed / 4 + 1);
    MR_ASSIGN_OR_RETURN(renamed_, result_.AddNodesOf(graph_, needed_));
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      if (needed_[i]) RewireInputs(result_.mutable_node(renamed_[i]));
    }
    for (size_t i = 0; i < fetches_.size(); ++i) {
      Node node;
      node.name = absl::StrCat("_fetch/", graph_.node(fetches_[i].node).name, "_", fetches_[i].index);
      node.op = "_Fetch";
      node.attrs.Set("index", static_cast<int64_t>(i));
      const auto fed = feeds_.find(fetches_[i]);
      node.inputs.push_back(fed == feeds_.end() ? Renamed(fetches_[i]) : OutputRef{fed->second.id, 0});
      result_.AddUnique(std::move(node));
    }
    return absl::OkStatus();
  }

  NodeId AddOptional(NodeId id) {
    const auto types = graph_.node(id).attrs.GetOr<std::vector<DataType>>("output_types", {});
    Node node;
    node.name = graph_.node(id).name;
    node.op = "OptionalFromValue";
    node.attrs.Set("Toutput_types", types);
    for (int32_t i = 0; i < static_cast<int32_t>(types.size()); ++i) node.inputs.push_back({feeds_.at({id, i}).id, 0});
    return result_.AddUnique(std::move(node));
  }

  void RewireInputs(Node& node) {
    if (StartsPipeline(node)) WaitOnly(node, ComesBefore(node));
    for (OutputRef& input : node.inputs) input = Renamed(input);
    absl::InlinedVector<NodeId, 2> controls;
    for (NodeId control : node.control_inputs) {
      if (renamed_[control.value].valid()) controls.push_back(renamed_[control.value]);
    }
    node.control_inputs = std::move(controls);
  }

  struct FeedNode {
    std::string name;
    TensorType type;
    NodeId id;
    bool used = false;
  };

  const Graph& graph_;
  const Signature& signature_;
  std::map<OutputRef, FeedNode> feeds_;
  std::map<int32_t, NodeId> optionals_;  // that are needed and whose parts are fed: what stands for them in the result
  std::vector<OutputRef> fetches_;
  std::vector<NodeId> targets_;
  std::vector<NodeId> renamed_;
  std::vector<bool> needed_;
  std::vector<bool> is_fed_;  // one of its outputs
  Graph result_;
};

}  // namespace

bool RunsThoughFed(const Node& node) {
  if (IsPlaceholder(node)) return false;
  return OpRegistry::Builtin().Find(node.op) != nullptr || IsPartitionedCall(node) || IsFunctionOp(node.op) || IsIf(node) || IsCase(node) ||
         IsWhile(node);
}

void DropPipelines(Graph& graph) {
  std::vector<NodeId> open;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    if (!graph.alive(NodeId{i}) || !StartsPipeline(graph.node(NodeId{i}))) continue;
    Node& start = graph.mutable_node(NodeId{i});
    const std::vector<NodeId> before = ComesBeforePipeline(graph, start, [](OutputRef) { return false; }, [](NodeId) { return true; });
    for (OutputRef input : start.inputs) open.push_back(input.node);
    WaitOnly(start, before);
  }
  if (open.empty()) return;
  std::vector<int32_t> users(graph.num_ids(), 0);
  const auto for_each_used = [&](const Node& node, const auto& visit) {
    for (OutputRef input : node.inputs) visit(input.node);
    for (NodeId control : node.control_inputs) visit(control);
  };
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    if (graph.alive(NodeId{i})) for_each_used(graph.node(NodeId{i}), [&](NodeId used) { ++users[used.value]; });
  }
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    if (!graph.alive(id) || users[id.value] > 0 || !OnlyLeadsOn(graph.node(id))) continue;
    for_each_used(graph.node(id), [&](NodeId used) {
      if (--users[used.value] == 0) open.push_back(used);
    });
    graph.RemoveNode(id);
  }
}

absl::StatusOr<Graph> Prune(const Graph& graph, const Signature& signature) {
  return Pruner(graph, signature).Run();
}

absl::StatusOr<Graph> PruneAndInline(const Graph& graph, const Signature& signature, const OpRegistry& ops) {
  MR_ASSIGN_OR_RETURN(Graph flat, Prune(graph, signature));
  AddSymbolicGradients(flat);
  LowerFunctionOps(flat, ops, [&](const std::string& op) { return WritesVariables(ops, op); });
  MR_RETURN_IF_ERROR(InlineFunctions(flat, ops, MostInlinedNodes(flat, PlanningOptions().max_unrolled_nodes)).status());
  return flat;
}

void RemoveUnneeded(Graph& graph, const Signature& signature, std::vector<uint64_t>& per_node) {
  const std::vector<bool> needed = NeededBy(graph, FetchesAndTargets(graph, signature.targets));
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    if (!needed[i]) graph.RemoveNode(NodeId{i});
  }
  const std::vector<NodeId> renamed = graph.Compact();
  for (size_t i = 0; i < renamed.size(); ++i) {
    if (renamed[i].valid()) per_node[renamed[i].value] = per_node[i];
  }
  per_node.resize(graph.num_ids());
}

}  // namespace millrace
