#include "passes/rewrite/keep_accumulators.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "graph/accumulator.h"
#include "graph/queue_layout.h"
#include "millrace/status.h"
#include "passes/control_flow/creation_places.h"
#include "passes/control_flow/kept_state.h"

namespace millrace {
namespace {

constexpr int64_t kQueueRoom = 512;                 // of queues that are given no capacity, and the least of those that are given a larger one
constexpr int64_t kQueueBytes = int64_t{1} << 20;  // up to so many, more elements wait
constexpr int64_t kMostBytes = int64_t{1} << 60;

struct Use {
  const char* op;
  bool gives = false, takes = false, closes = false, peeks = false;
};

// By TensorFlow's op, without "Resource" before it and "V2" behind.
const std::map<std::string, Use>& Uses() {
  static const auto& uses = *new std::map<std::string, Use>{
      {"AccumulatorApplyGradient", {"_AccumulatorApply", true, false}},
      {"AccumulatorTakeGradient", {"_AccumulatorTake", false, true}},
      {"AccumulatorNumAccumulated", {"_AccumulatorCount"}},
      {"AccumulatorSetGlobalStep", {"_AccumulatorSetStep"}},
      {"SparseAccumulatorApplyGradient", {"_SparseAccumulatorApply", true, false}},
      {"SparseAccumulatorTakeGradient", {"_SparseAccumulatorTake", false, true}},
      {"QueueEnqueue", {"_QueueEnqueue", true, false}},
      {"QueueEnqueueMany", {"_QueueEnqueue", true, false}},
      {"QueueDequeue", {"_QueueDequeue", false, true}},
      {"QueueDequeueMany", {"_QueueDequeue", false, true}},
      {"QueueDequeueUpTo", {"_QueueDequeue", false, true}},
      {"QueueClose", {"_QueueClose", false, false, true}},
      {"QueueIsClosed", {"_QueueIsClosed"}},
      {"QueueSize", {"_QueueCount"}},
      {"Stage", {"_QueueEnqueue", true, false}},
      {"Unstage", {"_QueueDequeue", false, true}},
      {"StagePeek", {"_QueuePeek", false, false, false, true}},
      {"StageClear", {"_QueueClear"}},
      {"StageSize", {"_QueueCount"}}};
  return uses;
}

const Use* UseOf(const Node& node) {
  const auto op = absl::StripSuffix(absl::StripPrefix(node.op, "Resource"), "V2");
  const auto found = Uses().find(std::string(op));
  return found == Uses().end() ? nullptr : &found->second;
}

QueueLayout LayoutOfQueue(const Node& queue) {
  QueueLayout layout;
  layout.dtypes = queue.attrs.GetOr<std::vector<DataType>>("component_types", {});
  layout.shapes = queue.attrs.GetOr<std::vector<Shape>>("shapes", {});
  // Whole numbers of which nothing else is said are single ones: tokens.
  if (layout.shapes.empty() && layout.dtypes.size() == 1 && IsInteger(layout.dtypes[0])) layout.shapes = {Shape()};
  layout.by_priority = absl::StartsWith(queue.op, "PriorityQueue");
  if (layout.by_priority) {
    if (layout.shapes.size() == layout.dtypes.size()) layout.shapes.insert(layout.shapes.begin(), Shape());
    layout.dtypes.insert(layout.dtypes.begin(), DataType::kInt64);
  }
  layout.shuffles = absl::StartsWith(queue.op, "RandomShuffle");
  layout.stay = queue.attrs.GetOr<int64_t>("min_after_dequeue", 0);
  layout.seed = queue.attrs.GetOr<int64_t>("seed", 0);
  layout.seed2 = queue.attrs.GetOr<int64_t>("seed2", 0);
  layout.capacity = queue.attrs.GetOr<int64_t>("capacity", -1);
  return layout;
}

bool IsQueueOfNumbers(const Node& node) {
  return IsQueue(node) && LayoutOfQueue(node).sized();
}

// What a step gives comes before what it takes: a queue that is full has room for as much again. Large capacities are there to be never
// reached, and have less.
int64_t RoomOf(const Node& queue, const QueueLayout& layout) {
  if (layout.of_tokens() && queue.op != kStagingArea) return layout.capacity > 0 ? std::min(layout.capacity, kQueueRoom) : kQueueRoom;
  constexpr int64_t kMostStay = int64_t{1} << 40;
  const int64_t least = std::max(kQueueRoom, 2 * (std::min(layout.stay, kMostStay) + 1));
  return layout.capacity > 0 ? 2 * std::min(layout.capacity, std::max(least, kQueueBytes / layout.element_bytes())) : least;
}

// What a vector of sizes is that a constant or the shape of a variable says; unknown rank where others do.
Shape ShapeSaidBy(const Graph& graph, OutputRef ref) {
  const Node* node = &graph.node(ref.node);
  while ((node->op == "Identity" || node->op == "Cast") && !node->inputs.empty()) node = &graph.node(node->inputs[0].node);
  if (node->op == "Const") {
    const Tensor sizes = node->attrs.GetOr<Tensor>("value", Tensor());
    if (!IsInteger(sizes.dtype()) || sizes.shape().rank() != 1) return Shape::UnknownRank();
    Shape shape;
    for (int64_t i = 0; i < sizes.num_elements(); ++i) shape.AddDim(sizes.IntAt(i));
    return shape;
  }
  if ((node->op != "Shape" && node->op != "VariableShape") || node->inputs.empty()) return Shape::UnknownRank();
  const Node* of = &graph.node(node->inputs[0].node);
  while ((of->op == "Identity" || of->op == "ReadVariableOp") && !of->inputs.empty()) of = &graph.node(of->inputs[0].node);
  return of->attrs.GetOr<Shape>("shape", Shape::UnknownRank());
}

// Of gradients by rows, which say of what tensor the rows are, by the name of what gathers them.
std::map<std::string, Shape> ShapesOfWholes(const Graph& graph) {
  std::map<std::string, Shape> shapes;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    const Use* use = graph.alive(NodeId{i}) ? UseOf(node) : nullptr;
    constexpr size_t kInputs = 5;  // the last one is the shape
    if (use == nullptr || use->op != std::string("_SparseAccumulatorApply") || node.inputs.size() != kInputs) continue;
    const Shape shape = ShapeSaidBy(graph, node.inputs[kInputs - 1]);
    if (shape.fully_known()) shapes[NameOfResource(graph.node(SourceOfHandle(graph, node.inputs[0]).node))] = shape;
  }
  return shapes;
}

absl::StatusOr<KeptState> Describe(const Node& resource, const std::map<std::string, Shape>& shapes) {
  KeptState kept;
  if (IsQueue(resource)) {
    const QueueLayout layout = LayoutOfQueue(resource);
    if (layout.stay < 0) {
      return absl::InvalidArgumentError(absl::StrCat("node '", resource.name, "' (", resource.op, "): min_after_dequeue is ", layout.stay,
                                                     ", expected 0 or more"));
    }
    layout.WriteTo(kept.attrs);
    const int64_t room = RoomOf(resource, layout), element_bytes = layout.element_bytes();
    if (room > kMostBytes / element_bytes) {
      return absl::InvalidArgumentError(absl::StrCat("node '", resource.name, "' (", resource.op, "): ", room, " elements of ", element_bytes,
                                                     " bytes are more than any memory has room for"));
    }
    kept.bytes = static_cast<int64_t>(sizeof(QueueHeader)) + room * element_bytes;
  } else {
    AccumulatorLayout layout;
    layout.dtype = resource.attrs.GetOr<DataType>("dtype", DataType::kInvalid);
    layout.shape = resource.attrs.GetOr<Shape>("shape", Shape::UnknownRank());
    layout.mean = resource.attrs.GetOr<std::string>("reduction_type", "MEAN") == "MEAN";
    layout.sparse = absl::StartsWith(resource.op, "Sparse");
    if (const auto said = shapes.find(NameOfResource(resource)); layout.sparse && said != shapes.end()) layout.shape = said->second;
    if (!layout.shape.fully_known() || (layout.sparse && layout.shape.rank() == 0) || DataTypeSize(layout.dtype) == 0) {
      return absl::UnimplementedError(absl::StrCat("node '", resource.name, "' (", resource.op, ") gathers gradients of ",
                                                   TensorType{layout.dtype, layout.shape}.ToString(),
                                                   "; their shape must be known, that of a variable, say"));
    }
    layout.WriteTo(kept.attrs);
    kept.bytes = layout.bytes();
  }
  return kept;
}

class Keeper {
 public:
  Keeper(Graph& graph, const Graph& whole) : graph_(graph), shapes_(ShapesOfWholes(whole)) {}

  absl::StatusOr<bool> Run() {
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      if (graph_.alive(NodeId{i})) MR_RETURN_IF_ERROR(Look(NodeId{i}));
    }
    for (const auto& [id, kept] : users_) RewriteUser(id, kept);
    for (const auto& [id, kept] : resources_) BecomeKeptState(kept, graph_.mutable_node(id));
    for (const auto& [name, closers] : closers_) {
      for (NodeId closer : closers) ComeAfter(givers_[name], closer);
      givers_[name].insert(givers_[name].end(), closers.begin(), closers.end());
    }
    for (const auto& [name, peekers] : peekers_) {
      for (NodeId peeker : peekers) ComeAfter(givers_[name], peeker);
      givers_[name].insert(givers_[name].end(), peekers.begin(), peekers.end());
    }
    for (const auto& [name, takers] : takers_) {
      for (NodeId taker : takers) ComeAfter(givers_[name], taker);
    }
    if (!places_.empty()) places_.Renumber(graph_);
    const bool dropped = DropUnused();
    return dropped || !resources_.empty();
  }

 private:
  absl::Status Look(NodeId id) {
    const Node& node = graph_.node(id);
    const Use* use = UseOf(node);
    if (use != nullptr && node.inputs.empty()) return absl::OkStatus();
    const Node& resource = use == nullptr ? node : graph_.node(SourceOfHandle(graph_, node.inputs[0]).node);
    if (!IsAccumulator(resource) && !IsQueueOfNumbers(resource)) return absl::OkStatus();
    MR_ASSIGN_OR_RETURN(KeptState kept, Describe(resource, shapes_));
    if (use == nullptr) {
      resources_.emplace_back(id, std::move(kept));
      return absl::OkStatus();
    }
    if (use->gives) givers_[NameOfResource(resource)].push_back(id);
    if (use->closes) closers_[NameOfResource(resource)].push_back(id);
    if (use->peeks) peekers_[NameOfResource(resource)].push_back(id);
    if (use->takes) takers_[NameOfResource(resource)].push_back(id);
    users_.emplace_back(id, std::move(kept));
    return absl::OkStatus();
  }

  void RewriteUser(NodeId id, const KeptState& kept) {
    Node& node = graph_.mutable_node(id);
    const std::string op = node.op;
    const bool cancels = node.attrs.GetOr<bool>("cancel_pending_enqueues", false);
    node.op = UseOf(node)->op;
    node.attrs = kept.attrs;
    const bool up_to = absl::StrContains(op, "UpTo");
    if (up_to || absl::StrContains(op, "Many")) node.attrs.Set("many", true);
    if (up_to) node.attrs.Set("up_to", true);
    if (cancels) node.attrs.Set("cancel_pending_enqueues", true);
  }

  // Queues of which only loops without turns and branches that are not taken would have done something.
  bool DropUnused() {
    std::vector<NodeId> queues;
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      const Node& node = graph_.node(NodeId{i});
      const bool is_queue = absl::EndsWith(absl::StripSuffix(node.op, "V2"), "Queue") && node.inputs.empty();
      if (graph_.alive(NodeId{i}) && is_queue) queues.push_back(NodeId{i});
    }
    if (queues.empty()) return false;
    std::vector<bool> taken(graph_.num_ids());
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      if (!graph_.alive(NodeId{i})) continue;
      for (OutputRef input : graph_.node(NodeId{i}).inputs) taken[input.node.value] = true;
    }
    std::erase_if(queues, [&](NodeId queue) { return taken[queue.value]; });
    for (NodeId queue : queues) BecomeNoOp(graph_, queue);
    return !queues.empty();
  }

  // All that gives and does not wait for the user, which takes or closes, comes before it. Of branches, whichever are taken: one that is
  // not must not keep the user from running.
  void ComeAfter(const std::vector<NodeId>& givers, NodeId user) {
    std::vector<NodeId> before;
    for (NodeId giver : givers) {
      if (!WaitsFor(giver, user) && !WaitsFor(user, giver)) before.push_back(giver);
    }
    if (before.empty()) return;
    Node given;
    given.name = absl::StrCat(graph_.node(user).name, "/given");
    given.op = "ControlTrigger";
    given.control_inputs.assign(before.begin(), before.end());
    const NodeId trigger = places_.AddBefore(graph_, user, std::move(given));
    graph_.mutable_node(user).control_inputs.push_back(trigger);
  }

  bool WaitsFor(NodeId later, NodeId earlier) const {
    std::vector<NodeId> open = {later};
    std::set<int32_t> seen;
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      if (id == earlier) return true;
      if (!seen.insert(id.value).second) continue;
      for (OutputRef input : graph_.node(id).inputs) open.push_back(input.node);
      for (NodeId control : graph_.node(id).control_inputs) open.push_back(control);
    }
    return false;
  }

  Graph& graph_;
  const std::map<std::string, Shape> shapes_;
  std::vector<std::pair<NodeId, KeptState>> resources_, users_;
  std::map<std::string, std::vector<NodeId>> givers_, closers_, peekers_, takers_;  // by the resource's name
  CreationPlaces places_;
};

}  // namespace

bool HoldsKeptResource(const std::string& op) {
  Node node;
  node.op = op;
  return IsAccumulator(node) || IsQueue(node) || IsStagingOp(node);
}

absl::StatusOr<bool> KeepAccumulators(Graph& graph, const Graph& whole) { return Keeper(graph, whole).Run(); }

}  // namespace millrace
