// Random values: TensorFlow's Philox streams with the graph's seeds, so that every run draws the same.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "onnx/lowering.h"
#include "onnx/narrow.h"

namespace millrace::onnx {
namespace {

absl::StatusOr<DataType> RandomType(const NodeContext& c, DataType fallback) {
  const int64_t number = c.Int("dtype", 0);
  const DataType dtype = number == 0 ? fallback : TypeFromOnnx(static_cast<int32_t>(std::clamp<int64_t>(number, 0, 1000)));
  if (!IsFloating(dtype)) return c.Unsupported(absl::StrCat("random values of element type ", ElementTypeName(number)));
  return dtype;
}

absl::StatusOr<Shape> GivenShape(const NodeContext& c) {
  Shape shape;
  double elements = 1;
  for (int64_t dim : c.Ints("shape", {})) {
    elements *= static_cast<double>(dim);
    if (dim < 0 || elements > 1e12) return c.Error("shape has a negative or absurd dimension");
    shape.AddDim(dim);
  }
  return shape;
}

Output Uniform(NodeContext& c, const TensorType& type) {
  const double low = c.Float("low", 0), high = c.Float("high", 1);
  return ops::Random(c.b, "RandomUniform", type) * (high - low) + low;
}

Output Normal(NodeContext& c, const TensorType& type) {
  return ops::Random(c.b, "RandomStandardNormal", type) * c.Float("scale", 1) + c.Float("mean", 0);
}

template <Output (*kDraw)(NodeContext&, const TensorType&)>
absl::Status Draw(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(0, 0));
  MR_ASSIGN_OR_RETURN(const DataType dtype, RandomType(c, DataType::kFloat));
  MR_ASSIGN_OR_RETURN(Shape shape, GivenShape(c));
  c.Set(0, kDraw(c, {dtype, std::move(shape)}));
  return absl::OkStatus();
}

template <Output (*kDraw)(NodeContext&, const TensorType&)>
absl::Status DrawLike(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  const Output x = c.in(0);
  MR_ASSIGN_OR_RETURN(const DataType dtype, RandomType(c, x.dtype()));
  c.Set(0, kDraw(c, {dtype, x.shape()}));
  return absl::OkStatus();
}

absl::Status Bernoulli(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  const Output x = c.in(0);
  const int64_t number = c.Int("dtype", 0);
  const DataType dtype = number == 0 ? x.dtype() : TypeFromOnnx(static_cast<int32_t>(std::clamp<int64_t>(number, 0, 1000)));
  if (dtype == DataType::kInvalid) return c.Unsupported(absl::StrCat("element type ", ElementTypeName(number)));
  c.Set(0, ops::Cast(ops::Binary("Less", ops::Random(c.b, "RandomUniform", x.type()), x), dtype));
  return absl::OkStatus();
}

absl::Status Dropout(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 3));
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  double ratio = c.Float("ratio", 0.5f);
  constexpr int64_t kForInferenceOpset = 7;  // until there is an input that says it
  bool training = c.opset() < kForInferenceOpset && c.Int("is_test", 0) == 0;
  if (c.has(1)) {
    MR_ASSIGN_OR_RETURN(const std::vector<double> given, c.ConstantFloats(1));
    if (given.size() != 1) return c.Error("ratio is not one number");
    ratio = given[0];
  }
  if (c.has(2)) {
    MR_ASSIGN_OR_RETURN(const IntList given, c.ConstantInts(2));
    training = given.size() == 1 && given[0] != 0;
  }
  if (!(ratio >= 0 && ratio < 1)) return c.Error(absl::StrCat("ratio is ", ratio, ", expected at least 0 and below 1"));
  constexpr int64_t kBoolMaskOpset = 10;  // until then it is of the data's type
  const auto set_mask = [&](Output mask) { c.Set(1, c.opset() < kBoolMaskOpset ? ops::Cast(mask, x.dtype()) : mask); };
  if (!training || ratio == 0) {
    c.Set(0, x);
    if (c.wants(1)) set_mask(ops::Binary("Equal", ops::ZerosLike(x), 0));
    return absl::OkStatus();
  }
  const Output mask = ops::Binary("GreaterEqual", ops::Random(c.b, "RandomUniform", x.type()), ratio);
  c.Set(0, x * ops::Cast(mask, x.dtype()) * (1 / (1 - ratio)));
  set_mask(mask);
  return absl::OkStatus();
}

}  // namespace

void AddRandomLowerings(LoweringTable& table) {
  table.Add("RandomUniform", Draw<Uniform>);
  table.Add("RandomNormal", Draw<Normal>);
  table.Add("RandomUniformLike", DrawLike<Uniform>);
  table.Add("RandomNormalLike", DrawLike<Normal>);
  table.Add("Bernoulli", Bernoulli);
  table.Add("Dropout", Dropout);
}

}  // namespace millrace::onnx
