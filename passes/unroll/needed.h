// What of loops with effects anybody needs. TensorFlow takes a While apart into Switch and Merge before it looks at what is fetched: a
// carried value that nothing follows from is not computed, and what its computation alone does is not done, in no turn; what is needed
// is done in every one. Where functions say themselves which of their nodes have effects (control results, those of tf.function do), all
// of these are needed.
//
//   x ── While (count v, pass on) ──► 1 ── While (pass on) ──► 1 unread     v is not counted, though the second loop takes what counts
#ifndef MILLRACE_PASSES_UNROLL_NEEDED_H_
#define MILLRACE_PASSES_UNROLL_NEEDED_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "passes/unroll/bodies.h"

namespace millrace {

struct NeededLoop;

// Of one body.
struct NeededNodes {
  std::vector<bool> nodes;
  std::map<int32_t, std::unique_ptr<NeededLoop>> loops;  // by node: those of which a value is needed
};

struct NeededLoop {
  std::vector<bool> values;  // carried, by index
  std::shared_ptr<const NeededNodes> condition, body;
};

// What the nodes `roots` of the body follow from. A function is looked at once for each set of its results that is asked for.
absl::StatusOr<std::shared_ptr<const NeededNodes>> FindNeeded(Bodies& bodies, const Body& body, const std::vector<NodeId>& roots);

}  // namespace millrace

#endif  // MILLRACE_PASSES_UNROLL_NEEDED_H_
