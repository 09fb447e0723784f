// Guard effects: makes what a node does beyond its outputs depend on predicates. A part of lower_switches, whose header
// says what becomes of each kind of effect.
#ifndef MILLRACE_PASSES_CONTROL_FLOW_GUARD_EFFECTS_H_
#define MILLRACE_PASSES_CONTROL_FLOW_GUARD_EFFECTS_H_

#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "millrace/graph.h"
#include "millrace/op.h"
#include "passes/control_flow/creation_places.h"
#include "passes/control_flow/harmless_inputs.h"

namespace millrace {

// Attribute (bool, true) of a _Fetch that asks whether a loop goes on. Where its branch is not taken the loop takes no turn: by
// what it computes there it might never end.
inline constexpr char kAsksForATurn[] = "_asks_for_a_turn";

// The predicate has this value.
struct Literal {
  OutputRef predicate;
  bool value = true;
  friend bool operator==(const Literal& a, const Literal& b) { return a.predicate == b.predicate && a.value == b.value; }
  friend bool operator<(const Literal& a, const Literal& b) {
    return a.predicate == b.predicate ? a.value < b.value : a.predicate < b.predicate;
  }
};
// All of them hold.
using Guard = std::set<Literal>;
// Whether no step meets it: one of its predicates would have both values. On a side of a predicate a conditional may ask the same one again.
bool IsNeverMet(const Guard& guard);

class GuardWriter {
 public:
  GuardWriter(Graph& graph, const OpRegistry& ops, CreationPlaces& places) : graph_(graph), ops_(ops), places_(places), known_(graph, ops) {}

  // Adds what is needed beside the node. Unimplemented where a branch touches a variable and whether it is taken depends on
  // one being initialised: both sides run, and one of them would read what is not there. `unsure`: a node before it that runs at
  // other times, too, than the guard tells; then what has an effect is Unimplemented.
  absl::Status Visit(NodeId id, const Guard& guard, NodeId unsure = NodeId());
  // Who waited for a node, or took the reference that it returns, does so for what was put behind it; who takes anything else waits, too.
  void Redirect(NodeId id);

  // A bool scalar that is true where the guard holds.
  OutputRef Expression(NodeId beside, const Guard& guard);

 private:
  OutputRef AddBefore(NodeId beside, const char* name, const char* op, std::vector<OutputRef> inputs, DataType type);
  // In the shape of `value`.
  OutputRef Harmless(NodeId beside, OutputRef value, DataType type, HarmlessValue kind);
  // The input becomes `other` where the guard does not hold.
  void TakeUnlessGuarded(NodeId id, int input, DataType type, OutputRef other, const Guard& guard);
  // The variable's value as the node's input, read before or after it.
  OutputRef Read(NodeId id, OutputRef variable, bool after);
  void RestoreUnless(NodeId id, const OpDef& def, const Guard& guard);
  // Whether the tensor is a reference (VariableV2) rather than a handle.
  bool IsReference(OutputRef ref) const;
  // The variable that it is a reference or handle of; nullptr: not known.
  const Node* VariableOf(OutputRef ref) const;
  // Of the variable, not of what node `id` that writes it makes; by the node where it is not known.
  DataType TypeOfVariable(NodeId id, OutputRef ref) const;

  Graph& graph_;
  const OpRegistry& ops_;
  CreationPlaces& places_;
  KnownWhenPlanned known_;
  std::map<Guard, OutputRef> expressions_;
  std::unordered_map<int32_t, std::vector<NodeId>> followers_;  // of a node that was guarded: what ends its effect
  std::unordered_map<int32_t, NodeId> returned_;                // the node whose output 0 replaces that of the guarded one
  std::set<int32_t> exempt_;                                    // reads between the two
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_CONTROL_FLOW_GUARD_EFFECTS_H_
