// Channels first: convolutions and what lies between them hold their tensors with the channels first, where a device's library
// would otherwise turn the tensors of every convolution around and back.
//
//   x ─► Conv2D ─► Relu ─► MaxPool ─► y       becomes     x ─► Transpose ─► Conv2D ─► Relu ─► MaxPool ─► Transpose ─► y
//
// Convolutions, their gradients, normalisation, pooling, biases, concatenations, slices, reductions over space or with their
// dimensions kept, and elementwise ops compute either way (layout_forms.h): what repeats over an image turns with it. Which of
// them turn is the choice that moves the fewest bytes (choose_layouts.h): cuDNN's engines for float32 without tensor cores copy
// input and output of a convolution and of its input's gradient when channels are last, and of some filters' gradients when they
// are first (bench/results/cuda.md). With TF32 and halves, the other way round: on where not said otherwise for CUDA devices without TF32.
//
// Needs: types, constants folded; before variable accesses are ordered. Establishes: the same nodes, those that turned
// with data_format NCHW or NCDHW, under the same names, but for those whose results are fetched: their Transposes have these.
// Sums over space round in another order, the same under every plan.
#ifndef MILLRACE_PASSES_REWRITE_CHANNELS_FIRST_H_
#define MILLRACE_PASSES_REWRITE_CHANNELS_FIRST_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/op.h"

namespace millrace {

// Returns the number of nodes that were turned around. `by_value` (per node id) follows.
absl::StatusOr<int64_t> ChannelsFirst(Graph& graph, const OpRegistry& ops, std::vector<uint64_t>& by_value);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_CHANNELS_FIRST_H_
