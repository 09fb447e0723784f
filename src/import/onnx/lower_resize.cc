// Resize and Upsample: along every axis each output element is a weighted sum of a few input elements, whose numbers and
// weights follow from shapes and scales and are computed here.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "onnx/lowering.h"

namespace millrace::onnx {
namespace {

struct ResizeRule {
  std::string mode;         // nearest, linear, cubic
  std::string coordinates;  // coordinate_transformation_mode
  std::string nearest;      // nearest_mode, or simple: up where the axis shrinks, else down
  double cubic_a = -0.75;
  double extrapolation = 0;
  bool exclude_outside = false;
  bool antialias = false;
};

struct ResizeAxis {
  int64_t axis = 0, input = 0, output = 0;
  float scale = 1, wide = 0;  // wide: the length that coordinates are of, before it is made whole
  float roi_begin = 0, roi_end = 1;
};

// Where output element `i` lies in the input. In float, as onnxruntime and ONNX's reference have it: edges and ties are decided by it.
float Position(const ResizeRule& rule, const ResizeAxis& a, int64_t i) {
  const float x = static_cast<float>(i), input = static_cast<float>(a.input), wide = a.wide;
  if (rule.coordinates == "asymmetric") return x / a.scale;
  if (rule.coordinates == "align_corners") return wide == 1 ? 0 : x * (input - 1) / (wide - 1);
  if (rule.coordinates == "tf_crop_and_resize") {
    if (wide == 1) return 0.5f * (a.roi_begin + a.roi_end) * (input - 1);
    return a.roi_begin * (input - 1) + x * (a.roi_end - a.roi_begin) * (input - 1) / (wide - 1);
  }
  if (rule.coordinates == "pytorch_half_pixel" && wide == 1) return 0;
  const float half_pixel = (x + 0.5f) / a.scale - 0.5f;
  if (rule.coordinates != "half_pixel_symmetric") return half_pixel;
  return input / 2 * (1 - static_cast<float>(a.output) / wide) + half_pixel;
}

double Cubic(double distance, double a) {
  const double x = std::abs(distance);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

// Weights of the neighbours first, first + 1, …; `ratio`, in (0, 1], is how far the position is from neighbour 0.
struct Weights {
  int64_t first = 0;
  std::vector<double> values;
};
Weights WeightsAt(const ResizeRule& rule, double ratio, double scale) {
  Weights weights;
  if (rule.mode == "nearest") {
    const bool up = ratio == 1                             ? true
                    : rule.nearest == "floor"              ? false
                    : rule.nearest == "ceil"               ? true
                    : rule.nearest == "simple"             ? scale < 1
                    : rule.nearest == "round_prefer_ceil"  ? ratio >= 0.5
                                                           : ratio > 0.5;
    weights.first = up ? 1 : 0;
    weights.values = {1};
    return weights;
  }
  // Shrinking with antialiasing stretches the filter.
  const double stretch = rule.antialias ? std::min(scale, 1.0) : 1.0;
  const double support = rule.mode == "cubic" ? 2 : 1;
  weights.first = static_cast<int64_t>(std::floor(-support / stretch)) + 1;
  const int64_t last = 1 - weights.first;
  double sum = 0;
  for (int64_t i = weights.first; i <= last; ++i) {
    const double distance = (static_cast<double>(i) - ratio) * stretch;
    const double value = rule.mode == "cubic" ? Cubic(distance, rule.cubic_a) : std::max(0.0, 1 - std::abs(distance));
    weights.values.push_back(value);
    sum += value;
  }
  for (double& value : weights.values) value /= rule.antialias ? sum : 1;
  return weights;
}

// For every output element: numbers and weights of the same count of input elements.
struct AxisTable {
  std::vector<IntList> from;                  // by tap, then output element
  std::vector<std::vector<double>> weights;
  std::vector<double> outside;                // 1 where extrapolation counts
};

AxisTable MakeTable(const ResizeRule& rule, const ResizeAxis& a) {
  AxisTable table;
  table.outside.assign(a.output, 0);
  for (int64_t i = 0; i < a.output; ++i) {
    const double x = Position(rule, a, i), low = std::floor(x);
    // On an element exactly, the one before counts as neighbour 0, so that the ratio is 1.
    const bool exact = x == low;
    const int64_t base = static_cast<int64_t>(low) - (exact ? 1 : 0);
    Weights weights = WeightsAt(rule, exact ? 1 : x - low, a.scale);
    if (table.from.empty()) {
      table.from.assign(weights.values.size(), IntList(a.output, 0));
      table.weights.assign(weights.values.size(), std::vector<double>(a.output, 0));
    }
    double inside = 0;
    for (size_t t = 0; t < weights.values.size(); ++t) {
      const int64_t at = base + weights.first + static_cast<int64_t>(t);
      const bool out = at < 0 || at >= a.input;
      if (rule.exclude_outside && out) weights.values[t] = 0;
      inside += weights.values[t];
      table.from[t][i] = std::clamp<int64_t>(at, 0, a.input - 1);
    }
    const bool beyond = rule.coordinates == "tf_crop_and_resize" && (x < 0 || x > static_cast<double>(a.input - 1));
    table.outside[i] = beyond ? 1 : 0;
    for (size_t t = 0; t < weights.values.size(); ++t) {
      table.weights[t][i] = beyond ? 0 : weights.values[t] / (rule.exclude_outside ? inside : 1);
    }
  }
  return table;
}

Output ResizeAlong(const Output& x, const ResizeRule& rule, const ResizeAxis& a) {
  GraphBuilder& b = *x.builder();
  const AxisTable table = MakeTable(rule, a);
  Shape shape(IntList(x.rank(), 1));
  shape.set_dim(static_cast<int>(a.axis), a.output);
  const bool extrapolates = std::count(table.outside.begin(), table.outside.end(), 1.0) > 0;
  Output sum;
  if (rule.mode == "nearest" && !extrapolates) return ops::Gather(x, b.Ints(table.from[0]), a.axis);
  for (size_t t = 0; t < table.from.size(); ++t) {
    const bool used = std::any_of(table.weights[t].begin(), table.weights[t].end(), [](double w) { return w != 0; });
    if (!used && !(t == 0 && table.from.size() == 1)) continue;
    const Output part = ops::Mul(ops::Gather(x, b.Ints(table.from[t]), a.axis), Vector(b, x.dtype(), table.weights[t], shape));
    sum = sum.valid() ? ops::Add(sum, part) : part;
  }
  if (!extrapolates) return sum;
  std::vector<double> constant = table.outside;
  for (double& value : constant) value *= rule.extrapolation;
  return ops::Add(sum, Vector(b, x.dtype(), constant, shape));
}

struct ResizeRequest {
  ResizeRule rule;
  std::vector<ResizeAxis> axes;
};

// Sizes from scales or scales from sizes, per axis.
absl::Status ReadScales(NodeContext& c, const Output& x, int scales_input, int sizes_input, const IntList& axes,
                        ResizeRequest& request) {
  std::vector<double> scales;
  IntList sizes;
  if (scales_input < 0) {
    for (float scale : c.Floats("scales")) scales.push_back(scale);
    // The first opset has two of its own for images.
    if (c.Attribute("height_scale") != nullptr) scales = {1, 1, c.Float("height_scale", 1), c.Float("width_scale", 1)};
  } else if (c.has(scales_input)) {
    MR_ASSIGN_OR_RETURN(scales, c.ConstantFloats(scales_input));
  }
  if (scales.empty() && sizes_input >= 0 && c.has(sizes_input)) {
    MR_ASSIGN_OR_RETURN(sizes, c.ConstantInts(sizes_input));
  }
  if (std::max(scales.size(), sizes.size()) != axes.size()) {
    return c.Error(absl::StrCat("expected scales or sizes of ", axes.size(), " axes"));
  }
  const std::string policy = c.String("keep_aspect_ratio_policy", "stretch");
  for (size_t i = 0; i < axes.size(); ++i) {
    ResizeAxis a{.axis = axes[i], .input = x.dim(static_cast<int>(axes[i]))};
    if (a.input == 0 && policy == "stretch" && (sizes.empty() || sizes[i] == 0)) {
      request.axes.push_back(a);  // of nothing comes nothing
      continue;
    }
    if (a.input < 1) return c.Error(absl::StrCat("input is ", x.type().ToString(), ", expected elements"));
    const float input = static_cast<float>(a.input);
    a.scale = scales.empty() ? static_cast<float>(sizes[i]) / input : static_cast<float>(scales[i]);
    const float output = scales.empty() ? static_cast<float>(sizes[i]) : std::floor(input * a.scale);
    constexpr float kMost = 1 << 24;
    if (!(a.scale > 0) || !(output >= 1) || !(output <= kMost)) {
      return c.Error(absl::StrCat("axis ", a.axis, " of ", a.input, " elements to ", output));
    }
    constexpr float kMostTaps = 1024;
    if (c.Int("antialias", 0) != 0 && 4 / a.scale > kMostTaps) return c.Unsupported(absl::StrCat("antialiasing at a scale of ", a.scale));
    a.output = static_cast<int64_t>(output);
    // Not through the scale: 49 elements times 1/49 are a little less than one.
    a.wide = scales.empty() ? output : a.scale * input;
    request.axes.push_back(a);
  }
  if (sizes.empty() || policy == "stretch" || request.axes.empty()) return absl::OkStatus();
  const auto smaller = [](const ResizeAxis& a, const ResizeAxis& b) { return a.scale < b.scale; };
  const float scale = policy == "not_larger"
                           ? std::min_element(request.axes.begin(), request.axes.end(), smaller)->scale
                           : std::max_element(request.axes.begin(), request.axes.end(), smaller)->scale;
  for (ResizeAxis& a : request.axes) {
    a.scale = scale;
    a.output = std::max<int64_t>(1, static_cast<int64_t>(std::round(static_cast<float>(a.input) * scale)));
    a.wide = static_cast<float>(a.input) * scale;
  }
  return absl::OkStatus();
}

absl::Status Emit(NodeContext& c, const Output& x, const ResizeRequest& request) {
  Output y = AsWide(x);
  if (!IsFloating(y.dtype()) && request.rule.mode != "nearest") y = ops::Cast(x, DataType::kFloat);
  for (const ResizeAxis& a : request.axes) {
    const bool same = a.input == 0 || (a.output == a.input && a.scale == 1 && request.rule.coordinates != "tf_crop_and_resize");
    if (same || !y.valid()) continue;
    y = ResizeAlong(y, request.rule, a);
  }
  c.Set(0, ops::Cast(y, x.dtype()));
  return absl::OkStatus();
}

absl::Status Resize(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 4));
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  ResizeRequest request;
  ResizeRule& rule = request.rule;
  rule.mode = c.String("mode", "nearest");
  constexpr int64_t kModernOpset = 11;
  const bool modern = c.opset() >= kModernOpset;
  rule.coordinates = c.String("coordinate_transformation_mode", modern ? "half_pixel" : "asymmetric");
  rule.nearest = c.String("nearest_mode", modern ? "round_prefer_floor" : "simple");
  rule.cubic_a = c.Float("cubic_coeff_a", -0.75f);
  rule.extrapolation = c.Float("extrapolation_value", 0);
  rule.exclude_outside = c.Int("exclude_outside", 0) != 0;
  rule.antialias = c.Int("antialias", 0) != 0;
  if (rule.mode == "bilinear") rule.mode = "linear";
  if (rule.mode != "nearest" && rule.mode != "linear" && rule.mode != "cubic") {
    return c.Error(absl::StrCat("mode is '", rule.mode, "'"));
  }
  MR_ASSIGN_OR_RETURN(const IntList axes, c.Axes(c.Ints("axes", Iota(x.rank())), x.rank()));
  MR_RETURN_IF_ERROR(ReadScales(c, x, modern ? 2 : 1, modern ? 3 : -1, axes, request));
  if (rule.coordinates == "tf_crop_and_resize") {
    MR_ASSIGN_OR_RETURN(const std::vector<double> roi, c.ConstantFloats(1));
    if (roi.size() != 2 * axes.size()) return c.Error(absl::StrCat("roi has ", roi.size(), " numbers, expected ", 2 * axes.size()));
    for (size_t i = 0; i < axes.size(); ++i) {
      constexpr double kMost = 1e6;
      if (!(std::abs(roi[i]) <= kMost && std::abs(roi[axes.size() + i]) <= kMost)) return c.Error("roi is absurd");
      request.axes[i].roi_begin = static_cast<float>(roi[i]);
      request.axes[i].roi_end = static_cast<float>(roi[axes.size() + i]);
    }
  }
  return Emit(c, x, request);
}

absl::Status Upsample(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 2));
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  ResizeRequest request;
  request.rule.mode = c.String("mode", "nearest");
  if (request.rule.mode == "bilinear") request.rule.mode = "linear";
  if (request.rule.mode != "nearest" && request.rule.mode != "linear") return c.Error("mode is neither nearest nor linear");
  request.rule.coordinates = "asymmetric";
  request.rule.nearest = "floor";
  MR_RETURN_IF_ERROR(ReadScales(c, x, c.has(1) ? 1 : -1, -1, Iota(x.rank()), request));
  return Emit(c, x, request);
}

}  // namespace

void AddResizeLowerings(LoweringTable& table) {
  table.Add("Resize", Resize);
  table.Add("Upsample", Upsample);
}

}  // namespace millrace::onnx
