// DepthwiseConv2dNative and its gradients of few channels, channels last: a line of pixels is one long vector of elements. Lanes that are a
// period of whole vectors apart have the same channel, so that weights are vectors, and so are the sums of their gradients.
//
// Lines are copied between zeros where they are padded; with strides the columns that a tap sees are put side by side.
#include <cmath>
#include <cstring>
#include <type_traits>

#include "cpu/kernels/common.h"
#include "cpu/kernels/conv_kernels.h"
#include "cpu/kernels/gemm_tile.h"

namespace millrace::cpu {
namespace {

constexpr int64_t kMacsPerShard = 1 << 18;
// A private filter gradient must be worth its own summing up.
constexpr int64_t kMinRowsPerPartial = 4;
// Of more channels other kernels fill their vectors. Gradients of filters gain as long as periods are short.
constexpr int64_t kMostChannels = 7;

constexpr int64_t kLanes = kGemmLanes<float>;
using Vector = GemmVector<float>;
using Mask = GemmVector<int32_t>;

Vector LoadVector(const float* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof(vector));
  return vector;
}

// Vectors after which channels repeat.
int64_t PeriodOf(int64_t channels) {
  int64_t vectors = 1;
  while (vectors * kLanes % channels != 0) ++vectors;
  return vectors;
}

// A layer, or the gradient of one of stride 1 for its input, as sums over taps of a source for every pixel of a result. Rows and columns.
struct GatherSizes {
  int64_t batch, channels;
  int64_t source[2], result[2], kernel[2], stride[2], dilation[2], pad[2];
  bool flipped;  // the first tap has the last weight

  GatherSizes(const ConvGeometry& g, ConvKind kind) : batch(g.batch), channels(g.in_channels), flipped(kind == ConvKind::kInput) {
    for (int d = 0; d < 2; ++d) {
      source[d] = flipped ? g.out[d] : g.in[d];
      result[d] = flipped ? g.in[d] : g.out[d];
      kernel[d] = g.kernel[d];
      stride[d] = g.stride[d];
      dilation[d] = g.dilation[d];
      pad[d] = flipped ? (g.kernel[d] - 1) * g.dilation[d] - g.pad_before[d] : g.pad_before[d];
    }
  }

  int64_t taps() const { return kernel[0] * kernel[1]; }
  int64_t weight(int64_t tap) const { return flipped ? taps() - 1 - tap : tap; }
  int64_t line() const { return result[1] * channels; }
  int64_t macs() const { return batch * result[0] * line() * taps(); }
};

// Copies of lines of the source: columns whose numbers, padding included, are `stride` apart are side by side.
class Lines {
 public:
  // A tap may be read as far as `excess` elements behind its line.
  Lines(const GatherSizes& sizes, int64_t excess) : sizes_(sizes) {
    pixels_ = sizes.result[1] + (sizes.kernel[1] - 1) * sizes.dilation[1] / sizes.stride[1];
    plane_ = (pixels_ * sizes.channels + excess + kLanes - 1) / kLanes * kLanes;
  }

  int64_t elements() const { return sizes_.stride[1] * plane_; }
  // Of the line of tap k.
  int64_t At(int64_t k) const {
    const int64_t column = k * sizes_.dilation[1];
    return column % sizes_.stride[1] * plane_ + column / sizes_.stride[1] * sizes_.channels;
  }
  // Into a copy that holds zeros, or another line.
  void Copy(const float* line, float* to) const {
    const int64_t stride = sizes_.stride[1], pad = sizes_.pad[1], channels = sizes_.channels;
    for (int64_t plane = 0; plane < stride; ++plane) {
      // Of the first column that is no padding; of the last one that is in the source, or that a tap sees.
      const int64_t first = pad > plane ? (pad - plane + stride - 1) / stride : 0;
      const int64_t last = std::min(pixels_, (sizes_.source[1] + pad - plane + stride - 1) / stride);
      const float* from = line + (first * stride + plane - pad) * channels;
      float* into = to + plane * plane_ + first * channels;
      if (stride > 1) {
        CopyPixels(from, stride * channels, last - first, into);
      } else if (first < last) {
        std::memcpy(into, from, (last - first) * channels * sizeof(float));
      }
    }
  }

 private:
  // Every `step` elements a pixel.
  void CopyPixels(const float* from, int64_t step, int64_t count, float* to) const {
    const auto copy = [&](auto channels) {
      for (int64_t i = 0; i < count; ++i) {
        for (int64_t c = 0; c < channels; ++c) to[i * channels + c] = from[i * step + c];
      }
    };
    switch (sizes_.channels) {
      case 1: return copy(std::integral_constant<int64_t, 1>());
      case 2: return copy(std::integral_constant<int64_t, 2>());
      case 3: return copy(std::integral_constant<int64_t, 3>());
      case 4: return copy(std::integral_constant<int64_t, 4>());
      default: return copy(sizes_.channels);
    }
  }

  const GatherSizes sizes_;
  int64_t pixels_, plane_;
};

// The output (kForward) or the input gradient (kInput).
template <int kPeriod>
class NarrowGather final : public Kernel {
 public:
  NarrowGather(const ConvGeometry& g, ConvKind kind) : sizes_(g, kind), input_(kind == ConvKind::kForward ? 0 : 2), lines_(sizes_, kPeriod * kLanes) {
    ring_rows_ = std::min((sizes_.kernel[0] - 1) * sizes_.dilation[0] + 1, sizes_.source[0]);
    const int64_t most = std::clamp<int64_t>((g.scratch_limit() - table_bytes()) / ring_bytes(), 1, kMaxShards);
    shards_ = NumShards(sizes_.macs(), kMacsPerShard, std::min(most, sizes_.batch * sizes_.result[0]));
  }

  int64_t scratch_bytes() const override { return table_bytes() + shards_ * ring_bytes(); }

  absl::Status Run(const KernelContext& context) const override {
    auto* scratch = static_cast<std::byte*>(context.scratch);
    auto* table = reinterpret_cast<float*>(scratch);
    const float* filter = context.input<float>(1);
    const bool finite = std::all_of(filter, filter + sizes_.taps() * sizes_.channels, [](float weight) { return std::isfinite(weight); });
    for (int64_t tap = 0; tap < sizes_.taps(); ++tap) {
      const float* weights = filter + sizes_.weight(tap) * sizes_.channels;
      for (int64_t e = 0; e < kPeriod * kLanes; ++e) table[tap * kPeriod * kLanes + e] = weights[e % sizes_.channels];
    }
    const int64_t rows = sizes_.batch * sizes_.result[0];
    context.parallel->For(shards_, [&](int64_t shard) {
      auto* ring = reinterpret_cast<float*>(scratch + table_bytes() + shard * ring_bytes());
      std::fill_n(ring, ring_rows_ * lines_.elements(), 0.0f);
      RunRows(context.input<float>(input_), table, finite, rows * shard / shards_, rows * (shard + 1) / shards_, ring, context.output<float>(0));
    });
    return absl::OkStatus();
  }

 private:
  // Sums that the registers hold.
  static constexpr int kVectors = kPeriod * std::max(kGemmRows * 3 / 2 / kPeriod, 1);

  int64_t table_bytes() const { return AlignUp(sizes_.taps() * kPeriod * static_cast<int64_t>(sizeof(Vector))); }
  int64_t ring_bytes() const { return AlignUp(ring_rows_ * lines_.elements() * static_cast<int64_t>(sizeof(float))); }

  // Rows [begin, end) of the results of all images. The ring has the last lines of the source that they see.
  void RunRows(const float* source, const float* table, bool finite, int64_t begin, int64_t end, float* ring, float* result) const {
    const int64_t line = sizes_.line();
    int64_t next = 0;  // line that is not in the ring yet
    for (int64_t row = begin; row < end; ++row) {
      const int64_t image = row / sizes_.result[0], start = row % sizes_.result[0] * sizes_.stride[0] - sizes_.pad[0];
      if (row == begin || row % sizes_.result[0] == 0) next = 0;
      const int64_t last = std::min(start + (sizes_.kernel[0] - 1) * sizes_.dilation[0] + 1, sizes_.source[0]);
      for (next = std::max(next, start); next < last; ++next) {
        lines_.Copy(source + (image * sizes_.source[0] + next) * sizes_.source[1] * sizes_.channels, LineIn(ring, next));
      }
      float* to = result + row * line;
      if (!finite) {
        SumInside(table, ring, start, to);
        continue;
      }
      int64_t e = 0;
      for (; e + kVectors * kLanes <= line; e += kVectors * kLanes) Sum<kVectors>(table, ring, start, e, line, to);
      for (; e < line; e += kPeriod * kLanes) Sum<kPeriod>(table, ring, start, e, line, to);
    }
  }

  float* LineIn(float* ring, int64_t row) const { return ring + row % ring_rows_ * lines_.elements(); }

  // Elements from e on of a row whose taps begin with row `start` of the source; no more than `line`.
  template <int kSums>
  void Sum(const float* table, float* ring, int64_t start, int64_t e, int64_t line, float* to) const {
    Vector sums[kSums] = {};
    for (int64_t kh = 0; kh < sizes_.kernel[0]; ++kh) {
      const int64_t row = start + kh * sizes_.dilation[0];
      if (row < 0 || row >= sizes_.source[0]) continue;
      const float* from = LineIn(ring, row) + e;
      const float* weights = table + kh * sizes_.kernel[1] * kPeriod * kLanes;
      for (int64_t kw = 0; kw < sizes_.kernel[1]; ++kw, weights += kPeriod * kLanes) {
        const float* x = from + lines_.At(kw);
        for (int j = 0; j < kPeriod; ++j) {
          const Vector weight = LoadVector(weights + j * kLanes);
          for (int v = j; v < kSums; v += kPeriod) sums[v] += LoadVector(x + v * kLanes) * weight;
        }
      }
    }
    std::memcpy(to + e, sums, std::min<int64_t>(kSums * kLanes, line - e) * sizeof(float));
  }

  // A row without the taps that see padding: zeros times infinite weights would be NaN.
  void SumInside(const float* table, float* ring, int64_t start, float* to) const {
    for (int64_t e = 0; e < sizes_.line(); ++e) {
      const int64_t first = e / sizes_.channels * sizes_.stride[1] - sizes_.pad[1];
      float sum = 0;
      for (int64_t tap = 0; tap < sizes_.taps(); ++tap) {
        const int64_t kw = tap % sizes_.kernel[1];
        const int64_t row = start + tap / sizes_.kernel[1] * sizes_.dilation[0], column = first + kw * sizes_.dilation[1];
        if (row < 0 || row >= sizes_.source[0] || column < 0 || column >= sizes_.source[1]) continue;
        sum += LineIn(ring, row)[lines_.At(kw) + e] * table[tap * kPeriod * kLanes + e % sizes_.channels];
      }
      to[e] = sum;
    }
  }

  const GatherSizes sizes_;
  const int input_;
  const Lines lines_;
  int64_t ring_rows_ = 1, shards_ = 1;
};

// The filter gradient: sums of lanes over pieces of the output's rows, whose totals are then added in order.
template <int kPeriod>
class NarrowFilter final : public Kernel {
 public:
  explicit NarrowFilter(const ConvGeometry& g) : sizes_(g, ConvKind::kFilter), lines_(sizes_, kSpan) {
    const int64_t rows = sizes_.batch * sizes_.result[0];
    pieces_ = NumShards(sizes_.macs(), kMacsPerShard, std::clamp<int64_t>(rows / kMinRowsPerPartial, 1, kMaxShards));
  }

  int64_t scratch_bytes() const override { return pieces_ * piece_bytes(); }

  absl::Status Run(const KernelContext& context) const override {
    auto* scratch = static_cast<std::byte*>(context.scratch);
    const int64_t rows = sizes_.batch * sizes_.result[0];
    context.parallel->For(pieces_, [&](int64_t piece) {
      const int64_t begin = rows * piece / pieces_, end = rows * (piece + 1) / pieces_;
      auto* sums = reinterpret_cast<float*>(scratch + piece * piece_bytes());
      AddPiece(context, begin, end, /*padded=*/true, sums);
      // Perhaps of infinite gradients times the zeros of padding.
      const bool odd = std::any_of(sums, sums + sizes_.taps() * kSpan, [](float sum) { return std::isnan(sum); });
      if (odd) AddPiece(context, begin, end, /*padded=*/false, sums);
    });
    for (int64_t tap = 0; tap < sizes_.taps(); ++tap) {
      float* filter = context.output<float>(0) + tap * sizes_.channels;
      std::fill_n(filter, sizes_.channels, 0.0f);
      for (int64_t piece = 0; piece < pieces_; ++piece) {
        const float* sums = reinterpret_cast<const float*>(scratch + piece * piece_bytes()) + tap * kSpan;
        for (int64_t e = 0; e < kSpan; ++e) filter[e % sizes_.channels] += sums[e];
      }
    }
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kSpan = kPeriod * kLanes;
  static constexpr int kTaps = kGemmRows == 8 ? 3 : 1;  // at a time, as registers allow

  // Sums, and behind them the copy of a line.
  int64_t piece_bytes() const { return AlignUp((sizes_.taps() * kSpan + lines_.elements()) * static_cast<int64_t>(sizeof(float))); }

  // The sums of rows [begin, end) of the gradients of all images.
  void AddPiece(const KernelContext& context, int64_t begin, int64_t end, bool padded, float* sums) const {
    std::fill_n(sums, piece_bytes() / static_cast<int64_t>(sizeof(float)), 0.0f);
    for (int64_t row = begin; row < end;) {
      const int64_t image = row / sizes_.result[0], first = row % sizes_.result[0];
      const int64_t last = std::min(sizes_.result[0], first + end - row);
      AddRows(context.input<float>(0) + image * sizes_.source[0] * sizes_.source[1] * sizes_.channels,
              context.input<float>(2) + image * sizes_.result[0] * sizes_.line(), first, last, padded, sums);
      row += last - first;
    }
  }

  // Rows [first, last) of the gradient of an image.
  void AddRows(const float* source, const float* gradient, int64_t first, int64_t last, bool padded, float* sums) const {
    float* copy = sums + sizes_.taps() * kSpan;
    const int64_t begin = std::max<int64_t>(first * sizes_.stride[0] - sizes_.pad[0], 0);
    const int64_t end = std::min((last - 1) * sizes_.stride[0] - sizes_.pad[0] + (sizes_.kernel[0] - 1) * sizes_.dilation[0] + 1, sizes_.source[0]);
    for (int64_t row = begin; row < end; ++row) {
      bool is_copied = false;
      for (int64_t kh = 0; kh < sizes_.kernel[0]; ++kh) {
        const int64_t scaled = row + sizes_.pad[0] - kh * sizes_.dilation[0], of_gradient = scaled / sizes_.stride[0];
        if (scaled < 0 || scaled % sizes_.stride[0] != 0 || of_gradient < first || of_gradient >= last) continue;
        if (!is_copied) lines_.Copy(source + row * sizes_.source[1] * sizes_.channels, copy);
        is_copied = true;
        const float* line = gradient + of_gradient * sizes_.line();
        float* to = sums + kh * sizes_.kernel[1] * kSpan;
        if (padded) {
          AddRow(copy, line, to);
        } else {
          AddInside(copy, line, to);
        }
      }
    }
  }

  void AddRow(const float* line, const float* gradient, float* sums) const {
    const int64_t whole = sizes_.line() / kSpan * kSpan, rest = sizes_.line() - whole;
    float last[kSpan] = {};
    std::memcpy(last, gradient + whole, rest * sizeof(float));
    int64_t kw = 0;
    for (; kw + kTaps <= sizes_.kernel[1]; kw += kTaps) AddTaps<kTaps>(line, kw, gradient, whole, last, rest, sums);
    for (; kw < sizes_.kernel[1]; ++kw) AddTaps<1>(line, kw, gradient, whole, last, rest, sums);
  }

  // A row without what meets padding.
  void AddInside(const float* line, const float* gradient, float* sums) const {
    for (int64_t kw = 0; kw < sizes_.kernel[1]; ++kw) {
      for (int64_t e = 0; e < sizes_.line(); ++e) {
        const int64_t column = e / sizes_.channels * sizes_.stride[1] - sizes_.pad[1] + kw * sizes_.dilation[1];
        if (column >= 0 && column < sizes_.source[1]) sums[kw * kSpan + e % kSpan] += line[lines_.At(kw) + e] * gradient[e];
      }
    }
  }

  // What a line has behind the last pixel is left out: it may be infinite.
  template <int kCount>
  void AddTaps(const float* line, int64_t kw, const float* gradient, int64_t whole, const float* last, int64_t rest, float* sums) const {
    const float* x[kCount];
    for (int t = 0; t < kCount; ++t) x[t] = line + lines_.At(kw + t);
    Vector products[kCount][kPeriod] = {};
    for (int64_t e = 0; e < whole; e += kSpan) {
      for (int j = 0; j < kPeriod; ++j) {
        const Vector dy = LoadVector(gradient + e + j * kLanes);
        for (int t = 0; t < kCount; ++t) products[t][j] += LoadVector(x[t] + e + j * kLanes) * dy;
      }
    }
    if (rest > 0) {
      for (int j = 0; j < kPeriod; ++j) {
        Mask inside;
        for (int lane = 0; lane < kLanes; ++lane) inside[lane] = j * kLanes + lane < rest ? -1 : 0;
        const Vector dy = LoadVector(last + j * kLanes);
        for (int t = 0; t < kCount; ++t) products[t][j] += (inside ? LoadVector(x[t] + whole + j * kLanes) : Vector{}) * dy;
      }
    }
    for (int t = 0; t < kCount; ++t) {
      for (int j = 0; j < kPeriod; ++j) {
        float* to = sums + (kw + t) * kSpan + j * kLanes;
        const Vector sum = LoadVector(to) + products[t][j];
        std::memcpy(to, &sum, sizeof(sum));
      }
    }
  }

  const GatherSizes sizes_;
  const Lines lines_;
  int64_t pieces_ = 1;
};

template <int kPeriod>
std::unique_ptr<Kernel> MakeNarrow(const ConvGeometry& geometry, ConvKind kind) {
  if (kind == ConvKind::kFilter) return std::make_unique<NarrowFilter<kPeriod>>(geometry);
  return std::make_unique<NarrowGather<kPeriod>>(geometry, kind);
}

}  // namespace

std::unique_ptr<Kernel> MakeNarrowDepthwiseConv(const ConvGeometry& geometry, ConvKind kind) {
  const int64_t channels = geometry.in_channels;
  const bool strided = geometry.stride[0] > 1 || geometry.stride[1] > 1;
  if (channels % kLanes == 0 || (kind != ConvKind::kFilter && (strided || channels > kMostChannels))) return nullptr;
  switch (PeriodOf(channels)) {
    case 1: return MakeNarrow<4>(geometry, kind);  // more sums at a time
    case 3: return MakeNarrow<3>(geometry, kind);
    case 5: return MakeNarrow<5>(geometry, kind);
    case 7: return MakeNarrow<7>(geometry, kind);
    default: return nullptr;
  }
}

}  // namespace millrace::cpu
