// QuantizeV2 and Dequantize: floats to integers over a range and back, for the whole tensor or per slice of an axis.
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/rarest.h"
#include "millrace/quantized_types.h"

namespace millrace::cpu {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

enum class Mode { kCombined, kFirst, kScaled };

struct Settings {
  explicit Settings(const OpInstance& node)
      : narrow(node.attrs.GetOr("narrow_range", false)),
        half_to_even(node.attrs.GetOr<std::string>("round_mode", "HALF_AWAY_FROM_ZERO") == "HALF_TO_EVEN"),
        least_range(node.attrs.GetOr<float>("ensure_minimum_range", 0.01f)) {
    const auto name = node.attrs.GetOr<std::string>("mode", "MIN_COMBINED");
    mode = name == "SCALED" ? Mode::kScaled : name == "MIN_FIRST" ? Mode::kFirst : Mode::kCombined;
    const Shape& shape = node.inputs[0].shape;
    const int64_t axis = node.attrs.GetOr<int64_t>("axis", -1);
    for (int d = 0; d < shape.rank(); ++d) {
      if (d == axis) slices = shape.dim(d);
      if (axis >= 0 && d > axis) inner *= shape.dim(d);
    }
    elements = shape.num_elements();
    if (axis < 0) inner = std::max<int64_t>(elements, 1);
  }

  Mode mode;
  bool narrow, half_to_even;
  float least_range;
  int64_t elements = 0, slices = 1, inner = 1;
};

// Calls fn(slice, begin, end) for runs of elements of one slice, side by side.
template <typename Fn>
void ForRuns(const KernelContext& context, const Settings& settings, Fn&& fn) {
  ParallelRange(context, settings.elements, kElementGrain, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t run = begin / settings.inner, stop = std::min(end, (run + 1) * settings.inner);
      fn(run % settings.slices, begin, stop);
      begin = stop;
    }
  });
}

template <typename T>
struct Limits {
  static constexpr bool kSigned = std::numeric_limits<T>::is_signed;
  static constexpr float kLowest = static_cast<float>(std::numeric_limits<T>::lowest());
  static constexpr float kHighest = static_cast<float>(std::numeric_limits<T>::max());
  static constexpr double kSteps = static_cast<double>(int64_t{1} << (8 * sizeof(T)));
  static constexpr double kSpan = kSteps - 1.0;
  // Half of the steps where numbers have a sign: what moves the lowest one to 0.
  static constexpr float kHalf = kSigned ? static_cast<float>(kSteps / 2) : 0.0f;
  static int Lowest(bool narrow) { return static_cast<int>(std::numeric_limits<T>::lowest()) + (narrow ? 1 : 0); }
};

// A number that has no int32, because rounding the bounds to floats put it there, is the lowest one, as TensorFlow's
// conversion on a CPU makes it.
template <typename T>
T ToInteger(float value) {
  constexpr float kEnd = 2147483648.0f;
  const bool inside = value >= -kEnd && value < kEnd;
  return static_cast<T>(inside ? static_cast<int32_t>(value) : std::numeric_limits<int32_t>::lowest());
}

struct Range {
  float low, high;
  float scale = 0, first = 0;  // first: the step that `low` is, of MIN_FIRST
};

template <typename T>
Range RangeOf(const Settings& settings, float low, float high) {
  Range range;
  range.low = std::min(0.0f, low);
  const float least = std::max(1.0f, std::max(std::fabs(low), std::fabs(high))) * settings.least_range;
  range.high = std::max(0.0f, std::max(high, range.low + least));
  if (settings.mode == Mode::kScaled) {
    const auto lowest = static_cast<float>(Limits<T>::Lowest(settings.narrow)), highest = Limits<T>::kHighest;
    constexpr float kNone = std::numeric_limits<float>::max();
    const float by_low = lowest * range.low > 0 ? lowest / range.low : kNone;
    const float by_high = highest * range.high > 0 ? highest / range.high : kNone;
    range.scale = std::min(by_low, by_high);
    range.low = lowest / range.scale;
    range.high = highest / range.scale;
  } else if (settings.mode == Mode::kFirst) {
    range.scale = range.low == range.high ? 0.0f : static_cast<float>(Limits<T>::kSpan / (range.high - range.low));
    range.first = std::round(range.low * range.scale);
  } else {
    range.scale = static_cast<float>(Limits<T>::kSpan / (range.high - range.low));
  }
  return range;
}

template <typename T>
void QuantizeRun(const Settings& settings, const Range& range, const float* x, int64_t n, T* y) {
  const auto inside = [&](float value) { return std::max(std::min(value, range.high), range.low); };
  if (settings.mode == Mode::kScaled) {
    for (int64_t i = 0; i < n; ++i) {
      const float scaled = inside(x[i]) * range.scale;
      y[i] = ToInteger<T>(settings.half_to_even ? std::rint(scaled) : std::round(scaled));
    }
  } else if (settings.mode == Mode::kFirst) {
    // The highest int32 that is a float: one more has none.
    const float highest = std::min(Limits<T>::kHighest, 2147483520.0f), offset = range.first - Limits<T>::kLowest;
    for (int64_t i = 0; i < n; ++i) {
      const float step = std::round(x[i] * range.scale) - offset;
      y[i] = ToInteger<T>(std::min(std::max(step, Limits<T>::kLowest), highest));
    }
  } else {
    for (int64_t i = 0; i < n; ++i) {
      const float steps = (inside(x[i]) - range.low) * range.scale;
      y[i] = ToInteger<T>(Limits<T>::kSigned ? std::round(steps - Limits<T>::kHalf) : steps + 0.5f);
    }
  }
}

// (input, min_range, max_range) -> (output, output_min, output_max)
template <typename T>
absl::Status Quantize(const KernelContext& context, const Settings& settings) {
  std::vector<Range> ranges(settings.slices);
  for (int64_t s = 0; s < settings.slices; ++s) {
    const float low = context.input<float>(1)[s], high = context.input<float>(2)[s];
    if (!(high >= low)) {
      return absl::InvalidArgumentError(absl::StrCat("input_max_range must be larger than input_min_range. Got ", low, " to ", high));
    }
    ranges[s] = RangeOf<T>(settings, low, high);
    context.output<float>(1)[s] = ranges[s].low;
    context.output<float>(2)[s] = ranges[s].high;
  }
  ForRuns(context, settings, [&](int64_t s, int64_t begin, int64_t end) {
    QuantizeRun(settings, ranges[s], context.input<float>(0) + begin, end - begin, context.output<T>(0) + begin);
  });
  return absl::OkStatus();
}

// A number is (held + shift) * scale + offset.
struct Line {
  float shift = 0, scale, offset = 0;
};

template <typename T>
Line LineOf(const Settings& settings, float low, float high) {
  Line line;
  if (settings.mode == Mode::kScaled) {
    const float by_high = high / Limits<T>::kHighest;
    line.scale = Limits<T>::kSigned ? std::max(low / static_cast<float>(Limits<T>::Lowest(settings.narrow)), by_high) : by_high;
  } else if (settings.mode == Mode::kFirst) {
    line.scale = static_cast<float>((high - low) / Limits<T>::kSpan);
    const float rounded = high == low ? low : std::round(low / line.scale) * line.scale;
    line.offset = rounded - Limits<T>::kLowest * line.scale;
  } else {
    line.shift = Limits<T>::kHalf;
    line.scale = (high - low) / (Limits<T>::kHighest - Limits<T>::kLowest);
    line.offset = low;
  }
  return line;
}

// (input, min_range, max_range)
template <typename T, typename Out>
absl::Status Dequantize(const KernelContext& context, const Settings& settings) {
  std::vector<Line> lines(settings.slices);
  for (int64_t s = 0; s < settings.slices; ++s) {
    lines[s] = LineOf<T>(settings, context.input<float>(1)[s], context.input<float>(2)[s]);
  }
  ForRuns(context, settings, [&](int64_t s, int64_t begin, int64_t end) {
    const T* held = context.input<T>(0);
    Out* out = context.output<Out>(0);
    const Line line = lines[s];
    for (int64_t i = begin; i < end; ++i) {
      out[i] = static_cast<Out>((static_cast<float>(held[i]) + line.shift) * line.scale + line.offset);
    }
  });
  return absl::OkStatus();
}

// By the integers that a quantized type is held in.
template <typename Visit>
KernelOr DispatchQuantized(const OpInstance& node, DataType dtype, Visit&& visit) {
  if (dtype == kQint8) return visit(TypeTag<int8_t>());
  if (dtype == kQuint8) return visit(TypeTag<uint8_t>());
  if (dtype == kQint16) return visit(TypeTag<int16_t>());
  if (dtype == kQuint16) return visit(TypeTag<uint16_t>());
  if (dtype == kQint32) return visit(TypeTag<int32_t>());
  return UnsupportedType(node, dtype);
}

KernelOr MakeQuantize(const OpInstance& node) {
  return DispatchQuantized(node, node.outputs[0].dtype, [settings = Settings(node)](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([settings](const KernelContext& context) { return Quantize<T>(context, settings); });
  });
}

KernelOr MakeDequantize(const OpInstance& node) {
  const Settings settings(node);
  const bool narrow = node.outputs[0].dtype == DataType::kBfloat16;
  return DispatchQuantized(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    if (narrow) return MakeKernel([settings](const KernelContext& context) { return Dequantize<T, Eigen::bfloat16>(context, settings); });
    return MakeKernel([settings](const KernelContext& context) { return Dequantize<T, float>(context, settings); });
  });
}

}  // namespace

void RegisterQuantizeKernels(KernelRegistry& registry) {
  AddKernel(registry, "QuantizeV2", MakeQuantize);
  AddKernel(registry, "Dequantize", MakeDequantize);
}

}  // namespace millrace::cpu
