// Where a text comes from, for passes that do without it.
#ifndef MILLRACE_PASSES_REWRITE_TEXT_SOURCE_H_
#define MILLRACE_PASSES_REWRITE_TEXT_SOURCE_H_

#include "millrace/graph.h"

namespace millrace {

// The node behind the Identities that pass a text on. What takes its inputs in place of the text is to wait for what all of these wait
// for: that is added to `waits`, each once.
NodeId SourceOfText(const Graph& graph, OutputRef text, absl::InlinedVector<NodeId, 2>& waits);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_TEXT_SOURCE_H_
