#include "cpu/kernels/broadcast.h"

#include <cstring>
#include <utility>

namespace millrace::cpu {
namespace {

constexpr int64_t kWideBytes = 8192;  // of an operand in a block
constexpr int64_t kLongestShort = 32;

// `rows` short runs of `length` elements beside each other. Each is written with kStore elements, of which the next run, or the room
// behind the last one, takes what is too much.
template <int64_t kStore, typename T>
void SpreadRuns(const T* in, int64_t row_stride, int64_t stride, int64_t length, int64_t rows, T* out) {
  if (stride == 0) {
    for (int64_t r = 0; r < rows; ++r) {
      const T value = in[r * row_stride];
      for (int64_t i = 0; i < kStore; ++i) out[r * length + i] = value;
    }
    return;
  }
  T run[kStore] = {};
  if (row_stride == 0) {
    std::copy_n(in, length, run);
    for (int64_t r = 0; r < rows; ++r) std::memcpy(static_cast<void*>(out + r * length), run, sizeof(run));
    return;
  }
  std::memcpy(static_cast<void*>(out), in, static_cast<size_t>(rows * length) * sizeof(T));  // then the rows follow each other
}

// Rows [row, row + rows) of an input, a row being a run of the layout.
template <typename T>
void SpreadRows(const BroadcastLayout& layout, const absl::InlinedVector<int64_t, 6>& strides, const T* in, int64_t row, int64_t rows,
                T* out) {
  const int last = static_cast<int>(layout.dims.size()) - 1;
  const int64_t length = layout.run(), beside = layout.dims[last - 1];
  while (rows > 0) {
    int64_t rest = row, offset = 0;
    for (int d = last - 1; d >= 0; --d) {
      offset += rest % layout.dims[d] * strides[d];
      rest /= layout.dims[d];
    }
    const int64_t count = std::min(rows, beside - row % beside);
    const auto spread = length <= 4 ? SpreadRuns<4, T> : length <= 16 ? SpreadRuns<16, T> : SpreadRuns<kLongestShort, T>;
    spread(in + offset, strides[last - 1], strides[last], length, count, out);
    row += count;
    rows -= count;
    out += count * length;
  }
}

void SpreadRows(const BroadcastLayout& layout, int input, const char* in, int64_t element_bytes, int64_t row, int64_t rows, char* out) {
  const auto of = [&](auto element) {
    using T = decltype(element);
    SpreadRows(layout, layout.strides[input], reinterpret_cast<const T*>(in), row, rows, reinterpret_cast<T*>(out));
  };
  switch (element_bytes) {
    case 1: return of(uint8_t());
    case 2: return of(uint16_t());
    case 4: return of(uint32_t());
    case 8: return of(uint64_t());
    default: return of(std::pair<uint64_t, uint64_t>());
  }
}

}  // namespace

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

void ForEachWideBlock(const BroadcastLayout& layout, absl::Span<const char* const> inputs, int64_t element_bytes, int64_t begin, int64_t end,
                      absl::FunctionRef<void(const char* const* operands, int64_t at, int64_t n)> loop) {
  if (begin >= end) return;
  alignas(64) char copies[2][kWideBytes + kLongestShort * 16];
  const int64_t length = layout.run(), block = kWideBytes / element_bytes / length, rows = (end + length - 1) / length;
  for (int64_t row = begin / length; row < rows; row += block) {
    const int64_t count = std::min(block, rows - row);
    const int64_t first = std::max(begin, row * length), n = std::min(end, (row + count) * length) - first;
    const char* operands[2] = {};
    for (size_t k = 0; k < inputs.size(); ++k) {
      const auto& strides = layout.strides[k];
      if (std::find(strides.begin(), strides.end(), 0) == strides.end()) {
        operands[k] = inputs[k] + first * element_bytes;
        continue;
      }
      SpreadRows(layout, static_cast<int>(k), inputs[k], element_bytes, row, count, copies[k]);
      operands[k] = copies[k] + (first - row * length) * element_bytes;
    }
    loop(operands, first, n);
  }
}

}  // namespace millrace::cpu
