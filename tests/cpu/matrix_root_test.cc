// Logarithms of matrices that have none.
#include <algorithm>
#include <cmath>
#include <complex>
#include <vector>

#include <gtest/gtest.h>

#include "kernel_testing.h"

namespace millrace::cpu {
namespace {

using Complex = std::complex<double>;

Tensor Logarithm(int64_t n, const std::vector<Complex>& matrix) {
  Tensor input(DataType::kComplex128, Shape({n, n}));
  std::copy(matrix.begin(), matrix.end(), input.mutable_as<Complex>().begin());
  const auto outputs = Evaluate({"MatrixLogarithm", {}, {input}});
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return outputs.ok() ? (*outputs)[0] : Tensor();
}

TEST(MatrixLogarithm, OfSingularMatricesIsNotANumber) {
  // Blocks of one eigenvalue that Eigen takes one by one, two of them, and more, whose roots never come near 1.
  const std::vector<Complex> of_close_eigenvalues = {0, 3, 5, 0, 0.05, 7, 0, 0, 0.1};
  for (int64_t n : {1, 2, 3, 4}) {
    const Tensor zero = Logarithm(n, std::vector<Complex>(n * n, 0));
    for (const Complex& element : zero.as<Complex>()) EXPECT_FALSE(std::isfinite(element.real())) << n;
  }
  const Tensor logarithm = Logarithm(3, of_close_eigenvalues);
  for (const Complex& element : logarithm.as<Complex>()) EXPECT_TRUE(std::isnan(element.real())) << element;
}

TEST(MatrixLogarithm, EndsWhereRootsOverflow) {
  // Of a block with the eigenvalue e the logarithm has elements of e^-3.
  std::vector<Complex> jordan(16, 0);
  for (int i = 0; i < 4; ++i) jordan[5 * i] = 1e-200;
  for (int i = 0; i < 3; ++i) jordan[5 * i + 1] = 1;
  const Tensor logarithm = Logarithm(4, jordan);
  for (const Complex& element : logarithm.as<Complex>()) EXPECT_TRUE(std::isnan(element.real())) << element;
}

TEST(MatrixLogarithm, OfABlockOfOneEigenvalueIsItsSeries) {
  // log(2 I + N) = log 2 I + N/2 - N^2/8 for N^3 = 0.
  const Tensor logarithm = Logarithm(3, {2, 1, 0, 0, 2, 1, 0, 0, 2});
  const double expected[] = {std::log(2), 0.5, -0.125, 0, std::log(2), 0.5, 0, 0, std::log(2)};
  for (int i = 0; i < 9; ++i) EXPECT_LT(std::abs(logarithm.as<Complex>()[i] - expected[i]), 1e-14) << i;
}

}  // namespace
}  // namespace millrace::cpu
