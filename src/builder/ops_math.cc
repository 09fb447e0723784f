// Constants, elementwise ops, matrix products and reductions.
#include "absl/strings/str_cat.h"
#include "builder/emit.h"
#include "millrace/graph_ops.h"

namespace millrace::ops {
namespace {

constexpr DataType kInt32 = DataType::kInt32;

// The axes as a constant; all of x's when none are given.
Output Axes(std::string_view op, const Output& x, IntList axes, Name name) {
  if (axes.empty()) {
    if (x.valid() && x.shape().unknown_rank()) return Refuse(op, {x}, name, "needs a known rank where no axes are given");
    for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
  }
  return Ints(op, x, axes, name, "an axis");
}

// Whether the shape of a constant or of random numbers is known; fails if not.
bool IsKnown(GraphBuilder& builder, std::string_view op, const TensorType& type, Name name) {
  if (type.shape.fully_known()) return true;
  builder.FailOp(op, {}, name, absl::StrCat("its type is ", type.ToString(), ", expected a known shape"));
  return false;
}

}  // namespace

Output Fill(const Output& dims, const Output& value, Name name) {
  return Emit("Fill", {dims, value}, {{"T", value.dtype()}, {"index_type", dims.dtype()}}, name);
}

Output Full(GraphBuilder& builder, const TensorType& type, double value) {
  if (!IsKnown(builder, "Fill", type, {})) return Output(&builder, OutputRef{}, TensorType{});
  const Output scalar = builder.Scalar(type.dtype, value);
  return type.shape.rank() == 0 ? scalar : Fill(builder.Ints(type.shape.dims()), scalar);
}

Output ZerosLike(const Output& x, Name name) { return Unary("ZerosLike", x, name); }
Output OnesLike(const Output& x, Name name) { return Unary("OnesLike", x, name); }

Output Range(const Output& start, const Output& limit, const Output& delta, Name name) {
  return Emit("Range", {start, limit, delta}, {{"Tidx", start.dtype()}}, name);
}

Output Random(GraphBuilder& builder, std::string_view op, const TensorType& type, Name name) {
  if (op != "RandomUniform" && op != "RandomStandardNormal" && op != "TruncatedNormal") {
    builder.FailOp(op, {}, name, "expected RandomUniform, RandomStandardNormal or TruncatedNormal");
  }
  if (!builder.ok() || !IsKnown(builder, op, type, name)) return Output(&builder, OutputRef{}, TensorType{});
  const auto [seed, seed2] = builder.NextSeeds();
  return builder.Op(op, {builder.Ints(type.shape.dims())},
                    {{"T", kInt32}, {"dtype", type.dtype}, {"seed", seed}, {"seed2", seed2}}, name);
}

Output Unary(std::string_view op, const Output& x, Name name) {
  // Of an Identity the builder tells T: that of a handle is not its variable's.
  return Emit(op, {x}, op == "Identity" ? AttrMap() : AttrMap{{"T", x.dtype()}}, name);
}

Output Binary(std::string_view op, const Output& x, const Output& y, Name name) {
  return Emit(op, {x, y}, {{"T", x.dtype()}}, name);
}

Output Binary(std::string_view op, const Output& x, double y, Name name) {
  if (!x.valid()) return x;
  return Binary(op, x, Constant(op, x, x.dtype(), y, name), name);
}

Output LeakyRelu(const Output& x, float alpha, Name name) {
  return Emit("LeakyRelu", {x}, {{"T", x.dtype()}, {"alpha", alpha}}, name);
}

Output Cast(const Output& x, DataType dtype, Name name) {
  if (x.dtype() == dtype) return x;
  return Emit("Cast", {x}, {{"SrcT", x.dtype()}, {"DstT", dtype}, {"Truncate", false}}, name);
}

Output Select(const Output& condition, const Output& x, const Output& y, Name name) {
  return Emit("SelectV2", {condition, x, y}, {{"T", x.dtype()}}, name);
}

Output AddN(absl::Span<const Output> values, Name name) {
  if (values.size() == 1) return values[0];
  if (values.empty()) return Output();
  return Emit("AddN", values, {{"T", values[0].dtype()}, {"N", static_cast<int64_t>(values.size())}}, name);
}

Output MatMul(const Output& a, const Output& b, Transposed transposed, Name name) {
  return Emit("MatMul", {a, b},
              {{"T", a.dtype()}, {"transpose_a", transposed.a}, {"transpose_b", transposed.b}}, name);
}

Output BatchMatMul(const Output& a, const Output& b, Transposed transposed, Name name) {
  return Emit("BatchMatMulV2", {a, b}, {{"T", a.dtype()}, {"adj_x", transposed.a}, {"adj_y", transposed.b}}, name);
}

Output Einsum(absl::Span<const Output> inputs, std::string_view equation, Name name) {
  if (inputs.empty()) return Output();
  return Emit("Einsum", inputs,
              {{"T", inputs[0].dtype()}, {"N", static_cast<int64_t>(inputs.size())},
               {"equation", std::string(equation)}},
              name);
}

Output Reduce(std::string_view op, const Output& x, IntList axes, bool keep_dims, Name name) {
  AttrMap attrs = {{"Tidx", kInt32}, {"keep_dims", keep_dims}};
  if (op != "All" && op != "Any") attrs.Set("T", x.dtype());
  return Emit(op, {x, Axes(op, x, std::move(axes), name)}, std::move(attrs), name);
}

Output ArgMax(const Output& x, int64_t axis, DataType dtype, Name name) {
  return Emit("ArgMax", {x, Int("ArgMax", x, axis, name)}, {{"T", x.dtype()}, {"Tidx", kInt32}, {"output_type", dtype}},
              name);
}

Output Cumsum(const Output& x, int64_t axis, bool exclusive, bool reverse, Name name) {
  return Emit("Cumsum", {x, Int("Cumsum", x, axis, name)},
              {{"T", x.dtype()}, {"Tidx", kInt32}, {"exclusive", exclusive}, {"reverse", reverse}}, name);
}

Output L2Loss(const Output& x, Name name) { return Unary("L2Loss", x, name); }

}  // namespace millrace::ops
