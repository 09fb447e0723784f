#include "passes/order/order_levels.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "millrace/status.h"

namespace millrace {
namespace {

absl::Status BadSlice(const std::string& slice) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", slice, "\" is not a level or a slice of levels, expected one like 7, 3:5, :3, 100: or 0:20:2"));
}

// Levels of one slice, by Python's rules.
absl::Status AddSlice(const std::string& slice, int32_t num_levels, std::set<int32_t>& levels) {
  const std::vector<std::string> fields = absl::StrSplit(slice, ':');
  int64_t value[3] = {0, num_levels, 1};
  bool given[3] = {false, false, false};
  if (fields.size() > 3) return BadSlice(slice);
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].empty() && fields.size() > 1) continue;
    given[i] = true;
    if (!absl::SimpleAtoi(fields[i], &value[i])) return BadSlice(slice);
  }
  if (value[2] < 1) return BadSlice(slice);
  if (fields.size() == 1) {
    const int64_t level = value[0] < 0 ? value[0] + num_levels : value[0];
    if (level >= 0 && level < num_levels) levels.insert(static_cast<int32_t>(level));
    return absl::OkStatus();
  }
  for (int i = 0; i < 2; ++i) {
    if (given[i] && value[i] < 0) value[i] += num_levels;
    value[i] = std::clamp<int64_t>(value[i], 0, num_levels);
  }
  value[2] = std::min<int64_t>(value[2], std::max(num_levels, 1));
  for (int64_t level = value[0]; level < value[1]; level += value[2]) levels.insert(static_cast<int32_t>(level));
  return absl::OkStatus();
}

class LevelOrder {
 public:
  explicit LevelOrder(Graph& graph) : graph_(graph), chained_to_(graph.num_ids()) {}

  // Levels with the edges that serialisation added.
  absl::Status FindLevels() {
    if (creation_order_.empty()) {
      MR_ASSIGN_OR_RETURN(creation_order_, CreationOrder(graph_));
    }
    level_.assign(graph_.num_ids(), 0);
    num_levels_ = 0;
    for (NodeId id : chained_order_.empty() ? creation_order_ : chained_order_) {
      const Node& node = graph_.node(id);
      int32_t level = 0;
      const auto after = [&](NodeId other) { level = std::max(level, level_[other.value] + 1); };
      for (OutputRef input : node.inputs) after(input.node);
      for (NodeId control : node.control_inputs) after(control);
      if (chained_to_[id.value].valid()) after(chained_to_[id.value]);
      level_[id.value] = level;
      num_levels_ = std::max(num_levels_, level + 1);
    }
    return absl::OkStatus();
  }

  int32_t num_levels() const { return num_levels_; }

  // Nodes on the device by level, in creation order.
  std::vector<std::vector<NodeId>> NodesByLevel() const {
    std::vector<std::vector<NodeId>> by_level(num_levels_);
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      const Node& node = graph_.node(NodeId{i});
      if (node.removed || node.device == kHostDevice || node.op == "_Fetch") continue;
      by_level[level_[i]].push_back(NodeId{i});
    }
    return by_level;
  }

  // What a node takes and makes.
  int64_t BytesOf(NodeId id) const {
    const Node& node = graph_.node(id);
    int64_t bytes = 0;
    for (OutputRef input : node.inputs) bytes += graph_.type(input).size_bytes();
    for (const TensorType& output : node.outputs) bytes += output.size_bytes();
    return bytes;
  }

  int64_t BytesOf(const std::vector<NodeId>& nodes) const {
    int64_t bytes = 0;
    for (NodeId id : nodes) bytes += BytesOf(id);
    return bytes;
  }

  // Chains the nodes of these levels, and consecutive ones of them to each other.
  void Serialize(const std::set<int32_t>& levels) {
    chained_order_ = Sorted();
    const std::vector<std::vector<NodeId>> by_level = NodesByLevel();
    NodeId last;
    int32_t last_level = -1;
    for (int32_t level : levels) {
      if (level != last_level + 1) last = NodeId();
      for (NodeId id : by_level[level]) {
        chained_to_[id.value] = last;
        last = id;
      }
      last_level = level;
    }
  }

  Partitioning Finish() {
    Partitioning result;
    result.order = Sorted();
    result.num_partitions = num_levels_;
    for (NodeId id : result.order) {
      Node& node = graph_.mutable_node(id);
      node.partition = node.device == kHostDevice ? kNoPartition : level_[PlaceOf(id)];
    }
    return result;
  }

 private:
  // The node whose place in the order is the node's: its own; a fetch comes right behind the last of its producer and what
  // else it waits for, as a reference variable's fetch does for the updates.
  int32_t PlaceOf(NodeId id) const {
    const Node& node = graph_.node(id);
    if (node.op != "_Fetch") return id.value;
    int32_t last = node.inputs[0].node.value;
    for (const NodeId control : node.control_inputs) {
      if (std::tie(level_[last], last) < std::tie(level_[control.value], control.value)) last = control.value;
    }
    return last;
  }

  // By level, then creation.
  std::vector<NodeId> Sorted() const {
    const auto key = [&](NodeId id) {
      const int32_t of = PlaceOf(id);
      return std::make_tuple(level_[of], of, of != id.value, id.value);
    };
    std::vector<NodeId> order = creation_order_;
    std::sort(order.begin(), order.end(), [&](NodeId a, NodeId b) { return key(a) < key(b); });
    return order;
  }

  Graph& graph_;
  std::vector<NodeId> creation_order_;
  std::vector<NodeId> chained_order_;  // topological with the chains, too
  std::vector<NodeId> chained_to_;     // the node before it in its chain
  std::vector<int32_t> level_;
  int32_t num_levels_ = 0;
};

void DescribeLevels(const Graph& graph, const LevelOrder& order, std::vector<std::string>& notes) {
  const std::vector<std::vector<NodeId>> by_level = order.NodesByLevel();
  for (size_t level = 0; level < by_level.size(); ++level) {
    if (by_level[level].empty()) continue;
    notes.push_back(absl::StrCat("level ", level, ": operations ", by_level[level].size(), ", cumulative size ",
                                 FormatBytes(order.BytesOf(by_level[level])), ": ",
                                 absl::StrJoin(by_level[level], ", ", [&](std::string* out, NodeId id) {
                                   absl::StrAppend(out, graph.node(id).name, " (", graph.node(id).op, ")");
                                 })));
  }
}

// An initializer has fewer levels than the step that is meant, so it is no error; but a level may be misspelt.
absl::Status NoteWhatNamesNoLevel(const std::vector<std::string>& slices, int32_t num_levels, std::vector<std::string>& notes) {
  for (const std::string& slice : slices) {
    MR_ASSIGN_OR_RETURN(const std::vector<int32_t> levels, ParseLevels({slice}, num_levels));
    if (levels.empty()) notes.push_back(absl::StrCat("--serialization: ", slice, " is none of the ", num_levels, " levels, which count from 0: it serialises nothing"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> ParseLevels(const std::vector<std::string>& slices, int32_t num_levels) {
  std::set<int32_t> levels;
  for (const std::string& slice : slices) MR_RETURN_IF_ERROR(AddSlice(slice, num_levels, levels));
  return std::vector<int32_t>(levels.begin(), levels.end());
}

absl::StatusOr<LevelPartitioning> PartitionByLevels(Graph& graph, const TflmsOptions& options) {
  LevelPartitioning result;
  LevelOrder order(graph);
  MR_RETURN_IF_ERROR(order.FindLevels());
  result.notes.push_back(absl::StrCat(order.num_levels(), " levels"));
  MR_ASSIGN_OR_RETURN(const std::vector<int32_t> asked, ParseLevels(options.serialization, order.num_levels()));
  MR_RETURN_IF_ERROR(NoteWhatNamesNoLevel(options.serialization, order.num_levels(), result.notes));
  std::set<int32_t> serialized(asked.begin(), asked.end());
  if (options.serialization_by_size_bytes > 0) {
    const std::vector<std::vector<NodeId>> by_level = order.NodesByLevel();
    for (int32_t level = 0; level < order.num_levels(); ++level) {
      if (order.BytesOf(by_level[level]) > options.serialization_by_size_bytes) serialized.insert(level);
    }
  }
  if (!serialized.empty()) {
    const int32_t before = order.num_levels();
    order.Serialize(serialized);
    MR_RETURN_IF_ERROR(order.FindLevels());
    result.notes.front() = absl::StrCat(before, " levels, ", order.num_levels(), " after ", serialized.size(),
                                       " of them were serialised");
  }
  if (options.debug) DescribeLevels(graph, order, result.notes);
  result.partitioning = order.Finish();
  return result;
}

}  // namespace millrace
