// Quantised integers, computed in floating point or wider integers.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "onnx/lowering.h"

namespace millrace::onnx {
namespace {

// A value of a block of block_size numbers along `axis`, for each of them.
absl::StatusOr<Output> OverBlocks(const NodeContext& c, const Output& values, const Output& x, int64_t axis) {
  const int64_t size = c.Int("block_size", 0);
  IntList blocks = Dims(x);
  if (size > 0 && size <= std::max<int64_t>(blocks[axis], 1)) blocks[axis] = (blocks[axis] + size - 1) / size;
  if (blocks != Dims(values)) {
    return c.Error(absl::StrCat("input ", x.type().ToString(), ", scale or zero point ", values.type().ToString(), " of blocks of ", size));
  }
  IntList apart = blocks, repeated = blocks;
  apart.insert(apart.begin() + axis + 1, 1);
  repeated.insert(repeated.begin() + axis + 1, size);
  blocks[axis] *= size;
  return Part(ops::Reshape(ops::BroadcastTo(ops::Reshape(values, apart), repeated), blocks), IntList(blocks.size(), 0), Dims(x));
}

// Scale or zero point of rank 1 laid along `axis`, or of blocks.
absl::StatusOr<Output> AlongAxis(const NodeContext& c, const Output& values, const Output& x, int64_t axis) {
  if (values.rank() == 0 || (values.rank() == 1 && values.dim(0) == 1)) return ops::Reshape(values, {});
  MR_ASSIGN_OR_RETURN(const int64_t from_front, c.Axis(axis, x.rank()));
  if (values.rank() == x.rank() && c.Int("block_size", 0) > 0) return OverBlocks(c, values, x, from_front);
  if (values.rank() != 1 || values.dim(0) != x.dim(static_cast<int>(from_front))) {
    return c.Error(absl::StrCat("input ", x.type().ToString(), ", scale or zero point ", values.type().ToString()));
  }
  IntList shape(x.rank(), 1);
  shape[from_front] = values.dim(0);
  return ops::Reshape(values, shape);
}

Output Saturated(const Output& x, DataType dtype) {
  return ops::Cast(ops::Binary("Minimum", ops::Binary("Maximum", x, Lowest(dtype)), Highest(dtype)), dtype);
}

bool IsQuantized(DataType dtype) {
  return dtype == DataType::kUint8 || dtype == DataType::kInt8 || dtype == DataType::kUint16 || dtype == DataType::kInt16 ||
         dtype == DataType::kInt32;
}

// What the attribute says, or the fallback.
absl::StatusOr<DataType> OutputType(const NodeContext& c, DataType fallback) {
  const int64_t number = c.Int("output_dtype", 0);
  if (number == 0) return fallback;
  const DataType dtype = TypeFromOnnx(static_cast<int32_t>(std::clamp<int64_t>(number, 0, 1000)));
  if (dtype == DataType::kInvalid) return c.Unsupported(absl::StrCat("element type ", number));
  return dtype;
}

absl::Status QuantizeLinear(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 3));
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  const int64_t axis = c.Int("axis", 1);
  MR_ASSIGN_OR_RETURN(const Output scale, AlongAxis(c, c.in(1), x, axis));
  MR_ASSIGN_OR_RETURN(DataType dtype, OutputType(c, DataType::kUint8));
  Output y = ops::Unary("Round", ops::Div(ops::Cast(x, DataType::kFloat), ops::Cast(scale, DataType::kFloat)));
  if (c.has(2)) {
    if (c.Int("output_dtype", 0) != 0 && dtype != c.in(2).dtype()) return c.Error("output_dtype is not the zero point's type");
    dtype = c.in(2).dtype();
    MR_ASSIGN_OR_RETURN(const Output zero, AlongAxis(c, c.in(2), x, axis));
    y = y + ops::Cast(zero, DataType::kFloat);
  }
  if (!IsQuantized(dtype)) return c.Unsupported(absl::StrCat("quantisation to ", std::string(DataTypeName(dtype))));
  c.Set(0, Saturated(y, dtype));
  return absl::OkStatus();
}

absl::Status DequantizeLinear(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 3));
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  const int64_t axis = c.Int("axis", 1);
  MR_ASSIGN_OR_RETURN(const DataType result, OutputType(c, c.in(1).dtype()));
  if (!IsFloating(result)) return c.Error(absl::StrCat("numbers of type ", std::string(DataTypeName(result))));
  MR_ASSIGN_OR_RETURN(const Output scale, AlongAxis(c, c.in(1), x, axis));
  Output y = ops::Cast(x, DataType::kFloat);
  if (c.has(2)) {
    MR_ASSIGN_OR_RETURN(const Output zero, AlongAxis(c, c.in(2), x, axis));
    y = y - ops::Cast(zero, DataType::kFloat);
  }
  c.Set(0, ops::Cast(y * ops::Cast(scale, DataType::kFloat), result));
  return absl::OkStatus();
}

absl::Status DynamicQuantizeLinear(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  const Output x = c.in(0);
  const Output low = ops::Binary("Minimum", ops::Reduce("Min", x, {}), 0);
  const Output high = ops::Binary("Maximum", ops::Reduce("Max", x, {}), 0);
  const Output scale = (high - low) / 255.0;
  const Output zero = Saturated(ops::Unary("Round", -low / scale), DataType::kUint8);
  c.Set(0, Saturated(ops::Unary("Round", x / scale) + ops::Cast(zero, DataType::kFloat), DataType::kUint8));
  c.Set(1, scale);
  c.Set(2, zero);
  return absl::OkStatus();
}

// Rows (columns) of a matrix less their zero points, as int32.
Output Centered(const Output& x, const Output& zero, bool rows) {
  const Output wide = ops::Cast(x, DataType::kInt32);
  if (!zero.valid()) return wide;
  Output offset = ops::Cast(zero, DataType::kInt32);
  if (rows && offset.rank() == 1 && offset.dim(0) > 1) offset = ops::ExpandDims(offset, 1);
  return wide - offset;
}

Output Product(const Output& a, const Output& b) {
  return a.rank() == 2 && b.rank() == 2 ? ops::MatMul(a, b) : ops::BatchMatMul(a, b);
}

absl::Status MatMulInteger(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 4));
  const Output a = c.in(0), b = c.in(1);
  if (a.rank() < 2 || b.rank() < 2) return c.Error("expected matrices");
  c.Set(0, Product(Centered(a, c.has(2) ? c.in(2) : Output(), true), Centered(b, c.has(3) ? c.in(3) : Output(), false)));
  return absl::OkStatus();
}

absl::Status QLinearMatMul(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(8, 8));
  const Output a = c.in(0), b = c.in(3);
  if (!a.valid() || !b.valid()) return absl::OkStatus();
  if (a.rank() < 2 || b.rank() < 2) return c.Error("expected matrices");
  const Output product = ops::Cast(Product(Centered(a, c.in(2), true), Centered(b, c.in(5), false)), DataType::kFloat);
  const auto number = [&](int i) { return ops::Cast(c.in(i), DataType::kFloat); };
  const Output scale = number(1) * number(4) / number(6);
  c.Set(0, Saturated(ops::Unary("Round", product * scale) + number(7), c.in(7).dtype()));
  return absl::OkStatus();
}

// Convolutions of 8-bit numbers are exact in floating point while sums stay below 2^24; longer ones are refused.
absl::StatusOr<Output> IntegerConv(NodeContext& c, const Output& x, const Output& x_zero, const Output& weights,
                                   const Output& weights_zero) {
  if (x.rank() != 4 || weights.rank() != 4) return c.Unsupported("an integer convolution that is not of images");
  const IntList dims = Dims(x), weight_dims = Dims(weights);
  constexpr int64_t kMostTaps = (1 << 24) / (1 << 16);
  if (weight_dims[1] * weight_dims[2] * weight_dims[3] > kMostTaps) return c.Unsupported("an integer convolution that long");
  MR_ASSIGN_OR_RETURN(const SpatialWindow window, ReadWindow(c, {weight_dims[2], weight_dims[3]}));
  MR_ASSIGN_OR_RETURN(const SpatialPads pads, ReadPads(c, {dims[2], dims[3]}, window));
  const int64_t groups = c.Int("group", 1);
  if (groups < 1 || weight_dims[1] * groups != dims[1] || weight_dims[0] % groups != 0) {
    return c.Error(absl::StrCat("input ", x.type().ToString(), ", weights ", weights.type().ToString(), ", ", groups, " groups"));
  }
  Output offset = weights_zero.valid() ? ops::Cast(weights_zero, DataType::kFloat) : Output();
  if (offset.valid() && offset.rank() == 1 && offset.dim(0) > 1) offset = ops::Reshape(offset, {offset.dim(0), 1, 1, 1});
  if (offset.valid() && offset.rank() == 1) offset = ops::Reshape(offset, {});
  Output wide_x = ops::Cast(x, DataType::kFloat), wide_weights = ops::Cast(weights, DataType::kFloat);
  if (x_zero.valid()) wide_x = wide_x - ops::Reshape(ops::Cast(x_zero, DataType::kFloat), {});
  if (offset.valid()) wide_weights = wide_weights - offset;
  return c.b.Op("Conv2D", {PadSpatial(wide_x, pads, 0), ops::Transpose(wide_weights, {2, 3, 1, 0})},
                {{"T", DataType::kFloat},
                 {"strides", IntList{1, 1, window.strides[0], window.strides[1]}},
                 {"dilations", IntList{1, 1, window.dilations[0], window.dilations[1]}},
                 {"padding", std::string("VALID")},
                 {"data_format", std::string("NCHW")}})
      .output(0);
}

absl::Status ConvInteger(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 4));
  const Output x = c.in(0), weights = c.in(1);
  if (!x.valid() || !weights.valid()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const Output y, IntegerConv(c, x, c.has(2) ? c.in(2) : Output(), weights, c.has(3) ? c.in(3) : Output()));
  c.Set(0, ops::Cast(y, DataType::kInt32));
  return absl::OkStatus();
}

absl::Status QLinearConv(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(8, 9));
  const Output x = c.in(0), weights = c.in(3);
  if (!x.valid() || !weights.valid()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(Output y, IntegerConv(c, x, c.in(2), weights, c.in(5)));
  if (c.has(8)) y = y + ops::Reshape(ops::Cast(c.in(8), DataType::kFloat), {-1, 1, 1});
  Output weight_scale = c.in(4);
  if (weight_scale.rank() == 1) weight_scale = ops::Reshape(weight_scale, weight_scale.dim(0) > 1 ? IntList{-1, 1, 1} : IntList{});
  const auto number = [&](int i) { return ops::Reshape(ops::Cast(c.in(i), DataType::kFloat), {}); };
  const Output scaled = y * (number(1) * weight_scale / number(6));
  c.Set(0, Saturated(ops::Unary("Round", scaled) + number(7), c.in(7).dtype()));
  return absl::OkStatus();
}

}  // namespace

void AddQuantizeLowerings(LoweringTable& table) {
  table.Add("QuantizeLinear", QuantizeLinear);
  table.Add("DequantizeLinear", DequantizeLinear);
  table.Add("DynamicQuantizeLinear", DynamicQuantizeLinear);
  table.Add("MatMulInteger", MatMulInteger);
  table.Add("ConvInteger", ConvInteger);
  table.Add("QLinearConv", QLinearConv);
  table.Add("QLinearMatMul", QLinearMatMul);
}

}  // namespace millrace::onnx
