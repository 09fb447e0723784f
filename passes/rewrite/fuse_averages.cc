#include "passes/rewrite/fuse_averages.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "graph/variable_name.h"
#include "millrace/guard.h"
#include "passes/rewrite/bypass.h"
#include "passes/rewrite/order_variable_accesses.h"

namespace millrace {
namespace {

class AverageFuser {
 public:
  AverageFuser(Graph& graph, const OpRegistry& ops, const std::vector<std::string>& targets, std::vector<uint64_t>& by_value)
      : graph_(graph), ops_(ops), targets_(targets.begin(), targets.end()), by_value_(by_value), fanout_(ComputeFanout(graph)) {}

  int64_t Run() {
    by_value_.resize(graph_.num_ids(), 0);
    CountWrites();
    int64_t fused = 0;
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      if (graph_.alive(NodeId{i}) && graph_.node(NodeId{i}).op == "AssignSubVariableOp") fused += Fuse(NodeId{i});
    }
    bypass_.Redirect(graph_);
    return fused;
  }

 private:
  // What an assignment subtracts: (old value - value) * rate.
  struct Step {
    NodeId product, difference, old;
    OutputRef value, rate;
  };

  void CountWrites() {
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      const Node& node = graph_.node(NodeId{i});
      const OpDef* def = node.removed ? nullptr : ops_.Find(node.op);
      if (def == nullptr) continue;
      for (const VariableUse& use : def->variables) {
        if (!use.writes()) continue;
        const NodeId variable = VariableOf(graph_, ops_, node.inputs[use.input]);
        if (variable.valid()) ++writes_[VariableName(graph_.node(variable))];
      }
    }
  }

  // An op whose only result only `taker` takes, once, and only as a value.
  bool IsPartOf(NodeId taker, NodeId id, const char* op) const {
    const Node &node = graph_.node(id), &of = graph_.node(taker);
    if (node.op != op || node.inputs.size() != 2 || targets_.count(node.name) > 0 || node.requested_device != of.requested_device ||
        node.dynamic_outputs != 0 || node.run_time_values != 0 || node.attrs.GetOr(kGuarded, false)) {
      return false;
    }
    return Takers(id) == 1;
  }

  // The update takes what the parts took, only later: of a variable that is more than a moment's value. Who waits for a part may write it.
  bool MayBeLate(const Step& step) const {
    const bool of_variables = VariableOf(graph_, ops_, step.value).valid() || VariableOf(graph_, ops_, step.rate).valid();
    return !of_variables || (Takers(step.difference) == Uses(step.difference) && Takers(step.product) == Uses(step.product));
  }

  int Uses(NodeId id) const {
    const auto uses = fanout_.of(id);
    return static_cast<int>(uses.end() - uses.begin());
  }
  int Takers(NodeId id) const {
    int takers = 0;
    for (const Fanout::Use& use : fanout_.of(id)) takers += use.input >= 0 ? 1 : 0;
    return takers;
  }

  std::optional<Step> StepOf(NodeId id) const {
    const Node& assign = graph_.node(id);
    if (assign.inputs.size() != 2 || assign.attrs.GetOr(kGuarded, false) || assign.dynamic_outputs != 0 || assign.run_time_values != 0) return std::nullopt;
    const OutputRef handle = assign.inputs[0];
    const NodeId variable = VariableOf(graph_, ops_, handle);
    const TensorType& type = graph_.type(assign.inputs[1]);
    if (!variable.valid() || writes_.at(VariableName(graph_.node(variable))) != 1 || !type.shape.fully_known() ||
        (type.dtype != DataType::kFloat && type.dtype != DataType::kDouble)) {
      return std::nullopt;
    }
    Step step;
    step.product = assign.inputs[1].node;
    if (!IsPartOf(id, step.product, "Mul")) return std::nullopt;
    for (int factor : {0, 1}) {
      step.difference = graph_.node(step.product).inputs[factor].node;
      step.rate = graph_.node(step.product).inputs[1 - factor];
      if (graph_.type(step.rate).shape.rank() != 0 || !IsPartOf(step.product, step.difference, "Sub")) continue;
      const Node& difference = graph_.node(step.difference);
      const Node& old = graph_.node(difference.inputs[0].node);
      step.value = difference.inputs[1];
      step.old = difference.inputs[0].node;
      const bool is_step = old.op == "ReadVariableOp" && old.inputs[0] == handle && graph_.type(difference.inputs[0]) == type && graph_.type(step.value) == type;
      if (is_step && MayBeLate(step)) return step;
    }
    return std::nullopt;
  }

  int64_t Fuse(NodeId id) {
    const std::optional<Step> step = StepOf(id);
    if (!step) return 0;
    Node& update = graph_.mutable_node(id);
    update.op = "_AssignMovingAverage";
    update.inputs = {update.inputs[0], step->rate, step->value};
    update.reason = "a step towards a value";
    by_value_[id.value] = 0;
    std::vector<NodeId> parts = {step->product, step->difference};
    if (Takers(step->old) == 1 && targets_.count(graph_.node(step->old).name) == 0) parts.push_back(step->old);
    // Waits for what the parts waited for; what is in `parts` themselves came by data.
    const auto holds = [](const auto& ids, NodeId one) { return std::find(ids.begin(), ids.end(), one) != ids.end(); };
    absl::InlinedVector<NodeId, 2> controls;
    const auto wait_for = [&](const Node& node) {
      for (NodeId control : node.control_inputs) {
        if (!holds(parts, control) && !holds(controls, control)) controls.push_back(control);
      }
    };
    wait_for(update);
    for (NodeId part : parts) wait_for(graph_.node(part));
    update.control_inputs = std::move(controls);
    for (NodeId part : parts) bypass_.Remove(graph_, part);
    return 1;
  }

  Graph& graph_;
  const OpRegistry& ops_;
  const std::set<std::string> targets_;
  std::vector<uint64_t>& by_value_;
  const Fanout fanout_;
  std::map<std::string, int> writes_;  // by variable
  Bypass bypass_;
};

}  // namespace

int64_t FuseAverages(Graph& graph, const OpRegistry& ops, const std::vector<std::string>& targets, std::vector<uint64_t>& by_value) {
  return AverageFuser(graph, ops, targets, by_value).Run();
}

}  // namespace millrace
