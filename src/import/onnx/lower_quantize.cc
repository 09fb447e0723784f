// Quantised integers, computed in floating point or wider integers.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "onnx/lowering.h"
#include "onnx/narrow.h"

namespace millrace::onnx {
namespace {

// A value of a block of block_size numbers along `axis`, for each of them.
absl::StatusOr<Output> OverBlocks(const NodeContext& c, const Output& values, const Output& x, int64_t axis) {
  IntList blocks = Dims(x);
  // The one block of a short dimension ends with it.
  const int64_t size = std::min(c.Int("block_size", 0), std::max<int64_t>(blocks[axis], 1));
  blocks[axis] = (blocks[axis] + size - 1) / size;
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
  if (dtype == DataType::kInvalid) return c.Unsupported(absl::StrCat("element type ", ElementTypeName(number)));
  return dtype;
}

absl::Status QuantizeLinear(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 3));
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  const int64_t axis = c.Int("axis", 1);
  MR_ASSIGN_OR_RETURN(const Output scale, AlongAxis(c, c.state(1), x, axis));
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
  MR_ASSIGN_OR_RETURN(const DataType result, OutputType(c, c.state(1).dtype()));
  if (!IsFloating(result)) return c.Error(absl::StrCat("numbers of type ", std::string(DataTypeName(result))));
  MR_ASSIGN_OR_RETURN(const Output scale, AlongAxis(c, c.state(1), x, axis));
  Output y = ops::Cast(x, DataType::kFloat);
  if (c.has(2)) {
    MR_ASSIGN_OR_RETURN(const Output zero, AlongAxis(c, c.in(2), x, axis));
    y = y - ops::Cast(zero, DataType::kFloat);
  }
  c.Set(0, ops::Cast(y * ops::Cast(scale, DataType::kFloat), result));
  return absl::OkStatus();
}

struct Quantized {
  Output values, scale, zero;
};

// As uint8, by the range of the values and zero.
Quantized QuantizedByRange(const Output& x) {
  const Output low = ops::Binary("Minimum", ops::Reduce("Min", x, {}), 0);
  const Output high = ops::Binary("Maximum", ops::Reduce("Max", x, {}), 0);
  // Zeros alone have a step, too.
  const Output range = high - low, scale = ops::Select(ops::Binary("Equal", range, 0), ops::OnesLike(range), range) / 255.0;
  const Output zero = Saturated(ops::Unary("Round", -low / scale), DataType::kUint8);
  return {Saturated(ops::Unary("Round", x / scale) + ops::Cast(zero, DataType::kFloat), DataType::kUint8), scale, zero};
}

absl::Status DynamicQuantizeLinear(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  const Quantized quantized = QuantizedByRange(c.in(0));
  c.Set(0, quantized.values);
  c.Set(1, quantized.scale);
  c.Set(2, quantized.zero);
  return absl::OkStatus();
}

// A number, or one for every row of a matrix.
Output PerRow(const Output& values) { return values.rank() == 1 && values.dim(0) > 1 ? ops::ExpandDims(values, 1) : values; }

// Rows (columns) of a matrix less their zero points, as int32.
Output Centered(const Output& x, const Output& zero, bool rows) {
  const Output wide = ops::Cast(x, DataType::kInt32);
  if (!zero.valid()) return wide;
  const Output offset = ops::Cast(zero, DataType::kInt32);
  return wide - (rows ? PerRow(offset) : offset);
}

absl::StatusOr<Output> IntegerProduct(const NodeContext& c, const Output& a, const Output& a_zero, const Output& b, const Output& b_zero) {
  const Output x = Centered(a, a_zero, true), y = Centered(b, b_zero, false);
  if (!x.valid() || !y.valid()) return x;
  if (a.rank() < 1 || b.rank() < 1 || x.shape() != a.shape() || y.shape() != b.shape() || a.dim(-1) != b.dim(b.rank() == 1 ? 0 : -2)) {
    return c.Error(absl::StrCat("inputs are ", a.type().ToString(), " and ", b.type().ToString(), ", expected matrices and their zero points"));
  }
  return MatrixProduct(x, y);
}

absl::Status MatMulInteger(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 4));
  const Output a = c.in(0), b = c.in(1);
  if (!a.valid() || !b.valid()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const Output y, IntegerProduct(c, a, c.has(2) ? c.in(2) : Output(), b, c.has(3) ? c.in(3) : Output()));
  c.Set(0, y);
  return absl::OkStatus();
}

absl::Status QLinearMatMul(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(8, 8));
  const Output a = c.in(0), b = c.in(3);
  if (!a.valid() || !b.valid()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const Output product, IntegerProduct(c, a, c.in(2), b, c.in(5)));
  if (!product.valid()) return absl::OkStatus();
  const auto number = [&](int i) { return ops::Cast(c.in(i), DataType::kFloat); };
  // Of rows for the first factor and the result, of columns for the second.
  const auto of_rows = [&](int i) { return PerRow(number(i)); };
  const Output scale = of_rows(1) * number(4) / of_rows(6);
  const Output y = ops::Unary("Round", ops::Cast(product, DataType::kFloat) * scale) + of_rows(7);
  if (y.valid() && y.shape() != product.shape()) {
    return c.Error(absl::StrCat("the product is ", product.type().ToString(), ", with its scales and zero point ", y.type().ToString()));
  }
  c.Set(0, Saturated(y, c.in(7).dtype()));
  return absl::OkStatus();
}

// A number, or one for every output channel, before `trailing` dimensions.
Output PerOutput(const Output& values, int trailing) {
  IntList shape(std::max(trailing, 0) + 1, 1);
  shape[0] = -1;
  return ops::Reshape(values, values.shape().num_elements() == 1 ? IntList{} : shape);
}

// In double, where sums are exact up to 2^53, whatever the algorithm.
absl::StatusOr<Output> IntegerConv(const NodeContext& c, const Output& x, const Output& x_zero, const Output& weights,
                                   const Output& weights_zero) {
  Output wide_x = ops::Cast(x, DataType::kDouble), wide_weights = ops::Cast(weights, DataType::kDouble);
  if (x_zero.valid()) wide_x = wide_x - ops::Reshape(ops::Cast(x_zero, DataType::kDouble), {});
  if (weights_zero.valid()) wide_weights = wide_weights - PerOutput(ops::Cast(weights_zero, DataType::kDouble), weights.rank() - 1);
  return Convolution(c, wide_x, wide_weights);
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
  if (!y.valid()) return absl::OkStatus();
  if (c.has(8)) y = y + PerOutput(ops::Cast(c.in(8), DataType::kDouble), y.rank() - 2);
  const auto number = [&](int i) { return ops::Reshape(ops::Cast(c.in(i), DataType::kFloat), {}); };
  const Output scaled = ops::Cast(y, DataType::kFloat) * (number(1) * PerOutput(c.in(4), y.rank() - 2) / number(6));
  c.Set(0, Saturated(ops::Unary("Round", scaled) + number(7), c.in(7).dtype()));
  return absl::OkStatus();
}

}  // namespace

Output RoundedByRange(const Output& x) {
  const Quantized quantized = QuantizedByRange(x);
  return (ops::Cast(quantized.values, DataType::kFloat) - ops::Cast(quantized.zero, DataType::kFloat)) * quantized.scale;
}

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
