#include "passes/recompute.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/fused_norm.h"
#include "passes/access/access_lists.h"

namespace millrace {
namespace {

class Recomputer {
 public:
  Recomputer(const OrderedGraph& ordered, const DeviceGraph& device, int max_depth)
      : ordered_(ordered),
        max_depth_(max_depth),
        graph_(*ordered.graph),
        device_(device),
        lists_(ListAccesses(device.access)),
        operation_of_(graph_.num_ids(), -1),
        node_of_(graph_.num_ids(), nullptr),
        first_of_(graph_.num_ids()),
        locked_(device.access.storages.size(), false),
        recomputed_(device.access.storages.size(), false) {
    for (int32_t i = 0; i < graph_.num_ids(); ++i) first_of_[i] = NodeId{i};
    for (const auto& [copy, first] : ordered.copies) first_of_[copy.value] = first;
    for (size_t i = 0; i < device.operations.size(); ++i) {
      for (const OperationNode& node : device.operations[i].nodes) {
        operation_of_[node.node.value] = static_cast<int32_t>(i);
        node_of_[node.node.value] = &node;
      }
    }
  }

  OrderedGraph Run(const std::vector<FarUses>& uses) {
    result_.graph = std::make_shared<Graph>(graph_.Clone());
    inferred_ = *ordered_.inferred;
    result_.partition_size = ordered_.partition_size;
    result_.recomputed_nodes = ordered_.recomputed_nodes;
    result_.copies = ordered_.copies;
    for (const FarUses& use : uses) {
      // What was taken before may have changed which leaves there are.
      if (!locked_[use.storage] && FindChain(use.storage, use.before) && !far_uses_.empty()) Rewrite(use);
    }
    InsertIntoOrder();
    result_.inferred = std::make_shared<const InferenceResult>(std::move(inferred_));
    return std::move(result_);
  }

  Chain ChainOf(const FarUses& use) {
    Chain chain;
    chain.possible = FindChain(use.storage, use.before) && !far_uses_.empty();
    chain.seconds = chain_seconds_;
    chain.leaves = chain_leaves_;
    return chain;
  }

 private:
  struct FarUse {
    NodeId node;
    size_t input = 0;
  };

  // The uses of storage s from operation `before` on, and the nodes that make what they take. False when some of them
  // cannot run again.
  bool FindChain(int32_t s, int32_t before) {
    far_uses_.clear();
    chain_.clear();
    given_.clear();
    chain_leaves_.clear();
    chain_seconds_ = 0;
    before_ = before;
    for (const TimedAccess& access : lists_.of(s)) {
      if (access.operation < before) continue;
      for (const OperationNode& node : device_.operations[access.operation].nodes) {
        for (size_t i = 0; i < node.input_storages.size(); ++i) {
          if (node.input_storages[i] != s) continue;
          const OutputRef ref = graph_.node(node.node).inputs[i];
          if (MadeBy(ref) >= before) continue;  // another value in the same memory
          if (graph_.node(node.node).op == "_Fetch") return false;  // the value that was asked for, by its name
          if (!AddToChain(ref, 0)) return false;
          far_uses_.push_back({node.node, i});
        }
      }
    }
    return true;
  }

  const OpDef& Def(NodeId id) const { return *ordered_.inferred->defs[id.value]; }

  // Operation that made the value; views do not count. -1: there since before the step.
  int32_t MadeBy(OutputRef ref) const {
    while (Def(ref.node).is_view) ref = graph_.node(ref.node).inputs[0];
    return operation_of_[ref.node.value];
  }

  bool AddToChain(OutputRef ref, int depth) {
    const NodeId id = ref.node;
    // What a batch norm that is given its statistics passes on as those of the batch are others.
    if ((ref.index == 1 || ref.index == 2) && (Contains(given_, id) || IsGivenAgain(id))) return false;
    if (Contains(chain_, id)) return true;
    const Node& node = graph_.node(id);
    const OpDef& def = Def(id);
    if (def.is_view && !node.inputs.empty()) {
      if (operation_of_[id.value] >= 0) return false;  // a shape that is known only when it runs
      if (!AddToChain(node.inputs[0], depth)) return false;
      chain_.push_back(id);
      return true;
    }
    if (depth >= max_depth_ || !MayRunAgain(id, def)) return false;
    const bool given = ref.index == 0 && HasStatistics(id);
    if (given) {
      given_.push_back(id);
      for (const int k : kNormStatistics) chain_leaves_.push_back(device_.storage({id, k}));
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const int32_t s = node_of_[id.value]->input_storages[i];
      if (s == kNoStorage || (given && IsStatistic(i))) continue;
      if (IsLeaf(node.inputs[i], s, operation_of_[id.value])) chain_leaves_.push_back(s);
      else if (!AddToChain(node.inputs[i], depth + 1)) return false;
    }
    chain_.push_back(id);
    chain_seconds_ += node_of_[id.value]->seconds * (given ? PartWithStatistics(id) : 1);
    return true;
  }

  static bool Contains(const std::vector<NodeId>& nodes, NodeId id) { return std::find(nodes.begin(), nodes.end(), id) != nodes.end(); }

  static bool IsStatistic(size_t input) { return std::find(std::begin(kNormStatistics), std::end(kNormStatistics), input) != std::end(kNormStatistics); }

  // Of a batch norm in training: whether those of the batch, as it saved them, are there at the far operation.
  bool HasStatistics(NodeId id) const {
    const Node& node = graph_.node(id);
    if ((!IsBatchNorm(node.op) && node.op != kFusedNorm) || !node.attrs.GetOr<bool>("is_training", true)) return false;
    return std::all_of(std::begin(kNormStatistics), std::end(kNormStatistics), [&](int k) {
      const int32_t s = device_.storage({id, k});
      return s != kNoStorage && IsLeaf({id, k}, s, operation_of_[id.value]);
    });
  }

  // … and computed again at this far operation with these already.
  bool IsGivenAgain(NodeId id) const {
    const auto again = again_.find(before_);
    if (again == again_.end()) return false;
    const auto copy = again->second.find(id.value);
    return copy != again->second.end() && result_.graph->node(copy->second).attrs.Has(kGivenStatistics);
  }

  // What of its time a batch norm takes then, by what it moves.
  double PartWithStatistics(NodeId id) const {
    OpInstance instance = MakeInstance(graph_, id, 0);
    const double bytes = Def(id).cost(instance).bytes;
    instance.attrs.Set("is_training", false);
    return bytes > 0 ? Def(id).cost(instance).bytes / bytes : 1;
  }

  static void GiveStatistics(NodeId id, Node& copy) {
    copy.attrs.Set("is_training", false);
    copy.attrs.Set(kGivenStatistics, true);
    for (const int k : kNormStatistics) copy.inputs[k] = {id, k};
  }

  bool MayRunAgain(NodeId id, const OpDef& def) const {
    const Node& node = graph_.node(id);
    // Of this program's own ops those that are fused from others, which could run again themselves.
    const bool is_own = node.op[0] == '_' && !absl::StartsWith(node.op, "_Fused");
    if (operation_of_[id.value] < 0 || is_own || def.stateful || def.is_variable || def.is_no_op ||
        def.returns_variable || def.state_bytes > 0 || node.outputs.empty() || node_of_[id.value]->is_dynamic()) {
      return false;
    }
    return std::all_of(def.variables.begin(), def.variables.end(), [](const VariableUse& use) {
      return use.access == VariableAccess::kRead || use.access == VariableAccess::kPresence;
    });
  }

  // Whether the value that operation `user` took of storage s is there at the far operation.
  bool IsLeaf(OutputRef ref, int32_t s, int32_t user) const {
    const bool activation = device_.access.storages[s].kind == StorageKind::kActivation;
    const absl::Span<const TimedAccess> accesses = lists_.of(s);
    if (activation && (recomputed_[s] || accesses.back().operation < before_)) return false;
    const int32_t made_by = activation ? MadeBy(ref) : user;
    return std::none_of(accesses.begin(), accesses.end(), [&](const TimedAccess& access) {
      return access.access.writes && access.operation > made_by && access.operation < before_;
    });
  }

  void Rewrite(const FarUses& use) {
    const NodeId consumer = device_.operations[before_].node();
    std::map<int32_t, NodeId>& again = again_[before_];
    const StorageInfo& info = device_.access.storages[use.storage];
    for (NodeId id : chain_) {
      if (again.contains(id.value)) continue;
      Node copy = graph_.node(id);
      copy.name = absl::StrCat(copy.name, "/recompute");
      copy.reason = absl::StrCat("computed again for '", graph_.node(consumer).name, "' instead of moving ",
                                 FormatBytes(info.size_bytes));
      copy.partition = graph_.node(consumer).partition;
      copy.control_inputs.clear();
      copy.in_place.clear();
      for (OutputRef& input : copy.inputs) {
        if (auto found = again.find(input.node.value); found != again.end()) input.node = found->second;
      }
      const bool given = Contains(given_, id);
      if (given) GiveStatistics(id, copy);
      if (operation_of_[id.value] >= 0) ++result_.recomputed_nodes;
      const NodeId added = result_.graph->AddUnique(std::move(copy));
      again.emplace(id.value, added);
      result_.copies.emplace_back(added, first_of_[id.value]);
      inferred_.by_value.resize(result_.graph->num_ids(), 0);
      inferred_.by_value[added.value] = ordered_.inferred->by_value[id.value];
      inferred_.estimates.resize(result_.graph->num_ids());
      inferred_.estimates[added.value] = ordered_.inferred->estimates[id.value];
      if (given) inferred_.estimates[added.value].seconds *= PartWithStatistics(id);
      inferred_.defs.resize(result_.graph->num_ids(), nullptr);
      inferred_.defs[added.value] = ordered_.inferred->defs[id.value];
      inferred_.roles.resize(result_.graph->num_ids(), NodeRole::kNeverRuns);
      inferred_.roles[added.value] = ordered_.inferred->roles[id.value];
      inferred_.variable.resize(result_.graph->num_ids(), -1);
      added_before_[before_].push_back(added);
    }
    for (const FarUse& far : far_uses_) {
      const OutputRef ref = graph_.node(far.node).inputs[far.input];
      result_.graph->mutable_node(far.node).inputs[far.input].node = again.at(ref.node.value);
    }
    recomputed_[use.storage] = true;
    for (int32_t s : chain_leaves_) locked_[s] = true;
  }

  void InsertIntoOrder() {
    result_.partitioning.num_partitions = ordered_.partitioning.num_partitions;
    std::vector<NodeId>& order = result_.partitioning.order;
    order.reserve(result_.graph->num_nodes());
    for (NodeId id : ordered_.partitioning.order) {
      const int32_t operation = operation_of_[id.value];
      if (operation >= 0 && device_.operations[operation].node() == id) {
        if (auto found = added_before_.find(operation); found != added_before_.end()) {
          order.insert(order.end(), found->second.begin(), found->second.end());
        }
      }
      order.push_back(id);
    }
  }

  const OrderedGraph& ordered_;
  const int max_depth_;
  const Graph& graph_;
  const DeviceGraph& device_;
  const AccessLists lists_;
  std::vector<int32_t> operation_of_;            // per node, -1 for none
  std::vector<const OperationNode*> node_of_;
  std::vector<NodeId> first_of_;                 // per node: itself, or what it is a copy of
  std::vector<bool> locked_;                     // storages that are leaves: they stay what they are
  std::vector<bool> recomputed_;
  // Of the last FindChain.
  int32_t before_ = 0;
  std::vector<FarUse> far_uses_;
  std::vector<NodeId> chain_;                    // in topological order, views included
  std::vector<NodeId> given_;                    // of it, batch norms that are given their statistics
  std::vector<int32_t> chain_leaves_;
  double chain_seconds_ = 0;
  std::map<int32_t, std::map<int32_t, NodeId>> again_;     // per far operation: node -> its copy there
  std::map<int32_t, std::vector<NodeId>> added_before_;    // per far operation
  OrderedGraph result_;
  InferenceResult inferred_;  // of the result
};

}  // namespace

std::vector<Chain> FindChains(const OrderedGraph& ordered, const DeviceGraph& device, const std::vector<FarUses>& uses,
                              int max_depth) {
  std::vector<Chain> chains;
  Recomputer recomputer(ordered, device, max_depth);
  for (const FarUses& use : uses) chains.push_back(recomputer.ChainOf(use));
  return chains;
}

OrderedGraph ComputeAgain(const OrderedGraph& ordered, const DeviceGraph& device, const std::vector<FarUses>& uses,
                          int max_depth) {
  return Recomputer(ordered, device, max_depth).Run(uses);
}

}  // namespace millrace
