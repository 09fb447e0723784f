// Which nodes compute with their channels first: the choice that moves the fewest bytes, found as a minimum cut.
//
// A float32 convolution and its input's gradient cost copies of input and output where the channels are last, and gradients
// of filters and halves where they are first (bench/results/cuda.md); an image that is made one way and taken the other costs
// a Transpose, one for all who take it. Every such cost is an edge between "first" (source) and "last" (sink), so the cheapest
// cut between them is the cheapest choice of all (Picard and Ratliff 1975; by Boykov and Kolmogorov's algorithm, PAMI 2004).
#ifndef MILLRACE_PASSES_REWRITE_CHOOSE_LAYOUTS_H_
#define MILLRACE_PASSES_REWRITE_CHOOSE_LAYOUTS_H_

#include <optional>
#include <vector>

#include "millrace/graph.h"
#include "passes/rewrite/layout_forms.h"

namespace millrace {

// By node id. Where several choices cost the same, the one that turns the fewest nodes.
std::vector<bool> ChooseChannelsFirst(const Graph& graph, const Fanout& fanout, const std::vector<std::optional<LayoutForm>>& forms);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_CHOOSE_LAYOUTS_H_
