// Sampling at computed places: GridSample, AffineGrid, Col2Im.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "onnx/lowering.h"

namespace millrace::onnx {
namespace {

struct GridRule {
  std::string mode, padding;  // linear, nearest, cubic; zeros, border, reflection
  bool align_corners = false;
};

// Coordinates that fall outside are mirrored at the edges (of pixels, or of their centres with align_corners).
Output Reflected(const Output& x, int64_t size, bool align_corners) {
  const double low = align_corners ? 0 : -0.5, span = align_corners ? static_cast<double>(size - 1) : static_cast<double>(size);
  if (span <= 0) return ops::ZerosLike(x);
  const Output from_low = ops::Abs(x - low);
  const Output periods = ops::Unary("Floor", from_low / span);
  const Output rest = from_low - periods * span;
  const Output odd = ops::Binary("NotEqual", ops::Binary("FloorMod", periods, 2), 0);
  return ops::Select(odd, -rest + span, rest) + low;
}

Output Clamped(const Output& x, int64_t size) {
  return ops::Binary("Minimum", ops::Binary("Maximum", x, 0), static_cast<double>(size - 1));
}

// One dimension of the sampled image: places [batch, points] (whole numbers, as floats) and weights of each tap.
struct Tap {
  Output place, weight;
};

Output CubicWeight(const Output& distance) {
  constexpr double kA = -0.75;
  const Output x = ops::Abs(distance);
  const Output near = (x * (kA + 2) - (kA + 3)) * ops::Square(x) + 1.0;
  const Output far = ((x * kA - 5 * kA) * x + 8 * kA) * x - 4 * kA;
  return ops::Select(ops::Binary("LessEqual", x, 1), near, far);
}

std::vector<Tap> TapsOf(const GridRule& rule, const Output& coordinate, int64_t size) {
  const double half = static_cast<double>(size) / 2;
  Output x = rule.align_corners ? (coordinate + 1.0) * (static_cast<double>(size - 1) / 2) : (coordinate + 1.0) * half - 0.5;
  if (rule.mode == "nearest") x = ops::Unary("Round", x);
  if (rule.mode != "cubic" && rule.padding == "border") x = Clamped(x, size);
  if (rule.mode != "cubic" && rule.padding == "reflection") x = Reflected(x, size, rule.align_corners);
  if (rule.mode == "nearest") return {{rule.padding == "reflection" ? Clamped(ops::Unary("Round", x), size) : x, ops::OnesLike(x)}};
  const Output low = ops::Unary("Floor", x), fraction = x - low;
  if (rule.mode == "linear") {
    // A neighbour beyond the edge mirrors to the edge itself.
    const auto neighbour = [&](const Output& place) { return rule.padding == "zeros" ? place : Clamped(place, size); };
    return {{neighbour(low), -fraction + 1.0}, {neighbour(low + 1.0), fraction}};
  }
  std::vector<Tap> taps;
  for (int i = -1; i <= 2; ++i) {
    Output place = low + static_cast<double>(i);
    const Output weight = CubicWeight(fraction - static_cast<double>(i));
    if (rule.padding == "border") place = Clamped(place, size);
    if (rule.padding == "reflection") place = Clamped(ops::Unary("Round", Reflected(place, size, rule.align_corners)), size);
    taps.push_back({place, weight});
  }
  return taps;
}

absl::Status GridSample(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 2));
  const Output x = c.in(0), grid = c.in(1);
  if (!x.valid() || !grid.valid()) return absl::OkStatus();
  const int spatial = x.rank() - 2;
  if (spatial < 1 || spatial > 3 || grid.rank() != x.rank() || grid.dim(-1) != spatial || grid.dim(0) != x.dim(0) ||
      x.shape().num_elements() == 0) {
    return c.Error(absl::StrCat("input ", x.type().ToString(), ", grid ", grid.type().ToString()));
  }
  GridRule rule{c.String("mode", "linear"), c.String("padding_mode", "zeros"), c.Int("align_corners", 0) != 0};
  if (rule.mode == "bilinear") rule.mode = "linear";
  if (rule.mode == "bicubic") rule.mode = "cubic";
  if ((rule.mode != "linear" && rule.mode != "nearest" && rule.mode != "cubic") ||
      (rule.padding != "zeros" && rule.padding != "border" && rule.padding != "reflection")) {
    return c.Error(absl::StrCat("mode '", rule.mode, "', padding_mode '", rule.padding, "'"));
  }
  const IntList dims = Dims(x), grid_dims = Dims(grid);
  const int64_t batch = dims[0], channels = dims[1], pixels = Product(IntList(dims.begin() + 2, dims.end()));
  const int64_t points = Product(IntList(grid_dims.begin() + 1, grid_dims.end() - 1));
  // Channels last, so that a place is a row.
  IntList to_last = Iota(x.rank());
  std::rotate(to_last.begin() + 1, to_last.begin() + 2, to_last.end());
  const Output rows = ops::Reshape(ops::Transpose(x, to_last), {batch * pixels, channels});
  const Output flat_grid = ops::Reshape(ops::Cast(grid, DataType::kFloat), {batch, points, spatial});
  const Output base = ops::Reshape(ops::Binary("Mul", ops::Range(c.b.Int(0), c.b.Int(batch), c.b.Int(1)), static_cast<double>(pixels)), {batch, 1});
  // The grid's last coordinate is the first spatial dimension.
  std::vector<std::vector<Tap>> taps;
  for (int i = 0; i < spatial; ++i) taps.push_back(TapsOf(rule, ops::Index(flat_grid, spatial - 1 - i, -1), dims[i + 2]));
  Output sum;
  std::vector<size_t> choice(spatial, 0);
  while (true) {
    Output place, weight;
    for (int i = 0; i < spatial; ++i) {
      const Tap& tap = taps[i][choice[i]];
      const Output inside = ops::Cast(ops::Binary("Equal", Clamped(tap.place, dims[i + 2]), tap.place), DataType::kFloat);
      const Output at = ops::Cast(Clamped(tap.place, dims[i + 2]), DataType::kInt32);
      place = i == 0 ? at : ops::Binary("Mul", place, static_cast<double>(dims[i + 2])) + at;
      weight = i == 0 ? tap.weight * inside : weight * tap.weight * inside;
    }
    const Output values = ops::Gather(rows, place + base) * ops::ExpandDims(ops::Cast(weight, x.dtype()), -1);
    sum = sum.valid() ? sum + values : values;
    int i = 0;
    while (i < spatial && ++choice[i] == taps[i].size()) choice[i++] = 0;
    if (i == spatial) break;
  }
  IntList shape = {batch, channels};
  shape.insert(shape.end(), grid_dims.begin() + 1, grid_dims.end() - 1);
  c.Set(0, ops::Reshape(ops::Transpose(sum, {0, 2, 1}), shape));
  return absl::OkStatus();
}

// Coordinates of pixels in [-1, 1], moved by a matrix [batch, d, d + 1].
absl::Status AffineGrid(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 2));
  const Output theta = c.in(0);
  MR_ASSIGN_OR_RETURN(const IntList size, c.ConstantInts(1));
  if (!theta.valid()) return absl::OkStatus();
  const int64_t spatial = static_cast<int64_t>(size.size()) - 2;
  if ((spatial != 2 && spatial != 3) || theta.shape() != Shape({size[0], spatial, spatial + 1})) {
    return c.Error(absl::StrCat("theta is ", theta.type().ToString(), ", for ", size.size(), " sizes"));
  }
  const bool align_corners = c.Int("align_corners", 0) != 0;
  const IntList space(size.begin() + 2, size.end());
  constexpr int64_t kMost = 1 << 24;
  for (int64_t n : space) {
    if (n < 1 || Product(space) > kMost) return c.Error("a size is not positive, or absurd");
  }
  const int64_t points = Product(space);
  std::vector<double> homogeneous(points * (spatial + 1), 1);
  for (int64_t p = 0; p < points; ++p) {
    int64_t rest = p;
    for (int64_t i = spatial; i-- > 0;) {
      const int64_t n = space[i], at = rest % n;
      rest /= n;
      const double centre = align_corners ? (n == 1 ? 0 : 2.0 * at / (n - 1) - 1) : (2.0 * at + 1) / n - 1;
      homogeneous[p * (spatial + 1) + spatial - 1 - i] = centre;
    }
  }
  const Output base = Vector(c.b, theta.dtype(), homogeneous, {1, points, spatial + 1});
  const Output grid = ops::BatchMatMul(ops::BroadcastTo(base, {size[0], points, spatial + 1}), theta, {false, true});
  IntList shape = {size[0]};
  shape.insert(shape.end(), space.begin(), space.end());
  shape.push_back(spatial);
  c.Set(0, ops::Reshape(grid, shape));
  return absl::OkStatus();
}

// Columns [batch, channels * block, windows] added up where their elements came from.
absl::Status Col2Im(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(3, 3));
  const Output x = c.in(0);
  MR_ASSIGN_OR_RETURN(const IntList image, c.ConstantInts(1));
  MR_ASSIGN_OR_RETURN(const IntList block, c.ConstantInts(2));
  if (!x.valid()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const SpatialWindow window, ReadWindow(c, block));
  MR_ASSIGN_OR_RETURN(const SpatialPads pads, ReadPads(c, image, window));
  IntList outputs;
  bool fits = x.rank() == 3 && image.size() == block.size() && !image.empty();
  for (size_t i = 0; fits && i < image.size(); ++i) {
    const int64_t room = image[i] + pads.before[i] + pads.after[i] - (block[i] - 1) * window.dilations[i] - 1;
    fits = image[i] > 0 && image[i] < (1 << 24) && room >= 0;
    outputs.push_back(room / window.strides[i] + 1);
  }
  const int64_t taps = Product(block), windows = Product(outputs), pixels = Product(image);
  constexpr int64_t kMost = 1 << 24;
  fits = fits && taps * windows <= kMost && x.dim(1) % taps == 0 && x.dim(2) == windows;
  if (!fits) return c.Error(absl::StrCat("input ", x.type().ToString(), " is not columns of the image"));
  const int64_t channels = x.dim(1) / taps;
  IntList to;
  for (int64_t t = 0; t < taps; ++t) {
    for (int64_t w = 0; w < windows; ++w) {
      int64_t tap = t, at = w, place = 0, stride = 1;
      for (size_t i = image.size(); i-- > 0;) {
        const int64_t k = (at % outputs[i]) * window.strides[i] - pads.before[i] + (tap % block[i]) * window.dilations[i];
        place = place < 0 || k < 0 || k >= image[i] ? -1 : place + k * stride;
        stride *= image[i];
        at /= outputs[i];
        tap /= block[i];
      }
      to.push_back(place);
    }
  }
  const Output rows = ops::Transpose(ops::Reshape(x, {x.dim(0) * channels, taps * windows}), {1, 0});
  const Output sums = ops::UnsortedSegmentSum(rows, c.b.Ints(to), pixels);
  IntList shape = {x.dim(0), channels};
  shape.insert(shape.end(), image.begin(), image.end());
  c.Set(0, ops::Reshape(ops::Transpose(sums, {1, 0}), shape));
  return absl::OkStatus();
}

}  // namespace

void AddSamplingLowerings(LoweringTable& table) {
  table.Add("GridSample", GridSample);
  table.Add("AffineGrid", AffineGrid);
  table.Add("Col2Im", Col2Im);
}

}  // namespace millrace::onnx
