// NumPy broadcasting as nested runs: which elements of each input make a contiguous run of the output.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_BROADCAST_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_BROADCAST_H_

#include <algorithm>
#include <array>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "millrace/types.h"

namespace millrace::cpu {

inline constexpr int kMaxBroadcastInputs = 3;

// The output's dimensions, outermost first, merged where every input allows it; there is at least one.
struct BroadcastLayout {
  absl::InlinedVector<int64_t, 6> dims;
  // Per input and dimension, in elements; 0 where the input repeats. The last is 1 or 0.
  std::array<absl::InlinedVector<int64_t, 6>, kMaxBroadcastInputs> strides;
  int64_t num_elements = 0;

  int64_t run() const { return dims.back(); }
  bool repeats(int input) const { return strides[input].back() == 0; }
};

// Requires shapes that broadcast to `output`.
BroadcastLayout MakeBroadcastLayout(const Shape& output, absl::Span<const Shape> inputs);

// Calls run(offsets, begin, n) for the runs that make up output elements [begin, end), in order: offsets[i] is the
// first element of input i, `begin` that of the output.
template <typename Run>
void ForEachRun(const BroadcastLayout& layout, int64_t begin, int64_t end, Run&& run) {
  std::array<int64_t, kMaxBroadcastInputs> offsets = {};
  const int last = static_cast<int>(layout.dims.size()) - 1;
  const int64_t length = layout.run();
  if (last == 0) {
    for (int k = 0; k < kMaxBroadcastInputs; ++k) offsets[k] = layout.strides[k][0] * begin;
    if (begin < end) run(offsets, begin, end - begin);
    return;
  }
  absl::InlinedVector<int64_t, 6> index(layout.dims.size());
  for (int64_t at = begin; at < end;) {
    int64_t rest = at;
    offsets = {};
    for (int d = last; d >= 0; --d) {
      index[d] = rest % layout.dims[d];
      rest /= layout.dims[d];
      for (int k = 0; k < kMaxBroadcastInputs; ++k) offsets[k] += index[d] * layout.strides[k][d];
    }
    // The runs up to the end of the next-to-last dimension follow each other at fixed strides.
    for (int64_t row = index[last - 1]; row < layout.dims[last - 1] && at < end; ++row) {
      const int64_t n = std::min(length - index[last], end - at);
      run(offsets, at, n);
      at += n;
      for (int k = 0; k < kMaxBroadcastInputs; ++k) {
        offsets[k] += layout.strides[k][last - 1] - index[last] * layout.strides[k][last];
      }
      index[last] = 0;
    }
  }
}

// Whether there are several runs, shorter than what the call of a loop is worth.
inline bool HasShortRuns(const BroadcastLayout& layout) {
  return layout.num_elements > 0 && layout.dims.size() > 1 && layout.run() <= 32;
}

// Calls loop(operands, at, n) for blocks that make up output elements [begin, end), in order: operands[i] are the n elements of
// input i that output elements `at` and on are made of, where the input repeats in a copy. Of one or two inputs with elements
// of 1, 2, 4, 8 or 16 bytes; requires HasShortRuns.
void ForEachWideBlock(const BroadcastLayout& layout, absl::Span<const char* const> inputs, int64_t element_bytes, int64_t begin, int64_t end,
                      absl::FunctionRef<void(const char* const* operands, int64_t at, int64_t n)> loop);

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_BROADCAST_H_
