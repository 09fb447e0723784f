#include "cpu/kernels/strided_copy.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "cpu/kernels/copy_bytes.h"
#include "cpu/kernels/transpose_tile.h"

namespace millrace::cpu {
namespace {

// Edge of the square blocks of a 2-D transpose: 16 rows of 64 bytes and more stay in the first-level cache.
constexpr int64_t kBlock = 16;
// Rows of a band of blocks: several cache lines of each of the streams that are read.
constexpr int64_t kBand = 4 * kBlock;
// Runs shorter than this many bytes are copied by a loop: the call to memcpy would cost more.
constexpr int64_t kMemcpyBytes = 64;
// Narrow rows of a turn over their elements: both sides of them stay in the first-level cache.
constexpr int64_t kNarrowRows = 256;

int64_t Magnitude(int64_t stride) { return stride < 0 ? -stride : stride; }

template <typename T>
void CopyRun(const T* in, int64_t in_stride, T* out, int64_t out_stride, int64_t count) {
  if (out_stride == 1 && in_stride == 1) {
    if (count * static_cast<int64_t>(sizeof(T)) >= kMemcpyBytes) {
      CopyBytes(out, in, count * static_cast<int64_t>(sizeof(T)));
    } else {
      for (int64_t i = 0; i < count; ++i) out[i] = in[i];
    }
  } else if (out_stride == 1 && in_stride == 0) {
    const T value = *in;
    for (int64_t i = 0; i < count; ++i) out[i] = value;
  } else if (out_stride == 1 && in_stride == -1) {
    for (int64_t i = 0; i < count; ++i) out[i] = in[-i];
  } else {
    for (int64_t i = 0; i < count; ++i) out[i * out_stride] = in[i * in_stride];
  }
}

// One block of a transpose: the outer dimension runs along the input's memory, the inner one along the output's.
template <typename T>
void TransposeBlock(const T* in, int64_t in_row, int64_t in_column, T* out, int64_t out_row, int64_t out_column,
                    int64_t rows, int64_t columns) {
  if constexpr (sizeof(T) == 4 || sizeof(T) == 8) {
    using Tile = TransposeTile<std::conditional_t<sizeof(T) == 4, float, double>>;
    if (rows % Tile::kLanes == 0 && columns % Tile::kLanes == 0 && in_row == 1 && out_column == 1) {
      using S = std::conditional_t<sizeof(T) == 4, float, double>;
      for (int64_t c = 0; c < columns; c += Tile::kLanes) {
        for (int64_t r = 0; r < rows; r += Tile::kLanes) {
          Tile::Run(reinterpret_cast<const S*>(in + c * in_column + r), in_column, Tile::kLanes,
                    reinterpret_cast<S*>(out + r * out_row + c), out_row);
        }
      }
      return;
    }
  }
  if (rows == kBlock && columns == kBlock && in_row == 1 && out_column == 1) {
    T block[kBlock][kBlock];
    for (int64_t c = 0; c < kBlock; ++c) {
      for (int64_t r = 0; r < kBlock; ++r) block[r][c] = in[c * in_column + r];
    }
    for (int64_t r = 0; r < kBlock; ++r) std::memcpy(static_cast<void*>(out + r * out_row), block[r], sizeof(block[r]));
    return;
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) out[r * out_row + c * out_column] = in[r * in_row + c * in_column];
  }
}

}  // namespace

absl::InlinedVector<int64_t, 8> RowMajorStrides(absl::Span<const int64_t> dims) {
  absl::InlinedVector<int64_t, 8> strides(dims.size(), 1);
  for (int i = static_cast<int>(dims.size()) - 2; i >= 0; --i) strides[i] = strides[i + 1] * dims[i + 1];
  return strides;
}

void StridedCopy::Prepare() {
  elements_ = 1;
  Dims kept;
  for (const Dim& dim : dims_) {
    elements_ *= dim.size;
    if (dim.size != 1) kept.push_back(dim);
  }
  std::stable_sort(kept.begin(), kept.end(), [](const Dim& a, const Dim& b) { return a.out_stride > b.out_stride; });
  dims_.clear();
  for (const Dim& dim : kept) {
    if (!dims_.empty() && dims_.back().in_stride == dim.in_stride * dim.size &&
        dims_.back().out_stride == dim.out_stride * dim.size) {
      dims_.back() = {dims_.back().size * dim.size, dim.in_stride, dim.out_stride};
    } else {
      dims_.push_back(dim);
    }
  }
  if (dims_.empty()) dims_.push_back({1, 1, 1});
  const int last = static_cast<int>(dims_.size()) - 1;
  if (last < 1) return;
  narrow_ = dims_[last].in_stride == 1 && dims_[last].out_stride == 1 ? dims_[last].size * element_size_ <= kNarrowBytes
                                                                      : dims_[last].size < kBlock;
  if (narrow_) {
    // A dimension of some length becomes the inner loop, but none so long that its lines have left the cache when the next turn
    // fills what this one left out.
    int inner = last - 1;
    while (inner > 0 && dims_[inner].size < kBlock) --inner;
    if (dims_[inner].size >= kBlock && dims_[inner].size <= 4 * kNarrowRows) {
      std::rotate(dims_.begin() + inner, dims_.begin() + inner + 1, dims_.begin() + last);
    }
    return;
  }
  if (Magnitude(dims_[last].in_stride) <= 1) return;
  // The input's fastest dimension, when long enough, becomes the other side of a blocked transpose.
  int fastest = 0;
  for (int i = 1; i < last; ++i) {
    if (Magnitude(dims_[i].in_stride) < Magnitude(dims_[fastest].in_stride)) fastest = i;
  }
  const int64_t stride = Magnitude(dims_[fastest].in_stride);
  if (stride == 0 || stride >= Magnitude(dims_[last].in_stride) || dims_[fastest].size < kBlock) return;
  std::rotate(dims_.begin() + fastest, dims_.begin() + fastest + 1, dims_.begin() + last);
  transposes_ = true;
}

// Elements [begin, end) of the index space, in rows of the last dimension.
template <typename T>
void StridedCopy::CopyRows(const T* in, T* out, int64_t begin, int64_t end) const {
  const int last = static_cast<int>(dims_.size()) - 1;
  const Dim row = dims_[last];
  absl::InlinedVector<int64_t, 8> index(last);
  int64_t rest = begin / row.size, column = begin % row.size;
  for (int i = last - 1; i >= 0; --i) {
    index[i] = rest % dims_[i].size;
    rest /= dims_[i].size;
    in += index[i] * dims_[i].in_stride;
    out += index[i] * dims_[i].out_stride;
  }
  while (begin < end) {
    const int64_t count = std::min(row.size - column, end - begin);
    CopyRun(in + column * row.in_stride, row.in_stride, out + column * row.out_stride, row.out_stride, count);
    begin += count;
    column = 0;
    for (int i = last - 1; i >= 0; --i) {
      in += dims_[i].in_stride;
      out += dims_[i].out_stride;
      if (++index[i] < dims_[i].size) break;
      in -= dims_[i].size * dims_[i].in_stride;
      out -= dims_[i].size * dims_[i].out_stride;
      index[i] = 0;
    }
  }
}

// Rows [begin, end) of the last dimension.
template <typename T>
void StridedCopy::CopyNarrow(const T* in, T* out, int64_t begin, int64_t end) const {
  constexpr int64_t kElement = sizeof(T);
  const int last = static_cast<int>(dims_.size()) - 1;
  const Dim row = dims_[last], inner = dims_[last - 1];
  const bool runs = row.in_stride == 1 && row.out_stride == 1 && row.size * kElement <= kNarrowBytes;
  absl::InlinedVector<int64_t, 8> index(last);
  int64_t rest = begin;
  for (int i = last - 1; i >= 0; --i) {
    index[i] = rest % dims_[i].size;
    rest /= dims_[i].size;
    in += index[i] * dims_[i].in_stride;
    out += index[i] * dims_[i].out_stride;
  }
  while (begin < end) {
    const int64_t count = std::min({inner.size - index[last - 1], end - begin, runs ? end : kNarrowRows});
    if (runs) {
      CopyNarrowRows(reinterpret_cast<char*>(out), inner.out_stride * kElement, reinterpret_cast<const char*>(in), inner.in_stride * kElement, count,
                     row.size * kElement);
    } else {
      for (int64_t i = 0; i < row.size; ++i) {
        CopyRun(in + i * row.in_stride, inner.in_stride, out + i * row.out_stride, inner.out_stride, count);
      }
    }
    begin += count;
    int64_t step = count;
    for (int i = last - 1; i >= 0; --i) {
      in += step * dims_[i].in_stride;
      out += step * dims_[i].out_stride;
      index[i] += step;
      if (index[i] < dims_[i].size) break;
      in -= dims_[i].size * dims_[i].in_stride;
      out -= dims_[i].size * dims_[i].out_stride;
      index[i] = 0;
      step = 1;
    }
  }
}

// Units [begin, end): a unit is kBand rows of the last two dimensions, over their whole width.
template <typename T>
void StridedCopy::CopyBlocks(const T* in, T* out, int64_t begin, int64_t end) const {
  const int last = static_cast<int>(dims_.size()) - 1;
  const Dim &rows = dims_[last - 1], &columns = dims_[last];
  const int64_t bands = (rows.size + kBand - 1) / kBand;
  for (int64_t unit = begin; unit < end; ++unit) {
    int64_t rest = unit / bands, in_at = 0, out_at = 0;
    for (int i = last - 2; i >= 0; --i) {
      const int64_t index = rest % dims_[i].size;
      rest /= dims_[i].size;
      in_at += index * dims_[i].in_stride;
      out_at += index * dims_[i].out_stride;
    }
    const int64_t first_row = unit % bands * kBand;
    in_at += first_row * rows.in_stride;
    out_at += first_row * rows.out_stride;
    const int64_t band_rows = std::min(kBand, rows.size - first_row);
    for (int64_t c = 0; c < columns.size; c += kBlock) {
      for (int64_t r = 0; r < band_rows; r += kBlock) {
        TransposeBlock(in + in_at + r * rows.in_stride + c * columns.in_stride, rows.in_stride, columns.in_stride,
                       out + out_at + r * rows.out_stride + c * columns.out_stride, rows.out_stride, columns.out_stride,
                       std::min(kBlock, band_rows - r), std::min(kBlock, columns.size - c));
      }
    }
  }
}

template <typename T>
void StridedCopy::RunTyped(const KernelContext& context, const T* in, T* out) const {
  in += in_offset_;
  out += out_offset_;
  const int64_t grain = kElementGrain * 4 / static_cast<int64_t>(sizeof(T));
  if (narrow_) {
    const int64_t rows = elements_ / dims_.back().size;
    ParallelRange(context, rows, std::max<int64_t>(grain / dims_.back().size, 1),
                  [&](int64_t begin, int64_t end) { CopyNarrow(in, out, begin, end); });
    return;
  }
  if (!transposes_) {
    ParallelRange(context, elements_, grain, [&](int64_t begin, int64_t end) { CopyRows(in, out, begin, end); });
    return;
  }
  const int64_t columns = dims_.back().size, rows = dims_[dims_.size() - 2].size;
  const int64_t units = elements_ / (columns * rows) * ((rows + kBand - 1) / kBand);
  ParallelRange(context, units, std::max<int64_t>(grain / (columns * kBand), 1),
                [&](int64_t begin, int64_t end) { CopyBlocks(in, out, begin, end); });
}

void StridedCopy::Run(const KernelContext& context, const void* in, void* out) const {
  if (elements_ == 0) return;
  switch (element_size_) {
    case 1: return RunTyped(context, static_cast<const uint8_t*>(in), static_cast<uint8_t*>(out));
    case 2: return RunTyped(context, static_cast<const uint16_t*>(in), static_cast<uint16_t*>(out));
    case 4: return RunTyped(context, static_cast<const uint32_t*>(in), static_cast<uint32_t*>(out));
    case 8: return RunTyped(context, static_cast<const uint64_t*>(in), static_cast<uint64_t*>(out));
    default:
      using Wide = std::pair<uint64_t, uint64_t>;
      return RunTyped(context, static_cast<const Wide*>(in), static_cast<Wide*>(out));
  }
}

void CopyTensor(const KernelContext& context, const void* in, void* out, int64_t bytes) {
  if (in == out || bytes == 0) return;
  ParallelRange(context, bytes, kElementGrain * 4, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char*>(out) + begin, static_cast<const char*>(in) + begin, end - begin);
  });
}

void FillZero(const KernelContext& context, void* out, int64_t bytes) {
  ParallelRange(context, bytes, kElementGrain * 4,
                [&](int64_t begin, int64_t end) { std::memset(static_cast<char*>(out) + begin, 0, end - begin); });
}

}  // namespace millrace::cpu
