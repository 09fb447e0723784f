// Solutions of linear equations and factorizations: their products are the matrix again, for sizes that fill vectors and that do not.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "kernel_testing.h"

namespace millrace::cpu {
namespace {

TEST(Solve, TheMatrixTimesTheSolutionIsTheSide) {
  for (int64_t n : {1, 2, 5, 8, 9, 16, 33, 70, 130}) {
    Tensor matrix = TestValues(DataType::kDouble, Shape({n, n}), 1);
    for (int64_t i = 0; i < n; ++i) matrix.mutable_as<double>()[i * n + (i * 3 + 1) % n] += 40;  // rows are exchanged
    for (int64_t columns : {1, 9, 32, 45}) {
      const Tensor side = TestValues(DataType::kDouble, Shape({n, columns}), 2);
      for (bool adjoint : {false, true}) {
        AttrMap solves, multiplies;
        solves.Set("adjoint", adjoint);
        multiplies.Set("transpose_a", adjoint);
        const Tensor x = EvaluateOnThreads({"MatrixSolve", solves, {matrix, side}});
        std::vector<double> expected(side.as<double>().begin(), side.as<double>().end());
        ExpectClose(EvaluateOnThreads({"MatMul", multiplies, {matrix, x}}), expected, 1e-11);
      }
    }
    std::vector<double> one(n * n, 0);
    for (int64_t i = 0; i < n; ++i) one[i * n + i] = 1;
    ExpectClose(EvaluateOnThreads({"MatMul", {}, {matrix, EvaluateOnThreads({"MatrixInverse", {}, {matrix}})}}), one, 1e-11);
  }
}

std::vector<double> Numbers(const Tensor& tensor) { return {tensor.as<double>().begin(), tensor.as<double>().end()}; }

Tensor Product(const Tensor& a, const Tensor& b, const char* adjoint = nullptr) {
  AttrMap attrs;
  if (adjoint != nullptr) attrs.Set(adjoint, true);
  return EvaluateOnThreads({"MatMul", attrs, {a, b}});
}

std::vector<double> UnitMatrix(int64_t n) {
  std::vector<double> unit(n * n, 0);
  for (int64_t i = 0; i < n; ++i) unit[i * n + i] = 1;
  return unit;
}

TEST(Cholesky, TheFactorTimesItsTransposeIsTheMatrix) {
  for (int64_t n : {1, 3, 8, 9, 16, 31, 70, 130}) {
    const Tensor root = TestValues(DataType::kDouble, Shape({n, n}), 5);
    Tensor matrix = Product(root, root, "transpose_b");
    for (int64_t i = 0; i < n; ++i) matrix.mutable_as<double>()[i * n + i] += 1;
    Tensor lower_half(DataType::kDouble, Shape({n, n}));  // only that is read
    for (int64_t i = 0; i < n * n; ++i) lower_half.mutable_as<double>()[i] = i % n <= i / n ? matrix.as<double>()[i] : std::nan("");
    const Tensor lower = EvaluateOnThreads({"Cholesky", {}, {lower_half}});
    for (int64_t i = 0; i < n * n; ++i) EXPECT_TRUE(i % n <= i / n || lower.as<double>()[i] == 0) << i;
    ExpectClose(Product(lower, lower, "transpose_b"), Numbers(matrix), 1e-13);
    // Somewhere not positive: NaN in the lower triangle.
    lower_half.mutable_as<double>()[n * n - 1] = -1;
    const Tensor none = EvaluateOnThreads({"Cholesky", {}, {lower_half}});
    for (int64_t i = 0; i < n * n; ++i) EXPECT_TRUE(i % n <= i / n ? std::isnan(none.as<double>()[i]) : none.as<double>()[i] == 0) << i;
  }
}

Tensor OneElement(double value) {
  Tensor matrix(DataType::kDouble, Shape({1, 1}));
  matrix.mutable_as<double>()[0] = value;
  return matrix;
}

TEST(Cholesky, OfOneElementIsItsRoot) {
  for (const double value : {2.0, 3.0, 0.1, std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(EvaluateOnThreads({"Cholesky", {}, {OneElement(value)}}).as<double>()[0], std::sqrt(value));
  }
}

TEST(Solve, NanIsNotSingular) {
  for (int64_t n : {1, 4, 9, 20}) {
    Tensor matrix = TestValues(DataType::kDouble, Shape({n, n}), 3);
    const Tensor side = TestValues(DataType::kDouble, Shape({n, 1}), 4);
    for (int64_t i = 0; i < n; ++i) matrix.mutable_as<double>()[i * n + i] += 40;
    matrix.mutable_as<double>()[n * n - 1] = std::nan("");
    EXPECT_TRUE(std::isnan(EvaluateOnThreads({"MatrixInverse", {}, {matrix}}).as<double>()[n * n - 1])) << n;
    EXPECT_TRUE(std::isnan(EvaluateOnThreads({"MatrixSolve", {}, {matrix, side}}).as<double>()[n - 1])) << n;
  }
  EXPECT_FALSE(Evaluate({"MatrixInverse", {}, {OneElement(0)}}).ok());
}

TEST(Qr, FactorsAreOrthogonalAndTriangular) {
  for (int64_t m : {1, 7, 8, 20, 33, 70}) {
    for (int64_t n : {1, 5, 8, 17, 40, 70}) {
      const Tensor matrix = TestValues(DataType::kDouble, Shape({m, n}), 6);
      for (bool full : {false, true}) {
        AttrMap attrs;
        attrs.Set("full_matrices", full);
        EvaluateOnThreads({"Qr", attrs, {matrix}});
        const std::vector<Tensor> factors = Evaluate({"Qr", attrs, {matrix}}).value();
        ExpectClose(Product(factors[0], factors[1]), Numbers(matrix), 1e-13);
        ExpectClose(Product(factors[0], factors[0], "transpose_a"), UnitMatrix(full ? m : std::min(m, n)), 1e-13);
        for (int64_t i = 0; i < factors[1].num_elements(); ++i) EXPECT_TRUE(i % n >= i / n || factors[1].as<double>()[i] == 0) << i;
      }
    }
  }
}

TEST(Lu, TheTrianglesHaveTheExchangedRowsAsTheirProduct) {
  for (int64_t n : {1, 3, 8, 9, 24, 70, 130}) {
    const Tensor matrix = TestValues(DataType::kDouble, Shape({n, n}), 7);
    EvaluateOnThreads({"Lu", {}, {matrix}});
    const std::vector<Tensor> factors = Evaluate({"Lu", {}, {matrix}}).value();
    Tensor lower(DataType::kDouble, Shape({n, n})), upper(DataType::kDouble, Shape({n, n}));
    std::vector<double> exchanged;
    for (int64_t i = 0; i < n * n; ++i) {
      const double value = factors[0].as<double>()[i];
      lower.mutable_as<double>()[i] = i % n < i / n ? value : i % n == i / n ? 1 : 0;
      upper.mutable_as<double>()[i] = i % n >= i / n ? value : 0;
      EXPECT_LE(std::abs(lower.as<double>()[i]), 1);
      exchanged.push_back(matrix.as<double>()[factors[1].as<int32_t>()[i / n] * n + i % n]);
    }
    ExpectClose(Product(lower, upper), exchanged, 1e-12);
  }
}

TEST(BandedTriangularSolve, OfEveryDiagonalIsATriangularSolve) {
  constexpr int64_t kRows = 20;
  Tensor bands = TestValues(DataType::kDouble, Shape({kRows, kRows}), 8), triangle(DataType::kDouble, Shape({kRows, kRows}));
  for (int64_t i = 0; i < kRows; ++i) bands.mutable_as<double>()[i] += 10;
  for (int64_t i = 0; i < kRows * kRows; ++i) {
    const int64_t row = i / kRows, below = row - i % kRows;
    triangle.mutable_as<double>()[i] = below >= 0 ? bands.as<double>()[below * kRows + row] : 0;
  }
  const Tensor side = TestValues(DataType::kDouble, Shape({kRows, 5}), 9);
  for (bool adjoint : {false, true}) {
    AttrMap attrs;
    attrs.Set("adjoint", adjoint);
    ExpectClose(EvaluateOnThreads({"BandedTriangularSolve", attrs, {bands, side}}),
                Numbers(EvaluateOnThreads({"MatrixTriangularSolve", attrs, {triangle, side}})), 1e-13);
  }
}

// With all its zeros the matrix would take 80 GB.
TEST(BandedTriangularSolve, TakesNoMemoryForZeros) {
  constexpr int64_t kRows = 100000;
  Tensor bands(DataType::kFloat, Shape({2, kRows})), side(DataType::kFloat, Shape({kRows, 1}));
  for (int64_t i = 0; i < kRows; ++i) {
    bands.mutable_as<float>()[i] = 2;
    bands.mutable_as<float>()[kRows + i] = -1;
    side.mutable_as<float>()[i] = i == 0 ? 2 : 1;
  }
  const Tensor x = EvaluateOnThreads({"BandedTriangularSolve", {}, {bands, side}});
  for (const float value : x.as<float>()) ASSERT_EQ(value, 1);
}

}  // namespace
}  // namespace millrace::cpu
