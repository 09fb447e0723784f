#include "passes/control_flow/lower_switches.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/of_sides.h"
#include "graph/variable_name.h"
#include "millrace/guard.h"
#include "millrace/status.h"
#include "passes/control_flow/control_flow_ops.h"
#include "passes/control_flow/creation_places.h"
#include "passes/control_flow/guard_effects.h"
#include "passes/control_flow/harmless_inputs.h"
#include "passes/control_flow/sizes_of_values.h"
#include "passes/control_flow/split_chosen.h"

namespace millrace {
namespace {

bool IsOptional(const Node& node) {
  return node.op == "OptionalFromValue" || node.op == "OptionalNone" || node.op == "OptionalGetValue" ||
         node.op == "OptionalHasValue";
}
// What a reference or handle stands for is passed on as it is: a copy of it would be a value.
bool PassesVariable(const Node& node) {
  return node.op == "RefSwitch" || node.op == "RefMerge" ||
         node.attrs.GetOr<DataType>("T", DataType::kFloat) == DataType::kResource;
}

class SwitchLowering {
 public:
  SwitchLowering(Graph& graph, const OpRegistry& ops, bool any_shapes, std::vector<GuardedNode>* guarded)
      : graph_(graph), ops_(ops), any_shapes_(any_shapes), guarded_(guarded), known_(graph, ops) {}

  absl::StatusOr<bool> Run() {
    bool any = false;
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      const Node& node = graph_.node(NodeId{i});
      if (node.removed) continue;
      if (node.op == "Enter" || node.op == "RefEnter" || node.op == "NextIteration") return false;
      MR_RETURN_IF_ERROR(CheckInputsOfControl(node));
      any = any || IsSwitch(node) || IsMerge(node) || IsOptional(node);
    }
    if (!any) return false;
    MR_ASSIGN_OR_RETURN(std::vector<NodeId> order, FindGuards());
    if (!chosen_variables_.empty() && SplitChosen(graph_, ops_, order, {chosen_variables_, sides_, guards_})) {
      MR_ASSIGN_OR_RETURN(order, FindGuards());
    }
    MR_RETURN_IF_ERROR(CheckChosenVariables());
    FindWhatComesAfterWrites(order);
    const bool sizes_of_values = guarded_ != nullptr && (any_shapes_ || MayHaveSizesOfValues(graph_, ops_));
    GuardWriter writer(graph_, ops_, places_);
    for (NodeId id : order) {
      if (guards_[id.value].empty()) continue;
      const bool may_fail = MayFail(graph_.node(id), sizes_of_values);
      MR_RETURN_IF_ERROR(writer.Visit(id, guards_[id.value], unsure_[id.value]));
      if (may_fail) guarded_->push_back({id, writer.Expression(id, guards_[id.value])});
    }
    for (NodeId id : order) {
      if (IsSwitch(graph_.node(id))) LowerSwitch(id);
      if (IsMerge(graph_.node(id)) && sides_.count(id.value) > 0) LowerMerge(id);
      if (const auto found = always_there_.find(id.value); found != always_there_.end()) LowerToOneInput(id, found->second);
    }
    MR_RETURN_IF_ERROR(TakeOptionals(order));
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      if (!graph_.alive(NodeId{i})) continue;
      writer.Redirect(NodeId{i});
      ForwardInputs(NodeId{i});
    }
    const std::vector<NodeId> renumbered = places_.Renumber(graph_);
    if (guarded_ != nullptr) {
      for (GuardedNode& guarded : *guarded_) {
        for (auto found = forwarded_.find(guarded.guard); found != forwarded_.end(); found = forwarded_.find(guarded.guard)) {
          guarded.guard = found->second;
        }
        guarded.node = renumbered[guarded.node.value];
        guarded.guard.node = renumbered[guarded.guard.node.value];
      }
    }
    return true;
  }

 private:
  // All nodes in creation order.
  absl::StatusOr<std::vector<NodeId>> FindGuards() {
    guards_.assign(graph_.num_ids(), Guard());
    unsure_.assign(graph_.num_ids(), NodeId());
    sides_.clear();
    always_there_.clear();
    asked_.clear();
    MR_ASSIGN_OR_RETURN(std::vector<NodeId> order, CreationOrder(graph_));
    for (NodeId id : order) MR_RETURN_IF_ERROR(FindGuard(id));
    FindChosenVariables();
    return order;
  }

  // Before there are types, for values of any size or for none that are certain. What only passes values on never does.
  bool MayFail(const Node& node, bool sizes_of_values) {
    if (guarded_ == nullptr || node.inputs.empty()) return false;
    const bool passes = node.op == "Identity" || node.op == "IdentityN" || IsSwitch(node) || IsMerge(node) || IsOptional(node);
    if (passes || sizes_of_values) return !passes;
    std::vector<size_t> checked = CheckedInputsOf(node);
    for (const HarmlessInput& fails : HarmlessInputsOf(node)) checked.push_back(fails.input);  // nothing is harmless for a table without rows
    return std::any_of(checked.begin(), checked.end(), [&](size_t input) { return !known_.Holds(node.inputs[input]); });
  }

  // The OptionalFromValue that an Optional comes from, as far as the guard of who asks says; not valid where it does not.
  OutputRef OriginOf(OutputRef ref, const Guard& guard) const {
    while (true) {
      const Node& node = graph_.node(ref.node);
      if (node.op == "OptionalFromValue") return ref;
      if (node.inputs.empty()) return {};
      if (node.op == "OptionalGetValue") {
        ref = ValueIn(ref);
      } else if (node.op == "Identity" || IsSwitch(node)) {
        ref = node.inputs[0];
      } else {
        const auto sides = sides_.find(ref.node.value);
        if (sides == sides_.end()) return {};
        const Literal literal = sides->second;
        if (guard.count(literal) == 0 && guard.count({literal.predicate, !literal.value}) == 0) {
          const OutputRef first = OriginOf(node.inputs[0], guard), second = OriginOf(node.inputs[1], guard);
          if (first.node.valid() && second.node.valid()) return {};
          return first.node.valid() ? first : second;
        }
        ref = node.inputs[guard.count(literal) > 0 ? 1 : 0];
      }
      if (!ref.node.valid()) return {};
    }
  }

  // What an OptionalGetValue gives, where that is known.
  OutputRef ValueIn(OutputRef taken) const {
    const Node& node = graph_.node(taken.node);
    const OutputRef origin = OriginOf(node.inputs[0], guards_[taken.node.value]);
    if (!origin.node.valid()) return {};
    const auto& values = graph_.node(origin.node).inputs;
    return taken.index < static_cast<int32_t>(values.size()) ? values[taken.index] : OutputRef{};
  }

  // Behind nodes that pass a value on. The gradient of a conditional in a conditional has its predicate out of an Optional.
  OutputRef PassedOn(OutputRef ref) const {
    while (true) {
      const Node& node = graph_.node(ref.node);
      if (node.inputs.empty()) return ref;
      OutputRef from;
      if (node.op == "OptionalGetValue") from = ValueIn(ref);
      if (node.op == "Identity" || IsSwitch(node)) from = node.inputs[0];
      if (!from.node.valid()) return ref;
      ref = from;
    }
  }

  // The predicate that a literal is named by; `value` is turned over by every LogicalNot.
  Literal Source(OutputRef ref, bool value) {
    while (true) {
      ref = PassedOn(ref);
      const Node& node = graph_.node(ref.node);
      if (node.op != "LogicalNot" || node.inputs.empty()) break;
      value = !value;
      ref = node.inputs[0];
    }
    const Node& node = graph_.node(ref.node);
    if (node.op != "Equal" || node.inputs.size() != 2) return {ref, value};
    const auto number = graph_.node(node.inputs[1].node).attrs.Get<Tensor>("value");
    if (!number.ok() || number->dtype() != DataType::kInt32 || number->num_elements() != 1) return {ref, value};
    const OutputRef index = PassedOn(node.inputs[0]);
    // Which input a Merge took, as gradients of gradients ask: its own predicate under another name.
    const auto sides = sides_.find(index.node.value);
    if (sides != sides_.end() && index.index == 1 && (number->IntAt(0) == 0 || number->IntAt(0) == 1)) {
      const bool second = (number->IntAt(0) == 1) == value;
      return {sides->second.predicate, sides->second.value == second};
    }
    // Whether an index is the number of a branch: the same question wherever it is asked.
    return {asked_.try_emplace({index, number->IntAt(0)}, ref).first->second, value};
  }

  // Literals by which an output of a node differs from the node's own guard.
  Guard GuardOf(OutputRef ref) {
    Guard guard = guards_[ref.node.value];
    const Node& node = graph_.node(ref.node);
    if (IsSwitch(node) && node.inputs.size() == 2) guard.insert(Source(node.inputs[1], ref.index == 1));
    return guard;
  }

  absl::Status FindGuard(NodeId id) {
    const Node& node = graph_.node(id);
    Guard& guard = guards_[id.value];
    if (node.op == "ControlTrigger") return absl::OkStatus();  // runs whichever of those that it waits for do
    // A Merge waits for its control inputs, but runs where one of them does not.
    for (OutputRef input : node.inputs) BeUnsureBehind(input.node, id);
    if (IsMerge(node)) return FindSides(id);
    for (NodeId control : node.control_inputs) {
      guard.insert(guards_[control.value].begin(), guards_[control.value].end());
      BeUnsureBehind(control, id);
    }
    for (OutputRef input : node.inputs) {
      const Guard more = GuardOf(input);
      guard.insert(more.begin(), more.end());
    }
    return absl::OkStatus();
  }

  void BeUnsureBehind(NodeId from, NodeId id) {
    if (!unsure_[id.value].valid()) unsure_[id.value] = unsure_[from.value];
  }

  static Guard Without(Guard guard, OutputRef predicate) {
    guard.erase({predicate, true});
    guard.erase({predicate, false});
    return guard;
  }

  // Where one input of integers is there whenever the other one is, both are the same: shapes that gradients of rows merge, of which one
  // is a constant.
  bool TakesWhatIsThere(NodeId id, const Guard& a, const Guard& b) {
    const DataType type = graph_.node(id).attrs.GetOr<DataType>("T", DataType::kFloat);
    if (type != DataType::kInt32 && type != DataType::kInt64) return false;
    const bool first = std::includes(b.begin(), b.end(), a.begin(), a.end(), a.value_comp());
    if (!first && !std::includes(a.begin(), a.end(), b.begin(), b.end(), a.value_comp())) return false;
    always_there_[id.value] = first ? 0 : 1;
    guards_[id.value] = first ? a : b;
    return true;
  }

  // The predicate that decides which input of a Merge is there, and the guard that both inputs share.
  absl::Status FindSides(NodeId id) {
    const Node& node = graph_.node(id);
    if (node.inputs.size() == 2) {
      const Guard a = GuardOf(node.inputs[0]), b = GuardOf(node.inputs[1]);
      if (IsNeverMet(a) || IsNeverMet(b)) {
        const bool first = IsNeverMet(b);
        always_there_[id.value] = first ? 0 : 1;
        guards_[id.value] = first ? a : b;
        return absl::OkStatus();
      }
      for (const Literal& literal : a) {
        const Literal opposite{literal.predicate, !literal.value};
        if (b.count(opposite) == 0) continue;
        sides_[id.value] = opposite;
        Guard of_first = Without(a, literal.predicate);
        const Guard of_second = Without(b, literal.predicate);
        if (of_first != of_second) unsure_[id.value] = id;
        of_first.insert(of_second.begin(), of_second.end());
        guards_[id.value] = std::move(of_first);
        return absl::OkStatus();
      }
      if (TakesWhatIsThere(id, a, b)) return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat("node '", node.name, "' (", node.op, "): its ", node.inputs.size(),
                                                   " inputs are not the two sides of one predicate, expected a conditional"));
  }

  // What is read of a reference variable is its memory: of which time is told by the writes that the reader comes after, be it through
  // the predicate alone.
  void FindWhatComesAfterWrites(const std::vector<NodeId>& order) {
    after_write_.assign(graph_.num_ids(), false);
    const bool has_references = std::any_of(order.begin(), order.end(), [&](NodeId id) {
      return graph_.node(id).op == "VariableV2" || graph_.node(id).op == "Variable";
    });
    for (size_t i = 0; has_references && i < order.size(); ++i) {
      const Node& node = graph_.node(order[i]);
      const auto comes_after = [&](NodeId before) { return after_write_[before.value]; };
      const OpDef* def = ops_.Find(node.op);
      after_write_[order[i].value] = (def != nullptr && def->WritesVariables()) ||
                                     std::any_of(node.control_inputs.begin(), node.control_inputs.end(), comes_after) ||
                                     std::any_of(node.inputs.begin(), node.inputs.end(), [&](OutputRef input) { return comes_after(input.node); });
    }
  }

  // Data goes on whatever the predicate; who waits for the Switch waits for what it waited for.
  void LowerSwitch(NodeId id) {
    Node& node = graph_.mutable_node(id);
    const OutputRef data = node.inputs[0];
    const NodeId predicate = node.inputs[1].node;
    if (after_write_[predicate.value] && predicate != data.node) node.control_inputs.push_back(predicate);
    if (PassesVariable(node)) {
      node.op = "NoOp";
      node.inputs.clear();
      node.attrs = AttrMap();
      node.control_inputs.push_back(data.node);
      forwarded_[{id, 0}] = forwarded_[{id, 1}] = data;
      return;
    }
    node.op = "Identity";
    node.inputs.resize(1);
    forwarded_[{id, 1}] = {id, 0};
  }

  // Names of what a reference or handle may stand for.
  std::set<std::string> VariablesOf(NodeId id) const {
    std::set<std::string> names;
    std::set<int32_t> seen;
    for (std::vector<NodeId> open = {id}; !open.empty();) {
      const Node& node = graph_.node(open.back());
      const bool is_new = seen.insert(open.back().value).second;
      open.pop_back();
      const OpDef* def = ops_.Find(node.op);
      if (def != nullptr && def->is_variable) names.insert(VariableName(node));
      const bool passes = node.op == "Identity" || node.op == "RefIdentity" || IsSwitch(node) || (def != nullptr && def->returns_variable);
      if (!is_new || node.inputs.empty() || !(passes || IsMerge(node))) continue;
      for (OutputRef input : absl::MakeConstSpan(node.inputs).first(passes ? 1 : node.inputs.size())) open.push_back(input.node);
    }
    return names;
  }

  // Merges whose sides are different variables.
  void FindChosenVariables() {
    chosen_variables_.clear();
    for (const auto& [id, literal] : sides_) {
      if (PassesVariable(graph_.node(NodeId{id})) && VariablesOf(NodeId{id}).size() > 1) chosen_variables_.insert(id);
    }
  }

  // What takes one was to be split.
  absl::Status CheckChosenVariables() const {
    for (int32_t i = 0; i < graph_.num_ids() && !chosen_variables_.empty(); ++i) {
      const Node& user = graph_.node(NodeId{i});
      for (size_t input = 0; graph_.alive(NodeId{i}) && input < user.inputs.size(); ++input) {
        const int32_t merge = user.inputs[input].node.value;
        if (user.inputs[input].index != 0 || chosen_variables_.count(merge) == 0) continue;
        if (user.op == "RefMerge" || chosen_variables_.count(i) > 0) continue;
        return absl::UnimplementedError(absl::StrCat(
            "node '", user.name, "' (", user.op, ") takes one of the variables '", absl::StrJoin(VariablesOf(NodeId{merge}), "', '"), "', which node '",
            graph_.node(NodeId{merge}).name, "' (", graph_.node(NodeId{merge}).op, ") chooses when running; expected the same on both sides"));
      }
    }
    return absl::OkStatus();
  }

  void PassVariable(NodeId id, OutputRef variable) {
    forwarded_[{id, 0}] = variable;
    StandForNothing(id);
  }

  void StandForNothing(NodeId id) {
    Node& node = graph_.mutable_node(id);
    node.op = "NoOp";
    for (OutputRef input : node.inputs) node.control_inputs.push_back(input.node);
    node.inputs.clear();
    node.attrs = AttrMap();
  }

  void LowerToOneInput(NodeId id, int32_t input) {
    Node index;
    index.name = absl::StrCat(graph_.node(id).name, "/value_index");
    index.op = "Const";
    index.attrs.Set("dtype", DataType::kInt32);
    index.attrs.Set("value", Tensor::Scalar<int32_t>(input));
    forwarded_[{id, 1}] = {places_.AddBefore(graph_, id, std::move(index)), 0};
    Node& node = graph_.mutable_node(id);
    if (PassesVariable(node)) {
      PassVariable(id, node.inputs[input]);
      return;
    }
    const DataType type = node.attrs.GetOr<DataType>("T", DataType::kInt32);
    node.op = "Identity";
    node.inputs = {OutputRef(node.inputs[input])};
    node.attrs = AttrMap();
    node.attrs.Set("T", type);
  }

  // Output 0 is the input whose side is taken, output 1 its index.
  void LowerMerge(NodeId id) {
    Node& node = graph_.mutable_node(id);
    const DataType type = node.attrs.GetOr<DataType>("T", DataType::kFloat);
    if (type == DataType::kVariant) return;
    const Literal literal = sides_.at(id.value);  // holds when input 1 is there
    if (PassesVariable(node) && chosen_variables_.count(id.value) == 0) {
      PassVariable(id, node.inputs[0]);  // it is the same on both sides
      return;
    }
    Node index;
    index.name = absl::StrCat(node.name, "/value_index");
    index.op = "Cast";
    index.attrs.Set("SrcT", DataType::kBool);
    index.attrs.Set("DstT", DataType::kInt32);
    OutputRef predicate = literal.predicate;
    if (!literal.value) {
      Node opposite;
      opposite.name = absl::StrCat(node.name, "/first");
      opposite.op = "LogicalNot";
      opposite.inputs = {predicate};
      predicate = {places_.AddBefore(graph_, id, std::move(opposite)), 0};
    }
    index.inputs = {predicate};
    const NodeId index_id = places_.AddBefore(graph_, id, std::move(index));
    forwarded_[{id, 1}] = {index_id, 0};
    if (PassesVariable(graph_.node(id))) return StandForNothing(id);  // nothing takes the reference or handle any more
    Node& merge = graph_.mutable_node(id);
    merge.op = "Select";
    merge.inputs = {predicate, merge.inputs[1], merge.inputs[0]};
    merge.attrs = AttrMap();
    merge.attrs.Set("T", type);
    merge.attrs.Set(any_shapes_ ? kEitherShape : kOfSides, true);
  }

  // What an Optional may hold; none: nothing.
  struct Held {
    bool some = false;
    std::vector<OutputRef> values;
  };

  absl::StatusOr<Held> HeldBy(OutputRef ref, NodeId user) {
    const Node& node = graph_.node(ref.node);
    if (node.op == "OptionalNone") return Held{};
    if (node.op == "OptionalFromValue") return Held{true, {node.inputs.begin(), node.inputs.end()}};
    if ((node.op == "Identity" || IsSwitch(node)) && !node.inputs.empty()) return HeldBy(node.inputs[0], user);
    if (node.op == "OptionalGetValue" && !node.inputs.empty()) {  // an Optional in an Optional
      const int32_t index = ref.index;
      MR_ASSIGN_OR_RETURN(const Held outer, HeldBy(node.inputs[0], user));
      if (index >= static_cast<int32_t>(outer.values.size())) return Held{};
      return HeldBy(outer.values[index], user);
    }
    if (const auto chosen = chosen_.find(ref.node.value); chosen != chosen_.end()) {
      const auto [literal, other, taken] = chosen->second;
      return HeldByEither(literal, other, taken, user, ref.node);
    }
    const auto sides = sides_.find(ref.node.value);
    if (sides == sides_.end()) {
      return absl::InvalidArgumentError(absl::StrCat("node '", node.name, "' (", node.op, "): no Optional, which node '",
                                                     graph_.node(user).name, "' takes a value from"));
    }
    const OutputRef other = node.inputs[0], taken = node.inputs[1];
    return HeldByEither(sides->second, other, taken, user, ref.node);
  }

  // `taken` where the literal holds, else `other`; `merge` has them both.
  absl::StatusOr<Held> HeldByEither(Literal literal, OutputRef other, OutputRef taken, NodeId user, NodeId merge) {
    // Where the user is on one side itself, the other side's value may be of another shape.
    const Guard guard = guards_[user.value];
    if (guard.count(literal) > 0) return HeldBy(taken, user);
    if (guard.count({literal.predicate, !literal.value}) > 0) return HeldBy(other, user);
    MR_ASSIGN_OR_RETURN(Held first, HeldBy(other, user));
    MR_ASSIGN_OR_RETURN(Held second, HeldBy(taken, user));
    if (!first.some || !second.some) return first.some ? first : second;
    for (size_t i = 0; i < first.values.size() && i < second.values.size(); ++i) {
      Node select;
      select.name = absl::StrCat(graph_.node(merge).name, "/value_", i);
      select.op = "Select";
      select.inputs = {literal.predicate, second.values[i], first.values[i]};
      select.attrs.Set(any_shapes_ ? kEitherShape : kOfSides, true);
      if (!literal.value) std::swap(select.inputs[1], select.inputs[2]);
      const NodeId added = places_.AddAfter(graph_, merge, std::move(select));
      chosen_[added.value] = {literal, first.values[i], second.values[i]};
      first.values[i] = {added, 0};
    }
    return first;
  }

  bool HoldsOptional(OutputRef ref) const {
    const Node& node = graph_.node(ref.node);
    if (const auto chosen = chosen_.find(ref.node.value); chosen != chosen_.end()) {
      return HoldsOptional(std::get<1>(chosen->second)) || HoldsOptional(std::get<2>(chosen->second));
    }
    if (node.op == "OptionalFromValue" || node.op == "OptionalNone") return true;
    const bool passes = node.op == "Identity" || IsSwitch(node) || IsMerge(node);
    return passes && node.attrs.GetOr<DataType>("T", DataType::kFloat) == DataType::kVariant;
  }

  // Everything runs, so a value that is taken is there.
  absl::Status TakeOptionals(const std::vector<NodeId>& order) {
    for (NodeId id : order) {
      if (graph_.node(id).op != "OptionalGetValue" || graph_.node(id).inputs.empty()) continue;
      MR_ASSIGN_OR_RETURN(const Held held, HeldBy(graph_.node(id).inputs[0], id));
      for (size_t i = 0; i < held.values.size(); ++i) forwarded_[{id, static_cast<int32_t>(i)}] = held.values[i];
    }
    // Which Optional it is was needed on the way only.
    for (const auto& [id, between] : chosen_) {
      if (!HoldsOptional(std::get<1>(between)) && !HoldsOptional(std::get<2>(between))) continue;
      Node& node = graph_.mutable_node(NodeId{id});
      node.op = "NoOp";
      node.inputs.clear();
    }
    for (NodeId id : order) {
      Node& node = graph_.mutable_node(id);
      const bool carries = (node.op == "Identity" || IsMerge(node)) &&
                           node.attrs.GetOr<DataType>("T", DataType::kFloat) == DataType::kVariant;
      if (!carries && node.op != "OptionalGetValue" && node.op != "OptionalFromValue" && node.op != "OptionalNone") continue;
      for (OutputRef input : node.inputs) node.control_inputs.push_back(input.node);
      node.op = "NoOp";
      node.inputs.clear();
      node.attrs = AttrMap();
    }
    return absl::OkStatus();
  }

  void ForwardInputs(NodeId id) {
    std::vector<NodeId> waits;
    for (OutputRef& input : graph_.mutable_node(id).inputs) {
      for (auto found = forwarded_.find(input); found != forwarded_.end(); found = forwarded_.find(input)) {
        // A NoOp in the place of a Switch keeps what it waited for.
        const Node& passed = graph_.node(input.node);
        if (passed.op == "NoOp" && passed.control_inputs.size() > 1) waits.push_back(input.node);
        input = found->second;
      }
    }
    auto& controls = graph_.mutable_node(id).control_inputs;
    for (NodeId wait : waits) {
      if (std::find(controls.begin(), controls.end(), wait) == controls.end()) controls.push_back(wait);
    }
  }

  Graph& graph_;
  const OpRegistry& ops_;
  const bool any_shapes_;
  std::vector<GuardedNode>* const guarded_;
  KnownWhenPlanned known_;
  CreationPlaces places_;
  std::vector<Guard> guards_;          // by node
  std::vector<bool> after_write_;      // by node, in graphs with reference variables: whether it waits for a write, or is one
  std::vector<NodeId> unsure_;         // by node: a Merge before it, or it itself, whose sides differ by more than their predicate
  std::map<int32_t, Literal> sides_;   // by Merge: holds when its second input is there
  std::map<int32_t, int32_t> always_there_;  // by Merge that has none: the input that is
  // By Select of what two Optionals hold, which may be Optionals again: what it chooses between, the second where it holds.
  std::map<int32_t, std::tuple<Literal, OutputRef, OutputRef>> chosen_;
  std::set<int32_t> chosen_variables_;  // Merges whose two sides are not one variable
  std::map<OutputRef, OutputRef> forwarded_;
  std::map<std::pair<OutputRef, int64_t>, OutputRef> asked_;  // by index and number: the first node that compares them
};

}  // namespace

absl::StatusOr<bool> LowerSwitches(Graph& graph, const OpRegistry& ops, bool any_shapes, std::vector<GuardedNode>* guarded) {
  return SwitchLowering(graph, ops, any_shapes, guarded).Run();
}

}  // namespace millrace
