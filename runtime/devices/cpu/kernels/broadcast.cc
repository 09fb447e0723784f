#include "cpu/kernels/broadcast.h"

namespace millrace::cpu {

BroadcastLayout MakeBroadcastLayout(const Shape& output, absl::Span<const Shape> inputs) {
  BroadcastLayout layout;
  layout.num_elements = output.num_elements();
  // From the innermost dimension outwards, merging a dimension into the one inside it when every input either
  // repeats over both or over neither.
  absl::InlinedVector<uint32_t, 6> repeats;  // bit k: input k repeats over the dimension
  for (int d = output.rank() - 1; d >= 0; --d) {
    if (output.dim(d) == 1) continue;
    uint32_t mask = 0;
    for (size_t k = 0; k < inputs.size(); ++k) {
      const int own = d - (output.rank() - inputs[k].rank());
      if (own < 0 || inputs[k].dim(own) == 1) mask |= 1u << k;
    }
    if (!repeats.empty() && repeats.back() == mask) {
      layout.dims.back() *= output.dim(d);
    } else {
      layout.dims.push_back(output.dim(d));
      repeats.push_back(mask);
    }
  }
  if (layout.dims.empty()) {
    layout.dims.push_back(1);
    repeats.push_back(0);
  }
  for (int k = 0; k < kMaxBroadcastInputs; ++k) {
    int64_t stride = 1;
    for (size_t d = 0; d < layout.dims.size(); ++d) {
      const bool repeat = k >= static_cast<int>(inputs.size()) || (repeats[d] >> k & 1) != 0;
      layout.strides[k].push_back(repeat ? 0 : stride);
      if (!repeat) stride *= layout.dims[d];
    }
    std::reverse(layout.strides[k].begin(), layout.strides[k].end());
  }
  std::reverse(layout.dims.begin(), layout.dims.end());
  return layout;
}

}  // namespace millrace::cpu
