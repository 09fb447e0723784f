// Square roots and logarithms of matrices.
#include <limits>

#include <Eigen/Eigenvalues>
#include <Eigen/LU>
#include <unsupported/Eigen/MatrixFunctions>

#include "cpu/kernels/families.h"
#include "cpu/kernels/linalg.h"

namespace millrace::cpu {
namespace {

using Matrix = MatrixOf<double>;

absl::StatusOr<std::unique_ptr<Kernel>> MakeSquareRoot(const OpInstance& node) {
  return EachRealMatrix(node, [](const KernelContext& context, const MatrixBatch& batch, int64_t i) -> absl::Status {
    const int64_t n = batch.rows;
    if (n == 0) return absl::OkStatus();
    const Matrix matrix = LoadMatrix<double>(context, 0, i, n, n);
    // The algorithm does not end for what is not finite.
    StoreMatrix<double>(context, 0, i, matrix.allFinite() ? Matrix(matrix.sqrt())
                                                          : Matrix(Matrix::Constant(n, n, std::numeric_limits<double>::quiet_NaN())));
    return absl::OkStatus();
  });
}

// TensorFlow's is of complex matrices alone.
absl::StatusOr<std::unique_ptr<Kernel>> MakeLogarithm(const OpInstance& node) {
  using Complex = std::complex<double>;
  const DataType dtype = node.inputs[0].dtype;
  if (dtype != DataType::kComplex64 && dtype != DataType::kComplex128) return UnsupportedType(node, dtype);
  return EachMatrixOf<Complex>(node, [](Complex, const KernelContext& context, const MatrixBatch& batch, int64_t i) -> absl::Status {
    const int64_t n = batch.rows;
    if (n == 0) return absl::OkStatus();
    const MatrixOf<Complex> matrix = LoadMatrix<Complex>(context, 0, i, n, n);
    const Complex none(std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::quiet_NaN());
    StoreMatrix<Complex>(context, 0, i, matrix.allFinite() ? MatrixOf<Complex>(matrix.log()) : MatrixOf<Complex>(MatrixOf<Complex>::Constant(n, n, none)));
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterMatrixRootKernels(KernelRegistry& registry) {
  AddKernel(registry, "MatrixSquareRoot", MakeSquareRoot);
  AddKernel(registry, "MatrixLogarithm", MakeLogarithm);
}

}  // namespace millrace::cpu
