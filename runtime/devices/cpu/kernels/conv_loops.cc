// Convolutions by plain loops: for the element types and geometries that oneDNN does not take.
#include <cstring>

#include "cpu/kernels/common.h"
#include "cpu/kernels/conv_kernels.h"

namespace millrace::cpu {
namespace {

using Sizes = ConvGeometry::Sizes;

// Element offsets in a batch of images.
struct Strides {
  int64_t image, channel;
  Sizes pixel;
  int64_t At(int64_t n, const Sizes& p) const {
    return n * image + p[0] * pixel[0] + p[1] * pixel[1] + p[2] * pixel[2];
  }
};

Strides StridesOf(const ConvGeometry& g, int64_t channels, const Sizes& size) {
  const int64_t pixels = size[0] * size[1] * size[2], step = g.channels_first ? 1 : channels;
  return {channels * pixels, g.channels_first ? pixels : 1, {size[1] * size[2] * step, size[2] * step, step}};
}

// Calls fn(tap, input pixel) for the taps of an output pixel that fall into the input.
template <typename Fn>
void ForTaps(const ConvGeometry& g, const Sizes& out, Fn&& fn) {
  Sizes k, in;
  int64_t tap = 0;
  for (k[0] = 0; k[0] < g.kernel[0]; ++k[0]) {
    for (k[1] = 0; k[1] < g.kernel[1]; ++k[1]) {
      for (k[2] = 0; k[2] < g.kernel[2]; ++k[2], ++tap) {
        bool inside = true;
        for (int i = 0; i < 3; ++i) {
          in[i] = out[i] * g.stride[i] - g.pad_before[i] + k[i] * g.dilation[i];
          inside = inside && in[i] >= 0 && in[i] < g.in[i];
        }
        if (inside) fn(tap, in);
      }
    }
  }
}

// Calls fn(tap, output pixel) for the output pixels that an input pixel goes into.
template <typename Fn>
void ForOutputs(const ConvGeometry& g, const Sizes& in, Fn&& fn) {
  Sizes k, out;
  int64_t tap = 0;
  for (k[0] = 0; k[0] < g.kernel[0]; ++k[0]) {
    for (k[1] = 0; k[1] < g.kernel[1]; ++k[1]) {
      for (k[2] = 0; k[2] < g.kernel[2]; ++k[2], ++tap) {
        bool inside = true;
        for (int i = 0; i < 3; ++i) {
          const int64_t shifted = in[i] + g.pad_before[i] - k[i] * g.dilation[i];
          out[i] = shifted / g.stride[i];
          inside = inside && shifted >= 0 && shifted % g.stride[i] == 0 && out[i] < g.out[i];
        }
        if (inside) fn(tap, out);
      }
    }
  }
}

Sizes PixelAt(int64_t index, const Sizes& size) {
  return {index / (size[1] * size[2]), index / size[2] % size[1], index % size[2]};
}

template <typename T>
class LoopConv final : public Kernel {
 public:
  LoopConv(const ConvGeometry& g, ConvKind kind)
      : g_(g),
        kind_(kind),
        in_(StridesOf(g, g.in_channels, g.in)),
        out_(StridesOf(g, g.out_channels, g.out)),
        group_in_(g.in_channels / g.groups),
        group_out_(g.out_channels / g.groups) {
    units_ = kind == ConvKind::kForward ? g.batch * g.out_pixels()
             : kind == ConvKind::kInput ? g.batch * g.in_pixels()
                                        : g.taps() * group_in_;
    shards_ = NumShards(static_cast<int64_t>(g.flops()), 1 << 18, std::min<int64_t>(units_, kMaxShards));
  }

  // A row of sums per shard.
  int64_t scratch_bytes() const override { return shards_ * row_bytes(); }

  absl::Status Run(const KernelContext& context) const override {
    context.parallel->For(shards_, [&](int64_t shard) {
      auto* row = reinterpret_cast<T*>(static_cast<std::byte*>(context.scratch) + shard * row_bytes());
      for (int64_t unit = units_ * shard / shards_; unit < units_ * (shard + 1) / shards_; ++unit) {
        if (kind_ == ConvKind::kForward) {
          OutputPixel(context, unit, row);
        } else if (kind_ == ConvKind::kInput) {
          InputPixel(context, unit, row);
        } else {
          FilterRow(context, unit, row);
        }
      }
    });
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kBytes = sizeof(T), kRows = 8;

  int64_t row_bytes() const {
    return AlignUp(std::max(g_.in_channels, g_.out_channels) * static_cast<int64_t>(sizeof(T)));
  }

  // The filter is [tap][input channel of a group][output channel].
  void OutputPixel(const KernelContext& context, int64_t unit, T* row) const {
    const Sizes pixel = PixelAt(unit % g_.out_pixels(), g_.out);
    const int64_t n = unit / g_.out_pixels();
    std::fill_n(row, g_.out_channels, T(0));
    ForTaps(g_, pixel, [&](int64_t tap, const Sizes& in) {
      const T* x = context.input<T>(0) + in_.At(n, in);
      const T* w = context.input<T>(1) + tap * group_in_ * g_.out_channels;
      for (int64_t group = 0; group < g_.groups; ++group) {
        // Few rows of weights side by side: more are too far from each other for caches that prefetch.
        for (int64_t c = 0; c < group_in_; c += kRows) {
          const T* values = x + (group * group_in_ + c) * in_.channel;
          AddRows(values, w + c * g_.out_channels, std::min(kRows, group_in_ - c), group * group_out_, row);
        }
      }
    });
    T* y = context.output<T>(0) + out_.At(n, pixel);
    for (int64_t o = 0; o < g_.out_channels; ++o) y[o * out_.channel] = row[o];
  }

  // `rows` of weights times their channels' values, onto the sums of a group's outputs from `first` on.
  void AddRows(const T* values, const T* weights, int64_t rows, int64_t first, T* sums) const {
    int64_t o = first;
    const int64_t end = first + group_out_;
    if (rows == kRows) {
      for (; o + 64 / kBytes <= end; o += 64 / kBytes) AddProducts<64>(values, weights + o, kRows, sums + o);
    }
    for (; o + 64 / kBytes <= end; o += 64 / kBytes) AddProducts<64>(values, weights + o, rows, sums + o);
    for (; o + 32 / kBytes <= end; o += 32 / kBytes) AddProducts<32>(values, weights + o, rows, sums + o);
    for (; o < end; ++o) {
      T total = sums[o];
      for (int64_t c = 0; c < rows; ++c) total += values[c * in_.channel] * weights[c * g_.out_channels + o];
      sums[o] = total;
    }
  }

  // Of one vector of sums.
  template <int kSize>
  void AddProducts(const T* values, const T* weights, int64_t rows, T* sums) const {
    typedef T Vector __attribute__((vector_size(kSize)));
    Vector total, weight;
    std::memcpy(&total, sums, kSize);
    for (int64_t c = 0; c < rows; ++c) {
      std::memcpy(&weight, weights + c * g_.out_channels, kSize);
      total += values[c * in_.channel] * weight;
    }
    std::memcpy(sums, &total, kSize);
  }

  void InputPixel(const KernelContext& context, int64_t unit, T* row) const {
    const Sizes pixel = PixelAt(unit % g_.in_pixels(), g_.in);
    const int64_t n = unit / g_.in_pixels();
    std::fill_n(row, g_.in_channels, T(0));
    ForOutputs(g_, pixel, [&](int64_t tap, const Sizes& out) {
      const T* dy = context.input<T>(2) + out_.At(n, out);
      const T* w = context.input<T>(1) + tap * group_in_ * g_.out_channels;
      for (int64_t c = 0; c < g_.in_channels; ++c) {
        const int64_t group = c / group_in_;
        const T* weights = w + (c % group_in_) * g_.out_channels + group * group_out_;
        T sum = 0;
        for (int64_t o = 0; o < group_out_; ++o) {
          sum += dy[(group * group_out_ + o) * out_.channel] * weights[o];
        }
        row[c] += sum;
      }
    });
    T* dx = context.output<T>(0) + in_.At(n, pixel);
    for (int64_t c = 0; c < g_.in_channels; ++c) dx[c * in_.channel] = row[c];
  }

  // One tap and input channel (of every group).
  void FilterRow(const KernelContext& context, int64_t unit, T* row) const {
    const int64_t tap = unit / group_in_, c = unit % group_in_;
    const Sizes k = PixelAt(tap, g_.kernel);
    std::fill_n(row, g_.out_channels, T(0));
    for (int64_t i = 0; i < g_.batch * g_.out_pixels(); ++i) {
      const int64_t n = i / g_.out_pixels();
      const Sizes out = PixelAt(i % g_.out_pixels(), g_.out);
      Sizes in;
      bool inside = true;
      for (int d = 0; d < 3; ++d) {
        in[d] = out[d] * g_.stride[d] - g_.pad_before[d] + k[d] * g_.dilation[d];
        inside = inside && in[d] >= 0 && in[d] < g_.in[d];
      }
      if (!inside) continue;
      const T* x = context.input<T>(0) + in_.At(n, in);
      const T* dy = context.input<T>(2) + out_.At(n, out);
      for (int64_t group = 0; group < g_.groups; ++group) {
        const T value = x[(group * group_in_ + c) * in_.channel];
        for (int64_t o = group * group_out_; o < (group + 1) * group_out_; ++o) {
          row[o] += value * dy[o * out_.channel];
        }
      }
    }
    T* dw = context.output<T>(0) + unit * g_.out_channels;
    for (int64_t o = 0; o < g_.out_channels; ++o) dw[o] = row[o];
  }

  const ConvGeometry g_;
  const ConvKind kind_;
  const Strides in_, out_;
  const int64_t group_in_, group_out_;
  int64_t units_ = 0, shards_ = 1;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeLoopConv(const OpInstance& instance, DataType dtype, const ConvGeometry& geometry,
                                                     ConvKind kind) {
  switch (dtype) {
    case DataType::kFloat: return std::make_unique<LoopConv<float>>(geometry, kind);
    case DataType::kDouble: return std::make_unique<LoopConv<double>>(geometry, kind);
    case DataType::kInt32: return std::make_unique<LoopConv<int32_t>>(geometry, kind);
    default: return UnsupportedType(instance, dtype);
  }
}

}  // namespace millrace::cpu
