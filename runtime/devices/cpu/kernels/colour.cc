// Colours of images: hue, saturation, contrast, and the change between RGB and HSV.
#include <cmath>

#include "cpu/kernels/common.h"
#include "cpu/kernels/families.h"

namespace millrace::cpu {
namespace {

// Half precision is computed in float.
template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

// The remainder of x by 6, with fmod's bits: within a turn of [-6, 6] by one exact subtraction.
template <typename W>
W WithinTurn(W x) {
  const W size = std::abs(x);
  return size < W(6) ? x : size < W(12) ? std::copysign(size - W(6), x) : std::fmod(x, W(6));
}

template <typename W>
struct Pixel {
  W a = 0, b = 0, c = 0;
};

// Hue in [0, 6), counted from red, and the largest and smallest component.
template <typename W>
struct HueRange {
  explicit HueRange(const Pixel<W>& rgb)
      : HueRange(rgb, std::max(rgb.a, std::max(rgb.b, rgb.c)), std::min(rgb.a, std::min(rgb.b, rgb.c))) {}
  HueRange(const Pixel<W>& rgb, W most, W least) : largest(most), smallest(least) {
    const W range = largest - smallest;
    if (!(range > 0)) return;
    if (rgb.a == largest) {
      hue = (rgb.b - rgb.c) / range;
    } else if (rgb.b == largest) {
      hue = 2 + (rgb.c - rgb.a) / range;
    } else {
      hue = 4 + (rgb.a - rgb.b) / range;
    }
    if (hue < 0) hue += 6;
  }
  Pixel<W> ToRgb() const {
    auto component = [&](W offset) {
      const W k = WithinTurn<W>(offset + hue);
      return largest - (largest - smallest) * std::max(W(0), std::min(std::min(k, 4 - k), W(1)));
    };
    return {component(5), component(3), component(1)};
  }

  W hue = 0, largest, smallest;
};

struct RgbToHsv {
  // Of two components that do not compare TensorFlow takes the later one.
  template <typename W>
  Pixel<W> operator()(const Pixel<W>& rgb) const {
    const auto larger = [](W a, W b) { return a > b ? a : b; };
    const auto smaller = [](W a, W b) { return a < b ? a : b; };
    return Of(HueRange<W>(rgb, larger(larger(rgb.a, rgb.b), rgb.c), smaller(smaller(rgb.a, rgb.b), rgb.c)));
  }
  template <typename W>
  static Pixel<W> Of(const HueRange<W>& range) {
    const W saturation = range.largest > 0 ? (range.largest - range.smallest) / range.largest : 0;
    return {range.hue / 6, saturation, range.largest};
  }
};
struct HsvToRgb {
  template <typename W>
  Pixel<W> operator()(const Pixel<W>& hsv) const {
    const W hue = hsv.a * 6, rest = 1 - hsv.b;
    auto component = [&](W value) { return (rest + hsv.b * std::clamp(value, W(0), W(1))) * hsv.c; };
    return {component(std::abs(hue - 3) - 1), component(2 - std::abs(hue - 2)), component(2 - std::abs(hue - 4))};
  }
};
struct TurnHue {
  float delta;
  template <typename W>
  Pixel<W> operator()(const Pixel<W>& rgb) const {
    HueRange<W> range(rgb);
    range.hue = WithinTurn<W>(range.hue + delta * 6);
    if (range.hue < 0) range.hue += 6;
    return range.ToRgb();
  }
};
struct ScaleSaturation {
  float scale;
  template <typename W>
  Pixel<W> operator()(const Pixel<W>& rgb) const {
    Pixel<W> hsv = RgbToHsv::Of(HueRange<W>(rgb));
    hsv.b = std::clamp<W>(hsv.b * scale, 0, 1);
    return HsvToRgb()(hsv);
  }
};

template <typename T, typename Change>
void ChangePixels(const KernelContext& context, int64_t pixels, const Change& change) {
  using W = Wide<T>;
  const T* in = context.input<T>(0);
  T* out = context.output<T>(0);
  ParallelRange(context, pixels, kElementGrain / 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* from = in + 3 * i;
      const Pixel<W> changed = change(Pixel<W>{static_cast<W>(from[0]), static_cast<W>(from[1]), static_cast<W>(from[2])});
      out[3 * i] = static_cast<T>(changed.a);
      out[3 * i + 1] = static_cast<T>(changed.b);
      out[3 * i + 2] = static_cast<T>(changed.c);
    }
  });
}

// `make` makes the change from a running kernel's context: it may depend on a scalar input.
template <typename Make>
KernelFactory ColourKernel(Make make) {
  return [make](const OpInstance& node) {
    const int64_t pixels = node.inputs[0].shape.num_elements() / 3;
    return DispatchFloating(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
      using T = typename decltype(tag)::type;
      return MakeKernel([=](const KernelContext& context) {
        ChangePixels<T>(context, pixels, make(context));
        return absl::OkStatus();
      });
    });
  };
}

// Channels that are summed side by side, and values of pixels of one, two, three or so many channels that are changed at once.
constexpr int64_t kAtOnce = 4, kValues = 48;

// So many channels of an image whose pixels have `step` values.
template <int64_t kChannels, typename T>
void ChangeContrastOf(const T* in, int64_t pixels, int64_t step, Wide<T> factor, T* out) {
  using W = Wide<T>;
  double sums[kChannels] = {};
  for (int64_t i = 0; i < pixels; ++i) {
    for (int64_t c = 0; c < kChannels; ++c) sums[c] += static_cast<double>(in[i * step + c]);
  }
  W means[kValues];
  for (int64_t k = 0; k < kValues; ++k) means[k] = static_cast<W>(sums[k % kChannels] / static_cast<double>(pixels));
  const int64_t run = step == kChannels ? kValues : kChannels, advance = step == kChannels ? kValues : step;
  for (int64_t at = 0; at < pixels * step; at += advance) {
    const int64_t n = std::min(run, pixels * step - at);
#pragma GCC ivdep
    for (int64_t k = 0; k < n; ++k) out[at + k] = static_cast<T>((static_cast<W>(in[at + k]) - means[k]) * factor + means[k]);
  }
}

// Every channel of every image moves away from its mean.
template <typename T>
void ChangeContrast(const KernelContext& context, int64_t images, int64_t pixels, int64_t channels) {
  const auto factor = static_cast<Wide<T>>(*context.input<float>(1));
  context.parallel->For(images, [&](int64_t image) {
    const T* in = context.input<T>(0) + image * pixels * channels;
    T* out = context.output<T>(0) + image * pixels * channels;
    for (int64_t c = 0; c < channels; c += kAtOnce) {
      const int64_t n = std::min(kAtOnce, channels - c);
      const auto change = n == 1   ? &ChangeContrastOf<1, T>
                          : n == 2 ? &ChangeContrastOf<2, T>
                          : n == 3 ? &ChangeContrastOf<3, T>
                                   : &ChangeContrastOf<kAtOnce, T>;
      change(in + c, pixels, channels, factor, out + c);
    }
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeContrast(const OpInstance& node) {
  const Shape& shape = node.inputs[0].shape;
  const int64_t channels = shape.dim(shape.rank() - 1);
  const int64_t pixels = shape.dim(shape.rank() - 3) * shape.dim(shape.rank() - 2);
  const int64_t images = shape.num_elements() == 0 ? 0 : shape.num_elements() / (pixels * channels);
  return DispatchFloating(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([=](const KernelContext& context) {
      ChangeContrast<T>(context, images, pixels, channels);
      return absl::OkStatus();
    });
  });
}

}  // namespace

void RegisterColourKernels(KernelRegistry& registry) {
  AddKernel(registry, "RGBToHSV", ColourKernel([](const KernelContext&) { return RgbToHsv(); }));
  AddKernel(registry, "HSVToRGB", ColourKernel([](const KernelContext&) { return HsvToRgb(); }));
  AddKernel(registry, "AdjustHue",
            ColourKernel([](const KernelContext& context) { return TurnHue{*context.input<float>(1)}; }));
  AddKernel(registry, "AdjustSaturation",
            ColourKernel([](const KernelContext& context) { return ScaleSaturation{*context.input<float>(1)}; }));
  AddKernel(registry, "AdjustContrastv2", MakeContrast);
}

}  // namespace millrace::cpu
