// For graphs whose sizes follow from the step's own values and have no bound that does: those sizes are questions
// (unroll/questions.h), and the graph is planned for the answers, exactly.
//
//   n = Sum(Cast(x > 0))   Fill([n], 0)        n is asked for, and a constant where Fill takes it
//   rows = Where(x > 0)    Gather(y, rows)     the shape of rows is asked for; Gather takes Reshape(rows, [3, 1])
#ifndef MILLRACE_PASSES_UNROLL_EXACT_SIZES_H_
#define MILLRACE_PASSES_UNROLL_EXACT_SIZES_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "passes/unroll/lists.h"
#include "passes/unroll/straight_graph.h"
#include "passes/unroll/value.h"

namespace millrace {

// The question before the first of sizes, whose answer is true: what has it is planned so from then on.
inline constexpr char kAsksForSizes[] = "sizes";

// Adds the node as StraightGraph does. Values that its shape rule asked for in vain are constants, and it waits for what
// made them.
absl::StatusOr<NodeId> AddWithKnownSizes(StraightGraph& out, const NodeCall& call, Node node);

// Outputs of `made` whose shapes are known only when running become tensors of the shapes that were found.
absl::Status SettleShapes(StraightGraph& out, const NodeCall& call, NodeId made, absl::Span<Value> outputs);

}  // namespace millrace

#endif  // MILLRACE_PASSES_UNROLL_EXACT_SIZES_H_
