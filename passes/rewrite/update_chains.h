// Update chains: optimizers written as single ops (Keras 3's), elementwise from a gradient and slots to the slots and the
// variable, in a form in which they can be made part by part (slice_updates.h).
//
//   m ─ read ─► sub(g, m) ─► mul ─► assign_add(m) ┄► read ─► div ─► assign_sub(w)
//
// A chain is all that hangs together by values and slots. No node outside lies between two of it.
#ifndef MILLRACE_PASSES_REWRITE_UPDATE_CHAINS_H_
#define MILLRACE_PASSES_REWRITE_UPDATE_CHAINS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/op.h"

namespace millrace {

struct UpdateChain {
  std::vector<NodeId> nodes;  // reads, elementwise ops, assignments; in creation order
  std::vector<NodeId> slots;  // variables that nothing else uses, of the chain's type
};

// Only ops whose elements come out with the same bits wherever they lie, of slots of at least `least_bytes`. InvalidArgument
// names a node on a cycle.
absl::StatusOr<std::vector<UpdateChain>> FindUpdateChains(const Graph& graph, const OpRegistry& ops, int64_t least_bytes);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_UPDATE_CHAINS_H_
