// Slice updates: an optimizer's update of a large variable becomes updates of its parts, one after another, and the slots
// that nothing else uses become variables of a part each. What Adam needs at once is then the variable, its gradient, and a
// part of each slot; and while one part is computed the next come in and the former go home.
//
//   apply(w, m, v, …, g)    apply(w[0:n], m[0:n], v[0:n], …, g[0:n]) ┄► apply(w[n:2n], m[n:2n], v[n:2n], …, g[n:2n]) ┄► …
//
// The same for updates written as single ops (update_chains.h), all of a part before the next begins.
//
// For `planned` alone, without a disk tier, and where slots fill a quarter of the budget (of all budgets together) or more. Unless parts are
// asked for, whole updates are planned, too, and the faster taken; where only parts were measured, a whole one takes their sum
// (whole_update_times.h).
//
// Needs: types, variable accesses ordered. Establishes: parts (passes/shapes/parts.h). Dense updates are elementwise, so
// the bits are the same.
#ifndef MILLRACE_PASSES_REWRITE_SLICE_UPDATES_H_
#define MILLRACE_PASSES_REWRITE_SLICE_UPDATES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/op.h"
#include "passes/rewrite/update_chains.h"

namespace millrace {

// Bytes of a slot's part, of an update that is one op and of one that is many.
struct PartBytes {
  int64_t of_op = 0, of_chain = 0;
};

struct SliceableUpdates {
  std::vector<NodeId> nodes;
  std::vector<UpdateChain> chains;
  int64_t slot_bytes = 0;  // of all their slots
};
// Chains only of slots that have two parts. InvalidArgument names a node on a cycle.
absl::StatusOr<SliceableUpdates> FindSliceableUpdates(const Graph& graph, const OpRegistry& ops, PartBytes part);

// Slices those of slots of at least twice a part into parts of about that size, of multiples of 1024 elements, 256 at most. What would
// be one part stays as it is. Returns the number of updates that were.
// `by_value` (per node id) goes with the nodes, which are numbered anew.
int64_t SliceUpdates(Graph& graph, const OpRegistry& ops, const SliceableUpdates& updates, PartBytes part,
                     std::vector<uint64_t>& by_value);

// Of names of targets: of an update that has been sliced, that of its last part, which comes after all others.
std::vector<std::string> TargetsOfParts(const Graph& graph, std::vector<std::string> targets);

// The name that the update of which `part` is a part had as a whole.
std::string WholeUpdateName(const Node& part);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_SLICE_UPDATES_H_
