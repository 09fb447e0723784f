// Shapes, constants, casts: what decides shapes is computed while the model is read.
#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "onnx/lowering.h"
#include "onnx/narrow.h"
#include "onnx/tensors.h"

namespace millrace::onnx {
namespace {

using onnx_proto::AttributeProto;

Output Int64s(GraphBuilder& b, const IntList& values) {
  return b.SharedConst(Tensor::Vector<int64_t>(absl::MakeConstSpan(values)));
}

absl::Status Constant(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(0, 0));
  if (c.node().attribute_size() != 1) return c.Error("expected one attribute with the value");
  const AttributeProto& attribute = c.node().attribute(0);
  if (attribute.name() == "value") {
    absl::StatusOr<Tensor> value = TensorFromOnnx(attribute.t(), c.source().folder());
    if (!value.ok()) return c.Error(absl::StrCat("value ", std::string(value.status().message())));
    c.Set(0, c.b.Const(*std::move(value), "value"));
  } else if (attribute.name() == "value_float") {
    c.Set(0, c.b.SharedConst(Tensor::Scalar<float>(attribute.f())));
  } else if (attribute.name() == "value_int") {
    c.Set(0, c.b.SharedConst(Tensor::Scalar<int64_t>(attribute.i())));
  } else if (attribute.name() == "value_floats") {
    const std::vector<float> values(attribute.floats().begin(), attribute.floats().end());
    c.Set(0, c.b.SharedConst(Tensor::Vector<float>(values)));
  } else if (attribute.name() == "value_ints") {
    c.Set(0, Int64s(c.b, IntList(attribute.ints().begin(), attribute.ints().end())));
  } else {
    return c.Unsupported(absl::StrCat("attribute ", attribute.name()));
  }
  return absl::OkStatus();
}

absl::Status ShapeOf(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  const Output x = c.in(0);
  const int64_t rank = x.rank();
  const auto clamp = [rank](int64_t axis) { return std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank); };
  const int64_t begin = clamp(c.Int("start", 0)), end = std::max(begin, clamp(c.Int("end", rank)));
  const IntList dims = Dims(x);
  c.Set(0, Int64s(c.b, IntList(dims.begin() + begin, dims.begin() + end)));
  return absl::OkStatus();
}

absl::Status SizeOf(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  c.Set(0, c.b.SharedConst(Tensor::Scalar<int64_t>(c.in(0).shape().num_elements())));
  return absl::OkStatus();
}

absl::Status Reshape(NodeContext& c) {
  IntList shape = c.Ints("shape", {});  // of the first opsets
  const bool by_attribute = c.Attribute("shape") != nullptr;
  MR_RETURN_IF_ERROR(c.ExpectInputs(by_attribute ? 1 : 2, by_attribute ? 1 : 2));
  if (!by_attribute) {
    MR_ASSIGN_OR_RETURN(shape, c.ConstantInts(1));
  }
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  for (size_t i = 0; i < shape.size() && c.Int("allowzero", 0) == 0; ++i) {
    if (shape[i] != 0) continue;
    if (static_cast<int>(i) >= x.rank()) return c.Error(absl::StrCat("shape entry ", i, " is 0, the input is ", x.type().ToString()));
    shape[i] = x.dim(static_cast<int>(i));
  }
  c.Set(0, ops::Reshape(x, shape));
  return absl::OkStatus();
}

absl::Status Flatten(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  int64_t axis = c.Int("axis", 1);
  if (axis != x.rank()) {
    MR_ASSIGN_OR_RETURN(axis, c.Axis(axis, x.rank()));
  }
  const IntList dims = Dims(x);
  c.Set(0, ops::Reshape(x, {Product(IntList(dims.begin(), dims.begin() + axis)),
                            Product(IntList(dims.begin() + axis, dims.end()))}));
  return absl::OkStatus();
}

absl::StatusOr<IntList> AxesOf(NodeContext& c) {
  if (c.has(1)) return c.ConstantInts(1);
  return c.Ints("axes", {});
}

absl::Status Squeeze(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 2));
  const Output x = c.in(0);
  MR_ASSIGN_OR_RETURN(IntList axes, AxesOf(c));
  if (!x.valid()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(axes, c.Axes(std::move(axes), x.rank()));
  IntList dims;
  for (int i = 0; i < x.rank(); ++i) {
    const bool listed = std::count(axes.begin(), axes.end(), i) > 0;
    if (listed && x.dim(i) != 1) return c.Error(absl::StrCat("dimension ", i, " of ", x.type().ToString(), " is not 1"));
    if (!listed && !(axes.empty() && x.dim(i) == 1)) dims.push_back(x.dim(i));
  }
  c.Set(0, ops::Reshape(x, dims));
  return absl::OkStatus();
}

absl::Status Unsqueeze(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 2));
  const Output x = c.in(0);
  MR_ASSIGN_OR_RETURN(IntList axes, AxesOf(c));
  if (!x.valid()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(axes, c.Axes(std::move(axes), x.rank() + static_cast<int>(axes.size())));
  IntList dims;
  for (int i = 0, from = 0; from < x.rank() || dims.size() < x.rank() + axes.size(); ++i) {
    dims.push_back(std::count(axes.begin(), axes.end(), i) > 0 ? 1 : x.dim(from++));
  }
  c.Set(0, ops::Reshape(x, dims));
  return absl::OkStatus();
}

absl::StatusOr<DataType> TypeAttribute(NodeContext& c, const char* name, DataType fallback) {
  if (c.Attribute(name) == nullptr) return fallback;
  const int64_t number = c.Int(name, 0);
  const DataType dtype = TypeFromOnnx(static_cast<int32_t>(std::clamp<int64_t>(number, 0, 1000)));
  if (dtype == DataType::kInvalid || dtype == DataType::kString) {
    return c.Unsupported(absl::StrCat("element type ", ElementTypeName(number)));
  }
  return dtype;
}

absl::Status Convert(NodeContext& c, DataType dtype) {
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  if (x.dtype() == DataType::kString || dtype == DataType::kString) return c.Unsupported("a cast of strings");
  c.Set(0, ops::Cast(x, dtype));
  return absl::OkStatus();
}

// The first opsets spell the type.
absl::Status CastByName(NodeContext& c, const std::string& name) {
  onnx_proto::TensorProto::DataType number = onnx_proto::TensorProto::UNDEFINED;
  const bool known = onnx_proto::TensorProto::DataType_Parse(absl::AsciiStrToUpper(name), &number);
  const DataType dtype = known ? TypeFromOnnx(number) : DataType::kInvalid;
  return dtype == DataType::kInvalid ? c.Unsupported(absl::StrCat("element type ", name)) : Convert(c, dtype);
}

absl::Status Cast(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  const AttributeProto* to = c.Attribute("to");
  if (to == nullptr) return c.Error("attribute 'to' is missing");
  if (to->type() == AttributeProto::STRING) return CastByName(c, to->s());
  MR_ASSIGN_OR_RETURN(const DataType dtype, TypeAttribute(c, "to", DataType::kInvalid));
  return Convert(c, dtype);
}

absl::Status CastLike(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 2));
  return Convert(c, c.in(1).dtype());
}

// The same bits as another type of that size.
absl::Status BitCast(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const DataType dtype, TypeAttribute(c, "to", DataType::kInvalid));
  if (dtype == DataType::kInvalid || DataTypeSize(dtype) != DataTypeSize(x.dtype())) {
    return c.Error(absl::StrCat("input is ", x.type().ToString(), ", expected a type 'to' of that size"));
  }
  // TensorFlow's op does not know bools, which are bytes.
  const auto held = [](DataType type) { return type == DataType::kBool ? DataType::kUint8 : type; };
  const Output bits = ops::Cast(x, held(x.dtype()));
  c.Set(0, ops::Cast(c.b.Op("Bitcast", {bits}, {{"T", bits.dtype()}, {"type", held(dtype)}}), dtype));
  return absl::OkStatus();
}

absl::Status ExpectSmall(const NodeContext& c, const IntList& shape) {
  double elements = 1;
  for (int64_t dim : shape) {
    if (dim < 0) return c.Error(absl::StrCat("a dimension is ", dim));
    elements *= static_cast<double>(dim);
  }
  constexpr double kMost = 1e12;
  if (elements > kMost) return c.Error("the result has more elements than memory holds");
  return absl::OkStatus();
}

absl::Status ConstantOfShape(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  MR_ASSIGN_OR_RETURN(const IntList shape, c.ConstantInts(0));
  MR_RETURN_IF_ERROR(ExpectSmall(c, shape));
  Output value = c.b.Scalar(DataType::kFloat, 0);
  if (const AttributeProto* attribute = c.Attribute("value"); attribute != nullptr) {
    absl::StatusOr<Tensor> tensor = TensorFromOnnx(attribute->t(), c.source().folder());
    if (!tensor.ok()) return c.Error(absl::StrCat("value ", std::string(tensor.status().message())));
    if (tensor->num_elements() != 1) return c.Error("value is not one element");
    value = c.b.SharedConst(tensor->Reshaped(Shape()));
  }
  c.Set(0, ops::Fill(c.b.Ints(shape), value));
  return absl::OkStatus();
}

absl::Status EyeLike(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  const Output x = c.in(0);
  MR_ASSIGN_OR_RETURN(const DataType dtype, TypeAttribute(c, "dtype", x.dtype()));
  if (!x.valid()) return absl::OkStatus();
  if (x.rank() != 2) return c.Error(absl::StrCat("input is ", x.type().ToString(), ", expected a matrix"));
  // Column numbers less row numbers are k on the diagonal.
  const int64_t k = c.Int("k", 0);
  const Output rows = ops::Range(c.b.Int(0), c.b.Int(x.dim(0)), c.b.Int(1));
  const Output columns = ops::Range(c.b.Int(0), c.b.Int(x.dim(1)), c.b.Int(1));
  const Output offset = columns - ops::Reshape(rows, {x.dim(0), 1});
  c.Set(0, ops::Cast(ops::Binary("Equal", offset, c.b.Int(k)), dtype));
  return absl::OkStatus();
}

// Exact, in differences without a sign: doubles do not tell large integers apart.
double CountSteps(int64_t start, int64_t limit, int64_t delta) {
  if (delta == 0 || (delta > 0 ? start >= limit : start <= limit)) return 0;
  const uint64_t from = static_cast<uint64_t>(start), to = static_cast<uint64_t>(limit), step = static_cast<uint64_t>(delta);
  const uint64_t way = delta > 0 ? to - from : from - to;
  return static_cast<double>((way - 1) / (delta > 0 ? step : 0 - step) + 1);
}

absl::Status Range(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(3, 3));
  Tensor values[3];
  for (int i = 0; i < 3; ++i) {
    MR_ASSIGN_OR_RETURN(values[i], c.Constant(i));
    if (values[i].num_elements() != 1 || values[i].dtype() != values[0].dtype() || DataTypeSize(values[i].dtype()) == 0) {
      return c.Error("start, limit and delta: expected three numbers of one type");
    }
  }
  const double start = values[0].DoubleAt(0), limit = values[1].DoubleAt(0), delta = values[2].DoubleAt(0);
  const double count = IsInteger(values[0].dtype()) ? CountSteps(values[0].IntAt(0), values[1].IntAt(0), values[2].IntAt(0))
                                                    : std::max(0.0, std::ceil((limit - start) / delta));
  constexpr double kMost = 1 << 28;
  if (delta == 0 || !(count <= kMost)) return c.Error(absl::StrCat("steps of ", delta, " from ", start, " to ", limit));
  const DataType dtype = values[0].dtype();
  // start + i * delta, in the type of the result (in a wider one where there are no kernels).
  const bool narrow = dtype == DataType::kHalf || dtype == DataType::kBfloat16;
  const DataType compute = narrow ? DataType::kFloat : IsFloating(dtype) ? dtype : DataType::kInt64;
  const Output steps = ops::Cast(ops::Range(c.b.Int(0), c.b.Int(static_cast<int64_t>(count)), c.b.Int(1)), compute);
  const Output scaled = ops::Mul(steps, ops::Cast(c.b.SharedConst(values[2].Reshaped(Shape())), compute));
  c.Set(0, ops::Cast(ops::Add(scaled, ops::Cast(c.b.SharedConst(values[0].Reshaped(Shape())), compute)), dtype));
  return absl::OkStatus();
}

// Windows of signal processing: offset - (1 - offset) cos(2 pi n / N) and Blackman's three terms.
absl::Status Window(NodeContext& c, double a0, double a1, double a2) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  MR_ASSIGN_OR_RETURN(const IntList size, c.ConstantInts(0));
  constexpr int64_t kMost = 1 << 24;
  if (size.size() != 1 || size[0] < 0 || size[0] > kMost) return c.Error("the size is not one small number");
  MR_ASSIGN_OR_RETURN(const DataType dtype, TypeAttribute(c, "output_datatype", DataType::kFloat));
  const double period = static_cast<double>(c.Int("periodic", 1) != 0 ? size[0] : size[0] - 1);
  std::vector<double> values(size[0]);
  for (size_t n = 0; n < values.size(); ++n) {
    const double angle = 2 * M_PI * static_cast<double>(n) / period;
    values[n] = a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle);
  }
  c.Set(0, ops::Cast(Vector(c.b, DataType::kDouble, values, {size[0]}), dtype));
  return absl::OkStatus();
}
absl::Status HannWindow(NodeContext& c) { return Window(c, 0.5, 0.5, 0); }
absl::Status HammingWindow(NodeContext& c) { return Window(c, 25.0 / 46, 21.0 / 46, 0); }
absl::Status BlackmanWindow(NodeContext& c) { return Window(c, 0.42, 0.5, 0.08); }

}  // namespace

void AddShapeLowerings(LoweringTable& table) {
  for (const auto& [op, lowering] : std::initializer_list<std::pair<const char*, Lowering>>{
           {"Constant", Constant},     {"Shape", ShapeOf},         {"Size", SizeOf},
           {"Reshape", Reshape},       {"Flatten", Flatten},       {"Squeeze", Squeeze},
           {"Unsqueeze", Unsqueeze},   {"Cast", Cast},             {"CastLike", CastLike},
           {"BitCast", BitCast},
           {"EyeLike", EyeLike},       {"Range", Range},           {"ConstantOfShape", ConstantOfShape},
           {"HannWindow", HannWindow}, {"HammingWindow", HammingWindow},
           {"BlackmanWindow", BlackmanWindow}}) {
    table.Add(op, lowering);
  }
}

}  // namespace millrace::onnx
