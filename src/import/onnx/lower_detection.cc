// What detectors use: regions and convolutions at computed places, boxes that suppress each other.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "onnx/lowering.h"

namespace millrace::onnx {
namespace {

Output Clamped(const Output& x, int64_t size) {
  return ops::Binary("Minimum", ops::Binary("Maximum", x, 0), static_cast<double>(size - 1));
}

// The two pixels around coordinates along a dimension, and what each counts for.
struct Neighbours {
  Output places[2], weights[2];
};

// Pixels beyond the edges are 0.
Neighbours BetweenZeros(const Output& at, int64_t size) {
  const Output low = ops::Unary("Floor", at), fraction = at - low;
  Neighbours n{{low, low + 1.0}, {-fraction + 1.0, fraction}};
  for (int i = 0; i < 2; ++i) {
    const Output inside = Clamped(n.places[i], size);
    n.weights[i] = n.weights[i] * ops::Cast(ops::Binary("Equal", inside, n.places[i]), at.dtype());
    n.places[i] = inside;
  }
  return n;
}

// Pixels at the edges reach out for one pixel; beyond that everything is 0.
Neighbours BetweenEdges(const Output& at, int64_t size) {
  const Output inside = Clamped(at, size), low = ops::Unary("Floor", inside), fraction = inside - low;
  const Output near = ops::Binary("LessEqual", ops::Abs(at - (static_cast<double>(size) - 1) / 2),
                                  (static_cast<double>(size) + 1) / 2);
  const Output reached = ops::Cast(near, at.dtype());
  return {{low, Clamped(low + 1.0, size)}, {(-fraction + 1.0) * reached, fraction * reached}};
}

// rows [pixels, channels], `first` the row where an image begins: values [..., channels] of one pair of neighbours.
Output ValuesAt(const Output& rows, const Output& first, const Output& y, const Output& x, int64_t width) {
  const Output row = ops::Cast(y, DataType::kInt32), column = ops::Cast(x, DataType::kInt32);
  return ops::Gather(rows, ops::Binary("Mul", row, static_cast<double>(width)) + column + first);
}

// Images [n, c, h, w] as rows of channels.
Output RowsOf(const Output& x) {
  const IntList d = Dims(x);
  return ops::Reshape(ops::Transpose(x, {0, 2, 3, 1}), {d[0] * d[2] * d[3], d[1]});
}

// Coordinates [regions, samples] along one dimension: `count` bins with `grid` samples each.
Output RegionSamples(const Output& start, const Output& extent, int64_t count, int64_t grid) {
  std::vector<double> places;
  for (int64_t i = 0; i < count * grid; ++i) {
    places.push_back((static_cast<double>(i) + 0.5) / static_cast<double>(grid) / static_cast<double>(count));
  }
  const Output fractions = Vector(*start.builder(), start.dtype(), places, {1, count * grid});
  return start + extent * fractions;
}

// How regions are pooled, and the images as rows of channels.
struct RegionPool {
  int64_t height = 1, width = 1, samples = 0;
  double scale = 1;
  bool half_pixel = false, takes_max = false;
  Output rows;
  IntList image;  // its shape
};
using Grid = std::pair<int64_t, int64_t>;  // samples of a value, along y and x

// rois [regions, 4] with `grid` samples of every value: [regions, channels, height, width].
Output PoolRegions(const RegionPool& p, const Output& rois, const Output& batch, Grid grid) {
  const int64_t regions = rois.dim(0), channels = p.image[1];
  if (grid.first < 1 || grid.second < 1) return ops::Full(*rois.builder(), {p.rows.dtype(), Shape({regions, channels, p.height, p.width})}, 0);
  const Output scaled = rois * p.scale - (p.half_pixel ? 0.5 : 0.0);
  const auto corner = [&](int64_t i) { return ops::Slice(scaled, {0, i}, {regions, 1}); };
  Output extent_x = corner(2) - corner(0), extent_y = corner(3) - corner(1);
  if (!p.half_pixel) {
    extent_x = ops::Binary("Maximum", extent_x, 1);
    extent_y = ops::Binary("Maximum", extent_y, 1);
  }
  const IntList along_y = {regions, p.height * grid.first, 1}, along_x = {regions, 1, p.width * grid.second};
  const Neighbours y = BetweenEdges(ops::Reshape(RegionSamples(corner(1), extent_y, p.height, grid.first), along_y), p.image[2]);
  const Neighbours at_x = BetweenEdges(ops::Reshape(RegionSamples(corner(0), extent_x, p.width, grid.second), along_x), p.image[3]);
  const Output first = ops::Reshape(
      ops::Binary("Mul", ops::Cast(batch, DataType::kInt32), static_cast<double>(p.image[2] * p.image[3])), {regions, 1, 1});
  Output all;
  for (int i = 0; i < 4; ++i) {
    const int v = i / 2, h = i % 2;
    const Output weight = ops::ExpandDims(y.weights[v] * at_x.weights[h], -1);
    const Output part = ValuesAt(p.rows, first, y.places[v], at_x.places[h], p.image[3]) * weight;
    // The largest of the weighed pixels, not of the values between them.
    all = !all.valid() ? part : p.takes_max ? ops::Maximum(all, part) : all + part;
  }
  const Output bins = ops::Reshape(all, {regions, p.height, grid.first, p.width, grid.second, channels});
  return ops::Transpose(p.takes_max ? ops::Max(bins, {2, 4}) : ops::Mean(bins, {2, 4}), {0, 3, 1, 2});
}

// As many samples as regions of known corners are large.
std::vector<Grid> GridsOf(const RegionPool& p, const Tensor& rois) {
  std::vector<Grid> grids;
  const float scale = static_cast<float>(p.scale), offset = p.half_pixel ? 0.5f : 0.0f;
  const auto at = [&](int64_t i) { return static_cast<float>(rois.DoubleAt(i)) * scale - offset; };
  const auto samples = [&](int64_t begin, int64_t end, int64_t count) {
    float extent = at(end) - at(begin);
    if (!p.half_pixel) extent = std::max(extent, 1.0f);
    const float samples = std::ceil(extent / static_cast<float>(count));
    constexpr float kMost = 1 << 24;  // PoolRegions is not asked for as many
    return samples > 0 ? static_cast<int64_t>(std::min(samples, kMost)) : 0;
  };
  for (int64_t i = 0; i < rois.num_elements(); i += 4) grids.push_back({samples(i + 1, i + 3, p.height), samples(i, i + 2, p.width)});
  return grids;
}

absl::Status CheckSamples(const NodeContext& c, const RegionPool& p, Grid grid) {
  constexpr int64_t kMost = 1 << 24;
  if (Product({p.height, grid.first, p.width, grid.second}) <= kMost) return absl::OkStatus();
  return c.Error(absl::StrCat("regions of ", p.height, " x ", p.width, " values by ", grid.first, " x ", grid.second, " samples are absurd"));
}

absl::Status RoiAlign(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(3, 3));
  const std::string mode = c.String("mode", "avg");
  RegionPool p{c.Int("output_height", 1), c.Int("output_width", 1), c.Int("sampling_ratio", 0), static_cast<double>(c.Float("spatial_scale", 1))};
  p.half_pixel = c.opset() >= 16 && c.String("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  p.takes_max = mode == "max";
  const absl::StatusOr<Tensor> known = p.samples == 0 ? c.Constant(1) : absl::StatusOr<Tensor>(Tensor());
  if (!known.ok()) return c.Unsupported("sampling_ratio 0, as many samples as a region is large, of regions that are not known while the model is read,");
  const Output x = c.in(0), rois = p.samples == 0 ? c.b.SharedConst(*known) : c.in(1), batch = c.in(2);
  if (!x.valid() || !rois.valid() || !batch.valid()) return absl::OkStatus();
  if (x.rank() != 4 || rois.rank() != 2 || rois.dim(1) != 4 || batch.shape() != Shape({rois.dim(0)}) || p.height < 1 ||
      p.width < 1 || p.samples < 0 || (mode != "avg" && mode != "max") || x.shape().num_elements() == 0) {
    return c.Error(absl::StrCat("input ", x.type().ToString(), ", regions ", rois.type().ToString(), ", mode '", mode,
                                "'"));
  }
  p.image = Dims(x);
  p.rows = RowsOf(x);
  if (p.samples > 0) {
    MR_RETURN_IF_ERROR(CheckSamples(c, p, {p.samples, p.samples}));
    c.Set(0, PoolRegions(p, rois, batch, {p.samples, p.samples}));
    return absl::OkStatus();
  }
  // Regions of one number of samples together, then all in their order.
  std::map<Grid, IntList> by_grid;
  const std::vector<Grid> grids = GridsOf(p, *known);
  for (size_t i = 0; i < grids.size(); ++i) by_grid[grids[i]].push_back(static_cast<int64_t>(i));
  std::vector<Output> parts;
  IntList place(grids.size());
  int64_t next = 0;
  for (const auto& [grid, regions] : by_grid) {
    MR_RETURN_IF_ERROR(CheckSamples(c, p, grid));
    const Output numbers = c.b.Ints(regions);
    parts.push_back(PoolRegions(p, ops::Gather(rois, numbers), ops::Gather(batch, numbers), grid));
    for (int64_t region : regions) place[region] = next++;
  }
  if (parts.empty()) {
    c.Set(0, PoolRegions(p, rois, batch, {0, 0}));
  } else {
    c.Set(0, parts.size() == 1 ? parts[0] : ops::Gather(ops::Concat(parts, 0), c.b.Ints(place)));
  }
  return absl::OkStatus();
}

struct DeformShape {
  int64_t batch, channels, taps, groups, offset_groups, outputs;
  IntList image, out;
};

// Coordinates [batch, offset groups, taps, out height, out width] along dimension `i`.
Output DeformedPlaces(const NodeContext& c, const Output& offset, const DeformShape& s, const SpatialWindow& window,
                      const SpatialPads& pads, int i) {
  std::vector<double> places;
  for (int64_t t = 0; t < s.taps; ++t) {
    const int64_t tap = i == 0 ? t / window.sizes[1] : t % window.sizes[1];
    for (int64_t o = 0; o < s.out[0] * s.out[1]; ++o) {
      const int64_t at = i == 0 ? o / s.out[1] : o % s.out[1];
      places.push_back(static_cast<double>(at * window.strides[i] - pads.before[i] + tap * window.dilations[i]));
    }
  }
  const Output own = Vector(c.b, offset.dtype(), places, {1, 1, s.taps, s.out[0], s.out[1]});
  return ops::Index(offset, i, 3) + own;
}

absl::Status DeformConv(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(3, 5));
  const Output x = c.in(0), filter = c.in(1), offset = c.in(2);
  if (!x.valid() || !filter.valid() || !offset.valid()) return absl::OkStatus();
  if (x.rank() != 4 || filter.rank() != 4 || offset.rank() != 4 || x.shape().num_elements() == 0) {
    return c.Unsupported(absl::StrCat("input ", x.type().ToString(), ", filter ", filter.type().ToString(),
                                      ", expected two spatial dimensions"));
  }
  MR_ASSIGN_OR_RETURN(const SpatialWindow window, ReadWindow(c, {filter.dim(2), filter.dim(3)}));
  DeformShape s{x.dim(0), x.dim(1), filter.dim(2) * filter.dim(3), c.Int("group", 1), c.Int("offset_group", 1),
                filter.dim(0), {x.dim(2), x.dim(3)}, {offset.dim(2), offset.dim(3)}};
  MR_ASSIGN_OR_RETURN(const SpatialPads pads, ReadPads(c, s.image, window));
  bool fits = s.groups >= 1 && s.offset_groups >= 1 && s.channels % s.groups == 0 &&
              s.channels % s.offset_groups == 0 && s.outputs % s.groups == 0 && filter.dim(1) == s.channels / s.groups;
  for (int i = 0; fits && i < 2; ++i) {
    const int64_t room = s.image[i] + pads.before[i] + pads.after[i] - (window.sizes[i] - 1) * window.dilations[i] - 1;
    fits = room >= 0 && s.out[i] == room / window.strides[i] + 1;
  }
  fits = fits && offset.shape() == Shape({s.batch, s.offset_groups * s.taps * 2, s.out[0], s.out[1]});
  if (!fits) {
    return c.Error(absl::StrCat("input ", x.type().ToString(), ", filter ", filter.type().ToString(), ", offset ",
                                offset.type().ToString()));
  }
  const int64_t per_group = s.channels / s.offset_groups, pixels = s.image[0] * s.image[1];
  const Output offsets = ops::Reshape(offset, {s.batch, s.offset_groups, s.taps, 2, s.out[0], s.out[1]});
  const Neighbours y = BetweenZeros(DeformedPlaces(c, offsets, s, window, pads, 0), s.image[0]);
  const Neighbours at_x = BetweenZeros(DeformedPlaces(c, offsets, s, window, pads, 1), s.image[1]);
  IntList firsts;
  for (int64_t i = 0; i < s.batch * s.offset_groups; ++i) firsts.push_back(i * pixels);
  const Output first = ops::Reshape(c.b.Ints(firsts), {s.batch, s.offset_groups, 1, 1, 1});
  const Output rows = RowsOf(ops::Reshape(x, {s.batch * s.offset_groups, per_group, s.image[0], s.image[1]}));
  Output sampled;  // [batch, offset groups, taps, out height, out width, channels of the group]
  for (int i = 0; i < 4; ++i) {
    const int v = i / 2, h = i % 2;
    const Output part = ValuesAt(rows, first, y.places[v], at_x.places[h], s.image[1]) *
                        ops::ExpandDims(y.weights[v] * at_x.weights[h], -1);
    sampled = sampled.valid() ? sampled + part : part;
  }
  if (c.has(4)) {
    sampled = sampled * ops::Reshape(c.in(4), {s.batch, s.offset_groups, s.taps, s.out[0], s.out[1], 1});
  }
  const int64_t places = s.out[0] * s.out[1], inner = s.channels / s.groups * s.taps;
  const Output columns = ops::Reshape(ops::Transpose(sampled, {0, 1, 5, 2, 3, 4}), {s.batch, s.groups, inner, places});
  const Output weights = ops::Reshape(filter, {1, s.groups, s.outputs / s.groups, inner});
  Output out = ops::Reshape(ops::BatchMatMul(weights, columns), {s.batch, s.outputs, s.out[0], s.out[1]});
  if (c.has(3)) out = out + ops::Reshape(c.in(3), {s.outputs, 1, 1});
  c.Set(0, out);
  return absl::OkStatus();
}

struct Box {
  double low[2], high[2];
  double area() const { return (high[0] - low[0]) * (high[1] - low[1]); }
};

Box ReadBox(const Tensor& boxes, int64_t at, bool centre) {
  Box box;
  for (int i = 0; i < 2; ++i) {
    const double a = boxes.DoubleAt(at * 4 + i), b = boxes.DoubleAt(at * 4 + 2 + i);
    box.low[i] = centre ? a - b / 2 : std::min(a, b);
    box.high[i] = centre ? a + b / 2 : std::max(a, b);
  }
  return box;
}

double Overlap(const Box& a, const Box& b) {
  double common = 1;
  for (int i = 0; i < 2; ++i) common *= std::max(0.0, std::min(a.high[i], b.high[i]) - std::max(a.low[i], b.low[i]));
  const double together = a.area() + b.area() - common;
  return together > 0 ? common / together : 0;
}

// How many boxes stay depends on their values: they must be known.
absl::Status NonMaxSuppression(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 5));
  MR_ASSIGN_OR_RETURN(const Tensor boxes, c.Constant(0));
  MR_ASSIGN_OR_RETURN(const Tensor scores, c.Constant(1));
  const auto limit = [&c](int i, double fallback) -> absl::StatusOr<double> {
    if (!c.has(i)) return fallback;
    MR_ASSIGN_OR_RETURN(const std::vector<double> value, c.ConstantFloats(i));
    return value.empty() ? fallback : value[0];
  };
  MR_ASSIGN_OR_RETURN(const double most, limit(2, 0));
  MR_ASSIGN_OR_RETURN(const double overlap, limit(3, 0));
  MR_ASSIGN_OR_RETURN(const double least, limit(4, -std::numeric_limits<double>::infinity()));
  if (boxes.shape().rank() != 3 || boxes.shape().dim(2) != 4 || scores.shape().rank() != 3 ||
      scores.shape().dim(0) != boxes.shape().dim(0) || scores.shape().dim(2) != boxes.shape().dim(1)) {
    return c.Error(absl::StrCat("boxes ", boxes.type().ToString(), ", scores ", scores.type().ToString()));
  }
  const int64_t count = boxes.shape().dim(1), classes = scores.shape().dim(1);
  const bool centre = c.Int("center_point_box", 0) != 0;
  IntList chosen;
  for (int64_t line = 0; line < boxes.shape().dim(0) * classes; ++line) {
    const auto score = [&](int64_t i) { return scores.DoubleAt(line * count + i); };
    IntList order = Iota(count), kept;
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return score(a) > score(b); });
    for (int64_t i : order) {
      if (static_cast<double>(kept.size()) >= most) break;
      if (c.has(4) && !(score(i) > least)) continue;
      const auto box = [&](int64_t k) { return ReadBox(boxes, line / classes * count + k, centre); };
      if (std::any_of(kept.begin(), kept.end(), [&](int64_t k) { return Overlap(box(k), box(i)) > overlap; })) continue;
      kept.push_back(i);
      chosen.insert(chosen.end(), {line / classes, line % classes, i});
    }
  }
  Tensor selected(DataType::kInt64, Shape({static_cast<int64_t>(chosen.size()) / 3, 3}));
  std::copy(chosen.begin(), chosen.end(), selected.mutable_as<int64_t>().begin());
  c.Set(0, c.b.SharedConst(std::move(selected)));
  return absl::OkStatus();
}

}  // namespace

void AddDetectionLowerings(LoweringTable& table) {
  table.Add("RoiAlign", RoiAlign);
  table.Add("DeformConv", DeformConv);
  table.Add("NonMaxSuppression", NonMaxSuppression);
}

}  // namespace millrace::onnx
