#include "builder/gradient_cases.h"

#include "absl/strings/str_cat.h"
#include "millrace/graph_ops.h"

namespace millrace::testing {
namespace {

using Inputs = const std::vector<Output>&;
using Cases = std::vector<GradientCase>;

Output Raw(GraphBuilder& b, const char* op, std::vector<Output> inputs, AttrMap attrs) {
  return b.Op(op, inputs, std::move(attrs), op);
}

void AddUnaryCases(Cases& cases) {
  struct UnaryCase {
    const char* op;
    double low, high;
  };
  for (const UnaryCase& u : std::initializer_list<UnaryCase>{
           {"Neg", -2, 2},      {"Abs", -2, 2},       {"Exp", -1, 1},      {"Expm1", -1, 1},   {"Log", 0.3, 2},
           {"Log1p", -0.5, 2},  {"Sqrt", 0.3, 2},     {"Rsqrt", 0.3, 2},   {"Square", -2, 2},  {"Reciprocal", 0.3, 2},
           {"Inv", 0.3, 2},     {"Sin", -2, 2},       {"Cos", -2, 2},      {"Tan", -1, 1},     {"Sinh", -1, 1},
           {"Cosh", -1, 1},     {"Asin", -0.9, 0.9},  {"Acos", -0.9, 0.9}, {"Atan", -2, 2},    {"Asinh", -2, 2},
           {"Acosh", 1.2, 3},   {"Atanh", -0.9, 0.9}, {"Tanh", -2, 2},     {"Sigmoid", -2, 2}, {"Erf", -1, 1},
           {"Erfc", -1, 1},     {"Relu", -2, 2},      {"Elu", -2, 2},      {"Selu", -2, 2},    {"Softplus", -2, 2},
           {"Softsign", -2, 2}, {"Softmax", -2, 2},   {"LogSoftmax", -2, 2}, {"Identity", -2, 2}, {"Relu6", 4, 8}}) {
    cases.push_back({u.op,
                     {{{2, 3}, u.low, u.high}},
                     [op = u.op](GraphBuilder&, Inputs x) { return ops::Unary(op, x[0]); }});
  }
  cases.push_back({"LeakyRelu", {{{2, 3}}}, [](GraphBuilder&, Inputs x) { return ops::LeakyRelu(x[0], 0.3f); }});
  cases.push_back({"L2Loss", {{{2, 3}}}, [](GraphBuilder&, Inputs x) { return ops::L2Loss(x[0]); }});
  cases.push_back({"Cast", {{{2, 3}}}, [](GraphBuilder&, Inputs x) {
                     return ops::Cast(ops::Square(ops::Cast(x[0], DataType::kDouble)), DataType::kFloat);
                   }, true, DataType::kFloat});
}

void AddBinaryCases(Cases& cases) {
  for (const char* op : {"Add", "AddV2", "Sub", "Mul", "Div", "RealDiv", "DivNoNan", "MulNoNan", "Maximum", "Minimum",
                         "SquaredDifference", "Pow", "Atan2", "Xlogy", "Xdivy", "FloorMod", "NextAfter"}) {
    const auto build = [op](GraphBuilder&, Inputs x) { return ops::Binary(op, x[0], x[1]); };
    cases.push_back({op, {{{2, 3}, 0.4, 2}, {{2, 3}, 0.4, 2}}, build});
    cases.push_back({absl::StrCat(op, "_broadcast"), {{{2, 1, 3}, 0.4, 2}, {{4, 1}, 0.4, 2}}, build});
  }
  cases.push_back({"Mul_scalar", {{{}, 0.4, 2}, {{2, 3}, 0.4, 2}},
                   [](GraphBuilder&, Inputs x) { return ops::Mul(x[0], x[1]); }});
  cases.push_back({"AddN", {{{2, 3}}, {{2, 3}}, {{2, 3}}}, [](GraphBuilder&, Inputs x) { return ops::AddN(x); }});
  const auto condition = [](GraphBuilder& b, const Output& x) { return ops::Binary("Greater", x, b.Scalar(x.dtype(), 0)); };
  cases.push_back({"SelectV2", {{{2, 3}}, {{3}}, {{2, 1}}}, [=](GraphBuilder& b, Inputs x) {
                     return ops::Select(condition(b, x[0]), ops::Square(x[1]), ops::Square(x[2]));
                   }});
  cases.push_back({"Select_rows", {{{2}}, {{2, 3}}, {{2, 3}}}, [=](GraphBuilder& b, Inputs x) {
                     return Raw(b, "Select", {condition(b, x[0]), ops::Square(x[1]), x[2]}, {{"T", x[1].dtype()}});
                   }});
  cases.push_back({"ClipByValue", {{{3, 4}}}, [](GraphBuilder& b, Inputs x) {
                     const DataType t = x[0].dtype();
                     return Raw(b, "ClipByValue", {ops::Square(x[0]), b.Scalar(t, 0.5), b.Scalar(t, 2)}, {{"T", t}});
                   }});
  for (const char* format : {"NHWC", "NCHW"}) {
    const bool last = std::string(format) == "NHWC";
    cases.push_back({absl::StrCat("BiasAdd_", format), {{{2, 3, 2, last ? 4 : 2}}, {{last ? 4 : 3}}},
                     [format](GraphBuilder& b, Inputs x) {
                       return Raw(b, "BiasAdd", {x[0], x[1]}, {{"T", x[0].dtype()}, {"data_format", format}});
                     }});
  }
}

void AddReductionCases(Cases& cases) {
  for (const char* op : {"Sum", "Mean", "Max", "Min", "Prod", "EuclideanNorm"}) {
    for (const bool keep : {false, true}) {
      cases.push_back({absl::StrCat(op, keep ? "_kept" : ""), {{{2, 3, 2}, 0.4, 2}}, [op, keep](GraphBuilder&, Inputs x) {
                         return ops::Reduce(op, x[0], {-1, 0}, keep);
                       }});
    }
    cases.push_back({absl::StrCat(op, "_all"), {{{2, 3}, 0.4, 2}}, [op](GraphBuilder&, Inputs x) {
                       return ops::Reduce(op, x[0], {});
                     }});
  }
  for (const bool exclusive : {false, true}) {
    for (const bool reverse : {false, true}) {
      cases.push_back({absl::StrCat("Cumsum", exclusive ? "_exclusive" : "", reverse ? "_reverse" : ""), {{{2, 4}}},
                       [=](GraphBuilder&, Inputs x) { return ops::Cumsum(x[0], 1, exclusive, reverse); }});
      cases.push_back({absl::StrCat("Cumprod", exclusive ? "_exclusive" : "", reverse ? "_reverse" : ""),
                       {{{2, 4}, 0.4, 2}}, [=](GraphBuilder& b, Inputs x) {
                         return Raw(b, "Cumprod", {x[0], b.Int(-1)},
                                    {{"T", x[0].dtype()}, {"Tidx", DataType::kInt32}, {"exclusive", exclusive},
                                     {"reverse", reverse}});
                       }});
    }
  }
}

void AddProductCases(Cases& cases) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const std::string flags = absl::StrCat(ta ? "_ta" : "", tb ? "_tb" : "");
      const Shape a = ta ? Shape({3, 2}) : Shape({2, 3}), c = tb ? Shape({4, 3}) : Shape({3, 4});
      cases.push_back({absl::StrCat("MatMul", flags), {{a}, {c}},
                       [=](GraphBuilder&, Inputs x) { return ops::MatMul(x[0], x[1], {ta, tb}); }});
      Shape batched_a({5, 1}), batched_c({2});
      for (int64_t dim : a.dims()) batched_a.AddDim(dim);
      for (int64_t dim : c.dims()) batched_c.AddDim(dim);
      cases.push_back({absl::StrCat("BatchMatMulV2", flags), {{batched_a}, {batched_c}},
                       [=](GraphBuilder&, Inputs x) { return ops::BatchMatMul(x[0], x[1], {ta, tb}); }});
    }
  }
  struct EinsumCase {
    const char* name;
    const char* equation;
    std::vector<CaseInput> inputs;
  };
  for (const EinsumCase& e : std::initializer_list<EinsumCase>{
           {"Einsum_product", "ab,bc->ac", {{{2, 3}}, {{3, 4}}}},
           {"Einsum_heads", "bshd,bthd->bhst", {{{2, 3, 2, 2}}, {{2, 4, 2, 2}}}},
           {"Einsum_ellipsis", "...ab,...bc->...ac", {{{5, 1, 2, 3}}, {{2, 3, 2}}}},
           {"Einsum_sum", "abc->ca", {{{2, 3, 4}}}},
           {"Einsum_alone", "ab,cd->ad", {{{2, 3}}, {{2, 4}}}},
           {"Einsum_outer", "a,b->ab", {{{2}}, {{3}}}}}) {
    cases.push_back({e.name, e.inputs, [equation = std::string(e.equation)](GraphBuilder&, Inputs x) {
                       return ops::Einsum(x, equation);
                     }});
  }
  cases.push_back({"MatrixBandPart", {{{2, 3, 4}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "MatrixBandPart", {x[0], b.Int(1), b.Int(0)},
                                {{"T", x[0].dtype()}, {"Tindex", DataType::kInt32}});
                   }});
}

}  // namespace

Tensor RandomTensor(const TensorType& type, double low, double high, uint64_t seed) {
  Tensor tensor(type.dtype, type.shape);
  uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double value = low + (high - low) * static_cast<double>(state >> 40) * 0x1p-24;
    if (type.dtype == DataType::kDouble) {
      tensor.mutable_as<double>()[i] = value;
    } else {
      tensor.mutable_as<float>()[i] = static_cast<float>(value);
    }
  }
  return tensor;
}

void AddArrayCases(std::vector<GradientCase>& cases);
void AddNetworkCases(std::vector<GradientCase>& cases);
void AddSpecialCases(std::vector<GradientCase>& cases);
void AddMatrixCases(std::vector<GradientCase>& cases);
void AddSparseCases(std::vector<GradientCase>& cases);
void AddPictureCases(std::vector<GradientCase>& cases);
void AddRareCases(std::vector<GradientCase>& cases);
void AddComplexCases(std::vector<GradientCase>& cases);

std::vector<GradientCase> GradientCases() {
  std::vector<GradientCase> cases;
  AddUnaryCases(cases);
  AddBinaryCases(cases);
  AddReductionCases(cases);
  AddProductCases(cases);
  AddArrayCases(cases);
  AddNetworkCases(cases);
  AddSpecialCases(cases);
  AddMatrixCases(cases);
  AddSparseCases(cases);
  AddPictureCases(cases);
  AddRareCases(cases);
  AddComplexCases(cases);
  for (GradientCase& drawn : RandomGradientCases(1, 2)) cases.push_back(std::move(drawn));
  return cases;
}

std::vector<Output> BuildCase(const GradientCase& gradient_case, GraphBuilder& b) {
  std::vector<Output> inputs;
  for (size_t i = 0; i < gradient_case.inputs.size(); ++i) {
    const CaseInput& input = gradient_case.inputs[i];
    inputs.push_back(b.Const(RandomTensor({gradient_case.dtype, input.shape}, input.low, input.high, i + 1),
                             absl::StrCat("x", i)));
  }
  const Output y = ops::Identity(gradient_case.build(b, inputs), "y");
  if (!y.valid()) return inputs;
  const Output cotangent = b.Const(RandomTensor(y.type(), 0.5, 1.5, 100), "cotangent");
  ops::Reduce("Sum", y * cotangent, {}, false, "loss");
  return inputs;
}

}  // namespace millrace::testing
