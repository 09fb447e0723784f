// Unroll loops: puts the turns of every loop one after another in its place, so that all other passes see one graph
// without loops, and swaps are planned over turns as over everything else.
//
//   n=0 ── While (i < 3; i+1, f(x)) ──► y     becomes     x ──► turn_0/f ──► turn_1/f ──► turn_2/f ──► y
//   x  ──┘
//
// The graph is walked once in the order of data, and copied; a loop's condition must be known when its turn comes, from
// constants, shapes and feeds given by value (infer_shapes folds as the copy grows). What a loop does not change is not copied.
//
//   While            functions `cond` and `body`, whose calls and conditionals are lowered first; nodes are named
//                    loop/turn_3/node and loop/turn_3/cond/node; with effects in the body a turn waits for the one before
//   Enter ... Exit   frames of TensorFlow 1, one in another (unroll/frames.h); nodes are named node/turn_3
//   TensorList*, TensorArray*, Stack*    which tensor is where is known, so reads are edges (unroll/lists.h): what the
//                    forward loop keeps for the backward one needs no node at all; only stacking and concatenating does
//   Switch, Merge    where the predicate is known, the other side is not made; the rest is left to lower_switches. With
//                    choose_branches that is done to graphs without loops, too
//   references       are read where the reader is (order_variable_accesses.h): who waits for a value that a loop passes on, or for what comes
//                    out of it, waits for the writes which that value or the loop's condition came after
//   random numbers   of one node go on with one stream from turn to turn, as in TensorFlow: the copies share it (kStreamAttr)
//                    and draw in order; it is called loop:body:node or loop:cond:node, as no node is
//
// What is known only when running is a question (unroll/questions.h): it has been answered by a run before, or the loop is
// refused, or the graph becomes one that asks it.
//
// Needs: no calls, conditionals as Switch and Merge. Establishes: no loops, lists, arrays or stacks.
#ifndef MILLRACE_PASSES_UNROLL_UNROLL_LOOPS_H_
#define MILLRACE_PASSES_UNROLL_UNROLL_LOOPS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/op.h"
#include "passes/kernel_oracle.h"
#include "passes/unroll/questions.h"

namespace millrace {

struct UnrollOptions {
  int64_t max_nodes = 1'000'000;  // of the result
  std::map<std::string, TensorType> variable_types;  // of variables that exist already
  bool choose_branches = false;  // also of graphs without loops: those whose predicates are known
  bool any_shapes = false;  // what the two sides of a conditional give may differ in size (lower_switches)
  bool exact_sizes = false;  // sizes that follow from values are asked for (unroll/exact_sizes.h)
  QuestionOptions questions;
  std::vector<std::string> targets;  // nodes that run though nothing follows from them
  const Graph* whole = nullptr;  // what the graph was pruned from, which may hold what initialises its tables; null: nothing else
};

struct UnrollResult {
  bool changed = false;
  std::vector<std::string> effects;  // nodes that must run as targets do: loops with effects
  std::vector<std::string> asked;    // asking: by fetch of the graph, in order, the questions that it answers (QuestionsOf)
  bool stopped = false;              // asking: there may be more when these are answered
  int64_t searches = 0;              // of what questions follow from
};

// Unimplemented names a loop, list or array, and what its turns, length or index depend on; where that are feeds alone, the
// status carries their names (needed_feeds.h). OutOfRange beyond max_nodes.
absl::StatusOr<UnrollResult> UnrollLoops(Graph& graph, const OpRegistry& ops, KernelOracle& oracle,
                                         const UnrollOptions& options);

}  // namespace millrace

#endif  // MILLRACE_PASSES_UNROLL_UNROLL_LOOPS_H_
