// Pools, NCHW with one to three spatial dimensions.
#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "onnx/lowering.h"

namespace millrace::onnx {
namespace {

struct PoolShape {
  IntList input, output;  // spatial
  SpatialWindow window;
  SpatialPads pads;       // as given: what counts as padding of an average
  SpatialPads reach;      // as far as windows reach
};

absl::StatusOr<PoolShape> ReadPool(const NodeContext& c, const Output& x) {
  if (x.rank() < 3) return c.Error(absl::StrCat("input is ", x.type().ToString(), ", expected rank 3 or more"));
  if (x.rank() > 5) return c.Unsupported(absl::StrCat("a pool of ", x.type().ToString()));
  PoolShape pool;
  const IntList dims = Dims(x);
  pool.input.assign(dims.begin() + 2, dims.end());
  const IntList sizes = c.Ints("kernel_shape", {});
  if (sizes.size() != pool.input.size()) {
    return c.Error(absl::StrCat("kernel_shape has ", sizes.size(), " numbers, the input is ", x.type().ToString()));
  }
  MR_ASSIGN_OR_RETURN(pool.window, ReadWindow(c, sizes));
  MR_ASSIGN_OR_RETURN(pool.pads, ReadPads(c, pool.input, pool.window));
  pool.reach = pool.pads;
  const bool ceil_mode = c.Int("ceil_mode", 0) != 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t stride = pool.window.strides[i], before = pool.pads.before[i], input = pool.input[i];
    const int64_t span = (sizes[i] - 1) * pool.window.dilations[i] + 1;
    const int64_t room = input + before + pool.pads.after[i] - span;
    if (room < 0 || input < 1) return c.Error(absl::StrCat("a window of ", span, " in a padded input of ", room + span));
    int64_t output = (ceil_mode ? room + stride - 1 : room) / stride + 1;
    // The last window begins in the input or in the padding before it.
    if (ceil_mode && (output - 1) * stride >= input + before) --output;
    constexpr int64_t kMost = 1 << 24;
    if (output > kMost) return c.Unsupported(absl::StrCat("a pool of ", output, " windows"));
    pool.output.push_back(output);
    pool.reach.after[i] = std::max<int64_t>((output - 1) * stride + span - input - before, 0);
  }
  return pool;
}

bool Undilated(const PoolShape& pool) {
  return std::all_of(pool.window.dilations.begin(), pool.window.dilations.end(), [](int64_t d) { return d == 1; });
}

AttrMap PoolAttrs(const Output& x, const PoolShape& pool, const char* padding) {
  IntList sizes = {1, 1}, strides = {1, 1};
  sizes.insert(sizes.end(), pool.window.sizes.begin(), pool.window.sizes.end());
  strides.insert(strides.end(), pool.window.strides.begin(), pool.window.strides.end());
  return {{"T", x.dtype()},
          {"ksize", sizes},
          {"strides", strides},
          {"padding", std::string(padding)},
          {"data_format", std::string(x.rank() == 5 ? "NCDHW" : "NCHW")}};
}

// Runs `emit` on rank 4 where the input has one spatial dimension.
Output OnPlanes(const Output& x, PoolShape pool, const std::function<Output(const Output&, const PoolShape&)>& emit) {
  if (x.rank() != 3) return emit(x, pool);
  for (IntList* list : {&pool.input, &pool.output, &pool.window.sizes, &pool.window.strides, &pool.window.dilations}) {
    list->insert(list->begin(), 1);
  }
  for (SpatialPads* pads : {&pool.pads, &pool.reach}) {
    pads->before.insert(pads->before.begin(), 0);
    pads->after.insert(pads->after.begin(), 0);
  }
  return ops::Squeeze(emit(ops::ExpandDims(x, 2), pool), {2});
}

Output PlainMaxPool(const Output& x, const PoolShape& pool) {
  GraphBuilder& b = *x.builder();
  const char* op = x.rank() == 5 ? "MaxPool3D" : "MaxPool";
  if (!pool.reach.any()) return b.Op(op, {x}, PoolAttrs(x, pool, "VALID"));
  bool within = x.rank() == 4;
  for (size_t i = 0; i < pool.input.size(); ++i) {
    within = within && std::max(pool.reach.before[i], pool.reach.after[i]) < pool.window.sizes[i];
  }
  if (!within) return b.Op(op, {PadSpatial(x, pool.reach, Lowest(x.dtype()))}, PoolAttrs(x, pool, "VALID"));
  AttrMap attrs = PoolAttrs(x, pool, "EXPLICIT");
  IntList list = {0, 0, 0, 0};
  for (size_t i = 0; i < pool.input.size(); ++i) {
    list.push_back(pool.reach.before[i]);
    list.push_back(pool.reach.after[i]);
  }
  attrs.Set("explicit_paddings", list);
  return b.Op(op, {x}, std::move(attrs));
}

// Of planes first, then of what these give along the depth: TensorFlow's MaxPool3D is of no doubles.
Output MaxPoolOfVolumes(const Output& x, const PoolShape& pool) {
  const Output padded = PadSpatial(x, pool.reach, Lowest(x.dtype()));
  const int64_t batch = padded.dim(0), channels = padded.dim(1), depth = padded.dim(2);
  const IntList &size = pool.window.sizes, &stride = pool.window.strides;
  const auto pooled = [](const Output& planes, const IntList& sizes, const IntList& strides) {
    return Output(planes.builder()->Op("MaxPool", {planes},
                                       {{"T", planes.dtype()}, {"ksize", sizes}, {"strides", strides},
                                        {"padding", std::string("VALID")}, {"data_format", std::string("NCHW")}}));
  };
  const Output planes = ops::Reshape(padded, {batch, channels * depth, padded.dim(3), padded.dim(4)});
  const Output flat = pooled(planes, {1, 1, size[1], size[2]}, {1, 1, stride[1], stride[2]});
  const Output lines = ops::Reshape(flat, {batch, channels, depth, pool.output[1] * pool.output[2]});
  const Output result = pooled(lines, {1, 1, size[0], 1}, {1, 1, stride[0], 1});
  return ops::Reshape(result, {batch, channels, pool.output[0], pool.output[1], pool.output[2]});
}

// The elements under every tap of the window, one tensor of the output's shape each, in row-major order of the window.
absl::StatusOr<std::vector<Output>> Taps(const NodeContext& c, const Output& padded, const PoolShape& pool,
                                         std::vector<IntList>* offsets) {
  const int64_t count = Product(pool.window.sizes);
  constexpr int64_t kMost = 4096;
  if (count > kMost) return c.Unsupported(absl::StrCat("a window of ", count, " elements"));
  std::vector<Output> taps;
  for (int64_t tap = 0; tap < count; ++tap) {
    IntList begin = {0, 0}, step = {1, 1}, size = {padded.dim(0), padded.dim(1)}, offset(pool.input.size());
    int64_t rest = tap;
    for (size_t i = pool.input.size(); i-- > 0;) {
      offset[i] = rest % pool.window.sizes[i] * pool.window.dilations[i];
      rest /= pool.window.sizes[i];
    }
    begin.insert(begin.end(), offset.begin(), offset.end());
    step.insert(step.end(), pool.window.strides.begin(), pool.window.strides.end());
    size.insert(size.end(), pool.output.begin(), pool.output.end());
    taps.push_back(Strided(padded, begin, size, step));
    if (offsets != nullptr) offsets->push_back(offset);
  }
  return taps;
}

// Numbers of the maxima's elements in the flattened input: those of each window's first element, and the tap's offset.
Output MaxIndices(NodeContext& c, const Output& x, const PoolShape& pool, const Output& tap,
                  const std::vector<IntList>& offsets) {
  const size_t spatial = pool.input.size();
  IntList strides(spatial, 1);
  if (c.Int("storage_order", 0) == 0) {
    for (size_t i = spatial; i-- > 1;) strides[i - 1] = strides[i] * pool.input[i];
  } else {
    for (size_t i = 1; i < spatial; ++i) strides[i] = strides[i - 1] * pool.input[i - 1];
  }
  Tensor table(DataType::kInt64, Shape({static_cast<int64_t>(offsets.size())}));
  for (size_t t = 0; t < offsets.size(); ++t) {
    int64_t offset = 0;
    for (size_t i = 0; i < spatial; ++i) offset += (offsets[t][i] - pool.reach.before[i]) * strides[i];
    table.mutable_as<int64_t>()[t] = offset;
  }
  Output index = ops::Gather(c.b.SharedConst(std::move(table)), tap);
  const auto add = [&](size_t axis, int64_t count, int64_t step) {
    IntList shape(spatial + 2, 1);
    shape[axis] = count;
    const Output places = ops::Cast(ops::Range(c.b.Int(0), c.b.Int(count), c.b.Int(1)), DataType::kInt64);
    index = ops::Add(index, ops::Reshape(ops::Binary("Mul", places, static_cast<double>(step)), shape));
  };
  const int64_t plane = Product(pool.input);
  add(0, x.dim(0), plane * x.dim(1));
  add(1, x.dim(1), plane);
  for (size_t i = 0; i < spatial; ++i) add(i + 2, pool.output[i], pool.window.strides[i] * strides[i]);
  return index;
}

absl::Status MaxPool(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const PoolShape pool, ReadPool(c, x));
  if (!c.wants(1) && Undilated(pool) && IsFloating(x.dtype())) {
    c.Set(0, x.rank() == 5 && x.dtype() == DataType::kDouble ? MaxPoolOfVolumes(x, pool) : OnPlanes(x, pool, PlainMaxPool));
    return absl::OkStatus();
  }
  const Output wide = IsFloating(x.dtype()) ? x : AsWide(x);
  std::vector<IntList> offsets;
  MR_ASSIGN_OR_RETURN(const std::vector<Output> taps,
                      Taps(c, PadSpatial(wide, pool.reach, Lowest(wide.dtype())), pool, &offsets));
  const Output all = ops::Pack(taps, 0);
  c.Set(0, ops::Cast(ops::Reduce("Max", all, {0}), x.dtype()));
  if (c.wants(1)) c.Set(1, MaxIndices(c, x, pool, ops::ArgMax(all, 0, DataType::kInt64), offsets));
  return absl::OkStatus();
}

// Sums over windows, zeros beyond the edge.
absl::StatusOr<Output> WindowSums(const NodeContext& c, const Output& x, const PoolShape& pool) {
  const double count = static_cast<double>(Product(pool.window.sizes));
  if (Undilated(pool)) {
    return OnPlanes(PadSpatial(x, pool.reach, 0), pool, [](const Output& padded, const PoolShape& planes) {
             return Output(padded.builder()->Op(padded.rank() == 5 ? "AvgPool3D" : "AvgPool", {padded},
                                                PoolAttrs(padded, planes, "VALID")));
           }) * count;
  }
  MR_ASSIGN_OR_RETURN(const std::vector<Output> taps, Taps(c, PadSpatial(x, pool.reach, 0), pool, nullptr));
  return ops::AddN(taps);
}

// One over the number of elements that window j of a dimension averages.
std::vector<double> Shares(const PoolShape& pool, size_t i, bool count_padding) {
  std::vector<double> shares(pool.output[i]);
  const int64_t low = count_padding ? -pool.pads.before[i] : 0;
  const int64_t high = pool.input[i] + (count_padding ? pool.pads.after[i] : 0);
  for (int64_t j = 0; j < pool.output[i]; ++j) {
    int64_t count = 0;
    for (int64_t k = 0; k < pool.window.sizes[i]; ++k) {
      const int64_t at = j * pool.window.strides[i] - pool.pads.before[i] + k * pool.window.dilations[i];
      count += at >= low && at < high;
    }
    shares[j] = count == 0 ? 0 : 1.0 / static_cast<double>(count);
  }
  return shares;
}

absl::Status AveragePool(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const PoolShape pool, ReadPool(c, x));
  const bool count_padding = c.Int("count_include_pad", 0) != 0;
  if (Undilated(pool) && !pool.reach.any()) {
    c.Set(0, OnPlanes(x, pool, [](const Output& planes, const PoolShape& shape) {
            return Output(planes.builder()->Op(planes.rank() == 5 ? "AvgPool3D" : "AvgPool", {planes},
                                               PoolAttrs(planes, shape, "VALID")));
          }));
    return absl::OkStatus();
  }
  MR_ASSIGN_OR_RETURN(Output y, WindowSums(c, x, pool));
  for (size_t i = 0; i < pool.input.size(); ++i) {
    Shape shape(IntList(x.rank(), 1));
    shape.set_dim(static_cast<int>(i) + 2, pool.output[i]);
    y = ops::Mul(y, Vector(c.b, x.dtype(), Shares(pool, i, count_padding), shape));
  }
  c.Set(0, y);
  return absl::OkStatus();
}

Output LpNorm(const Output& x, double p, const std::function<Output(const Output&)>& sum) {
  if (p == 1) return sum(ops::Abs(x));
  if (p == 2) return ops::Sqrt(sum(ops::Square(x)));
  return ops::Binary("Pow", sum(ops::Binary("Pow", ops::Abs(x), p)), 1 / p);
}

absl::Status LpPool(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const PoolShape pool, ReadPool(c, x));
  absl::Status status;
  c.Set(0, LpNorm(x, static_cast<double>(c.Int("p", 2)), [&](const Output& powers) {
          absl::StatusOr<Output> sums = WindowSums(c, powers, pool);
          status.Update(sums.status());
          return sums.ok() ? *sums : Output();
        }));
  return status;
}

absl::Status Global(NodeContext& c, const std::function<Output(const Output&, const IntList&)>& emit) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  if (x.rank() < 3) return c.Error(absl::StrCat("input is ", x.type().ToString(), ", expected rank 3 or more"));
  IntList axes = Iota(x.rank());
  axes.erase(axes.begin(), axes.begin() + 2);
  c.Set(0, emit(x, axes));
  return absl::OkStatus();
}

absl::Status GlobalAveragePool(NodeContext& c) {
  return Global(c, [](const Output& x, const IntList& axes) { return ops::Mean(x, axes, {}, true); });
}
absl::Status GlobalMaxPool(NodeContext& c) {
  return Global(c, [](const Output& x, const IntList& axes) { return ops::Reduce("Max", x, axes, true); });
}
absl::Status GlobalLpPool(NodeContext& c) {
  const double p = static_cast<double>(c.Int("p", 2));
  return Global(c, [p](const Output& x, const IntList& axes) {
    return LpNorm(x, p, [&](const Output& powers) { return ops::Reduce("Sum", powers, axes, true); });
  });
}

// Values go back to where a MaxPool found them; the indices are into the tensor that the attributes imply.
absl::Status MaxUnpool(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 3));
  const Output x = c.in(0), indices = c.in(1);
  if (!x.valid() || !indices.valid()) return absl::OkStatus();
  const IntList dims = Dims(x), sizes = c.Ints("kernel_shape", {});
  if (x.rank() < 3 || sizes.size() + 2 != dims.size() || indices.shape() != x.shape()) {
    return c.Error(absl::StrCat("inputs are ", x.type().ToString(), " and ", indices.type().ToString()));
  }
  MR_ASSIGN_OR_RETURN(const SpatialWindow window, ReadWindow(c, sizes));
  MR_ASSIGN_OR_RETURN(const SpatialPads pads, ReadPads(c, IntList(dims.begin() + 2, dims.end()), window));
  IntList shape = {dims[0], dims[1]};
  for (size_t i = 0; i < sizes.size(); ++i) {
    shape.push_back((dims[i + 2] - 1) * window.strides[i] + sizes[i] - pads.before[i] - pads.after[i]);
    if (shape.back() < 1) return c.Error("pads are larger than the result");
  }
  const Output zeros = ops::Full(c.b, TensorType{x.dtype(), Shape(IntList{Product(shape)})}, 0);
  const Output places = ops::ExpandDims(ops::Reshape(ops::Cast(indices, DataType::kInt64), {-1}), 1);
  Output y = c.b.Op("TensorScatterUpdate", {zeros, places, ops::Reshape(x, {-1})},
                    {{"T", x.dtype()}, {"Tindices", DataType::kInt64}});
  y = ops::Reshape(y, shape);
  if (c.has(2)) {
    MR_ASSIGN_OR_RETURN(const IntList wanted, c.ConstantInts(2));
    std::vector<std::pair<int64_t, int64_t>> more;
    bool larger = wanted.size() == shape.size();
    for (size_t i = 0; larger && i < shape.size(); ++i) {
      more.push_back({0, wanted[i] - shape[i]});
      larger = wanted[i] >= shape[i];
    }
    if (!larger) return c.Error("output_shape is smaller than what the window implies");
    y = ops::Pad(y, more);
  }
  c.Set(0, y);
  return absl::OkStatus();
}

}  // namespace

void AddPoolLowerings(LoweringTable& table) {
  for (const auto& [op, lowering] : std::initializer_list<std::pair<const char*, Lowering>>{
           {"MaxPool", MaxPool},
           {"AveragePool", AveragePool},
           {"LpPool", LpPool},
           {"GlobalAveragePool", GlobalAveragePool},
           {"GlobalMaxPool", GlobalMaxPool},
           {"GlobalLpPool", GlobalLpPool},
           {"MaxUnpool", MaxUnpool}}) {
    table.Add(op, lowering);
  }
}

}  // namespace millrace::onnx
