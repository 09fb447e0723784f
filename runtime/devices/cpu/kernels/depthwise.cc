// DepthwiseConv2dNative and its gradients, channels last: sums over taps in registers, channels side by side.
//
// The output and the input gradient are the same gather, destination pixel = sum over taps of a source pixel times
// weights, with other tables of taps. The filter gradient is summed by rows of the output, in fixed groups of rows
// whose partial sums are then added in order.
#include <cstring>
#include <vector>

#include "cpu/kernels/common.h"
#include "cpu/kernels/conv_kernels.h"

namespace millrace::cpu {
namespace {

constexpr double kMacsPerShard = 1 << 18;
// A private filter gradient must be worth its own summing up.
constexpr int64_t kMinRowsPerPartial = 4;

// Tap `k` joins this destination index with source index `source`.
struct Tap {
  int64_t k, source;
};

// Lists of taps by destination index.
class TapTable {
 public:
  // Of output indices when kind is kForward, else of input indices.
  TapTable(const ConvGeometry& g, int dim, ConvKind kind) {
    const int64_t size = kind == ConvKind::kForward ? g.out[dim] : g.in[dim];
    for (int64_t i = 0; i < size; ++i) {
      begin_.push_back(taps_.size());
      for (int64_t k = 0; k < g.kernel[dim]; ++k) {
        const int64_t shift = k * g.dilation[dim] - g.pad_before[dim];
        if (kind == ConvKind::kForward) {
          const int64_t source = i * g.stride[dim] + shift;
          if (source >= 0 && source < g.in[dim]) taps_.push_back({k, source});
        } else if (const int64_t scaled = i - shift; scaled >= 0 && scaled % g.stride[dim] == 0) {
          if (scaled / g.stride[dim] < g.out[dim]) taps_.push_back({k, scaled / g.stride[dim]});
        }
      }
    }
    begin_.push_back(taps_.size());
  }
  absl::Span<const Tap> of(int64_t i) const {
    return absl::MakeConstSpan(taps_).subspan(begin_[i], begin_[i + 1] - begin_[i]);
  }

 private:
  std::vector<Tap> taps_;
  std::vector<size_t> begin_;
};

template <typename T, int kBytes>
struct ChannelVector {
  typedef T Type __attribute__((vector_size(kBytes)));
};
// A vector of one lane would go through memory.
template <>
struct ChannelVector<float, sizeof(float)> {
  using Type = float;
};
template <>
struct ChannelVector<double, sizeof(double)> {
  using Type = double;
};

// Sums of the neighbouring channels in kVectors * kBytes, held in registers.
template <typename T, int kBytes, int kVectors>
class Block {
 public:
  static constexpr int64_t kSize = kVectors * kBytes / static_cast<int64_t>(sizeof(T));

  // Adds a[i] * b[i].
  void MultiplyAdd(const T* a, const T* b) {
    for (int v = 0; v < kVectors; ++v) sums_[v] += Load(a + v * kLanes) * Load(b + v * kLanes);
  }
  // Calls fn(i, sum i).
  template <typename Fn>
  void ForEach(Fn&& fn) const {
    for (int v = 0; v < kVectors; ++v) {
      for (int i = 0; i < kLanes; ++i) {
        if constexpr (kLanes == 1) {
          fn(v, sums_[v]);
        } else {
          fn(v * kLanes + i, sums_[v][i]);
        }
      }
    }
  }

 private:
  static constexpr int kLanes = kBytes / static_cast<int>(sizeof(T));
  using Vector = typename ChannelVector<T, kBytes>::Type;

  static Vector Load(const T* from) {
    Vector vector;
    std::memcpy(&vector, from, kBytes);
    return vector;
  }

  Vector sums_[kVectors] = {};
};

// Calls fn(first channel, TypeTag<Block>) for blocks that cover `channels`.
template <typename T, typename Fn>
void ForBlocks(int64_t channels, Fn&& fn) {
  int64_t c = 0;
  const auto cover = [&](auto tag) {
    constexpr int64_t kSize = decltype(tag)::type::kSize;
    for (; c + kSize <= channels; c += kSize) fn(c, tag);
  };
  cover(TypeTag<Block<T, 64, 4>>());
  cover(TypeTag<Block<T, 64, 2>>());
  cover(TypeTag<Block<T, 64, 1>>());
  cover(TypeTag<Block<T, 32, 1>>());
  cover(TypeTag<Block<T, 16, 1>>());
  cover(TypeTag<Block<T, sizeof(T), 1>>());
}

class Depthwise : public Kernel {
 protected:
  explicit Depthwise(const ConvGeometry& g)
      : g_(g), channels_(g.in_channels) {}

  // Weights and partial filter gradients are [tap][channel].
  int64_t filter_size() const { return g_.taps() * channels_; }

  const ConvGeometry g_;
  const int64_t channels_;
};

// The output (kForward) or the input gradient (kInput).
template <typename T>
class DepthwiseGather final : public Depthwise {
 public:
  DepthwiseGather(const ConvGeometry& g, ConvKind kind)
      : Depthwise(g), forward_(kind == ConvKind::kForward), rows_(g, 0, kind), columns_(g, 1, kind) {}

  absl::Status Run(const KernelContext& context) const override {
    const T* weights = context.input<T>(1);
    const T* source = forward_ ? context.input<T>(0) : context.input<T>(2);
    const int64_t height = forward_ ? g_.out[0] : g_.in[0];
    const double macs_per_row = g_.flops() / 2 / static_cast<double>(g_.batch * height);
    ParallelRange(context, g_.batch * height, static_cast<int64_t>(kMacsPerShard / macs_per_row),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t row = begin; row < end; ++row) {
                      Row(source, weights, row / height, row % height, context.output<T>(0));
                    }
                  });
    return absl::OkStatus();
  }

 private:
  void Row(const T* source, const T* weights, int64_t n, int64_t row, T* to) const {
    const int64_t width = forward_ ? g_.out[1] : g_.in[1], height = forward_ ? g_.out[0] : g_.in[0];
    T* pixel = to + (n * height + row) * width * channels_;
    for (int64_t column = 0; column < width; ++column, pixel += channels_) {
      ForBlocks<T>(channels_, [&](int64_t c, auto block) {
        typename decltype(block)::type sums;
        Accumulate(source, weights, n, row, column, c, sums);
        sums.ForEach([&](int64_t i, T sum) { pixel[c + i] = sum; });
      });
    }
  }

  template <typename Sums>
  void Accumulate(const T* source, const T* weights, int64_t n, int64_t row, int64_t column, int64_t c, Sums& into) const {
    const int64_t height = forward_ ? g_.in[0] : g_.out[0], width = forward_ ? g_.in[1] : g_.out[1];
    Sums sums;
    for (const Tap& r : rows_.of(row)) {
      const T* line = source + (n * height + r.source) * width * channels_ + c;
      const T* taps = weights + r.k * g_.kernel[1] * channels_ + c;
      for (const Tap& s : columns_.of(column)) sums.MultiplyAdd(line + s.source * channels_, taps + s.k * channels_);
    }
    into = sums;
  }

  const bool forward_;
  const TapTable rows_, columns_;
};

template <typename T>
class DepthwiseFilter final : public Depthwise {
 public:
  explicit DepthwiseFilter(const ConvGeometry& g) : Depthwise(g) {
    const int64_t rows = g.batch * g.out[0];
    pieces_ = NumShards(static_cast<int64_t>(g.flops() / 2), static_cast<int64_t>(kMacsPerShard),
                        std::clamp<int64_t>(rows / kMinRowsPerPartial, 1, kMaxShards));
    // Output columns [first_[k], last_[k]) have a source for tap k.
    for (int64_t k = 0; k < g.kernel[1]; ++k) {
      const int64_t shift = k * g.dilation[1] - g.pad_before[1], stride = g.stride[1];
      const int64_t first = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
      const int64_t last = g.in[1] - shift <= 0 ? 0 : (g.in[1] - shift + stride - 1) / stride;
      first_.push_back(std::min(first, g.out[1]));
      last_.push_back(std::max(first_.back(), std::min(last, g.out[1])));
    }
  }

  int64_t scratch_bytes() const override { return pieces_ * partial_bytes(); }

  absl::Status Run(const KernelContext& context) const override {
    auto* partials = static_cast<std::byte*>(context.scratch);
    const int64_t rows = g_.batch * g_.out[0];
    context.parallel->For(pieces_, [&](int64_t piece) {
      auto* sums = reinterpret_cast<T*>(partials + piece * partial_bytes());
      std::fill_n(sums, filter_size(), T(0));
      for (int64_t row = rows * piece / pieces_; row < rows * (piece + 1) / pieces_; ++row) {
        AddRow(context.input<T>(0), context.input<T>(2), row / g_.out[0], row % g_.out[0], sums);
      }
    });
    WriteTotal(partials, context.output<T>(0));
    return absl::OkStatus();
  }

 private:
  int64_t partial_bytes() const { return AlignUp(filter_size() * static_cast<int64_t>(sizeof(T))); }

  // Adds the products of output row `row` of image `n`.
  void AddRow(const T* input, const T* gradient, int64_t n, int64_t row, T* sums) const {
    const ConvGeometry& g = g_;
    const T* dy = gradient + (n * g.out[0] + row) * g.out[1] * g.out_channels;
    for (int64_t kh = 0; kh < g.kernel[0]; ++kh) {
      const int64_t in_row = row * g.stride[0] - g.pad_before[0] + kh * g.dilation[0];
      if (in_row < 0 || in_row >= g.in[0]) continue;
      const T* x = input + (n * g.in[0] + in_row) * g.in[1] * g.in_channels;
      ForBlocks<T>(channels_, [&](int64_t c, auto block) {
        using Sums = typename decltype(block)::type;
        T* to = sums + kh * g.kernel[1] * channels_ + c;
        int64_t kw = 0;
        for (; kw + 3 <= g.kernel[1]; kw += 3) AddTaps<Sums, 3>(x + c, dy + c, kw, to);
        for (; kw < g.kernel[1]; ++kw) AddTaps<Sums, 1>(x + c, dy + c, kw, to);
      });
    }
  }

  // Adds the products of taps kw .. kw + kTaps over a row: together where all have a source, then each alone.
  template <typename Sums, int kTaps>
  void AddTaps(const T* x, const T* dy, int64_t kw, T* to) const {
    const ConvGeometry& g = g_;
    const int64_t x_step = g.stride[1] * g.in_channels, tap_step = g.dilation[1] * g.in_channels;
    const int64_t first = *std::max_element(&first_[kw], &first_[kw] + kTaps);
    const int64_t last = std::max(first, *std::min_element(&last_[kw], &last_[kw] + kTaps));
    x += (kw * g.dilation[1] - g.pad_before[1]) * g.in_channels;
    Sums sums[kTaps];
    for (int64_t o = first; o < last; ++o) {
      for (int t = 0; t < kTaps; ++t) sums[t].MultiplyAdd(dy + o * g.out_channels, x + o * x_step + t * tap_step);
    }
    for (int t = 0; t < kTaps; ++t) {
      Sums& sum = sums[t];
      const auto add = [&](int64_t o) {
        sum.MultiplyAdd(dy + o * g.out_channels, x + o * x_step + t * tap_step);
      };
      for (int64_t o = first_[kw + t]; o < std::min(first, last_[kw + t]); ++o) add(o);
      for (int64_t o = std::max(last, first_[kw + t]); o < last_[kw + t]; ++o) add(o);
      T* tap = to + (kw + t) * channels_;
      sum.ForEach([&](int64_t i, T value) { tap[i] += value; });
    }
  }

  // The sum over pieces, in order.
  void WriteTotal(const std::byte* partials, T* filter) const {
    for (int64_t i = 0; i < filter_size(); ++i) {
      T total = 0;
      for (int64_t piece = 0; piece < pieces_; ++piece) total += reinterpret_cast<const T*>(partials + piece * partial_bytes())[i];
      filter[i] = total;
    }
  }

  std::vector<int64_t> first_, last_;
  int64_t pieces_ = 1;
};

}  // namespace

std::unique_ptr<Kernel> MakeDepthwiseConv(const ConvGeometry& geometry, ConvKind kind, DataType dtype) {
  const auto make = [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    if (kind == ConvKind::kFilter) return std::make_unique<DepthwiseFilter<T>>(geometry);
    return std::make_unique<DepthwiseGather<T>>(geometry, kind);
  };
  return dtype == DataType::kDouble ? make(TypeTag<double>()) : make(TypeTag<float>());
}

}  // namespace millrace::cpu
