// Split chosen: what takes one of two variables, which a conditional chooses, becomes two nodes, each with the variable of its side.
// A part of lower_switches: on its side a node is guarded as those of branches are.
//
//   a ── Switch ─false─► Merge ──► AssignVariableOp (value)      becomes     a ── Switch ─false─► AssignVariableOp (value)
//   b ── Switch ─true──────┘                                                 b ── Switch ─true──► AssignVariableOp (value)
//
// What takes the value of a chosen reference takes it from an Identity of each variable instead, which wait for what it waits for.
// What the two give is merged, handles too, so that what takes these is split in turn. The node itself stays as a Merge of the ends of
// both, for those who wait for it. What gives something of a type that its op does not tell is left as it is.
#ifndef MILLRACE_PASSES_CONTROL_FLOW_SPLIT_CHOSEN_H_
#define MILLRACE_PASSES_CONTROL_FLOW_SPLIT_CHOSEN_H_

#include <map>
#include <set>
#include <vector>

#include "millrace/graph.h"
#include "millrace/op.h"
#include "passes/control_flow/guard_effects.h"

namespace millrace {

struct ChosenVariables {
  std::set<int32_t> merges;          // whose two inputs are different variables, each side of one type
  std::map<int32_t, Literal> sides;  // by Merge: holds when its second input is there
  std::vector<Guard> guards;         // by node
};

// Whether anything was changed; ids are new then. `order`: all nodes, topological.
bool SplitChosen(Graph& graph, const OpRegistry& ops, const std::vector<NodeId>& order, const ChosenVariables& chosen);

}  // namespace millrace

#endif  // MILLRACE_PASSES_CONTROL_FLOW_SPLIT_CHOSEN_H_
