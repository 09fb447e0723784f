// Where a text comes from, for passes that do without it.
#ifndef MILLRACE_PASSES_CONTROL_FLOW_TEXT_SOURCE_H_
#define MILLRACE_PASSES_CONTROL_FLOW_TEXT_SOURCE_H_

#include "millrace/graph.h"

namespace millrace {

// The node behind the Identities that pass a text on. What takes its inputs in place of the text is to wait for what all of these wait
// for: that is added to `waits`, each once.
NodeId SourceOfText(const Graph& graph, OutputRef text, absl::InlinedVector<NodeId, 2>& waits);

// The AsString of integers or bools whose texts such a StringToHashBucket* takes, which needs the numbers alone; invalid where there is
// none. Adds to `waits` likewise.
NodeId HashedNumbers(const Graph& graph, const Node& hash, absl::InlinedVector<NodeId, 2>& waits);

}  // namespace millrace

#endif  // MILLRACE_PASSES_CONTROL_FLOW_TEXT_SOURCE_H_
