// Fold pads: zeros around images before a convolution without padding of its own become its padding, in the gradients, too, so
// that no padded copy of the images is made, kept for the gradient, or cut from it.
//
//   p = Pad(x)   y = Conv2D(p, w) {VALID}       gw = Conv2DBackpropFilter(p, gy)       gp = Conv2DBackpropInput(w, gy)   gx = Slice(gp)
//   y = Conv2D(x, w) {EXPLICIT}                 gw = Conv2DBackpropFilter(x, gy)       gx = Conv2DBackpropInput(w, gy)
//
// A Pad goes where all who take it are such convolutions, and only with zeros in space, fewer than a window is wide, and not of a
// reference variable's memory, which may have changed when they run. A gradient
// that is only sliced goes by itself, whatever was padded.
//
// Needs: types, constants folded. Establishes: EXPLICIT paddings under the convolutions' names; who waited for a node that is
// gone waits for what came before it. The bits are those of the sums over the smaller images, which a kernel may cut otherwise;
// the same under every plan. An infinite weight meets no zero at the border any more, as in TensorFlow's own rewrite.
#ifndef MILLRACE_PASSES_REWRITE_FOLD_PADS_H_
#define MILLRACE_PASSES_REWRITE_FOLD_PADS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/op.h"

namespace millrace {

// Returns the number of nodes that are gone; `targets` by name stay. `by_value` (per node id) follows.
absl::StatusOr<int64_t> FoldPads(Graph& graph, const OpRegistry& ops, const std::vector<std::string>& targets, std::vector<uint64_t>& by_value);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_FOLD_PADS_H_
