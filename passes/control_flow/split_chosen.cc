#include "passes/control_flow/split_chosen.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "passes/control_flow/control_flow_ops.h"
#include "passes/control_flow/creation_places.h"

namespace millrace {
namespace {

class Splitter {
 public:
  Splitter(Graph& graph, const OpRegistry& ops, const ChosenVariables& chosen)
      : graph_(graph), ops_(ops), guards_(chosen.guards), merges_(chosen.merges), sides_(chosen.sides) {}

  bool Run(const std::vector<NodeId>& order) {
    for (const NodeId id : order) {
      for (OutputRef input : graph_.node(id).inputs) used_[input.node.value].insert(input.index);
    }
    for (const NodeId id : order) {
      Redirect(id);
      TakeOwnSide(id);
      ReadReferences(id);
      if (CanSplit(id)) Split(id, id);
    }
    if (!places_.empty()) places_.Renumber(graph_);
    return changed_;
  }

 private:
  bool IsChosen(const Node& node, size_t input) const { return node.inputs[input].index == 0 && merges_.count(node.inputs[input].node.value) > 0; }

  void Redirect(NodeId id) {
    for (OutputRef& input : graph_.mutable_node(id).inputs) {
      const auto found = replaced_.find(input);
      if (found != replaced_.end()) input = found->second;
    }
  }

  // On one side of the predicate the variable is known.
  void TakeOwnSide(NodeId id) {
    const Guard& guard = guards_[id.value];
    if (IsMerge(graph_.node(id))) return;
    for (size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
      while (IsChosen(graph_.node(id), i)) {
        const NodeId merge = graph_.node(id).inputs[i].node;
        const Literal literal = sides_.at(merge.value);
        const bool second = guard.count(literal) > 0;
        if (!second && guard.count({literal.predicate, !literal.value}) == 0) break;
        graph_.mutable_node(id).inputs[i] = graph_.node(merge).inputs[second ? 1 : 0];
        changed_ = true;
      }
    }
  }

  // The value of a reference is that of the time when it is taken.
  void ReadReferences(NodeId id) {
    for (size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
      const Node& node = graph_.node(id);
      if (node.op == "RefMerge" || !IsChosenReference(node.inputs[i]) || TakesVariable(node, static_cast<int>(i))) continue;
      const OutputRef value = Read(node.inputs[i], WaitsOf(id), graph_.node(node.inputs[i].node).attrs.GetOr("T", DataType::kFloat), id);
      graph_.mutable_node(id).inputs[i] = value;
      changed_ = true;
    }
  }

  bool IsChosenReference(OutputRef ref) const { return ref.index == 0 && merges_.count(ref.node.value) > 0 && graph_.node(ref.node).op == "RefMerge"; }

  // What a node waits for, all its other inputs too, but of a Merge only what runs whenever the Merge does.
  absl::InlinedVector<NodeId, 2> WaitsOf(NodeId id) const {
    const Node& node = graph_.node(id);
    absl::InlinedVector<NodeId, 2> waits = node.control_inputs;
    if (!IsMerge(node)) {
      for (OutputRef input : node.inputs) {
        const Node& producer = graph_.node(input.node);
        const bool stands_at_start = producer.inputs.empty() && producer.control_inputs.empty();
        if (!stands_at_start && !IsChosenReference(input) && std::find(waits.begin(), waits.end(), input.node) == waits.end()) waits.push_back(input.node);
      }
      return waits;
    }
    const auto may_not_run = [&](NodeId wait) {
      const Guard &guard = guards_[wait.value], &of_merge = guards_[id.value];
      return !std::includes(of_merge.begin(), of_merge.end(), guard.begin(), guard.end(), guard.value_comp());
    };
    waits.erase(std::remove_if(waits.begin(), waits.end(), may_not_run), waits.end());
    return waits;
  }

  // Each variable on its own side.
  OutputRef Read(OutputRef ref, const absl::InlinedVector<NodeId, 2>& waits, DataType type, NodeId place) {
    const bool is_chosen = IsChosenReference(ref);
    Node read;
    read.name = absl::StrCat(graph_.node(place).name, is_chosen ? "/chosen" : "/read");
    read.op = is_chosen ? "Merge" : "Identity";
    if (is_chosen) {
      const OutputRef first = graph_.node(ref.node).inputs[0], second = graph_.node(ref.node).inputs[1];
      read.inputs = {Read(first, waits, type, place), Read(second, waits, type, place)};
      read.attrs.Set("N", int64_t{2});
    } else {
      read.inputs = {ref};
      read.control_inputs = waits;
    }
    read.attrs.Set("T", type);
    return {places_.AddBefore(graph_, place, std::move(read)), 0};
  }

  // Merges of what was chosen are chosen from again where they are used.
  bool CanSplit(NodeId id) const {
    const Node& node = graph_.node(id);
    if (IsMerge(node) || node.op == "_Fetch") return false;
    bool any = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      any = any || IsChosen(node, i);
    }
    const auto used = used_.find(id.value);
    return any && (used == used_.end() || std::all_of(used->second.begin(), used->second.end(), [&](int32_t) { return TypeOfOutputs(node).has_value(); }));
  }

  bool TakesVariable(const Node& node, int input) const {
    if (IsSwitch(node) || node.op == "RefIdentity") return true;
    const OpDef* def = ops_.Find(node.op);
    return def != nullptr && std::any_of(def->variables.begin(), def->variables.end(), [&](const VariableUse& use) { return use.input == input; });
  }

  // What the outputs are, where the op's name says it.
  std::optional<DataType> TypeOfOutputs(const Node& node) const {
    const OpDef* def = ops_.Find(node.op);
    const char* attr = nullptr;
    if (IsSwitch(node) || node.op == "Identity" || node.op == "RefIdentity" || (def != nullptr && def->returns_variable)) attr = "T";
    if (node.op == "ReadVariableOp" || node.op == "ResourceGather" || node.op == "ResourceGatherNd") attr = "dtype";
    if (node.op == "VariableShape") attr = "out_type";
    if (node.op == "VarIsInitializedOp" || node.op == "IsVariableInitialized") return DataType::kBool;
    if (attr == nullptr) return std::nullopt;
    return node.attrs.GetOr<DataType>(attr, node.op == "VariableShape" ? DataType::kInt32 : DataType::kFloat);
  }

  // `place`: the node of the beginning in whose place all this stands.
  void Split(NodeId id, NodeId place) {
    changed_ = true;
    const Node node = graph_.node(id);
    size_t first = 0;
    while (!IsChosen(node, first)) ++first;
    const NodeId merge = node.inputs[first].node;
    const Literal literal = sides_.at(merge.value);
    std::array<NodeId, 2> halves;
    for (int32_t side = 0; side < 2; ++side) {
      Node half = node;
      half.name = absl::StrCat(node.name, "/side_", side);
      for (size_t i = 0; i < half.inputs.size(); ++i) {
        if (!IsChosen(half, i)) continue;
        const Literal other = sides_.at(half.inputs[i].node.value);
        if (!(other.predicate == literal.predicate)) continue;
        half.inputs[i] = graph_.node(half.inputs[i].node).inputs[other.value == literal.value ? side : 1 - side];
      }
      halves[side] = places_.AddBefore(graph_, place, std::move(half));
      used_[halves[side].value] = used_[id.value];
      if (CanSplit(halves[side])) Split(halves[side], place);
    }
    for (const int32_t output : used_[id.value]) replaced_[{id, output}] = MergeOutputs(node, halves, output, merge, literal, place);
    BecomeEnd(id, halves, place);
  }

  OutputRef Replaced(OutputRef ref) const {
    const auto found = replaced_.find(ref);
    return found == replaced_.end() ? ref : found->second;
  }

  OutputRef MergeOutputs(const Node& node, const std::array<NodeId, 2>& halves, int32_t output, NodeId chosen, Literal literal, NodeId place) {
    const OpDef* def = ops_.Find(node.op);
    const bool is_reference = graph_.node(chosen).op == "RefMerge";
    const bool passes_reference = node.op == "RefSwitch" || node.op == "RefIdentity" || (def != nullptr && def->returns_variable);
    Node merged;
    merged.name = absl::StrCat(node.name, "/chosen");
    merged.op = is_reference && passes_reference ? "RefMerge" : "Merge";
    merged.inputs = {Replaced({halves[0], output}), Replaced({halves[1], output})};
    const DataType type = *TypeOfOutputs(node);
    merged.attrs = AttrMap{{"T", type}, {"N", int64_t{2}}};
    const bool passes_variable = merged.op == "RefMerge" || type == DataType::kResource;
    const NodeId added = places_.AddBefore(graph_, place, std::move(merged));
    if (passes_variable) {
      merges_.insert(added.value);
      sides_[added.value] = literal;
    }
    return {added, 0};
  }

  // Who waits for the node waits for that half which runs.
  void BecomeEnd(NodeId id, const std::array<NodeId, 2>& halves, NodeId place) {
    std::array<OutputRef, 2> ends;
    for (int32_t side = 0; side < 2; ++side) {
      Node end;
      end.name = absl::StrCat(graph_.node(id).name, "/end_", side);
      end.op = "Const";
      end.control_inputs = {halves[side]};
      end.attrs = AttrMap{{"dtype", DataType::kBool}, {"value", Tensor::Scalar<bool>(true)}};
      ends[side] = {places_.AddBefore(graph_, place, std::move(end)), 0};
    }
    Node& node = graph_.mutable_node(id);
    node.op = "Merge";
    node.inputs = {ends[0], ends[1]};
    node.control_inputs.clear();
    node.attrs = AttrMap{{"T", DataType::kBool}, {"N", int64_t{2}}};
  }

  Graph& graph_;
  const OpRegistry& ops_;
  const std::vector<Guard>& guards_;
  std::set<int32_t> merges_;
  std::map<int32_t, Literal> sides_;
  CreationPlaces places_;
  std::map<int32_t, std::set<int32_t>> used_;  // outputs by node
  std::map<OutputRef, OutputRef> replaced_;
  bool changed_ = false;
};

}  // namespace

bool SplitChosen(Graph& graph, const OpRegistry& ops, const std::vector<NodeId>& order, const ChosenVariables& chosen) {
  return Splitter(graph, ops, chosen).Run(order);
}

}  // namespace millrace
