#include "passes/rewrite/gather_updates.h"

#include <map>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "millrace/status.h"
#include "passes/control_flow/creation_places.h"
#include "plan/measured_times.h"

namespace millrace {
namespace {

// Dense updates by an optimizer, and sums with a variable, such as moving averages are.
bool IsUpdate(const Node& node) {
  if (node.removed || node.dynamic_outputs != 0 || node.run_time_values != 0 || absl::StrContains(node.name, kUpdatePartName)) return false;
  return absl::StartsWith(node.op, "Apply") || absl::StartsWith(node.op, "ResourceApply") || absl::StartsWith(node.op, "AssignSub") ||
         absl::StartsWith(node.op, "AssignAdd") || node.op == "_AssignMovingAverage";
}

class Gatherer {
 public:
  Gatherer(const Graph& graph, const OpRegistry& ops) : graph_(graph), ops_(ops) {
    for (int32_t i = 0; i < graph.num_ids(); ++i) {
      if (IsUpdate(graph.node(NodeId{i}))) most_waiting_ += GradientBytes(graph.node(NodeId{i}));
    }
    most_waiting_ /= kWaitingPart;
  }

  std::vector<NodeId> Run(const std::vector<NodeId>& order) {
    for (NodeId id : order) {
      const Node& node = graph_.node(id);
      LetGoOfNeeded(node);
      if (IsUpdate(node) && GradientBytes(node) <= most_waiting_) {
        Wait(id);
      } else {
        result_.push_back(id);
      }
    }
    for (auto& [key, group] : waiting_) LetGo(group);
    return std::move(result_);
  }

 private:
  struct Group {
    std::vector<NodeId> updates;
    int64_t bytes = 0;
  };
  using Key = std::pair<std::string, DataType>;

  // Of what it takes beside the variable and its slots.
  int64_t GradientBytes(const Node& node) const {
    int64_t bytes = 0;
    for (OutputRef input : node.inputs) {
      const TensorType& type = graph_.type(input);
      const OpDef* maker = ops_.Find(graph_.node(input.node).op);
      const bool variable = type.dtype == DataType::kResource || (maker != nullptr && (maker->is_variable || maker->returns_variable));
      if (!variable && type.shape.fully_known() && graph_.node(input.node).op != "Const") bytes += type.size_bytes();
    }
    return bytes;
  }

  void Wait(NodeId id) {
    const Node& node = graph_.node(id);
    const Key key{node.op, node.attrs.GetOr("T", node.attrs.GetOr("dtype", DataType::kFloat))};
    Group& group = waiting_[key];
    const int64_t bytes = GradientBytes(node);
    if (group.updates.size() == kMaxGatheredUpdates || bytes_ + bytes > most_waiting_) LetGo(group);
    if (bytes_ + bytes > most_waiting_) {
      for (auto& [other, waiting] : waiting_) LetGo(waiting);
    }
    group.updates.push_back(id);
    group.bytes += bytes;
    bytes_ += bytes;
    is_waiting_[id.value] = key;
  }

  void LetGo(Group& group) {
    for (NodeId id : group.updates) is_waiting_.erase(id.value);
    result_.insert(result_.end(), group.updates.begin(), group.updates.end());
    bytes_ -= group.bytes;
    group = {};
  }

  void LetGoOfNeeded(const Node& node) {
    const auto let_go_of = [&](NodeId id) {
      const auto found = is_waiting_.find(id.value);
      if (found != is_waiting_.end()) LetGo(waiting_.at(Key(found->second)));
    };
    for (OutputRef input : node.inputs) let_go_of(input.node);
    for (NodeId control : node.control_inputs) let_go_of(control);
  }

  const Graph& graph_;
  const OpRegistry& ops_;
  int64_t most_waiting_ = 0, bytes_ = 0;
  std::map<Key, Group> waiting_;
  std::map<int32_t, Key> is_waiting_;  // by node id
  std::vector<NodeId> result_;
};

}  // namespace

absl::StatusOr<int64_t> GatherUpdates(Graph& graph, const OpRegistry& ops, std::vector<uint64_t>& by_value) {
  MR_ASSIGN_OR_RETURN(const std::vector<NodeId> order, CreationOrder(graph));
  const std::vector<NodeId> gathered = Gatherer(graph, ops).Run(order);
  int64_t moved = 0;
  for (size_t i = 0; i < order.size(); ++i) moved += order[i] != gathered[i] && IsUpdate(graph.node(gathered[i]));
  if (moved == 0) return 0;
  by_value.resize(graph.num_ids(), 0);
  RenumberAs(graph, gathered, by_value);
  return moved;
}

}  // namespace millrace
