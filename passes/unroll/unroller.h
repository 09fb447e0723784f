// Takes loops apart: walks the graph in order and makes the straight one (unroll_loops.h); unroll_loops.cc has the walk and its nodes,
// turns.cc the loops of both TensorFlows.
#ifndef MILLRACE_PASSES_UNROLL_UNROLLER_H_
#define MILLRACE_PASSES_UNROLL_UNROLLER_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "passes/unroll/answers.h"
#include "passes/unroll/bodies.h"
#include "passes/unroll/guards.h"
#include "passes/unroll/lists.h"
#include "passes/unroll/run.h"
#include "passes/unroll/straight_graph.h"
#include "passes/unroll/unroll_loops.h"
#include "passes/unroll/value.h"

namespace millrace {

// Of one graph, once.
class Unroller {
 public:
  Unroller(const Graph& graph, const OpRegistry& ops, KernelOracle& oracle, const UnrollOptions& options)
      : ops_(ops), most_turns_(options.max_nodes), exact_sizes_(options.exact_sizes), bodies_(ops, options.max_nodes),
        out_(graph, ops, oracle, options.variable_types, options.max_nodes, options.questions), guards_(out_), arrays_(out_, guards_),
        targets_(options.targets) {}

  absl::StatusOr<UnrollResult> UnrollGraph(Graph& graph);

 private:
  absl::Status RunFrame(Run& run, int32_t frame);
  absl::Status RunLoop(Run& run, int32_t frame);
  absl::Status KeepEffects(Run& run, const LoopFrame& loop);
  absl::Status KeepEffectsOfTurn(Run& turn, const std::string& name, std::vector<NodeId>& ends);
  absl::Status RunNode(Run& run, NodeId id);
  static bool TakeInputs(const Run& run, NodeCall& call);
  absl::Status LeaveOut(Run& run, NodeId id);
  std::vector<NodeId> ControlsOfCall(const Run& run, NodeId id, const NodeCall& call) const;
  absl::Status RunLoopCond(Run& run, NodeId id, NodeCall& call, std::vector<NodeId> controls);
  absl::Status RunHolder(Run& run, NodeId id, NodeCall& call, std::vector<NodeId> controls);
  absl::Status RunOp(Run& run, NodeId id, NodeCall& call, const std::vector<NodeId>& controls);
  absl::Status RunSwitch(Run& run, NodeId id, NodeCall call);
  absl::Status RunMerge(Run& run, NodeId id);
  using LiveInputs = std::vector<std::pair<int32_t, Value>>;
  static LiveInputs LiveInputsOf(const Run& run, NodeId id);
  absl::Status PassOnTaken(Run& run, NodeId id, int32_t input, const Value& taken, std::vector<NodeId> controls);
  absl::Status RunWhile(Run& run, NodeId id, const NodeCall& call, const std::vector<NodeId>& controls);
  absl::StatusOr<std::vector<Value>> RunFunction(Run& run);
  absl::Status EndTurn(Run& turn, const std::string& name, std::vector<Value>& values);
  absl::StatusOr<NodeId> AddEnd(const std::string& name, const std::vector<NodeId>& ends);
  absl::StatusOr<bool> Holds(const Node& loop, const std::string& turn, const Value& condition);
  void EndQuestions(Graph& graph);
  void KeepUnread(const Run& run, const Graph& graph);
  absl::Status Copy(Run& run, NodeId id, const NodeCall& call, const std::vector<NodeId>& controls);
  absl::Status CopyConstant(Run& run, NodeId id, const std::vector<NodeId>& controls);
  absl::Status SayWhere(const NodeCall& call, absl::Span<Value> values);
  absl::StatusOr<NodeId> PivotOf(const NodeCall& call, const Literal& literal);
  absl::Status PassOn(Run& run, NodeId id, absl::Span<const Value> values, Waits waits);
  bool IsReference(OutputRef ref) const;
  bool Writes(NodeId made) const;
  void AddWrite(const Value& value, std::vector<NodeId>& controls) const;
  Waits WithWrites(absl::Span<const Value> values, const Waits& waits) const;
  absl::StatusOr<Waits> WritesAmong(const std::string& name, const Waits& waits);
  absl::StatusOr<Waits> WrittenInFew(const std::string& name, std::vector<NodeId> writes);
  absl::StatusOr<Waits> InFew(const std::string& name, std::vector<NodeId> controls);
  absl::Status DrawInOrder(const Run& run, const Node& node, Node& copy);

  std::string NameOf(const Run& run, const Node& node) const { return absl::StrCat(run.prefix, node.name, run.suffix); }
  std::vector<NodeId> ControlsOf(const Run& run, const Node& node) const;

  const OpRegistry& ops_;
  const int64_t most_turns_;  // a turn may make no node
  const bool exact_sizes_;
  int64_t turns_ = 0;
  TurnQuestions turns_asked_for_;
  Bodies bodies_;
  StraightGraph out_;
  Guards guards_;
  ArrayStore arrays_;
  const std::vector<std::string>& targets_;
  UnrollResult result_;
  std::map<std::pair<const Body*, int32_t>, OutputRef> constants_;
  std::map<std::string, NodeId> last_draw_;  // by stream
  std::map<Literal, NodeId> pivots_;         // what runs where the literal holds
  std::set<int32_t> ends_of_writes_;         // nodes that stand for many writes
  bool has_references_ = false;  // of which turn their values are is told by what waits for a write, however far behind it
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_UNROLL_UNROLLER_H_
