#include "passes/rewrite/fuse_norms.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>

#include "graph/fused_norm.h"
#include "millrace/guard.h"
#include "millrace/status.h"
#include "passes/rewrite/bypass.h"
#include "passes/rewrite/group_ops.h"
#include "passes/rewrite/order_variable_accesses.h"
#include "passes/rewrite/positions.h"

namespace millrace {
namespace {

// Inputs of a batch norm, of its gradient, and of the nodes that are made.
constexpr int kX = 0, kScale = 1, kOffset = 2, kMean = 3, kVariance = 4;
constexpr int kGradDy = 0, kGradX = 1, kGradScale = 2, kGradMean = 3, kGradVariance = 4, kStatistics = 5;

bool IsGradient(const std::string& op) { return op == "FusedBatchNormGrad" || op == "FusedBatchNormGradV2" || op == "FusedBatchNormGradV3"; }

bool Trains(const Node& node) { return node.attrs.GetOr("is_training", true); }

// What a batch norm and its gradient must agree in.
bool SameSettings(const Node& norm, const Node& gradient) {
  return Trains(norm) == Trains(gradient) && norm.attrs.GetOr("epsilon", 1e-4f) == gradient.attrs.GetOr("epsilon", 1e-4f) &&
         norm.attrs.GetOr<std::string>("data_format", "NHWC") == gradient.attrs.GetOr<std::string>("data_format", "NHWC") &&
         norm.requested_device == gradient.requested_device;
}

class NormFuser {
 public:
  NormFuser(Graph& graph, const OpRegistry& ops, const std::vector<std::string>& targets, std::vector<uint64_t>& by_value)
      : graph_(graph), ops_(ops), targets_(targets.begin(), targets.end()), by_value_(by_value), fanout_(ComputeFanout(graph)) {}

  absl::StatusOr<int64_t> Run() {
    MR_ASSIGN_OR_RETURN(const std::vector<NodeId> order, CreationOrder(graph_));
    position_ = PositionsIn(order, graph_.num_ids());
    by_value_.resize(graph_.num_ids(), 0);
    int64_t fused = 0;
    // Gradients first, which find their batch norm through the Relu.
    for (NodeId id : order) {
      if (IsGradient(graph_.node(id).op)) fused += FuseGradient(id);
    }
    fanout_ = ComputeFanout(graph_);
    for (auto id = order.rbegin(); id != order.rend(); ++id) {
      if (IsBatchNorm(graph_.node(*id).op)) fused += FuseForward(*id);
    }
    if (fused > 0) Redirect();
    return fused;
  }

 private:
  bool IsStatic(NodeId id) const {
    const Node& node = graph_.node(id);
    const auto dynamic = [&](OutputRef in) { return graph_.node(in.node).dynamic_output(in.index); };
    return !node.removed && !node.outputs.empty() && node.outputs[0].shape.fully_known() && node.dynamic_outputs == 0 && node.run_time_values == 0 &&
           std::none_of(node.inputs.begin(), node.inputs.end(), dynamic) && !node.attrs.GetOr(kGuarded, false);
  }
  // May be taken in by `home`, which has its type.
  bool MayGo(NodeId id, NodeId home) const {
    return IsStatic(id) && targets_.count(graph_.node(id).name) == 0 && graph_.node(id).outputs[0] == graph_.node(home).outputs[0] &&
           graph_.node(id).requested_device == graph_.node(home).requested_device;
  }

  // The only node that takes output 0, once; invalid where several do, or none.
  NodeId OnlyTaker(NodeId id) const {
    NodeId taker;
    for (const Fanout::Use& use : fanout_.of(id)) {
      if (use.input < 0 || use.output != 0) continue;
      if (taker.valid()) return NodeId{};
      taker = use.consumer;
    }
    return taker;
  }

  bool HasStatistics(const Node& norm) const {
    return norm.inputs.size() == kStatistics && norm.outputs.size() >= kStatistics && graph_.type(norm.inputs[kScale]).dtype == DataType::kFloat;
  }

  // `mean` and `variance` are those that the batch norm took.
  bool AreStatisticsOf(NodeId id, OutputRef mean, OutputRef variance) const {
    const Node& norm = graph_.node(id);
    if (mean == OutputRef{id, kMean} && variance == OutputRef{id, kVariance}) return true;
    return !Trains(norm) && mean == norm.inputs[kMean] && variance == norm.inputs[kVariance];
  }

  NodeId ReferenceOf(OutputRef value) const { return millrace::ReferenceOf(graph_, ops_, value); }

  // By reference variable, where it is written.
  std::unordered_map<int32_t, std::vector<int32_t>> FindWrites() const {
    std::unordered_map<int32_t, std::vector<int32_t>> writes;
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      const Node& node = graph_.node(NodeId{i});
      const OpDef* def = node.removed ? nullptr : ops_.Find(node.op);
      if (def == nullptr) continue;
      for (const VariableUse& use : def->variables) {
        if (use.access == VariableAccess::kRead || use.input >= static_cast<int>(node.inputs.size())) continue;
        const NodeId variable = ReferenceOf(node.inputs[use.input]);
        if (variable.valid()) writes[variable.value].push_back(position_[i]);
      }
    }
    return writes;
  }

  // Whether one who reads `value` where `late` is finds what was there at `early`.
  bool StaysBetween(OutputRef value, NodeId early, NodeId late) {
    const NodeId variable = ReferenceOf(value);
    if (!variable.valid()) return true;
    if (!writes_) writes_ = FindWrites();
    const auto writes = writes_->find(variable.value);
    const auto between = [&](int32_t at) { return at > position_[early.value] && at < position_[late.value]; };
    return writes == writes_->end() || std::none_of(writes->second.begin(), writes->second.end(), between);
  }

  // The batch norm whose result, through a Relu or not, decided what a ReluGrad lets through.
  NodeId NormOf(const Node& relu_grad) const {
    OutputRef result = relu_grad.inputs[1];
    if (graph_.node(result.node).op == "Relu") result = graph_.node(result.node).inputs[0];
    return result.index == 0 && IsBatchNorm(graph_.node(result.node).op) ? result.node : NodeId{};
  }

  int64_t FuseGradient(NodeId id) {
    const Node& gradient = graph_.node(id);
    if (!IsStatic(id) || gradient.inputs.size() < kStatistics) return 0;
    const NodeId masked = gradient.inputs[kGradDy].node;
    if (graph_.node(masked).op != "ReluGrad" || OnlyTaker(masked) != id || !MayGo(masked, id)) return 0;
    const NodeId norm_id = NormOf(graph_.node(masked));
    if (!norm_id.valid() || !IsStatic(norm_id)) return 0;
    const Node& norm = graph_.node(norm_id);
    const bool same = HasStatistics(norm) && norm.inputs[kX] == gradient.inputs[kGradX] && norm.inputs[kScale] == gradient.inputs[kGradScale] &&
                      AreStatisticsOf(norm_id, gradient.inputs[kGradMean], gradient.inputs[kGradVariance]) && SameSettings(norm, gradient);
    const auto stays = [&](OutputRef input) { return StaysBetween(input, norm_id, id); };
    if (!same || !std::all_of(norm.inputs.begin(), norm.inputs.end(), stays)) return 0;
    const OutputRef offset = norm.inputs[kOffset];
    const Node relu_grad = graph_.node(masked);
    Node& fused = graph_.mutable_node(id);
    fused.op = kFusedNormGrad;
    fused.inputs.resize(kStatistics);
    fused.inputs[kGradDy] = relu_grad.inputs[0];
    fused.inputs.push_back(offset);
    fused.attrs.Set("U", DataType::kFloat);
    fused.reason = "the gradient of a batch norm with Relu";
    WaitFor(relu_grad.control_inputs, {}, fused);
    by_value_[id.value] = 0;
    bypass_.Remove(graph_, masked);
    return 1;
  }

  // What goes with a batch norm: perhaps a sum with `side`, and a Relu.
  struct Chain {
    NodeId sum, relu;
    OutputRef side;
  };

  bool ComesBefore(NodeId earlier, NodeId norm) const { return position_[earlier.value] < position_[norm.value]; }

  // What the node waits for, its data aside, is there when the batch norm runs.
  bool WaitsForEarlier(NodeId id, NodeId norm, NodeId sum) const {
    const auto& controls = graph_.node(id).control_inputs;
    return std::all_of(controls.begin(), controls.end(), [&](NodeId control) { return control == norm || control == sum || ComesBefore(control, norm); });
  }

  // What is added to the batch norm's result, a tensor of its shape.
  std::optional<OutputRef> SideOf(NodeId sum, NodeId norm) const {
    const Node& node = graph_.node(sum);
    if (!IsSum(node.op) || node.inputs.size() != 2 || !MayGo(sum, norm) || !WaitsForEarlier(sum, norm, sum)) return std::nullopt;
    const OutputRef side = node.inputs[0] == OutputRef{norm, 0} ? node.inputs[1] : node.inputs[0];
    const bool fits = graph_.type(side) == graph_.node(norm).outputs[0] && ComesBefore(side.node, norm);
    return fits && !VariableOf(graph_, ops_, side).valid() ? std::optional<OutputRef>(side) : std::nullopt;
  }

  std::optional<Chain> ChainOf(NodeId norm) const {
    if (!IsStatic(norm) || !HasStatistics(graph_.node(norm))) return std::nullopt;
    Chain chain;
    NodeId next = OnlyTaker(norm);
    if (!next.valid() || graph_.node(next).removed) return std::nullopt;
    if (const std::optional<OutputRef> side = SideOf(next, norm)) {
      chain.sum = next;
      chain.side = *side;
      next = OnlyTaker(next);
    }
    if (!next.valid() || graph_.node(next).op != "Relu" || !MayGo(next, norm) || !WaitsForEarlier(next, norm, chain.sum)) return std::nullopt;
    chain.relu = next;
    return chain;
  }

  int64_t FuseForward(NodeId id) {
    const std::optional<Chain> chain = ChainOf(id);
    if (!chain) return 0;
    const bool sum = chain->sum.valid();
    Node& norm = graph_.mutable_node(id);
    norm.op = kFusedNorm;
    if (norm.outputs.size() == kStatistics) norm.outputs.push_back({DataType::kFloat, Shape()});
    norm.attrs.Set("U", DataType::kFloat);
    norm.attrs.Set("num_side_inputs", int64_t{sum ? 1 : 0});
    norm.attrs.Set("activation_mode", std::string("Relu"));
    norm.reason = sum ? "a batch norm with a sum and Relu" : "a batch norm with Relu";
    if (sum) norm.inputs.push_back(chain->side);
    by_value_[id.value] = 0;
    for (NodeId gone : {chain->sum, chain->relu}) {
      if (!gone.valid()) continue;
      WaitFor(graph_.node(gone).control_inputs, {id, chain->sum}, norm);
      bypass_.Remove(graph_, gone);
    }
    result_of_[chain->relu.value] = id;
    return 1;
  }

  // `fused` waits for what those that it stands for (`own`) waited for.
  static void WaitFor(const absl::InlinedVector<NodeId, 2>& controls, const std::vector<NodeId>& own, Node& fused) {
    for (NodeId control : controls) {
      const auto is_control = [&](const auto& of) { return std::find(of.begin(), of.end(), control) != of.end(); };
      if (!is_control(own) && !is_control(fused.control_inputs)) fused.control_inputs.push_back(control);
    }
  }

  // Those that took a Relu's result take the batch norm's.
  void Redirect() {
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      Node& node = graph_.mutable_node(NodeId{i});
      if (node.removed) continue;
      for (OutputRef& input : node.inputs) {
        const auto result = result_of_.find(input.node.value);
        if (result != result_of_.end()) input.node = result->second;
      }
    }
    bypass_.Redirect(graph_);
  }

  Graph& graph_;
  const OpRegistry& ops_;
  const std::set<std::string> targets_;
  std::vector<uint64_t>& by_value_;
  Fanout fanout_;
  std::vector<int32_t> position_;
  std::optional<std::unordered_map<int32_t, std::vector<int32_t>>> writes_;
  std::unordered_map<int32_t, NodeId> result_of_;  // of Relus that are gone
  Bypass bypass_;
};

}  // namespace

absl::StatusOr<int64_t> FuseNorms(Graph& graph, const OpRegistry& ops, const std::vector<std::string>& targets, std::vector<uint64_t>& by_value) {
  return NormFuser(graph, ops, targets, by_value).Run();
}

}  // namespace millrace
