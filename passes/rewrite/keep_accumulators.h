// Keep accumulators: conditional accumulators of gradients, and queues of numbers in known shapes (the tokens of
// tf.train.SyncReplicasOptimizer, examples that wait for the next step), become variables of bytes, as tables do (keep_tables.h).
//
//   ConditionalAccumulator ──► AccumulatorApplyGradient, AccumulatorTakeGradient
//       becomes    VarHandleOp {uint8[n]} ──► _AccumulatorApply, _AccumulatorTake
//
// What takes waits in TensorFlow until enough is there. Here it comes after all that gives and does not itself wait for what is taken, and
// what closes a queue or looks into a staging area comes between; if that is too little, nothing else could come, and the step is an
// error. So it is where turns of a loop together give more than there is room for, though each takes as much as it gives.
#ifndef MILLRACE_PASSES_REWRITE_KEEP_ACCUMULATORS_H_
#define MILLRACE_PASSES_REWRITE_KEEP_ACCUMULATORS_H_

#include <string>

#include "absl/status/statusor.h"
#include "millrace/graph.h"

namespace millrace {

// Ops that hold what this pass may keep.
bool HoldsKeptResource(const std::string& op);

// Needs: calls inlined, loops unrolled. `whole`: the graph that `graph` was pruned from, or `graph` itself; what gives to an accumulator
// may say of what shape its gradients are. Unimplemented names one of which that is not known. Queues of strings and of
// elements whose shapes are not known are left alone, but become NoOps where nothing takes them. True when the graph was changed.
absl::StatusOr<bool> KeepAccumulators(Graph& graph, const Graph& whole);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_KEEP_ACCUMULATORS_H_
