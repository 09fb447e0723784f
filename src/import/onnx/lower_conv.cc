// Convolutions, NCHW. Filters stay in ONNX's layout as variables and are transposed where they are used.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "onnx/lowering.h"

namespace millrace::onnx {
namespace {

// A convolution over one dimension runs as one over two.
Output WithHeight(const Output& x) { return ops::ExpandDims(x, 2); }

AttrMap ConvAttrs(DataType dtype, const SpatialWindow& window, const char* padding) {
  const bool volume = window.sizes.size() == 3;
  IntList strides = {1, 1}, dilations = {1, 1};
  strides.insert(strides.end(), window.strides.begin(), window.strides.end());
  dilations.insert(dilations.end(), window.dilations.begin(), window.dilations.end());
  return {{"T", dtype},
          {"strides", strides},
          {"dilations", dilations},
          {"padding", std::string(padding)},
          {"data_format", std::string(volume ? "NCDHW" : "NCHW")}};
}

// [outputs, inputs, window...] -> [window..., inputs, outputs]. A transposed convolution's [inputs, outputs, window...]
// becomes the filter of the convolution that it is the gradient of, by the same permutation.
Output Filter(const Output& weights) {
  IntList permutation = Iota(weights.rank());
  std::rotate(permutation.begin(), permutation.begin() + 2, permutation.end());
  std::swap(permutation[permutation.size() - 1], permutation[permutation.size() - 2]);
  return ops::Transpose(weights, permutation);
}

Output AddBias(const Output& y, const Output& bias) {
  if (!y.valid()) return y;
  GraphBuilder& b = *y.builder();
  if (y.rank() == 4 || y.rank() == 5) {
    return b.Op("BiasAdd", {y, bias}, {{"T", y.dtype()}, {"data_format", std::string("NCHW")}});
  }
  return ops::Add(y, ops::Reshape(bias, {bias.dim(0), 1}));
}

absl::Status ExpectConv(const NodeContext& c, const Output& x, const Output& weights) {
  if (x.rank() >= 3 && x.rank() <= 5 && weights.rank() == x.rank()) return absl::OkStatus();
  if (x.rank() > 5) return c.Unsupported(absl::StrCat("a convolution of ", x.type().ToString()));
  return c.Error(absl::StrCat("input ", x.type().ToString(), ", weights ", weights.type().ToString(),
                              ": expected the same rank, at least 3"));
}

// Padding that TensorFlow calls SAME for this input.
bool IsSame(const IntList& input, const SpatialWindow& window, const SpatialPads& pads) {
  for (size_t i = 0; i < input.size(); ++i) {
    const int64_t outputs = (input[i] + window.strides[i] - 1) / window.strides[i];
    const int64_t reach = (outputs - 1) * window.strides[i] + (window.sizes[i] - 1) * window.dilations[i] + 1;
    const int64_t total = std::max<int64_t>(reach - input[i], 0);
    if (pads.before[i] != total / 2 || pads.after[i] != total - total / 2) return false;
  }
  return true;
}

Output Convolve(const Output& x, const Output& filter, const SpatialWindow& window, const SpatialPads& pads) {
  GraphBuilder& b = *x.builder();
  const char* op = window.sizes.size() == 3 ? "Conv3D" : "Conv2D";
  const IntList dims = Dims(x), spatial(dims.begin() + 2, dims.end());
  if (!pads.any()) return b.Op(op, {x, filter}, ConvAttrs(x.dtype(), window, "VALID"));
  if (IsSame(spatial, window, pads)) return b.Op(op, {x, filter}, ConvAttrs(x.dtype(), window, "SAME"));
  if (window.sizes.size() == 3) return b.Op(op, {PadSpatial(x, pads, 0), filter}, ConvAttrs(x.dtype(), window, "VALID"));
  AttrMap attrs = ConvAttrs(x.dtype(), window, "EXPLICIT");
  IntList list = {0, 0, 0, 0};
  for (size_t i = 0; i < pads.before.size(); ++i) {
    list.push_back(pads.before[i]);
    list.push_back(pads.after[i]);
  }
  attrs.Set("explicit_paddings", list);
  return b.Op(op, {x, filter}, std::move(attrs));
}

void AddDimension(SpatialWindow& window, SpatialPads& pads) {
  for (IntList* list : {&window.sizes, &window.strides, &window.dilations}) list->insert(list->begin(), 1);
  pads.before.insert(pads.before.begin(), 0);
  pads.after.insert(pads.after.begin(), 0);
}

}  // namespace

absl::StatusOr<Output> Convolution(const NodeContext& c, Output x, Output weights) {
  MR_RETURN_IF_ERROR(ExpectConv(c, x, weights));
  const IntList dims = Dims(x), weight_dims = Dims(weights);
  const IntList spatial(dims.begin() + 2, dims.end());
  MR_ASSIGN_OR_RETURN(SpatialWindow window, ReadWindow(c, IntList(weight_dims.begin() + 2, weight_dims.end())));
  MR_ASSIGN_OR_RETURN(SpatialPads pads, ReadPads(c, spatial, window));
  const int64_t groups = c.Int("group", 1);
  if (groups < 1 || groups > dims[1] || weight_dims[1] * groups != dims[1] || weight_dims[0] % groups != 0) {
    return c.Error(absl::StrCat("input ", x.type().ToString(), ", weights ", weights.type().ToString(), ", ", groups,
                                " groups"));
  }
  const bool line = spatial.size() == 1;
  if (line) {
    x = WithHeight(x);
    weights = WithHeight(weights);
    AddDimension(window, pads);
  }
  if (!x.valid() || !weights.valid()) return x;
  const Output y = Convolve(x, Filter(weights), window, pads);
  return line ? ops::Squeeze(y, {2}) : y;
}

namespace {

absl::Status Conv(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 3));
  const Output x = c.in(0), weights = c.in(1);
  if (!x.valid() || !weights.valid()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const Output y, Convolution(c, x, weights));
  c.Set(0, c.has(2) ? AddBias(y, c.in(2)) : y);
  return absl::OkStatus();
}

// How much of the whole transposed convolution is cut off, and what is added at the end.
absl::StatusOr<SpatialPads> TransposePads(const NodeContext& c, const IntList& input, const SpatialWindow& window,
                                          IntList& extra) {
  const size_t spatial = input.size();
  extra = c.Ints("output_padding", IntList(spatial, 0));
  const IntList wanted = c.Ints("output_shape", {});
  if (extra.size() != spatial || (!wanted.empty() && wanted.size() < spatial)) {
    return c.Error("output_padding or output_shape has the wrong length");
  }
  const std::string mode = c.String("auto_pad", "NOTSET");
  if (wanted.empty() && mode != "SAME_UPPER" && mode != "SAME_LOWER") return ReadPads(c, input, window);
  SpatialPads pads{IntList(spatial, 0), IntList(spatial, 0)};
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t whole = (input[i] - 1) * window.strides[i] + extra[i] + (window.sizes[i] - 1) * window.dilations[i] + 1;
    const int64_t output = wanted.empty() ? input[i] * window.strides[i] : wanted[wanted.size() - spatial + i];
    const int64_t total = whole - output;
    if (total < 0) {
      extra[i] -= total;
      continue;
    }
    pads.before[i] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
    pads.after[i] = total - pads.before[i];
  }
  return pads;
}

absl::Status ConvTranspose(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 3));
  Output x = c.in(0), weights = c.in(1);
  if (!x.valid() || !weights.valid()) return absl::OkStatus();
  MR_RETURN_IF_ERROR(ExpectConv(c, x, weights));
  const IntList dims = Dims(x), weight_dims = Dims(weights);
  MR_ASSIGN_OR_RETURN(SpatialWindow window, ReadWindow(c, IntList(weight_dims.begin() + 2, weight_dims.end())));
  const int64_t groups = c.Int("group", 1);
  if (groups < 1 || groups > dims[1] || weight_dims[0] != dims[1] || dims[1] % groups != 0) {
    return c.Error(absl::StrCat("input ", x.type().ToString(), ", weights ", weights.type().ToString(), ", ", groups,
                                " groups"));
  }
  IntList extra;
  MR_ASSIGN_OR_RETURN(SpatialPads pads, TransposePads(c, IntList(dims.begin() + 2, dims.end()), window, extra));
  const bool line = dims.size() == 3;
  if (line) {
    x = WithHeight(x);
    weights = WithHeight(weights);
    AddDimension(window, pads);
    extra.insert(extra.begin(), 0);
  }
  if (!x.valid() || !weights.valid()) return absl::OkStatus();
  // The gradient of a convolution whose input is the whole result; the end beyond the last window is zeros.
  IntList whole = {dims[0], weight_dims[1] * groups}, begin = {0, 0};
  std::vector<std::pair<int64_t, int64_t>> zeros = {{0, 0}, {0, 0}};
  for (size_t i = 0; i < window.sizes.size(); ++i) {
    const int64_t full = (x.dim(static_cast<int>(i) + 2) - 1) * window.strides[i] + (window.sizes[i] - 1) * window.dilations[i] + 1;
    whole.push_back(full);
    zeros.push_back({0, std::max<int64_t>(extra[i], 0)});
    begin.push_back(pads.before[i]);
  }
  Output y = c.b.Op(window.sizes.size() == 3 ? "Conv3DBackpropInputV2" : "Conv2DBackpropInput",
                    {c.b.Ints(whole), Filter(weights), x}, ConvAttrs(x.dtype(), window, "VALID"));
  if (std::any_of(extra.begin(), extra.end(), [](int64_t e) { return e > 0; })) y = ops::Pad(y, zeros);
  if (!y.valid()) return absl::OkStatus();
  IntList size = Dims(y);
  for (size_t i = 0; i < window.sizes.size(); ++i) {
    size[i + 2] -= pads.before[i] + pads.after[i];
    if (size[i + 2] < 0) return c.Error("pads are larger than the result");
  }
  y = Part(y, begin, size);
  if (line) y = ops::Squeeze(y, {2});
  c.Set(0, c.has(2) ? AddBias(y, c.in(2)) : y);
  return absl::OkStatus();
}

}  // namespace

void AddConvLowerings(LoweringTable& table) {
  table.Add("Conv", Conv);
  table.Add("ConvTranspose", ConvTranspose);
}

}  // namespace millrace::onnx
