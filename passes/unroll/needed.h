// What of a While anybody needs. TensorFlow takes a While apart into Switch and Merge before it looks at what is fetched: a carried value that
// nothing follows from is not computed, and what its computation alone does is not done, in no turn; what is needed is done in every one.
// Where functions say themselves which of their nodes have effects (control results, those of tf.function do), all of these are needed.
#ifndef MILLRACE_PASSES_UNROLL_NEEDED_H_
#define MILLRACE_PASSES_UNROLL_NEEDED_H_

#include <vector>

#include "millrace/graph.h"
#include "passes/unroll/bodies.h"
#include "passes/unroll/run.h"

namespace millrace {

struct NeededTurns {
  std::vector<bool> values;        // carried, by index
  std::vector<bool> in_condition;  // nodes that needed values, turns or effects follow from
  std::vector<bool> in_body;
};

// Of node `loop` where `run` stands. All values are needed where something waits for the loop, or nothing uses it: then it is a target.
NeededTurns FindNeeded(const Run& run, NodeId loop, const Body& condition, const Body& body);

}  // namespace millrace

#endif  // MILLRACE_PASSES_UNROLL_NEEDED_H_
