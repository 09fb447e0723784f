// Cases of decompositions and solutions of matrices.
#include "absl/strings/str_cat.h"
#include "builder/gradient_cases.h"
#include "millrace/graph_ops.h"

namespace millrace::testing {
namespace {

using Inputs = const std::vector<Output>&;
using Cases = std::vector<GradientCase>;

Operation Raw(GraphBuilder& b, const char* op, std::vector<Output> inputs, AttrMap attrs) {
  attrs.Set("T", inputs[0].dtype());
  return b.Op(op, inputs, std::move(attrs), op);
}

Output Eye(GraphBuilder& b, int64_t n, double scale) {
  Tensor eye(DataType::kDouble, Shape({n, n}));
  for (int64_t i = 0; i < n * n; ++i) eye.mutable_as<double>()[i] = i % (n + 1) == 0 ? scale : 0;
  return b.Const(std::move(eye));
}

Output Symmetric(GraphBuilder& b, const Output& x) {
  return ops::BatchMatMul(x, x, {.b = true}) + Eye(b, x.dim(-1), 1);
}

// Well away from singular.
Output Regular(GraphBuilder& b, const Output& x) { return x + Eye(b, x.dim(-1), 3); }

// One vector of both results, whose signs do not matter.
Output Joined(const std::vector<Output>& parts) {
  std::vector<Output> flat;
  for (const Output& part : parts) flat.push_back(ops::Reshape(part, {-1}));
  return ops::Concat(flat, 0);
}

void AddInverseCases(Cases& cases) {
  cases.push_back({"MatrixSquareRoot", {{{2, 3, 3}, -0.3, 0.3}}, [](GraphBuilder& b, Inputs x) -> Output {
                     return Raw(b, "MatrixSquareRoot", {Regular(b, x[0])}, {});
                   }});
  for (const bool adjoint : {false, true}) {
    const std::string flag = adjoint ? "_adjoint" : "";
    cases.push_back({"MatrixInverse" + flag, {{{2, 3, 3}, -0.5, 0.5}}, [adjoint](GraphBuilder& b, Inputs x) -> Output {
                       return Raw(b, "MatrixInverse", {Regular(b, x[0])}, {{"adjoint", adjoint}});
                     }});
    cases.push_back({"MatrixSolve" + flag, {{{2, 3, 3}, -0.5, 0.5}, {{2, 3, 2}}},
                     [adjoint](GraphBuilder& b, Inputs x) -> Output {
                       return Raw(b, "MatrixSolve", {Regular(b, x[0]), x[1]}, {{"adjoint", adjoint}});
                     }});
    for (const bool lower : {false, true}) {
      cases.push_back({absl::StrCat("MatrixTriangularSolve", flag, lower ? "_lower" : "_upper"),
                       {{{3, 3}, -0.5, 0.5}, {{2, 3, 2}}},
                       [=](GraphBuilder& b, Inputs x) -> Output {
                         return Raw(b, "MatrixTriangularSolve", {Regular(b, x[0]), x[1]},
                                    {{"adjoint", adjoint}, {"lower", lower}});
                       }});
    }
  }
  cases.push_back({"MatrixDeterminant", {{{2, 3, 3}}}, [](GraphBuilder& b, Inputs x) -> Output {
                     return Raw(b, "MatrixDeterminant", {x[0]}, {});
                   }});
  cases.push_back({"LogMatrixDeterminant", {{{2, 3, 3}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "LogMatrixDeterminant", {x[0]}, {}).output(1);
                   }});
  cases.push_back({"Cross", {{{2, 3}}, {{2, 3}}}, [](GraphBuilder&, Inputs x) {
                     return ops::Binary("Cross", x[0], x[1]);
                   }});
}

void AddDecompositionCases(Cases& cases) {
  cases.push_back({"Cholesky", {{{2, 3, 3}}}, [](GraphBuilder& b, Inputs x) -> Output {
                     return Raw(b, "Cholesky", {Symmetric(b, x[0])}, {});
                   }});
  struct Form {
    const char* name;
    Shape shape;
    bool full;
  };
  for (const Form& f : std::initializer_list<Form>{{"square", Shape({3, 3}), false},
                                                   {"deep", Shape({2, 4, 2}), false},
                                                   {"wide", Shape({2, 2, 4}), false},
                                                   {"wide_full", Shape({2, 3}), true}}) {
    cases.push_back({absl::StrCat("Qr_", f.name), {{f.shape}}, [full = f.full](GraphBuilder& b, Inputs x) {
                       const Operation qr = Raw(b, "Qr", {x[0]}, {{"full_matrices", full}});
                       const Output r = b.Op("MatrixBandPart", {qr.output(1), b.Int(0), b.Int(-1)},
                                             {{"T", x[0].dtype()}, {"Tindex", DataType::kInt32}});
                       return Joined({qr.output(0), r});
                     }});
  }
  for (const Form& f : std::initializer_list<Form>{{"square", Shape({2, 3, 3}), false},
                                                   {"deep", Shape({2, 4, 2}), false},
                                                   {"wide", Shape({2, 4}), false},
                                                   {"deep_full", Shape({3, 2}), true}}) {
    cases.push_back({absl::StrCat("Svd_", f.name), {{f.shape}}, [full = f.full](GraphBuilder& b, Inputs x) {
                       const Operation svd = Raw(b, "Svd", {x[0]}, {{"compute_uv", true}, {"full_matrices", full}});
                       // Squared: the signs of the vectors are anyone's choice.
                       return Joined({svd.output(0), ops::Square(svd.output(1)), ops::Square(svd.output(2))});
                     }});
  }
  cases.push_back({"Svd_values", {{{3, 2}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "Svd", {x[0]}, {{"compute_uv", false}, {"full_matrices", false}}).output(0);
                   }});
  cases.push_back({"SelfAdjointEigV2", {{{2, 3, 3}}}, [](GraphBuilder& b, Inputs x) {
                     const Operation eigen = Raw(b, "SelfAdjointEigV2", {x[0]}, {{"compute_v", true}});
                     return Joined({eigen.output(0), ops::Square(eigen.output(1))});
                   }});
  cases.push_back({"SelfAdjointEigV2_values", {{{3, 3}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "SelfAdjointEigV2", {x[0]}, {{"compute_v", false}}).output(0);
                   }});
}

void AddScanCases(Cases& cases) {
  for (const bool exclusive : {false, true}) {
    for (const bool reverse : {false, true}) {
      cases.push_back({absl::StrCat("CumulativeLogsumexp", exclusive ? "_exclusive" : "", reverse ? "_reverse" : ""),
                       {{{2, 4}}},
                       [=](GraphBuilder& b, Inputs x) {
                         const Output y = Raw(b, "CumulativeLogsumexp", {x[0], b.Int(1)},
                                              {{"Tidx", DataType::kInt32}, {"exclusive", exclusive}, {"reverse", reverse}});
                         // What sums nothing is as good as minus infinity, and no difference can be taken of it.
                         return exclusive ? ops::Slice(y, {0, reverse ? 0 : 1}, {2, 3}) : y;
                       }});
    }
  }
}

}  // namespace

void AddMatrixCases(Cases& cases) {
  AddInverseCases(cases);
  AddDecompositionCases(cases);
  AddScanCases(cases);
}

}  // namespace millrace::testing
