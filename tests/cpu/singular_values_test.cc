// Vectors of complex matrices, of which only products are determined: u * diag(s) * v^H is the matrix, columns are orthonormal.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>

#include <gtest/gtest.h>

#include "kernel_testing.h"

namespace millrace::cpu {
namespace {

using Complex = std::complex<double>;
using Matrix = Eigen::Matrix<Complex, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Matrix MatrixIn(const Tensor& tensor) {
  Matrix matrix(tensor.shape().dim(0), tensor.shape().dim(1));
  std::memcpy(matrix.data(), tensor.data(), tensor.size_bytes());
  return matrix;
}

void ExpectDecomposed(int64_t rows, int64_t columns, bool full) {
  Matrix matrix(rows, columns);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) matrix(r, c) = Complex(std::sin(3.0 * r + c), std::cos(2.0 * r * c + 1));
  }
  Tensor input(DataType::kComplex128, Shape({rows, columns}));
  std::memcpy(input.mutable_data(), matrix.data(), input.size_bytes());
  AttrMap attrs;
  attrs.Set("full_matrices", full);
  const auto outputs = Evaluate({"Svd", attrs, {input}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  const int64_t inner = std::min(rows, columns);
  Eigen::VectorXcd numbers(inner);  // real ones, in the matrix's type
  std::memcpy(numbers.data(), (*outputs)[0].data(), (*outputs)[0].size_bytes());
  const Eigen::VectorXd values = numbers.real();
  EXPECT_EQ(numbers.imag().norm(), 0);
  for (int64_t i = 0; i + 1 < inner; ++i) EXPECT_GE(values[i], values[i + 1]);
  const Matrix u = MatrixIn((*outputs)[1]), v = MatrixIn((*outputs)[2]);
  EXPECT_EQ(u.cols(), full ? rows : inner);
  EXPECT_EQ(v.cols(), full ? columns : inner);
  constexpr double kRounding = 1e-12;
  const Matrix product = u.leftCols(inner) * values.cast<Complex>().asDiagonal() * v.leftCols(inner).adjoint();
  EXPECT_LT((product - matrix).norm(), kRounding) << rows << " x " << columns << (full ? ", full" : "");
  for (const Matrix& vectors : {u, v}) {
    EXPECT_LT((vectors.adjoint() * vectors - Matrix::Identity(vectors.cols(), vectors.cols())).norm(), kRounding);
  }
}

TEST(SingularValues, VectorsOfComplexMatricesMultiplyToTheMatrix) {
  for (const bool full : {false, true}) {
    ExpectDecomposed(6, 4, full);
    ExpectDecomposed(4, 6, full);
    ExpectDecomposed(20, 20, full);
  }
}

}  // namespace
}  // namespace millrace::cpu
