// Bypass unused: a node whose values nobody takes does not run, though others wait for it. TensorFlow's gradients are
// full of them: what makes the gradient of a layer's filter makes that of its input as well, and a group waits for both,
// even where the input is an image.
//
// Needs: what is not needed removed. Establishes: every node whose op has no effect and cannot fail has a value that
// somebody takes, or is a target. Who waited for a node that is gone waits for what came before it.
#ifndef MILLRACE_PASSES_REWRITE_BYPASS_UNUSED_H_
#define MILLRACE_PASSES_REWRITE_BYPASS_UNUSED_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/op.h"

namespace millrace {

// Returns the number of nodes that are gone; `targets` by name stay.
absl::StatusOr<int64_t> BypassUnused(Graph& graph, const OpRegistry& ops, const std::vector<std::string>& targets);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_BYPASS_UNUSED_H_
