#include "cuda/launch/quantize.h"

#include <limits>

#include "cuda/launch/portable.h"
#include "graph/quantize_grid.h"

namespace millrace::cuda {
namespace {

// std::max and std::min: the first of equal ones, and of those that cannot be compared.
template <typename T>
MR_DEVICE T Larger(T a, T b) {
  return a < b ? b : a;
}
template <typename T>
MR_DEVICE T Smaller(T a, T b) {
  return b < a ? b : a;
}
template <typename T>
MR_DEVICE T Clamp(T x, T low, T high) {
  return x < low ? low : high < x ? high : x;
}

// From so many rows on, neighbouring threads take neighbouring ones in sums over what lies between.
constexpr int64_t kManyColumns = 16;
bool InColumns(int64_t columns) { return columns >= kManyColumns; }

// A range, shifted so that zero lies on a step.
struct Nudged {
  float step, low, high, inverse, zero;
  bool empty;  // both ends are 0: everything is
  MR_DEVICE float Round(float x) const {
    if (empty) return 0.0f;
    const float clamped = Smaller(Larger(x, low), high);
    return floorf((clamped - low) * inverse - zero + 0.5f) * step;
  }
  MR_DEVICE bool Holds(float x) const { return x >= low && x <= high; }
};
MR_DEVICE inline Nudged NudgedOf(float lowest, float highest, float min, float max) {
  Nudged n;
  n.empty = min == 0 && max == 0;
  n.step = (max - min) / (highest - lowest);
  const float zero = lowest - min / n.step;
  const float at = zero < lowest ? lowest : zero > highest ? highest : roundf(zero);
  n.low = (lowest - at) * n.step;
  n.high = (highest - at) * n.step;
  n.inverse = 1.0f / n.step;
  n.zero = floorf(-n.low * n.inverse + 0.5f);
  return n;
}

struct NudgeBody {
  float lowest, highest;
  const float* min;
  const float* max;
  Nudged* ranges;
  MR_DEVICE void operator()(int64_t c) const { ranges[c] = NudgedOf(lowest, highest, min[c], max[c]); }
};

// The range of each channel: one for all, or those in memory.
struct ChannelRanges {
  Divider channels;
  Nudged one;
  const Nudged* each;
  MR_DEVICE Nudged Of(int64_t i) const { return each == nullptr ? one : each[i - channels(i) * channels.by]; }
};
ChannelRanges RangesOf(const Queue& queue, const FakeQuantShape& shape, const float* min, const float* max, void* memory) {
  ChannelRanges ranges = {DivideBy(shape.channels, shape.rows * shape.channels), {}, nullptr};
  if (min == nullptr) {
    ranges.one = NudgedOf(shape.lowest, shape.highest, shape.least, shape.most);
    return ranges;
  }
  Nudged* const each = static_cast<Nudged*>(memory);
  ForEach(queue, shape.channels, NudgeBody{shape.lowest, shape.highest, min, max, each});
  ranges.each = each;
  return ranges;
}

struct FakeQuantBody {
  ChannelRanges ranges;
  const float* x;
  MR_DEVICE float operator()(int64_t i) const { return ranges.Of(i).Round(x[i]); }
};

struct HeldGradientBody {
  ChannelRanges ranges;
  const float* dy;
  const float* x;
  MR_DEVICE float operator()(int64_t i) const { return dy[i] * static_cast<float>(ranges.Of(i).Holds(x[i])); }
};

struct Ends {
  double below, above;
};
struct EndsRule {
  float* dmin;
  float* dmax;
  MR_DEVICE Ends Identity() const { return {0, 0}; }
  MR_DEVICE Ends Combine(const Ends& a, const Ends& b) const { return {a.below + b.below, a.above + b.above}; }
  MR_DEVICE void Store(int64_t c, const Ends& sum) const {
    dmin[c] = static_cast<float>(sum.below);
    dmax[c] = static_cast<float>(sum.above);
  }
};
// A row is a channel. Each term's own gradient is written on the way.
struct EndsBody {
  EndsRule rule;
  int64_t channels;
  const Nudged* ranges;
  const float* dy;
  const float* x;
  float* dx;
  struct Term {
    float gradient, x;
    int64_t at;
  };
  struct Terms {
    static constexpr int kAtOnce = 4;
    const EndsBody& body;
    int64_t channel;
    Nudged range;
    MR_DEVICE Term Fetch(int64_t k) const {
      const int64_t at = k * body.channels + channel;
      return {body.dy[at], body.x[at], at};
    }
    MR_DEVICE Ends Value(const Term& term) const {
      const bool inside = range.empty || range.Holds(term.x);
      body.dx[term.at] = term.gradient * static_cast<float>(inside);
      return {term.gradient * static_cast<float>(!inside && term.x < range.low),  // NaN times 0 stays NaN
              term.gradient * static_cast<float>(!inside && term.x > range.high)};
    }
  };
  MR_DEVICE Terms Row(int64_t channel) const { return {*this, channel, ranges[channel]}; }
  MR_DEVICE Ends Identity() const { return rule.Identity(); }
  MR_DEVICE Ends Combine(const Ends& a, const Ends& b) const { return rule.Combine(a, b); }
  MR_DEVICE void Store(int64_t c, const Ends& sum) const { rule.Store(c, sum); }
};
int64_t EndsBytes(const FakeQuantShape& shape) {
  const int64_t chunks = SumChunks(shape.channels, shape.rows, InColumns(shape.channels));
  return shape.channels * chunks * static_cast<int64_t>(sizeof(Ends));
}

template <typename Fn>
void ForFloatOrDouble(Type type, const Fn& fn) {
  type == Type::kDouble ? fn(Tag<double>()) : fn(Tag<float>());
}

template <typename T>
constexpr T kInfinity = std::numeric_limits<T>::infinity();

// The ends of each slice's range, and the grid that they make.
template <typename T>
struct GridRule {
  struct Range {
    T low, high;
  };
  Queue queue;
  RoundTripShape shape;
  const void* bits;  // nullptr: those of `shape`
  QuantizeGrid<T>* grids;
  MR_DEVICE Range Identity() const { return {kInfinity<T>, -kInfinity<T>}; }
  MR_DEVICE Range Combine(const Range& a, const Range& b) const { return {Smaller(a.low, b.low), Larger(a.high, b.high)}; }
  MR_DEVICE void Store(int64_t s, const Range& range) const {
    int64_t count = shape.bits;
    if (bits != nullptr) count = shape.wide_bits ? *static_cast<const int64_t*>(bits) : *static_cast<const int32_t*>(bits);
    if (count < 1 || count > 62) return ReportIndex(queue, 3, 0, count, 63);
    grids[s] = QuantizeGridOf(range.low, range.high, shape.is_signed, shape.narrow, count);
  }
};

template <typename T>
struct GivenRangeBody {
  GridRule<T> rule;
  const T* min;
  const T* max;
  MR_DEVICE static int64_t BitsOfDouble(double value) {
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
  }
  MR_DEVICE void operator()(int64_t s) const {
    const T low = min[s], high = max[s];
    if (!(low <= high)) return void(Report(rule.queue, FaultCode::kBadRange, 1, BitsOfDouble(low), BitsOfDouble(high), s));
    rule.Store(s, {low, high});
  }
};

template <typename T>
struct FoundRangeBody {
  using Range = typename GridRule<T>::Range;
  GridRule<T> rule;
  Divider inner;
  int64_t slices;
  const T* x;
  struct Terms {
    static constexpr int kAtOnce = 8;
    const FoundRangeBody& body;
    int64_t slice;
    MR_DEVICE T Fetch(int64_t k) const {
      const int64_t outer = body.inner(k);
      return body.x[(outer * body.slices + slice) * body.inner.by + k - outer * body.inner.by];
    }
    // What is no number is in any range.
    MR_DEVICE Range Value(T x) const { return x == x ? Range{x, x} : body.rule.Identity(); }
  };
  MR_DEVICE Terms Row(int64_t slice) const { return {*this, slice}; }
  MR_DEVICE Range Identity() const { return rule.Identity(); }
  MR_DEVICE Range Combine(const Range& a, const Range& b) const { return rule.Combine(a, b); }
  MR_DEVICE void Store(int64_t s, const Range& range) const { rule.Store(s, range); }
};
// Slices that follow one another element by element.
bool SlicesInColumns(const RoundTripShape& shape) { return shape.inner == 1 && InColumns(shape.slices); }
int64_t RangesBytes(const RoundTripShape& shape) {
  if (shape.range_given) return 0;
  const int64_t chunks = SumChunks(shape.slices, shape.outer * shape.inner, SlicesInColumns(shape));
  return shape.slices * chunks * static_cast<int64_t>(sizeof(GridRule<double>::Range));
}

struct SliceIndex {
  Divider inner, slices;
  MR_DEVICE int64_t Of(int64_t i) const {
    const int64_t line = inner(i);
    return line - slices(line) * slices.by;
  }
};
int64_t Elements(const RoundTripShape& shape) { return shape.outer * shape.slices * shape.inner; }
SliceIndex SlicesOf(const RoundTripShape& shape) {
  return {DivideBy(shape.inner, Elements(shape)), DivideBy(shape.slices, Elements(shape))};
}

template <typename T>
struct RoundTripBody {
  SliceIndex slices;
  bool clips, half_up;
  const QuantizeGrid<T>* grids;
  const T* x;
  MR_DEVICE T operator()(int64_t i) const {
    const QuantizeGrid<T> grid = grids[slices.Of(i)];
    const T scaled = (clips ? Larger(Smaller(x[i], grid.high), grid.low) : x[i]) * grid.scale;
    return static_cast<T>(half_up ? floor(scaled + T(0.5)) : rint(scaled)) * grid.inverse;
  }
};

template <typename T>
struct RoundTripGradBody {
  SliceIndex slices;
  const T* dy;
  const T* x;
  const T* min;
  const T* max;
  MR_DEVICE T operator()(int64_t i) const {
    const int64_t s = slices.Of(i);
    return dy[i] * static_cast<T>(x[i] >= min[s] && x[i] <= max[s]);
  }
};

template <typename W>
struct Pixel {
  W a = 0, b = 0, c = 0;
};

// Hue in [0, 6), counted from red, and the largest and smallest component.
template <typename W>
struct HueRange {
  W hue, largest, smallest;
  MR_DEVICE explicit HueRange(const Pixel<W>& rgb)
      : HueRange(rgb, Larger(rgb.a, Larger(rgb.b, rgb.c)), Smaller(rgb.a, Smaller(rgb.b, rgb.c))) {}
  MR_DEVICE HueRange(const Pixel<W>& rgb, W most, W least) : hue(0), largest(most), smallest(least) {
    const W range = largest - smallest;
    if (!(range > 0)) return;
    hue = rgb.a == largest ? (rgb.b - rgb.c) / range : rgb.b == largest ? 2 + (rgb.c - rgb.a) / range : 4 + (rgb.a - rgb.b) / range;
    if (hue < 0) hue += 6;
  }
  MR_DEVICE W Component(W offset) const {
    const W k = static_cast<W>(fmod(offset + hue, W(6)));
    return largest - (largest - smallest) * Larger(W(0), Smaller(Smaller(k, 4 - k), W(1)));
  }
};

struct RgbToHsv {
  // Of two components that do not compare TensorFlow takes the later one.
  template <typename W>
  MR_DEVICE Pixel<W> operator()(const Pixel<W>& rgb, float) const {
    const auto larger = [](W a, W b) { return a > b ? a : b; };
    const auto smaller = [](W a, W b) { return a < b ? a : b; };
    return Of(HueRange<W>(rgb, larger(larger(rgb.a, rgb.b), rgb.c), smaller(smaller(rgb.a, rgb.b), rgb.c)));
  }
  template <typename W>
  MR_DEVICE static Pixel<W> Of(const HueRange<W>& range) {
    const W saturation = range.largest > 0 ? (range.largest - range.smallest) / range.largest : 0;
    return {range.hue / 6, saturation, range.largest};
  }
};
struct HsvToRgb {
  template <typename W>
  MR_DEVICE static W Component(const Pixel<W>& hsv, W value) {
    return ((1 - hsv.b) + hsv.b * Clamp(value, W(0), W(1))) * hsv.c;
  }
  template <typename W>
  MR_DEVICE Pixel<W> operator()(const Pixel<W>& hsv, float) const {
    const W hue = hsv.a * 6;
    const auto distance = [hue](int from) { return static_cast<W>(fabs(hue - from)); };
    return {Component<W>(hsv, distance(3) - 1), Component<W>(hsv, 2 - distance(2)), Component<W>(hsv, 2 - distance(4))};
  }
};
struct TurnHue {
  template <typename W>
  MR_DEVICE Pixel<W> operator()(const Pixel<W>& rgb, float delta) const {
    HueRange<W> range(rgb);
    range.hue = static_cast<W>(fmod(range.hue + delta * 6, W(6)));
    if (range.hue < 0) range.hue += 6;
    return {range.Component(5), range.Component(3), range.Component(1)};
  }
};
struct ScaleSaturation {
  template <typename W>
  MR_DEVICE Pixel<W> operator()(const Pixel<W>& rgb, float scale) const {
    Pixel<W> hsv = RgbToHsv::Of(HueRange<W>(rgb));
    hsv.b = Clamp<W>(hsv.b * scale, 0, 1);
    return HsvToRgb()(hsv, scale);
  }
};

template <typename T, typename Change>
struct ColourBody {
  using W = typename Wide<T>::type;
  const T* x;
  const float* amount;
  T* y;
  MR_DEVICE void operator()(int64_t i) const {
    const T* const from = x + 3 * i;
    const Pixel<W> pixel = {Widen(from[0]), Widen(from[1]), Widen(from[2])};
    const Pixel<W> changed = Change()(pixel, amount == nullptr ? 0 : *amount);
    y[3 * i] = Wide<T>::Narrow(changed.a);
    y[3 * i + 1] = Wide<T>::Narrow(changed.b);
    y[3 * i + 2] = Wide<T>::Narrow(changed.c);
  }
};

// A row is a channel of an image.
template <typename T>
struct MeanBody {
  using W = typename Wide<T>::type;
  Divider channels;
  int64_t pixels;
  const T* x;
  W* means;
  struct Terms {
    static constexpr int kAtOnce = 8;
    const T* x;
    int64_t channels;
    MR_DEVICE T Fetch(int64_t k) const { return x[k * channels]; }
    MR_DEVICE double Value(T x) const { return static_cast<double>(Widen(x)); }
  };
  MR_DEVICE Terms Row(int64_t row) const {
    const int64_t image = channels(row);
    return {x + image * pixels * channels.by + row - image * channels.by, channels.by};
  }
  MR_DEVICE double Identity() const { return 0; }
  MR_DEVICE double Combine(double a, double b) const { return a + b; }
  MR_DEVICE void Store(int64_t row, double sum) const { means[row] = static_cast<W>(sum / static_cast<double>(pixels)); }
};

template <typename T>
struct ContrastBody {
  using W = typename Wide<T>::type;
  Divider channels, image;  // elements of one
  const T* x;
  const float* factor;
  const W* means;
  MR_DEVICE T operator()(int64_t i) const {
    const W mean = means[image(i) * channels.by + i - channels(i) * channels.by];
    return Wide<T>::Narrow((Widen(x[i]) - mean) * static_cast<W>(*factor) + mean);
  }
};
int64_t SumBytes(const ContrastShape& shape) {
  const int64_t rows = shape.images * shape.channels, chunks = SumChunks(rows, shape.pixels, InColumns(shape.channels));
  return rows * chunks * static_cast<int64_t>(sizeof(double));
}

}  // namespace

int64_t FakeQuantScratchBytes(const FakeQuantShape& shape) { return shape.channels * static_cast<int64_t>(sizeof(Nudged)); }

void LaunchFakeQuant(const Queue& queue, const FakeQuantShape& shape, const float* x, const float* min, const float* max, float* y,
                     void* scratch) {
  Map(queue, shape.rows * shape.channels, y, FakeQuantBody{RangesOf(queue, shape, min, max, scratch), x});
}

int64_t FakeQuantGradScratchBytes(const FakeQuantShape& shape) { return EndsBytes(shape) + FakeQuantScratchBytes(shape); }

void LaunchFakeQuantGrad(const Queue& queue, const FakeQuantShape& shape, const float* dy, const float* x, const float* min,
                         const float* max, float* dx, float* dmin, float* dmax, void* scratch) {
  const ChannelRanges ranges = RangesOf(queue, shape, min, max, static_cast<char*>(scratch) + EndsBytes(shape));
  if (min == nullptr) return Map(queue, shape.rows * shape.channels, dx, HeldGradientBody{ranges, dy, x});
  const EndsBody body = {{dmin, dmax}, shape.channels, ranges.each, dy, x, dx};
  SumRows<Ends>(queue, shape.channels, shape.rows, InColumns(shape.channels), scratch, body);
}

int64_t RoundTripScratchBytes(const RoundTripShape& shape) {
  return RangesBytes(shape) + shape.slices * static_cast<int64_t>(sizeof(QuantizeGrid<double>));
}

void LaunchRoundTrip(const Queue& queue, Type type, const RoundTripShape& shape, const void* x, const void* min, const void* max,
                     const void* bits, void* y, void* scratch) {
  ForFloatOrDouble(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const from = static_cast<const T*>(x);
    QuantizeGrid<T>* const grids = reinterpret_cast<QuantizeGrid<T>*>(static_cast<char*>(scratch) + RangesBytes(shape));
    const GridRule<T> rule = {queue, shape, bits, grids};
    if (shape.range_given) {
      ForEach(queue, shape.slices, GivenRangeBody<T>{rule, static_cast<const T*>(min), static_cast<const T*>(max)});
    } else {
      const int64_t terms = shape.outer * shape.inner;
      const FoundRangeBody<T> body = {rule, DivideBy(shape.inner, terms), shape.slices, from};
      SumRows<typename GridRule<T>::Range>(queue, shape.slices, terms, SlicesInColumns(shape), scratch, body);
    }
    const RoundTripBody<T> body = {SlicesOf(shape), shape.range_given, shape.half_up, grids, from};
    Map(queue, Elements(shape), static_cast<T*>(y), body);
  });
}

void LaunchRoundTripGrad(const Queue& queue, Type type, const RoundTripShape& shape, const void* dy, const void* x, const void* min,
                         const void* max, void* dx) {
  ForFloatOrDouble(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const RoundTripGradBody<T> body = {SlicesOf(shape), static_cast<const T*>(dy), static_cast<const T*>(x), static_cast<const T*>(min),
                                       static_cast<const T*>(max)};
    Map(queue, Elements(shape), static_cast<T*>(dx), body);
  });
}

void LaunchColours(const Queue& queue, Type type, ColourChange change, int64_t pixels, const void* x, const float* amount, void* y) {
  ForFloating(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto launch = [&]<typename Change>(Tag<Change>) {
      ForEach(queue, pixels, ColourBody<T, Change>{static_cast<const T*>(x), amount, static_cast<T*>(y)});
    };
    switch (change) {
      case ColourChange::kRgbToHsv: return launch(Tag<RgbToHsv>());
      case ColourChange::kHsvToRgb: return launch(Tag<HsvToRgb>());
      case ColourChange::kTurnHue: return launch(Tag<TurnHue>());
      case ColourChange::kScaleSaturation: return launch(Tag<ScaleSaturation>());
    }
  });
}

int64_t ContrastScratchBytes(const ContrastShape& shape) {
  return SumBytes(shape) + shape.images * shape.channels * static_cast<int64_t>(sizeof(double));
}

void LaunchContrast(const Queue& queue, Type type, const ContrastShape& shape, const void* x, const float* factor, void* y,
                    void* scratch) {
  ForFloating(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using W = typename Wide<T>::type;
    const int64_t rows = shape.images * shape.channels, image = shape.pixels * shape.channels, n = shape.images * image;
    W* const means = reinterpret_cast<W*>(static_cast<char*>(scratch) + SumBytes(shape));
    const MeanBody<T> mean = {DivideBy(shape.channels, rows), shape.pixels, static_cast<const T*>(x), means};
    SumRows<double>(queue, rows, shape.pixels, InColumns(shape.channels), scratch, mean);
    const ContrastBody<T> body = {DivideBy(shape.channels, n), DivideBy(image, n), static_cast<const T*>(x), factor, means};
    Map(queue, n, static_cast<T*>(y), body);
  });
}

}  // namespace millrace::cuda
