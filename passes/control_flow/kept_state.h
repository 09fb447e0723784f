// Kept state: a resource of the graph as a variable of bytes, all zero in the beginning (graph/hidden_state.h); what keep_tables and
// keep_accumulators share.
#ifndef MILLRACE_PASSES_CONTROL_FLOW_KEPT_STATE_H_
#define MILLRACE_PASSES_CONTROL_FLOW_KEPT_STATE_H_

#include <cstdint>
#include <string>

#include "millrace/graph.h"

namespace millrace {

// Where a handle comes from, through what passes it on.
OutputRef SourceOfHandle(const Graph& graph, OutputRef ref);
// Nodes of one name are one resource.
std::string NameOfResource(const Node& resource);

// What the ops that use it are told: how the bytes are laid out, and that they are such a variable.
struct KeptState {
  KeptState();
  AttrMap attrs;
  int64_t bytes = 0;
};

// Declares what a Stage fills and an Unstage empties (rewrite/keep_stages.h): TensorFlow has no node for it.
inline constexpr char kStagingArea[] = "_StagingArea";
bool IsStagingOp(const Node& node);  // such a node, or one that uses it

bool IsAccumulator(const Node& node);  // of gradients
bool IsQueue(const Node& node);        // a staging area, or one whose elements leave in the order in which they came, in that of their priorities, or in any

// The variable that such a resource becomes where it is kept: a table that may change, an accumulator, a queue, a staging area; or that
// says whether a variable of strings is initialised. Empty of other nodes.
std::string NameOfKeptState(const Node& resource);

// The node declares the variable in place of the resource.
void BecomeKeptState(const KeptState& state, Node& resource);

// What waited for the node waits for what it took.
void BecomeNoOp(Graph& graph, NodeId id);

}  // namespace millrace

#endif  // MILLRACE_PASSES_CONTROL_FLOW_KEPT_STATE_H_
