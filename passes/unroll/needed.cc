#include "passes/unroll/needed.h"

#include <map>
#include <memory>
#include <set>
#include <utility>

#include "millrace/status.h"
#include "passes/control_flow/control_flow_ops.h"
#include "passes/control_flow/inline_functions.h"

namespace millrace {
namespace {

using Found = std::map<std::pair<const Body*, std::vector<NodeId>>, std::shared_ptr<const NeededNodes>>;

class NeedFinder {
 public:
  NeedFinder(Bodies& bodies, const Body& body, Found& found) : bodies_(bodies), graph_(body.graph), found_(found) {
    needed_.nodes.assign(graph_.num_ids(), false);
  }

  static absl::StatusOr<std::shared_ptr<const NeededNodes>> Find(Bodies& bodies, const Body& body, const std::vector<NodeId>& roots, Found& found) {
    const auto known = found.find({&body, roots});
    if (known != found.end()) return known->second;
    MR_ASSIGN_OR_RETURN(NeededNodes needed, NeedFinder(bodies, body, found).Run(roots));
    return found[{&body, roots}] = std::make_shared<const NeededNodes>(std::move(needed));
  }

 private:
  absl::StatusOr<NeededNodes> Run(const std::vector<NodeId>& roots) {
    for (const NodeId root : roots) next_.push_back({root, kWhole});
    ReachNodes();
    // Loops last: most of their values that are needed are known by then.
    while (!grown_.empty()) {
      const int32_t loop = *grown_.begin();
      grown_.erase(grown_.begin());
      MR_RETURN_IF_ERROR(ReachLoop(graph_.node(NodeId{loop}), *needed_.loops[loop]));
      ReachNodes();
    }
    return std::move(needed_);
  }

  static constexpr int32_t kWhole = -1;  // not one output, but that the node has run

  void ReachNode(NodeId id) {
    needed_.nodes[id.value] = true;
    for (const NodeId control : graph_.node(id).control_inputs) next_.push_back({control, kWhole});
  }

  void ReachNodes() {
    while (!next_.empty()) {
      const OutputRef at = next_.back();
      next_.pop_back();
      const Node& node = graph_.node(at.node);
      if (IsWhile(node)) {
        ReachValue(at, node.inputs.size());
        continue;
      }
      if (needed_.nodes[at.node.value]) continue;
      ReachNode(at.node);
      for (const OutputRef& input : node.inputs) next_.push_back(input);
    }
  }

  void ReachValue(OutputRef at, size_t count) {
    std::unique_ptr<NeededLoop>& loop = needed_.loops[at.node.value];
    bool grown = loop == nullptr;
    if (loop == nullptr) {
      loop = std::make_unique<NeededLoop>();
      loop->values.assign(count, false);
      ReachNode(at.node);
    }
    for (size_t i = 0; i < count; ++i) {
      if (loop->values[i] || (at.index != kWhole && static_cast<size_t>(at.index) != i)) continue;
      loop->values[i] = grown = true;
    }
    if (grown) grown_.insert(at.node.value);
  }

  // Takes those inputs that needed values follow from.
  absl::Status ReachLoop(const Node& node, NeededLoop& loop) {
    MR_RETURN_IF_ERROR(FindTurns(node, loop));
    for (size_t i = 0; i < loop.values.size(); ++i) {
      if (loop.values[i]) next_.push_back(node.inputs[i]);
    }
    return absl::OkStatus();
  }

  // A carried value that another one's turn takes is needed, too.
  absl::Status FindTurns(const Node& node, NeededLoop& loop) {
    MR_ASSIGN_OR_RETURN(const Body* condition, bodies_.OfFunction(graph_, node, "cond"));
    MR_ASSIGN_OR_RETURN(const Body* body, bodies_.OfFunction(graph_, node, "body"));
    std::vector<NodeId> asked = condition->results;
    asked.insert(asked.end(), condition->control_results.begin(), condition->control_results.end());
    MR_ASSIGN_OR_RETURN(loop.condition, Find(bodies_, *condition, asked, found_));
    TakeArguments(condition->graph, loop.condition->nodes, loop.values);
    do {
      std::vector<NodeId> roots = body->control_results;
      for (size_t i = 0; i < body->results.size() && i < loop.values.size(); ++i) {
        if (loop.values[i]) roots.push_back(body->results[i]);
      }
      MR_ASSIGN_OR_RETURN(loop.body, Find(bodies_, *body, roots, found_));
    } while (TakeArguments(body->graph, loop.body->nodes, loop.values));
    return absl::OkStatus();
  }

  // Values whose arguments are reached; whether there is one more than before.
  static bool TakeArguments(const Graph& graph, const std::vector<bool>& reached, std::vector<bool>& values) {
    bool more = false;
    for (int32_t i = 0; i < graph.num_ids(); ++i) {
      const Node& node = graph.node(NodeId{i});
      if (node.removed || !reached[i] || node.op != kArgOp) continue;
      const auto index = static_cast<size_t>(node.attrs.GetOr<int64_t>("index", 0));
      if (index >= values.size() || values[index]) continue;
      values[index] = more = true;
    }
    return more;
  }

  Bodies& bodies_;
  const Graph& graph_;
  Found& found_;
  NeededNodes needed_;
  std::vector<OutputRef> next_;
  std::set<int32_t> grown_;  // loops of which more values are needed than when they were looked at
};

}  // namespace

absl::StatusOr<std::shared_ptr<const NeededNodes>> FindNeeded(Bodies& bodies, const Body& body, const std::vector<NodeId>& roots) {
  Found found;
  return NeedFinder::Find(bodies, body, roots, found);
}

}  // namespace millrace
