// Bypass identities: what IdentityN passes on is taken from where it comes from, so that none of its values waits for the
// others. Keras 3 passes all gradients through one such node before the first update.
//
//   g1 ─► ┌─────────┐ ─► update 1          g1 ─► update 1
//   g2 ─► │IdentityN│ ─► update 2    =     g2 ─► update 2
//
// Needs: types. Establishes: no IdentityN but of variables' memory, behind many others by control edges, and those that are asked for by
// name; ids in creation order, which is the one that the IdentityNs gave.
#ifndef MILLRACE_PASSES_REWRITE_BYPASS_IDENTITIES_H_
#define MILLRACE_PASSES_REWRITE_BYPASS_IDENTITIES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/op.h"

namespace millrace {

// Returns how many went. Whoever took a value waits for what the node waited for. `by_value` (per node id) follows.
absl::StatusOr<int64_t> BypassIdentities(Graph& graph, const OpRegistry& ops, const std::vector<std::string>& targets,
                                         std::vector<uint64_t>& by_value);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_BYPASS_IDENTITIES_H_
