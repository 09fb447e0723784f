// Lower conditionals: every branch of an If or Case becomes a call that runs, and the results are selected.
//
// Real graphs hold small conditionals: learning-rate schedules, flips of images, guards around assertions. Where their
// branches are pure, running all of them changes nothing but the time.
//
//   p ── x ──► c (If) ──► y     becomes     x ──► c/branch_0 (call of then) ──► c/select_0 (Select by p) ──► y
//                                           └───► c/branch_1 (call of else) ──┘
//
// A branch is pure when all its ops, called functions included, are known, have no effects and fail for no value that only a
// step has; where sizes may depend on values (sizes_of_values.h), none is.
// Two more things may be in one: reads of variables, and in an else branch an Assert whose condition is the
// predicate itself, which fails exactly when the branch would have been taken. The results of the branches must have equal
// shapes: the Select says so if they have not.
//
// Other conditionals get a Switch for each argument and a Merge for each result, as TensorFlow 1 writes them, around the
// calls; lower_switches then keeps the effects of a branch from happening where it is not taken.
//
// Needs: nothing. Establishes: conditionals are calls, to be inlined next. One that writes variables by whether a
// variable is initialised stays, and is refused as an unknown op later: one of its branches would fail. Where a branch only
// reads, the Select reads the variable in its place if it is initialised, and not otherwise (build_plan). What a branch uses by any
// other predicate must be initialised in every step: both sides run, and an assignment that is not taken writes what it has read.
#ifndef MILLRACE_PASSES_CONTROL_FLOW_LOWER_CONDITIONALS_H_
#define MILLRACE_PASSES_CONTROL_FLOW_LOWER_CONDITIONALS_H_

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/op.h"

namespace millrace {

// kSwitches: the nodes of a branch stay recognisable, for a pass that leaves out those that are known not to run.
enum class ConditionalForm { kSimplest, kSwitches };

// Whether the graph was changed. InvalidArgument names a conditional whose branches the library lacks.
absl::StatusOr<bool> LowerConditionals(Graph& graph, const OpRegistry& ops,
                                       ConditionalForm form = ConditionalForm::kSimplest);

// Whether the graph or a function of its library holds any, those of TensorFlow 1 (Switch) included.
bool HoldsConditionals(const Graph& graph);

}  // namespace millrace

#endif  // MILLRACE_PASSES_CONTROL_FLOW_LOWER_CONDITIONALS_H_
