// Cases of complex numbers, by their real and imaginary parts.
#include "absl/strings/str_cat.h"
#include "builder/gradient_cases.h"
#include "millrace/graph_ops.h"

namespace millrace::testing {
namespace {

using Inputs = const std::vector<Output>&;
using Cases = std::vector<GradientCase>;
using In = const Output&;

constexpr DataType kComplex = DataType::kComplex128, kReal = DataType::kDouble, kInt32 = DataType::kInt32;

Output Join(In real, In imag) {
  return real.builder()->Op("Complex", {real, imag}, {{"T", kReal}, {"Tout", kComplex}});
}
Output Part(const char* op, In z) { return z.builder()->Op(op, {z}, {{"T", kComplex}, {"Tout", kReal}}); }
Output Parts(In z) { return ops::Pack({Part("Real", z), Part("Imag", z)}, 0); }

// Parts of build(z) for z of this shape, its parts between `low` and `high`.
void AddOf(Cases& cases, std::string name, Shape shape, const std::function<Output(GraphBuilder&, In)>& build,
           double low = 0.3, double high = 2) {
  cases.push_back({std::move(name), {{shape, low, high}, {shape, low, high}}, [build](GraphBuilder& b, Inputs x) {
                     return Parts(build(b, Join(x[0], x[1])));
                   }});
}

// Of two numbers, with broadcasting.
void AddOfTwo(Cases& cases, std::string name, Shape first, Shape second,
              const std::function<Output(GraphBuilder&, In, In)>& build) {
  cases.push_back({std::move(name),
                   {{first, 0.3, 2}, {first, 0.3, 2}, {second, 0.3, 2}, {second, 0.3, 2}},
                   [build](GraphBuilder& b, Inputs x) { return Parts(build(b, Join(x[0], x[1]), Join(x[2], x[3]))); }});
}

void AddPartCases(Cases& cases) {
  for (const char* op : {"Real", "Imag", "ComplexAbs", "Angle"}) {
    cases.push_back({op, {{{2, 3}, 0.3, 2}, {{2, 3}, -2, -0.3}}, [op](GraphBuilder&, Inputs x) {
                       return Part(op, Join(x[0], x[1]));
                     }});
  }
  cases.push_back(
      {"Complex_broadcast", {{{2, 3}}, {{3}}}, [](GraphBuilder&, Inputs x) { return Parts(Join(x[0], x[1])); }});
  cases.push_back({"ComplexAbs_zero", {{{2}}}, [](GraphBuilder& b, Inputs x) {
                     const Output zero = x[0] - x[0];
                     return Part("ComplexAbs", ops::Pack({Join(zero, zero), Join(x[0], b.Scalar(kReal, 1))}, 0));
                   }});
  cases.push_back({"Cast_to_complex", {{{2, 3}}}, [](GraphBuilder&, Inputs x) {
                     return Parts(ops::Square(ops::Cast(x[0], kComplex)));
                   }});
  cases.push_back({"Cast_from_complex", {{{2, 3}}, {{2, 3}}}, [](GraphBuilder&, Inputs x) {
                     return ops::Cast(ops::Square(Join(x[0], x[1])), kReal);
                   }});
}

void AddElementwiseCases(Cases& cases) {
  for (const char* op :
       {"Conj", "Neg", "Square", "Reciprocal", "Inv", "Sqrt", "Rsqrt", "Exp", "Log", "Sin", "Cos", "Tanh", "Sigmoid"}) {
    AddOf(cases, absl::StrCat(op, "_complex"), {2, 3}, [op](GraphBuilder&, In z) { return ops::Unary(op, z); });
  }
  for (const char* op : {"AddV2", "Sub", "Mul", "RealDiv", "Div", "DivNoNan", "MulNoNan", "Pow", "SquaredDifference"}) {
    AddOfTwo(cases, absl::StrCat(op, "_complex"), {2, 1, 3}, {2, 1},
             [op](GraphBuilder&, In a, In c) { return ops::Binary(op, a, c); });
  }
  // |a - c|^2 has no imaginary part: a gradient into it is taken as one into a real number.
  cases.back().derivative = false;
  AddOfTwo(cases, "SelectV2_complex", {2, 3}, {3}, [](GraphBuilder& b, In a, In c) {
    Tensor condition(DataType::kBool, Shape({2, 3}));
    for (int i = 0; i < 6; ++i) condition.mutable_as<bool>()[i] = i % 3 != 1;
    return ops::Select(b.Const(condition), a * c, c);
  });
  AddOfTwo(cases, "AddN_complex", {2, 3}, {2, 3}, [](GraphBuilder&, In a, In c) { return ops::AddN({a, c, a * c}); });
}

void AddSumCases(Cases& cases) {
  for (const char* op : {"Sum", "Mean", "Prod"}) {
    AddOf(cases, absl::StrCat(op, "_complex"), {2, 3, 2}, [op](GraphBuilder&, In z) {
      return ops::Reduce(op, ops::Square(z), {-1, 0});
    });
  }
  for (const char* op : {"Cumsum", "Cumprod"}) {
    AddOf(cases, absl::StrCat(op, "_complex"), {2, 3}, [op](GraphBuilder& b, In z) -> Output {
      return b.Op(op, {z, b.Int(1)}, {{"T", kComplex}, {"Tidx", kInt32}, {"exclusive", false}, {"reverse", true}});
    });
  }
  AddOfTwo(cases, "Einsum_complex", {2, 3}, {3, 4}, [](GraphBuilder&, In x, In y) { return ops::Einsum({{x, y}}, "ab,bc->ca"); });
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const std::string flags = absl::StrCat("_complex", ta ? "_ta" : "", tb ? "_tb" : "");
      const Shape a = ta ? Shape({3, 2}) : Shape({2, 3}), c = tb ? Shape({4, 3}) : Shape({3, 4});
      AddOfTwo(cases, absl::StrCat("MatMul", flags), a, c, [=](GraphBuilder&, In x, In y) {
        return ops::MatMul(x, y, {ta, tb});
      });
      const Shape batched({2, c.dim(0), c.dim(1)});
      AddOfTwo(cases, absl::StrCat("BatchMatMulV2", flags), {1, a.dim(0), a.dim(1)}, batched,
               [=](GraphBuilder&, In x, In y) {
                 return ops::BatchMatMul(x, y, {ta, tb});
               });
    }
  }
}

void AddMoveCases(Cases& cases) {
  AddOf(cases, "ConjugateTranspose_complex", {2, 3}, [](GraphBuilder& b, In z) -> Output {
    return b.Op("ConjugateTranspose", {z, b.Ints({1, 0})}, {{"T", kComplex}, {"Tperm", kInt32}});
  });
  AddOf(cases, "Transpose_complex", {2, 3}, [](GraphBuilder&, In z) { return ops::Transpose(z, {1, 0}); });
  AddOf(cases, "StridedSlice_complex", {3, 2}, [](GraphBuilder&, In z) { return ops::Index(z, 1, 0); });
  AddOf(cases, "GatherV2_complex", {3, 2}, [](GraphBuilder& b, In z) { return ops::Gather(z, b.Ints({2, 0, 2})); });
  AddOfTwo(cases, "ConcatV2_complex", {2, 3}, {2, 2}, [](GraphBuilder&, In a, In c) { return ops::Concat({a, c}, 1); });
}

Output Raw(const char* op, const std::vector<Output>& inputs, AttrMap attrs = {}) {
  attrs.Set("T", kComplex);
  return inputs[0].builder()->Op(op, inputs, std::move(attrs));
}

Output WithUnit(In z) {
  const Output diagonal = ops::Unary("MatrixDiagPart", z);
  return z + ops::Unary("MatrixDiag", diagonal * 0.0 + 3.0);
}

void AddMatrixCases(Cases& cases) {
  const auto hermitian = [](In z) { return WithUnit(ops::BatchMatMul(z, z, {.b = true})); };
  AddOf(cases, "Cholesky_complex", {2, 3, 3}, [=](GraphBuilder&, In z) { return Raw("Cholesky", {hermitian(z)}); });
  AddOf(cases, "MatrixDeterminant_complex", {2, 3, 3}, [](GraphBuilder&, In z) { return Raw("MatrixDeterminant", {z}); });
  for (const int output : {0, 1}) {
    AddOf(cases, absl::StrCat("LogMatrixDeterminant_complex_", output), {2, 3, 3}, [output](GraphBuilder& b, In z) {
      return b.Op("LogMatrixDeterminant", {z}, {{"T", kComplex}}).output(output);
    });
  }
  for (const bool adjoint : {false, true}) {
    const std::string flag = adjoint ? "_complex_adjoint" : "_complex";
    AddOf(cases, "MatrixInverse" + flag, {2, 3, 3}, [=](GraphBuilder&, In z) { return Raw("MatrixInverse", {WithUnit(z)}, {{"adjoint", adjoint}}); });
    for (const char* op : {"MatrixSolve", "MatrixTriangularSolve"}) {
      AddOfTwo(cases, op + flag, {2, 3, 3}, {2, 3, 2},
               [=](GraphBuilder&, In a, In c) { return Raw(op, {WithUnit(a), c}, {{"adjoint", adjoint}}); });
    }
  }
  AddOf(cases, "SelfAdjointEigV2_values_complex", {3, 3}, [=](GraphBuilder& b, In z) {
    return b.Op("SelfAdjointEigV2", {hermitian(z)}, {{"T", kComplex}, {"compute_v", false}}).output(0);
  });
  // The phases of vectors are free, their absolute values are not.
  AddOf(cases, "SelfAdjointEigV2_complex", {3, 3}, [=](GraphBuilder& b, In z) {
    const Output vectors = b.Op("SelfAdjointEigV2", {hermitian(z)}, {{"T", kComplex}, {"compute_v", true}}).output(1);
    return vectors * ops::Unary("Conj", vectors);
  });
}

void AddFactorCases(Cases& cases) {
  for (const Shape& shape : {Shape({2, 3, 3}), Shape({4, 3}), Shape({3, 4})}) {
    const std::string flag = absl::StrCat("_complex_", shape.dim(shape.rank() - 2), "x", shape.dim(shape.rank() - 1));
    for (const int output : {0, 1}) {
      AddOf(cases, absl::StrCat("Qr", flag, output == 0 ? "_q" : "_r"), shape, [output](GraphBuilder& b, In z) {
        return b.Op("Qr", {z}, {{"T", kComplex}, {"full_matrices", false}}).output(output);
      }, -2, 2);
    }
    // The values have no imaginary part.
    AddOf(cases, "Svd_values" + flag, shape, [](GraphBuilder& b, In z) {
      const Output values = Part("Real", b.Op("Svd", {z}, {{"T", kComplex}, {"compute_uv", false}, {"full_matrices", false}}).output(0));
      return Join(values, values * values);
    }, -2, 2);
    // The phases of vectors are free, products of a left one with its right one are not.
    for (const bool full : {false, true}) {
      AddOf(cases, absl::StrCat("Svd_vectors", flag, full ? "_full" : ""), shape, [full](GraphBuilder& b, In z) -> Output {
        const Operation svd = b.Op("Svd", {z}, {{"T", kComplex}, {"compute_uv", true}, {"full_matrices", full}});
        const auto first_two = [](In vectors) {
          std::vector<int64_t> begin(vectors.rank(), 0), size(vectors.rank(), -1);
          size.back() = 2;
          return ops::Slice(vectors, begin, size);
        };
        return ops::BatchMatMul(first_two(svd.output(1)), first_two(svd.output(2)), {.b = true});
      }, -2, 2);
    }
  }
}

std::string WithLengths(const std::string& op, const std::vector<int64_t>& lengths) {
  std::string name = op;
  for (int64_t length : lengths) absl::StrAppend(&name, "_", length);
  return name;
}

std::string Of(const char* op, size_t dims) { return dims == 1 ? op : absl::StrCat(op, dims, "D"); }

void AddFourierCases(Cases& cases) {
  for (const std::vector<int64_t>& lengths :
       std::initializer_list<std::vector<int64_t>>{{6}, {5}, {1}, {3, 4}, {2, 5}, {2, 3, 4}}) {
    Shape shape({2});
    for (int64_t length : lengths) shape.AddDim(length);
    for (const char* prefix : {"FFT", "IFFT"}) {
      const std::string op = Of(prefix, lengths.size());
      AddOf(cases, WithLengths(op, lengths), shape, [op](GraphBuilder& b, In z) -> Output {
        return b.Op(op, {z}, {{"Tcomplex", kComplex}});
      });
    }
    const AttrMap attrs = {{"Treal", kReal}, {"Tcomplex", kComplex}};
    const std::string forward = Of("RFFT", lengths.size()), backward = Of("IRFFT", lengths.size());
    cases.push_back({WithLengths(forward, lengths), {{shape}}, [=](GraphBuilder& b, Inputs x) {
                       return Parts(b.Op(forward, {x[0], b.Ints(lengths)}, attrs));
                     }});
    Shape half = shape;
    half.set_dim(half.rank() - 1, lengths.back() / 2 + 1);
    cases.push_back({WithLengths(backward, lengths), {{half}, {half}}, [=](GraphBuilder& b, Inputs x) -> Output {
                       return b.Op(backward, {Join(x[0], x[1]), b.Ints(lengths)}, attrs);
                     }});
  }
  // Longer than fft_length: what was not read has no gradient.
  const AttrMap attrs = {{"Treal", kReal}, {"Tcomplex", kComplex}};
  cases.push_back({"RFFT2D_cropped", {{{3, 7}}}, [=](GraphBuilder& b, Inputs x) {
                     return Parts(b.Op("RFFT2D", {x[0], b.Ints({2, 4})}, attrs));
                   }});
  cases.push_back({"IRFFT2D_cropped", {{{3, 5}}, {{3, 5}}}, [=](GraphBuilder& b, Inputs x) -> Output {
                     return b.Op("IRFFT2D", {Join(x[0], x[1]), b.Ints({2, 4})}, attrs);
                   }});
}

}  // namespace

void AddComplexCases(std::vector<GradientCase>& cases) {
  AddPartCases(cases);
  AddElementwiseCases(cases);
  AddSumCases(cases);
  AddMoveCases(cases);
  AddMatrixCases(cases);
  AddFactorCases(cases);
  AddFourierCases(cases);
}

}  // namespace millrace::testing
