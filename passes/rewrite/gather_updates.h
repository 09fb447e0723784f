// Gather updates: small updates of variables wait for one another in creation order, since a device with streams launches
// those that follow one another at once (runtime/stream/launch_group.h).
//
//   g1, update1, g2, update2, g3, update3      becomes      g1, g2, g3, update1, update2, update3
//
// Updates of one op and type wait, at most as many as are launched together, until somebody needs one of them, and as long
// as what they wait with (their gradients) is a small part of all gradients.
//
// Needs: variable accesses ordered by edges. Establishes: another creation order, hence no other results.
#ifndef MILLRACE_PASSES_REWRITE_GATHER_UPDATES_H_
#define MILLRACE_PASSES_REWRITE_GATHER_UPDATES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/op.h"

namespace millrace {

// Updates that wait for one another at most.
inline constexpr size_t kMaxGatheredUpdates = 32;
// Of the bytes of all gradients, what may wait.
inline constexpr int64_t kWaitingPart = 16;

// Returns the number of updates that stand elsewhere now. `by_value` (per node id) follows. InvalidArgument names a node on a cycle.
absl::StatusOr<int64_t> GatherUpdates(Graph& graph, const OpRegistry& ops, std::vector<uint64_t>& by_value);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_GATHER_UPDATES_H_
