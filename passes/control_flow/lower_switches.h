// Lower switches: runs both sides of every conditional that Switch and Merge make, and selects the results.
//
// Graphs of TensorFlow 1 hold their conditionals in this form, and lower_conditionals brings those with effects into
// it. A node runs when every Switch before it went its way: that is its guard, a set of predicates and their values.
//
//   p ── x ──► Switch ─false─► Neg ───► Merge ──► y      becomes     x ──► Neg ───► Select by p ──► y
//                    └─true──► Exp ──────┘                           └───► Exp ──────┘
//
// What a guarded node does beyond its outputs must not happen unless its guard holds (g below, an And of predicates):
//
//   assignments      assign Select(g, value, the value before); subtractions, Select(g, value, 0), additions, Select(g, value, -0.0)
//   other writers    run between two reads of their variables, which then become Select(g, after, before); who takes their outputs
//                    waits for that
//   Assert           asserts Or(condition, Not g)
//   failures         what can fail for a value (indices, divisors, CheckNumerics) gets Select(g, value, a harmless one)
//                    (harmless_inputs.h); what none is known for, or shapes that do not fit, is for guard_failures.h
//   prints, random   take g as one more input (millrace/guard.h): nothing is printed, streams of random numbers stand still
//   numbers
//   questions        whether a loop takes a turn (passes/unroll/questions.h) is answered by no
//
// A reference or handle that is the same variable on both sides goes on as it is; its value is that of the time when it is taken. What takes
// one of two variables becomes a node on each side (split_chosen.h); what only reads a reference takes a Select of their values.
//
// The values of Optional* nodes, by which gradients get at what a branch computed, are taken directly.
//
// Needs: no calls. Establishes: no Switch, Merge or Optional* is left, unless the graph holds loops (Enter): then nothing
// is changed, and they are refused as unknown ops later. InvalidArgument names a Merge whose inputs are not the two
// sides of one predicate; Unimplemented an effect behind a Merge whose inputs differ by more than that, for which no And of predicates
// says whether it happens, and what takes one of several variables and gives something of a type that its op does not tell.
#ifndef MILLRACE_PASSES_CONTROL_FLOW_LOWER_SWITCHES_H_
#define MILLRACE_PASSES_CONTROL_FLOW_LOWER_SWITCHES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/op.h"

namespace millrace {

// What a node in a branch computes is asked for only where `guard`, a bool scalar, is true.
struct GuardedNode {
  NodeId node;
  OutputRef guard;
};

// Whether the graph was changed. any_shapes: the sides may give tensors of different sizes, and what comes out has those of the one
// that is taken, which is known only when running. `guarded`, unless null, is given the nodes of branches that may fail for
// values or shapes which only a step has; they must not run where the guard does not hold (guard_failures.h).
absl::StatusOr<bool> LowerSwitches(Graph& graph, const OpRegistry& ops, bool any_shapes = false,
                                   std::vector<GuardedNode>* guarded = nullptr);

}  // namespace millrace

#endif  // MILLRACE_PASSES_CONTROL_FLOW_LOWER_SWITCHES_H_
