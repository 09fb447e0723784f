#include "passes/unroll/frames.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <queue>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "millrace/status.h"
#include "passes/control_flow/control_flow_ops.h"

namespace millrace {
namespace {

bool IsLoopCond(const Node& node) { return node.op == "LoopCond"; }

absl::Status AtNode(const Node& node, const std::string& message) {
  return absl::InvalidArgumentError(absl::StrCat("node '", node.name, "' (", node.op, "): ", message));
}

class FrameFinder {
 public:
  explicit FrameFinder(const Graph& graph) : graph_(graph), fanout_(ComputeFanout(graph)), frame_of_(graph.num_ids(), 0) {}

  absl::StatusOr<std::vector<LoopFrame>> Run() {
    frames_.emplace_back();
    MR_RETURN_IF_ERROR(AssignFrames());
    SplitFrames();
    MR_RETURN_IF_ERROR(NoteConditions());
    MR_RETURN_IF_ERROR(OrderUnits());
    return std::move(frames_);
  }

 private:
  bool IsBackEdge(NodeId from, NodeId to) const {
    return IsNextIteration(graph_.node(from)) && IsMerge(graph_.node(to));
  }

  // In the order of data, back edges left out.
  absl::Status AssignFrames() {
    std::vector<int32_t> pending(graph_.num_ids(), 0);
    std::vector<NodeId> ready;
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      for (const Fanout::Use& use : fanout_.of(NodeId{i})) pending[use.consumer.value] += !IsBackEdge(NodeId{i}, use.consumer);
    }
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      if (graph_.alive(NodeId{i}) && pending[i] == 0) ready.push_back(NodeId{i});
    }
    int32_t done = 0;
    while (!ready.empty()) {
      const NodeId id = ready.back();
      ready.pop_back();
      ++done;
      MR_RETURN_IF_ERROR(AssignFrame(id));
      for (const Fanout::Use& use : fanout_.of(id)) {
        if (!IsBackEdge(id, use.consumer) && --pending[use.consumer.value] == 0) ready.push_back(use.consumer);
      }
    }
    if (done < graph_.num_nodes()) return absl::InvalidArgumentError("the graph has a cycle that is no loop");
    return absl::OkStatus();
  }

  // Outside of an Exit is the frame around its own.
  int32_t FrameBehind(NodeId id) const {
    const int32_t frame = frame_of_[id.value];
    return IsExit(graph_.node(id)) && frame > 0 ? frames_[frame].parent : frame;
  }

  absl::Status AssignFrame(NodeId id) {
    const Node& node = graph_.node(id);
    int32_t frame = 0;
    absl::Status status;
    const auto join = [&](NodeId from) {
      if (IsBackEdge(from, id)) return;
      const int32_t other = FrameBehind(from);
      if (Within(other, frame)) {
        frame = other;
      } else if (!Within(frame, other)) {
        status = AtNode(node, absl::StrCat("takes values of loops '", frames_[frame].name, "' and '", frames_[other].name,
                                           "', neither of which is inside of the other"));
      }
    };
    for (OutputRef input : node.inputs) join(input.node);
    for (NodeId control : node.control_inputs) join(control);
    MR_RETURN_IF_ERROR(status);
    if (IsEnter(node)) {
      const std::string name = node.attrs.GetOr<std::string>("frame_name", "");
      const auto [found, is_new] = by_name_.emplace(std::make_pair(frame, name), static_cast<int32_t>(frames_.size()));
      if (is_new) {
        frames_.emplace_back();
        frames_.back().name = name;
        frames_.back().parent = frame;
      }
      frame = found->second;
    }
    frame_of_[id.value] = frame;
    if (IsExit(node) && frame == 0) return AtNode(node, "leaves a loop, but is in none");
    return absl::OkStatus();
  }

  // Loops of one name in one place, as of a graph that was imported twice, are frames of their own here: what hangs
  // together within the frame. Inner frames come first, as loops in which they are two hang together by them otherwise.
  void SplitFrames() {
    std::vector<int32_t> conditions(frames_.size(), 0);
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      if (graph_.alive(NodeId{i}) && IsLoopCond(graph_.node(NodeId{i}))) ++conditions[frame_of_[i]];
    }
    for (int32_t f = static_cast<int32_t>(conditions.size()) - 1; f > 0; --f) {
      if (conditions[f] > 1) SplitFrame(f);
    }
  }

  void SplitFrame(int32_t frame) {
    // A frame is the unit ids + its index here, too.
    const int32_t ids = graph_.num_ids();
    std::vector<int32_t> leads(ids + frames_.size());  // the way to the first unit of those that hang together
    std::iota(leads.begin(), leads.end(), 0);
    const auto first_of = [&](int32_t unit) {
      while (leads[unit] != unit) unit = leads[unit] = leads[leads[unit]];
      return unit;
    };
    const auto unit_of = [&](NodeId id) {
      const int32_t of = frame_of_[id.value];
      return of == frame ? id.value : ids + ~Below(frame, of);
    };
    for (int32_t i = 0; i < ids; ++i) {
      if (!graph_.alive(NodeId{i}) || !Within(FrameBehind(NodeId{i}), frame)) continue;
      for (const Fanout::Use& use : fanout_.of(NodeId{i})) {
        if (!Within(frame_of_[use.consumer.value], frame)) continue;
        const auto [low, high] = std::minmax({first_of(unit_of(NodeId{i})), first_of(unit_of(use.consumer))});
        leads[high] = low;
      }
    }
    std::map<int32_t, int32_t> frame_of_first;  // the first ones keep the frame
    const auto frame_for = [&](int32_t unit) {
      const auto [found, is_new] = frame_of_first.emplace(first_of(unit), frame);
      if (is_new && frame_of_first.size() > 1) {
        found->second = static_cast<int32_t>(frames_.size());
        frames_.push_back(frames_[frame]);
      }
      return found->second;
    };
    const size_t inner_end = frames_.size();
    for (int32_t i = 0; i < ids; ++i) {
      if (graph_.alive(NodeId{i}) && frame_of_[i] == frame) frame_of_[i] = frame_for(i);
    }
    for (size_t f = frame + 1; f < inner_end; ++f) {
      if (frames_[f].parent == frame) frames_[f].parent = frame_for(ids + static_cast<int32_t>(f));
    }
  }

  absl::Status NoteConditions() {
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      const Node& node = graph_.node(NodeId{i});
      if (node.removed || !IsLoopCond(node)) continue;
      LoopFrame& frame = frames_[frame_of_[i]];
      if (frame.condition.valid()) {
        return AtNode(node, absl::StrCat("is a second LoopCond of loop '", frame.name, "' after '", graph_.node(frame.condition).name, "'"));
      }
      frame.condition = NodeId{i};
    }
    for (size_t f = 1; f < frames_.size(); ++f) {
      if (frames_[f].condition.valid()) continue;
      return absl::InvalidArgumentError(absl::StrCat("loop '", frames_[f].name, "' has no LoopCond"));
    }
    return absl::OkStatus();
  }

  bool Within(int32_t inner, int32_t outer) const {
    for (; inner > 0 && inner != outer; inner = frames_[inner].parent) {
    }
    return inner == outer;
  }

  // The unit of `frame` that holds something of frame `of`, which is inside: the frame below, or none.
  int32_t Below(int32_t frame, int32_t of) const {
    while (frames_[of].parent != frame) of = frames_[of].parent;
    return ~of;
  }

  // The unit of `frame` that the node is or is in: a frame is the unit ids + its index here. -1: it is not within.
  int32_t UnitIn(int32_t frame, NodeId id) const {
    const int32_t of = frame_of_[id.value];
    if (of == frame) return id.value;
    return Within(of, frame) ? graph_.num_ids() + ~Below(frame, of) : -1;
  }

  absl::Status OrderUnits() {
    while (true) {
      const std::vector<std::vector<int32_t>> after = UnitsAfter();
      std::vector<int32_t> pending(after.size(), 0);
      if (SortUnits(after, pending)) break;
      if (!SplitOnCircles(after, pending)) return CircleError(after, pending);
    }
    NoteKept();
    return absl::OkStatus();
  }

  // By unit: those that wait for it.
  std::vector<std::vector<int32_t>> UnitsAfter() const {
    const int32_t ids = graph_.num_ids();
    std::vector<std::vector<int32_t>> after(ids + frames_.size());
    for (int32_t i = 0; i < ids; ++i) {
      for (const Fanout::Use& use : fanout_.of(NodeId{i})) {
        if (IsBackEdge(NodeId{i}, use.consumer)) continue;
        // The edge orders units of the innermost frame that holds both ends. What leaves a loop has its end outside: where that loop takes it
        // in, the loop comes after itself.
        int32_t frame = FrameBehind(NodeId{i});
        while (!Within(frame_of_[use.consumer.value], frame)) frame = frames_[frame].parent;
        after[UnitIn(frame, NodeId{i})].push_back(UnitIn(frame, use.consumer));
      }
    }
    for (size_t f = 1; f < frames_.size(); ++f) {
      const int32_t first = frames_[f].first;  // says how many turns there are
      if (first >= 0 && frames_[first].parent == frames_[f].parent) after[ids + first].push_back(ids + static_cast<int32_t>(f));
    }
    return after;
  }

  // Units of every frame, the lowest id first among those that may come next; a loop stands where its first Enter does. False where some
  // wait for each other: these, and what comes after them, are pending.
  bool SortUnits(const std::vector<std::vector<int32_t>>& after, std::vector<int32_t>& pending) {
    const int32_t ids = graph_.num_ids();
    std::vector<int32_t> place(after.size(), ids);
    for (int32_t i = 0; i < ids; ++i) {
      place[i] = i;
      for (int32_t f = frame_of_[i]; f > 0 && graph_.alive(NodeId{i}); f = frames_[f].parent) {
        place[ids + f] = std::min(place[ids + f], i);
      }
    }
    for (const std::vector<int32_t>& next : after) {
      for (int32_t unit : next) ++pending[unit];
    }
    using Entry = std::pair<int32_t, int32_t>;  // place, unit
    std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> ready;
    int32_t units = 0, done = 0;
    const auto begins = [&](int32_t unit) {
      ++units;
      if (pending[unit] == 0) ready.push({place[unit], unit});
    };
    for (int32_t i = 0; i < ids; ++i) {
      if (graph_.alive(NodeId{i})) begins(i);
    }
    for (LoopFrame& frame : frames_) frame.units.clear();
    for (size_t f = 1; f < frames_.size(); ++f) begins(ids + static_cast<int32_t>(f));
    while (!ready.empty()) {
      const int32_t unit = ready.top().second;
      ready.pop();
      ++done;
      const bool is_frame = unit >= ids;
      const int32_t frame = is_frame ? frames_[unit - ids].parent : frame_of_[unit];
      frames_[frame].units.push_back(is_frame ? ~(unit - ids) : unit);
      for (int32_t next : after[unit]) {
        if (--pending[next] == 0) ready.push({place[next], next});
      }
    }
    return done == units;
  }

  // By unit: the circles that it is on, as the number of one of their units; -1 for none. Units on circles with each other have one number.
  static std::vector<int32_t> CirclesOf(const std::vector<std::vector<int32_t>>& after, const std::vector<int32_t>& pending) {
    // Tarjan's strongly connected components, of what is pending.
    const auto units = static_cast<int32_t>(after.size());
    std::vector<int32_t> circles(units, -1), seen(units, 0), low(units, 0), open;
    std::vector<size_t> next(units, 0);
    std::vector<bool> is_open(units);
    int32_t count = 0;
    for (int32_t start = 0; start < units; ++start) {
      if (pending[start] == 0 || seen[start] > 0) continue;
      std::vector<int32_t> way = {start};
      while (!way.empty()) {
        const int32_t unit = way.back();
        if (seen[unit] == 0) {
          low[unit] = seen[unit] = ++count;
          open.push_back(unit);
          is_open[unit] = true;
        }
        if (next[unit] < after[unit].size()) {
          const int32_t to = after[unit][next[unit]++];
          if (seen[to] == 0) way.push_back(to);
          if (is_open[to]) low[unit] = std::min(low[unit], seen[to]);
          continue;
        }
        way.pop_back();
        if (!way.empty()) low[way.back()] = std::min(low[way.back()], low[unit]);
        if (low[unit] < seen[unit]) continue;
        const bool alone = open.back() == unit && std::find(after[unit].begin(), after[unit].end(), unit) == after[unit].end();
        for (int32_t of = -1; of != unit;) {
          of = open.back();
          open.pop_back();
          is_open[of] = false;
          circles[of] = alone ? -1 : unit;
        }
      }
    }
    return circles;
  }

  // Opens circles: a loop on one gets a later part for what waits for others on it, or for itself. Of all the values that go round, the first
  // comes out of a loop that needed none of them for it. Loops within such a loop come next time. False: there is no such loop.
  bool SplitOnCircles(const std::vector<std::vector<int32_t>>& after, const std::vector<int32_t>& pending) {
    const std::vector<int32_t> circles = CirclesOf(after, pending);
    const int32_t ids = graph_.num_ids();
    std::vector<int32_t> loop_of(ids, 0);                     // by node: the outermost loop on a circle that it is in; 0 for none
    std::vector<std::vector<NodeId>> within(frames_.size());  // of these loops, and of those in them
    for (int32_t i = 0; i < ids; ++i) {
      if (!graph_.alive(NodeId{i})) continue;
      for (int32_t f = frame_of_[i]; f > 0; f = frames_[f].parent) {
        within[f].push_back(NodeId{i});
        if (circles[ids + f] >= 0) loop_of[i] = f;
      }
    }
    const auto on_circle_of = [&](int32_t loop, NodeId id) {
      const int32_t unit = UnitIn(frames_[loop].parent, id);
      return unit >= 0 && circles[unit] == circles[ids + loop];
    };
    std::vector<bool> late(ids);  // nodes that wait for the circle which their loop is on, in one turn or another
    std::vector<NodeId> next;
    const auto add = [&](NodeId id) {
      if (!late[id.value]) next.push_back(id);
      late[id.value] = true;
    };
    const auto for_each_edge = [&](const auto& look) {
      for (int32_t i = 0; i < ids; ++i) {
        for (const Fanout::Use& use : fanout_.of(NodeId{i})) look(NodeId{i}, use.consumer);
      }
    };
    for_each_edge([&](NodeId from, NodeId to) {
      const int32_t loop = loop_of[to.value];
      if (loop > 0 && !Within(FrameBehind(from), loop) && on_circle_of(loop, from)) add(to);
    });
    while (!next.empty()) {
      const NodeId id = next.back();
      next.pop_back();
      for (const Fanout::Use& use : fanout_.of(id)) {
        if (loop_of[use.consumer.value] == loop_of[id.value]) add(use.consumer);
      }
      if (!IsLoopCond(graph_.node(id))) continue;
      for (NodeId inside : within[frame_of_[id.value]]) add(inside);
    }
    std::vector<bool> leads(frames_.size());  // gives to its circle what is not late
    for_each_edge([&](NodeId from, NodeId to) {
      const int32_t loop = loop_of[from.value];
      if (loop > 0 && !late[from.value] && !Within(FrameBehind(from), loop) && on_circle_of(loop, to)) leads[loop] = true;
    });
    for (int32_t i = 0; i < ids; ++i) {
      if (!leads[loop_of[i]]) loop_of[i] = 0;
    }
    return MakeLaterParts(loop_of, late);
  }

  // Late nodes of these loops and of those within go to parts of their own; a frame all of whose nodes are late goes there as it is.
  bool MakeLaterParts(const std::vector<int32_t>& loop_of, const std::vector<bool>& late) {
    std::vector<bool> has_early(frames_.size());
    std::set<int32_t> has_late;
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      if (loop_of[i] == 0) continue;
      for (int32_t f = frame_of_[i]; f != frames_[loop_of[i]].parent; f = frames_[f].parent) {
        if (late[i]) has_late.insert(f);
        if (!late[i]) has_early[f] = true;
      }
    }
    std::map<int32_t, int32_t> later;
    for (int32_t f : has_late) {
      later[f] = has_early[f] ? static_cast<int32_t>(frames_.size()) : f;
      if (!has_early[f]) continue;
      LoopFrame part = frames_[f];
      part.first = FirstPart(f);
      frames_.push_back(std::move(part));
    }
    for (const auto& [f, part] : later) {
      const auto around = later.find(frames_[f].parent);
      if (around != later.end()) frames_[part].parent = around->second;
    }
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      if (loop_of[i] > 0 && late[i]) frame_of_[i] = later[frame_of_[i]];
    }
    return !later.empty();
  }

  int32_t FirstPart(int32_t frame) const { return frames_[frame].is_later_part() ? frames_[frame].first : frame; }

  // What a turn gives to another part of its loop, or into loops within that.
  void NoteKept() {
    std::vector<bool> is_kept(graph_.num_ids());
    const auto keep = [&](int32_t frame, NodeId id) {
      if (!is_kept[id.value]) frames_[frame].kept.push_back(id);
      is_kept[id.value] = true;
    };
    for (const LoopFrame& frame : frames_) {
      if (frame.is_later_part()) keep(frame.first, frame.condition);
    }
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      const int32_t from = FrameBehind(NodeId{i});
      for (const Fanout::Use& use : fanout_.of(NodeId{i})) {
        int32_t to = frame_of_[use.consumer.value];
        while (to > 0 && FirstPart(to) != FirstPart(from)) to = frames_[to].parent;
        if (from > 0 && to > 0 && to != from) keep(from, NodeId{i});
      }
    }
  }

  // Names a circle of units: those that still wait lead back to one of their own.
  absl::Status CircleError(const std::vector<std::vector<int32_t>>& after, const std::vector<int32_t>& pending) const {
    std::vector<int32_t> waits_for(after.size(), -1);
    int32_t unit = 0;
    for (size_t from = 0; from < after.size(); ++from) {
      if (pending[from] == 0) continue;
      unit = static_cast<int32_t>(from);
      for (int32_t to : after[from]) waits_for[to] = unit;
    }
    // As many steps back as there are units end in a circle.
    for (size_t i = 0; i < after.size(); ++i) unit = waits_for[unit];
    std::vector<std::string> circle;
    const auto describe = [&](int32_t of) {
      if (of >= graph_.num_ids()) return absl::StrCat("loop '", frames_[of - graph_.num_ids()].name, "'");
      return absl::StrCat("node '", graph_.node(NodeId{of}).name, "'");
    };
    for (int32_t at = waits_for[unit]; at != unit; at = waits_for[at]) circle.push_back(describe(at));
    std::reverse(circle.begin(), circle.end());
    constexpr size_t kNamed = 8;
    const size_t left_out = circle.size() > kNamed ? circle.size() - kNamed : 0;
    circle.resize(circle.size() - left_out);
    if (left_out > 0) circle.push_back(absl::StrCat("(", left_out, " more)"));
    circle.push_back(describe(unit));
    return absl::InvalidArgumentError(absl::StrCat("a loop takes in what comes out of it: ", describe(unit), " -> ", absl::StrJoin(circle, " -> ")));
  }

  const Graph& graph_;
  const Fanout fanout_;
  std::vector<int32_t> frame_of_;  // of an Enter or Exit: the inner one
  std::vector<LoopFrame> frames_;
  std::map<std::pair<int32_t, std::string>, int32_t> by_name_;
};

}  // namespace

absl::StatusOr<std::vector<LoopFrame>> FindFrames(const Graph& graph) { return FrameFinder(graph).Run(); }

}  // namespace millrace
