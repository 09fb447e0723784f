// Elementwise ops and matrix products.
#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "onnx/lowering.h"

namespace millrace::onnx {
namespace {

// Computed in a wider type. Numbers of 64 bits have none, those without a sign would turn negative.
bool IsNarrowInteger(DataType dtype) {
  return dtype == DataType::kUint8 || dtype == DataType::kInt8 || dtype == DataType::kUint16 ||
         dtype == DataType::kInt16 || dtype == DataType::kUint32;
}

// Before opset 7 the second operand's dimensions lie at those of the first from `axis` on, where `broadcast` is set.
absl::StatusOr<Output> Aligned(const NodeContext& c, const Output& x, const Output& y) {
  constexpr int64_t kFromTheEndOpset = 7;
  const bool laid = c.opset() < kFromTheEndOpset && c.Int("broadcast", 0) != 0 && c.Attribute("axis") != nullptr;
  if (!laid || !x.valid() || !y.valid()) return y;
  MR_ASSIGN_OR_RETURN(const int64_t axis, c.Axis(c.Int("axis", 0), x.rank()));
  if (axis + y.rank() > x.rank()) {
    return c.Error(absl::StrCat("inputs are ", x.type().ToString(), " and ", y.type().ToString(), ", axis is ", axis));
  }
  IntList dims = Dims(y);
  dims.resize(x.rank() - axis, 1);
  return ops::Reshape(y, dims);
}

// One TensorFlow op of attribute T.
absl::Status Unary(NodeContext& c, const char* op) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  c.Set(0, ops::Unary(op, c.in(0)));
  return absl::OkStatus();
}

template <const char* kOp>
absl::Status UnaryOp(NodeContext& c) {
  return Unary(c, kOp);
}

absl::Status Abs(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  c.Set(0, Magnitude(c.in(0)));
  return absl::OkStatus();
}

absl::Status Sign(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  const Output x = c.in(0);
  c.Set(0, IsUnsigned(x.dtype()) ? ops::Binary("Minimum", x, 1) : ops::Sign(x));
  return absl::OkStatus();
}

absl::Status Identity(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  c.Set(0, c.any(0));
  return absl::OkStatus();
}

// Integer kernels that are missing are computed in a wider type, where the result wraps as it should.
Output BinaryIn(const char* op, const Output& x, const Output& y) {
  if (!IsNarrowInteger(x.dtype())) return ops::Binary(op, x, y);
  return ops::Cast(ops::Binary(op, AsWide(x), AsWide(y)), x.dtype());
}

absl::Status ExpectSameType(NodeContext& c, const Output& x, const Output& y) {
  if (!x.valid() || !y.valid() || x.dtype() == y.dtype()) return absl::OkStatus();
  return c.Error(absl::StrCat("inputs are ", x.type().ToString(), " and ", y.type().ToString(),
                              ", expected one element type"));
}

absl::Status Arithmetic(NodeContext& c, const char* op) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 2));
  const Output x = c.in(0);
  MR_ASSIGN_OR_RETURN(const Output y, Aligned(c, x, c.in(1)));
  MR_RETURN_IF_ERROR(ExpectSameType(c, x, y));
  c.Set(0, BinaryIn(op, x, y));
  return absl::OkStatus();
}

absl::Status Add(NodeContext& c) { return Arithmetic(c, "AddV2"); }
absl::Status Sub(NodeContext& c) { return Arithmetic(c, "Sub"); }
absl::Status Mul(NodeContext& c) { return Arithmetic(c, "Mul"); }
absl::Status Div(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 2));
  return Arithmetic(c, IsFloating(c.in(0).dtype()) ? "RealDiv" : "TruncateDiv");
}

absl::Status Logical(NodeContext& c, const char* op) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 2));
  MR_ASSIGN_OR_RETURN(const Output y, Aligned(c, c.in(0), c.in(1)));
  c.Set(0, c.b.Op(op, {c.in(0), y}));
  return absl::OkStatus();
}
absl::Status And(NodeContext& c) { return Logical(c, "LogicalAnd"); }
absl::Status Or(NodeContext& c) { return Logical(c, "LogicalOr"); }
absl::Status Xor(NodeContext& c) { return Arithmetic(c, "NotEqual"); }
absl::Status Not(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  c.Set(0, c.b.Op("LogicalNot", {c.in(0)}));
  return absl::OkStatus();
}

absl::Status Compare(NodeContext& c, const char* op) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 2));
  const Output x = c.in(0);
  MR_ASSIGN_OR_RETURN(const Output y, Aligned(c, x, c.in(1)));
  MR_RETURN_IF_ERROR(ExpectSameType(c, x, y));
  const bool narrow = IsNarrowInteger(x.dtype());
  c.Set(0, narrow ? ops::Binary(op, AsWide(x), AsWide(y)) : ops::Binary(op, x, y));
  return absl::OkStatus();
}
absl::Status Equal(NodeContext& c) { return Compare(c, "Equal"); }
absl::Status Greater(NodeContext& c) { return Compare(c, "Greater"); }
absl::Status GreaterOrEqual(NodeContext& c) { return Compare(c, "GreaterEqual"); }
absl::Status Less(NodeContext& c) { return Compare(c, "Less"); }
absl::Status LessOrEqual(NodeContext& c) { return Compare(c, "LessEqual"); }

absl::Status BitwiseAnd(NodeContext& c) { return Arithmetic(c, "BitwiseAnd"); }
absl::Status BitwiseOr(NodeContext& c) { return Arithmetic(c, "BitwiseOr"); }
absl::Status BitwiseXor(NodeContext& c) { return Arithmetic(c, "BitwiseXor"); }
absl::Status BitwiseNot(NodeContext& c) { return Unary(c, "Invert"); }

absl::Status BitShift(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 2));
  const std::string direction = c.String("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") {
    return c.Error(absl::StrCat("direction is '", direction, "', expected LEFT or RIGHT"));
  }
  const bool left = direction == "LEFT";
  const Output x = c.in(0), y = c.in(1);
  MR_RETURN_IF_ERROR(ExpectSameType(c, x, y));
  if (!x.valid() || !y.valid()) return absl::OkStatus();
  const Output shifted = ops::Binary(left ? "LeftShift" : "RightShift", x, y);
  // Beyond the number's bits all of them are gone, and a right shift leaves the sign. Numbers of 64 bits without a sign that are that
  // large are negative here.
  const double bits = 8.0 * static_cast<double>(DataTypeSize(x.dtype()));
  const Output amount = ops::Cast(y, DataType::kInt64);
  const Output beyond = c.b.Op("LogicalOr", {ops::Binary("Less", amount, 0), ops::Binary("GreaterEqual", amount, bits)});
  const Output rest = !left && !IsUnsigned(x.dtype()) ? ops::Binary("RightShift", x, bits - 1) : ops::ZerosLike(x);
  c.Set(0, ops::Select(beyond, rest, shifted));
  return absl::OkStatus();
}

absl::Status Pow(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 2));
  const Output x = c.in(0);
  MR_ASSIGN_OR_RETURN(const Output y, Aligned(c, x, c.in(1)));
  if (x.dtype() == y.dtype() && !IsNarrowInteger(x.dtype())) {
    c.Set(0, ops::Pow(x, y));
    return absl::OkStatus();
  }
  // Integers in the widest, where they wrap as the base's type does; mixed types in floating point, then back to the base's type.
  const bool whole = IsInteger(x.dtype()) && IsInteger(y.dtype());
  const DataType compute = whole ? DataType::kInt64 : x.dtype() == DataType::kFloat ? DataType::kFloat : DataType::kDouble;
  c.Set(0, ops::Cast(ops::Pow(ops::Cast(x, compute), ops::Cast(y, compute)), x.dtype()));
  return absl::OkStatus();
}

absl::Status Mod(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 2));
  const bool like_c = c.Int("fmod", 0) != 0;
  const Output x = c.in(0), y = c.in(1);
  MR_RETURN_IF_ERROR(ExpectSameType(c, x, y));
  if (x.dtype() == DataType::kHalf || x.dtype() == DataType::kBfloat16) {
    c.Set(0, ops::Cast(ops::Binary(like_c ? "Mod" : "FloorMod", AsWide(x), AsWide(y)), x.dtype()));
    return absl::OkStatus();
  }
  c.Set(0, BinaryIn(!like_c || IsUnsigned(x.dtype()) ? "FloorMod" : IsFloating(x.dtype()) ? "Mod" : "TruncateMod", x, y));
  return absl::OkStatus();
}

// Max, Min, Sum, Mean of any number of inputs.
absl::Status Variadic(NodeContext& c, const char* op) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, INT32_MAX));
  Output result = c.in(0);
  for (int i = 1; i < c.num_inputs(); ++i) {
    if (!c.has(i)) return c.Error(absl::StrCat("input ", i, " is missing"));
    MR_RETURN_IF_ERROR(ExpectSameType(c, result, c.in(i)));
    result = BinaryIn(op, result, c.in(i));
  }
  c.Set(0, result);
  return absl::OkStatus();
}
absl::Status Max(NodeContext& c) { return Variadic(c, "Maximum"); }
absl::Status Min(NodeContext& c) { return Variadic(c, "Minimum"); }
absl::Status Sum(NodeContext& c) { return Variadic(c, "AddV2"); }
absl::Status Mean(NodeContext& c) {
  MR_RETURN_IF_ERROR(Variadic(c, "AddV2"));
  if (c.outputs().empty()) return absl::OkStatus();
  c.Set(0, ops::Binary("RealDiv", c.outputs()[0].tensor, static_cast<double>(c.num_inputs())));
  return absl::OkStatus();
}

absl::Status Where(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(3, 3));
  c.Set(0, ops::Select(c.in(0), c.in(1), c.in(2)));
  return absl::OkStatus();
}

absl::Status IsInf(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  const bool negative = c.Int("detect_negative", 1) != 0, positive = c.Int("detect_positive", 1) != 0;
  const Output x = c.in(0), infinite = ops::Unary("IsInf", x);
  if (negative && positive) {
    c.Set(0, infinite);
    return absl::OkStatus();
  }
  if (!negative && !positive) {
    c.Set(0, c.b.Op("LogicalAnd", {infinite, c.b.SharedConst(Tensor::Scalar<bool>(false))}));
    return absl::OkStatus();
  }
  const Output signed_as_asked = ops::Binary(positive ? "Greater" : "Less", x, 0);
  c.Set(0, c.b.Op("LogicalAnd", {infinite, signed_as_asked}));
  return absl::OkStatus();
}

// ---- Matrix products

// x with a dimension of 1 put in (at the front, or the back).
Output Promoted(const Output& x, bool front) {
  if (x.rank() != 1) return x;
  return ops::Reshape(x, front ? IntList{1, x.dim(0)} : IntList{x.dim(0), 1});
}

}  // namespace

Output MatrixProduct(const Output& a, const Output& b) {
  const DataType dtype = a.dtype();
  const bool compute_wide = !IsFloating(dtype) && dtype != DataType::kInt32 && dtype != DataType::kInt64;
  const Output x = Promoted(compute_wide ? AsWide(a) : a, true), y = Promoted(compute_wide ? AsWide(b) : b, false);
  Output product;
  if (x.rank() == 2 && y.rank() == 2) {
    product = ops::MatMul(x, y);
  } else if (y.rank() == 2) {
    // One large product instead of many small ones.
    IntList dims = Dims(x);
    const int64_t depth = dims.back();
    dims.pop_back();
    product = ops::MatMul(ops::Reshape(x, {Product(dims), depth}), y);
    dims.push_back(y.dim(1));
    product = ops::Reshape(product, dims);
  } else {
    product = ops::BatchMatMul(x, y);
  }
  if (!product.valid()) return product;
  IntList dims = Dims(product);
  if (b.rank() == 1) dims.pop_back();
  if (a.rank() == 1) dims.erase(b.rank() == 1 ? dims.end() - 1 : dims.end() - 2);
  if (dims != Dims(product)) product = ops::Reshape(product, dims);
  return ops::Cast(product, dtype);
}

namespace {

absl::Status MatMul(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 2));
  const Output a = c.in(0), b = c.in(1);
  MR_RETURN_IF_ERROR(ExpectSameType(c, a, b));
  if (!a.valid() || !b.valid()) return absl::OkStatus();
  if (a.rank() < 1 || b.rank() < 1) {
    return c.Error(absl::StrCat("inputs are ", a.type().ToString(), " and ", b.type().ToString(), ", expected matrices"));
  }
  const int64_t depth = a.dim(-1), other = b.dim(b.rank() == 1 ? 0 : -2);
  if (depth != other) {
    return c.Error(absl::StrCat("inputs are ", a.type().ToString(), " and ", b.type().ToString(), ": ", depth,
                                " columns against ", other, " rows"));
  }
  c.Set(0, MatrixProduct(a, b));
  return absl::OkStatus();
}

absl::Status Gemm(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 3));
  const Output a = c.in(0), b = c.in(1);
  const float alpha = c.Float("alpha", 1), beta = c.Float("beta", 1);
  const bool whole = alpha == std::trunc(alpha) && beta == std::trunc(beta);
  const auto wide = [&a, whole](const Output& x) { return IsFloating(a.dtype()) ? x : whole ? AsWide(x) : ops::Cast(x, DataType::kDouble); };
  Output y = ops::MatMul(wide(a), wide(b), {c.Int("transA", 0) != 0, c.Int("transB", 0) != 0});
  if (!y.valid()) return absl::OkStatus();
  if (alpha != 1) y = y * alpha;
  if (c.has(2)) {
    Output bias = wide(c.in(2));
    if (beta != 1) bias = bias * beta;
    const Shape product = y.shape();
    y = bias.rank() == 1 && bias.dim(0) == product.dim(1) ? ops::BiasAdd(y, bias) : ops::Add(y, bias);
    if (y.valid() && y.shape() != product) {
      return c.Error(absl::StrCat("input 2 is ", bias.type().ToString(), ", which does not broadcast to ",
                                  product.ToString()));
    }
  }
  c.Set(0, ops::Cast(y, a.dtype()));
  return absl::OkStatus();
}

struct LabelledDim {
  size_t at;  // of the label in its term
  int64_t axis, size;
};

// Of an input by the labels of its term, those behind an ellipsis from the end. Empty when there are more labels than dimensions.
std::vector<LabelledDim> LabelledDims(const Output& x, const std::string& term) {
  const size_t dots = term.find("...");
  const int64_t labels = static_cast<int64_t>(dots == std::string::npos ? term.size() : term.size() - 3);
  std::vector<LabelledDim> dims;
  for (size_t at = 0; x.valid() && labels <= x.rank() && at < term.size(); ++at) {
    if (term[at] == '.') continue;
    const int64_t axis = static_cast<int64_t>(at) + (at < dots ? 0 : x.rank() - static_cast<int64_t>(term.size()));
    dims.push_back({at, axis, x.dim(static_cast<int>(axis))});
  }
  return dims;
}

// NumPy repeats a dimension of 1 where its label is longer elsewhere: without that dimension the sum is the same.
void DropRepeated(std::vector<Output>& inputs, std::string& equation) {
  const size_t arrow = equation.find("->");
  std::vector<std::string> terms = absl::StrSplit(equation.substr(0, arrow), ',');
  if (terms.size() != inputs.size()) return;
  std::map<char, int64_t> sizes;
  for (size_t i = 0; i < terms.size(); ++i) {
    for (const LabelledDim& d : LabelledDims(inputs[i], terms[i])) sizes[terms[i][d.at]] = std::max(sizes[terms[i][d.at]], d.size);
  }
  for (size_t i = 0; i < terms.size(); ++i) {
    IntList repeated;
    std::string rest = terms[i];
    const std::vector<LabelledDim> dims = LabelledDims(inputs[i], terms[i]);
    for (auto d = dims.rbegin(); d != dims.rend(); ++d) {
      if (d->size != 1 || sizes[terms[i][d->at]] == 1) continue;
      repeated.push_back(d->axis);
      rest.erase(d->at, 1);
    }
    if (!repeated.empty()) inputs[i] = ops::Squeeze(inputs[i], repeated);
    terms[i] = rest;
  }
  equation = absl::StrCat(absl::StrJoin(terms, ","), equation.substr(arrow));
}

absl::Status Einsum(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, INT32_MAX));
  std::string equation = c.String("equation", "");
  equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
  // Without an arrow: labels that occur once, sorted, after the ellipsis.
  if (equation.find("->") == std::string::npos) {
    std::string once;
    for (char label = 'A'; label <= 'z'; ++label) {
      if (std::isalpha(static_cast<unsigned char>(label)) && std::count(equation.begin(), equation.end(), label) == 1) once += label;
    }
    equation += absl::StrCat("->", equation.find("...") == std::string::npos ? "" : "...", once);
  }
  std::vector<Output> inputs;
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!c.has(i)) return c.Error(absl::StrCat("input ", i, " is missing"));
    inputs.push_back(c.in(i));
  }
  DropRepeated(inputs, equation);
  if (inputs.size() <= 2) {
    c.Set(0, ops::Einsum(inputs, equation));
    return absl::OkStatus();
  }
  // Pairs, one after the other: a label stays while a later input or the result has it.
  if (equation.find('.') != std::string::npos) return c.Unsupported("Einsum of more than two inputs with an ellipsis");
  const size_t arrow = equation.find("->");
  std::vector<std::string> terms = absl::StrSplit(equation.substr(0, arrow), ',');
  if (terms.size() != inputs.size()) return c.Error(absl::StrCat("equation '", equation, "' is for ", terms.size(), " inputs"));
  const std::string result = equation.substr(arrow + 2);
  Output product = inputs[0];
  std::string labels = terms[0];
  for (size_t i = 1; i < inputs.size(); ++i) {
    std::string later = result, kept;
    for (size_t k = i + 1; k < terms.size(); ++k) later += terms[k];
    for (char label : labels + terms[i]) {
      if (later.find(label) != std::string::npos && kept.find(label) == std::string::npos) kept += label;
    }
    if (i + 1 == inputs.size()) kept = result;
    product = ops::Einsum(std::vector<Output>{product, inputs[i]}, absl::StrCat(labels, ",", terms[i], "->", kept));
    labels = kept;
  }
  c.Set(0, product);
  return absl::OkStatus();
}

// The determinant by cofactors: matrices up to 4 x 4 unroll to a short expression.
Output Determinant(const Output& x, const IntList& columns, int64_t row) {
  const auto at = [&](int64_t column) { return ops::Index(ops::Index(x, row, -2), column, -1); };
  if (columns.size() == 1) return at(columns[0]);
  Output sum;
  for (size_t i = 0; i < columns.size(); ++i) {
    IntList rest = columns;
    rest.erase(rest.begin() + static_cast<int64_t>(i));
    const Output term = at(columns[i]) * Determinant(x, rest, row + 1);
    sum = i == 0 ? term : i % 2 == 0 ? sum + term : sum - term;
  }
  return sum;
}

absl::Status Det(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  if (x.rank() < 2 || x.dim(-1) != x.dim(-2)) {
    return c.Error(absl::StrCat("input is ", x.type().ToString(), ", expected square matrices"));
  }
  constexpr int64_t kMost = 4;
  if (x.dim(-1) < 1 || x.dim(-1) > kMost) return c.Unsupported("a determinant beyond 4 x 4");
  c.Set(0, Determinant(x, Iota(x.dim(-1)), 0));
  return absl::OkStatus();
}

}  // namespace

void AddMathLowerings(LoweringTable& table) {
  static constexpr char kNeg[] = "Neg", kExp[] = "Exp", kLog[] = "Log", kSqrt[] = "Sqrt",
                        kReciprocal[] = "Reciprocal", kSin[] = "Sin", kCos[] = "Cos", kTan[] = "Tan", kSinh[] = "Sinh",
                        kCosh[] = "Cosh", kAsin[] = "Asin", kAcos[] = "Acos", kAtan[] = "Atan", kAsinh[] = "Asinh",
                        kAcosh[] = "Acosh", kAtanh[] = "Atanh", kErf[] = "Erf", kFloor[] = "Floor", kCeil[] = "Ceil",
                        kRound[] = "Round", kIsNan[] = "IsNan";
  for (const auto& [op, lowering] : std::initializer_list<std::pair<const char*, Lowering>>{
           {"Neg", UnaryOp<kNeg>},     {"Abs", Abs},                 {"Exp", UnaryOp<kExp>},
           {"Log", UnaryOp<kLog>},     {"Sqrt", UnaryOp<kSqrt>},     {"Reciprocal", UnaryOp<kReciprocal>},
           {"Sin", UnaryOp<kSin>},     {"Cos", UnaryOp<kCos>},       {"Tan", UnaryOp<kTan>},
           {"Sinh", UnaryOp<kSinh>},   {"Cosh", UnaryOp<kCosh>},     {"Asin", UnaryOp<kAsin>},
           {"Acos", UnaryOp<kAcos>},   {"Atan", UnaryOp<kAtan>},     {"Asinh", UnaryOp<kAsinh>},
           {"Acosh", UnaryOp<kAcosh>}, {"Atanh", UnaryOp<kAtanh>},   {"Erf", UnaryOp<kErf>},
           {"Floor", UnaryOp<kFloor>}, {"Ceil", UnaryOp<kCeil>},     {"Round", UnaryOp<kRound>},
           {"Sign", Sign},             {"IsNaN", UnaryOp<kIsNan>},   {"Identity", Identity},
           {"Add", Add},               {"Sub", Sub},                 {"Mul", Mul},
           {"Div", Div},               {"And", And},                 {"Or", Or},
           {"Xor", Xor},               {"Not", Not},                 {"Equal", Equal},
           {"Greater", Greater},       {"GreaterOrEqual", GreaterOrEqual},
           {"Less", Less},             {"LessOrEqual", LessOrEqual}, {"BitwiseAnd", BitwiseAnd},
           {"BitwiseOr", BitwiseOr},   {"BitwiseXor", BitwiseXor},   {"BitwiseNot", BitwiseNot},
           {"BitShift", BitShift},     {"Pow", Pow},                 {"Mod", Mod},
           {"Max", Max},               {"Min", Min},                 {"Sum", Sum},
           {"Mean", Mean},             {"Where", Where},             {"IsInf", IsInf},
           {"MatMul", MatMul},         {"Gemm", Gemm},               {"Einsum", Einsum},
           {"Det", Det}}) {
    table.Add(op, lowering);
  }
}

}  // namespace millrace::onnx
