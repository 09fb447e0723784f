// QR, eigenvalues, singular values, square roots and least squares.
#include <Eigen/Eigenvalues>
#include <Eigen/LU>
#include <Eigen/QR>
#include <Eigen/SVD>
#include <limits>
#include <unsupported/Eigen/MatrixFunctions>

#include "cpu/kernels/families.h"
#include "cpu/kernels/linalg.h"
#include "cpu/kernels/values.h"
#include "cpu/kernels/widened.h"

namespace millrace::cpu {
namespace {

absl::StatusOr<std::unique_ptr<Kernel>> MakeQr(const OpInstance& node) {
  const bool full = node.attrs.GetOr<bool>("full_matrices", false);
  return EachMatrix(node, [full](const KernelContext& context, const MatrixBatch& batch, int64_t i) -> absl::Status {
    const int64_t m = batch.rows, n = batch.columns, inner = full ? m : std::min(m, n);
    if (batch.elements() == 0) return absl::OkStatus();
    const Eigen::HouseholderQR<Matrix> qr(LoadMatrix(context, 0, i, m, n));
    Matrix q = Matrix::Identity(m, inner);
    q.applyOnTheLeft(qr.householderQ());
    StoreMatrix(context, 0, i, q);
    StoreMatrix(context, 1, i, Matrix(qr.matrixQR().topRows(inner).triangularView<Eigen::Upper>()));
    return absl::OkStatus();
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeEigen(const OpInstance& node) {
  const bool vectors = node.attrs.GetOr<bool>("compute_v", true);
  return EachMatrix(node, [vectors](const KernelContext& context, const MatrixBatch& batch, int64_t i) -> absl::Status {
    const int64_t n = batch.rows;
    if (n == 0) return absl::OkStatus();
    const Eigen::SelfAdjointEigenSolver<Matrix> solver(LoadMatrix(context, 0, i, n, n),
                                                       vectors ? Eigen::ComputeEigenvectors : Eigen::EigenvaluesOnly);
    if (solver.info() != Eigen::Success) {
      return absl::InvalidArgumentError("Self-adjoint eigen decomposition was not successful. The input might not be valid.");
    }
    StoreMatrix(context, 0, i, solver.eigenvalues());
    if (vectors) StoreMatrix(context, 1, i, solver.eigenvectors());
    return absl::OkStatus();
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeSvd(const OpInstance& node) {
  const bool full = node.attrs.GetOr<bool>("full_matrices", false), vectors = node.attrs.GetOr<bool>("compute_uv", true);
  const unsigned options = !vectors ? 0 : full ? Eigen::ComputeFullU | Eigen::ComputeFullV : Eigen::ComputeThinU | Eigen::ComputeThinV;
  return EachMatrix(node, [=](const KernelContext& context, const MatrixBatch& batch, int64_t i) -> absl::Status {
    if (batch.elements() == 0) return absl::OkStatus();
    const Matrix matrix = LoadMatrix(context, 0, i, batch.rows, batch.columns);
    if (!matrix.allFinite()) {
      const auto fill = [&](int output, int64_t rows, int64_t columns) {
        StoreMatrix(context, output, i, Matrix::Constant(rows, columns, std::numeric_limits<double>::quiet_NaN()));
      };
      const int64_t inner = std::min(batch.rows, batch.columns);
      fill(0, inner, 1);
      if (vectors) fill(1, batch.rows, full ? batch.rows : inner);
      if (vectors) fill(2, batch.columns, full ? batch.columns : inner);
      return absl::OkStatus();
    }
    const Eigen::BDCSVD<Matrix> svd(matrix, options);
    StoreMatrix(context, 0, i, svd.singularValues());
    if (!vectors) return absl::OkStatus();
    StoreMatrix(context, 1, i, svd.matrixU());
    StoreMatrix(context, 2, i, svd.matrixV());
    return absl::OkStatus();
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeSquareRoot(const OpInstance& node) {
  return EachMatrix(node, [](const KernelContext& context, const MatrixBatch& batch, int64_t i) -> absl::Status {
    if (batch.rows == 0) return absl::OkStatus();
    const Matrix matrix = LoadMatrix(context, 0, i, batch.rows, batch.rows);
    // The algorithm does not end for what is not finite.
    StoreMatrix(context, 0, i, matrix.allFinite() ? Matrix(matrix.sqrt())
                                                  : Matrix(Matrix::Constant(batch.rows, batch.rows, std::numeric_limits<double>::quiet_NaN())));
    return absl::OkStatus();
  });
}

// By normal equations when fast, of the smaller side; else the shortest of all solutions, by an orthogonal decomposition.
absl::Status SolveLeastSquares(const Matrix& a, const Matrix& b, double l2, bool fast, Matrix& x) {
  if (!fast) {
    x = a.completeOrthogonalDecomposition().solve(b);
    return absl::OkStatus();
  }
  const bool tall = a.rows() >= a.cols();
  Matrix gram = tall ? Matrix(a.transpose() * a) : Matrix(a * a.transpose());
  gram.diagonal().array() += l2;
  const Eigen::LLT<Matrix> llt(gram);
  if (llt.info() != Eigen::Success) {
    return absl::InvalidArgumentError("Input matrix was rank deficient or ill-conditioned. Try setting fast=False or provide a larger l2_regularizer > 0.");
  }
  x = tall ? Matrix(llt.solve(a.transpose() * b)) : Matrix(a.transpose() * llt.solve(b));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeLeastSquares(const OpInstance& node) {
  const bool fast = node.attrs.GetOr<bool>("fast", true);
  const int64_t sides = node.inputs[1].shape.dim(node.inputs[1].shape.rank() - 1);
  return EachMatrix(node, [=](const KernelContext& context, const MatrixBatch& batch, int64_t i) -> absl::Status {
    if (batch.columns == 0 || sides == 0) return absl::OkStatus();
    Matrix x = Matrix::Zero(batch.columns, sides);
    if (batch.rows > 0) {
      const double l2 = *static_cast<const double*>(ValueReader(context).data(2));
      const Matrix a = LoadMatrix(context, 0, i, batch.rows, batch.columns);
      MR_RETURN_IF_ERROR(SolveLeastSquares(a, LoadMatrix(context, 1, i, batch.rows, sides), l2, fast, x));
    }
    StoreMatrix(context, 0, i, x);
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterDecomposeKernels(KernelRegistry& registry) {
  AddKernel(registry, "Qr", Widened(MakeQr));
  AddKernel(registry, "SelfAdjointEigV2", MakeEigen);
  AddKernel(registry, "Svd", MakeSvd);
  AddKernel(registry, "MatrixSquareRoot", MakeSquareRoot);
  AddKernel(registry, "MatrixSolveLs", MakeLeastSquares);
}

}  // namespace millrace::cpu
