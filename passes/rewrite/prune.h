// Prune: keeps what the fetches and targets need, turns fed tensors into _Feed nodes and fetched ones into
// _Fetch nodes. Needs: nothing. Establishes: every node is needed; every placeholder left is fed.
#ifndef MILLRACE_PASSES_REWRITE_PRUNE_H_
#define MILLRACE_PASSES_REWRITE_PRUNE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/op.h"
#include "millrace/tensor.h"

namespace millrace {

// What one Run asks for.
struct Signature {
  std::map<std::string, TensorType> feeds;  // by tensor name "x:0"
  std::vector<std::string> fetches;         // tensor names, in the caller's order, may repeat
  std::vector<std::string> targets;         // node names
  std::map<std::string, Tensor> feed_values;  // of those that planning takes by value
  std::map<std::string, Tensor> answers;      // to what only a run can tell (unroll/questions.h)
  bool ask = false;                           // the questions take the place of fetches and targets
  int64_t guesses = 0;                        // asking: turns of loops that are taken to follow
};

// Whether a node of which an output is fed runs for those that wait for it by control edges: a feed stands for a placeholder, and of
// any other node for the value alone. Ops that are not built in (those of input pipelines) are fed to be there no more.
bool RunsThoughFed(const Node& node);

// The pruned copy of `graph`. NotFound names a feed, fetch or target that is not there; InvalidArgument a
// placeholder that is needed and not fed, or a fed type that contradicts the placeholder's.
// What starts an input pipeline (MakeIterator) becomes a NoOp, without the pipeline, that waits for what leads to the pipeline and can be run.
// _Fetch nodes have attr "index" (into signature.fetches), _Feed nodes attr "tensor" (the feed's name).
absl::StatusOr<Graph> Prune(const Graph& graph, const Signature& signature);

// Of a pruned graph without calls: what starts a pipeline in a function becomes such a NoOp, too, and the pipeline goes.
void DropPipelines(Graph& graph);

// The same without calls: what runs for the signature, for those who look at it. Of planning's limit (InlineFunctions) the default holds.
absl::StatusOr<Graph> PruneAndInline(const Graph& graph, const Signature& signature, const OpRegistry& ops);

// Drops what no fetch and no target needs any more, and closes the holes; `per_node` (a value per node id) follows
// its nodes.
void RemoveUnneeded(Graph& graph, const Signature& signature, std::vector<uint64_t>& per_node);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_PRUNE_H_
