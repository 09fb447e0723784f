// QR decompositions and least squares.
#include <Eigen/Cholesky>
#include <Eigen/QR>

#include "cpu/kernels/families.h"
#include "cpu/kernels/linalg.h"
#include "cpu/kernels/values.h"
#include "cpu/kernels/widened.h"

namespace millrace::cpu {
namespace {

absl::StatusOr<std::unique_ptr<Kernel>> MakeQr(const OpInstance& node) {
  const bool full = node.attrs.GetOr<bool>("full_matrices", false);
  return EachMatrix(node, [full](auto scalar, const KernelContext& context, const MatrixBatch& batch, int64_t i) -> absl::Status {
    using S = decltype(scalar);
    const int64_t m = batch.rows, n = batch.columns, inner = full ? m : std::min(m, n);
    if (batch.elements() == 0) {
      StoreMatrix<S>(context, 0, i, MatrixOf<S>::Identity(m, inner));
      return absl::OkStatus();
    }
    const Eigen::HouseholderQR<MatrixOf<S>> qr(LoadMatrix<S>(context, 0, i, m, n));
    MatrixOf<S> q = MatrixOf<S>::Identity(m, inner);
    q.applyOnTheLeft(qr.householderQ());
    StoreMatrix<S>(context, 0, i, q);
    StoreMatrix<S>(context, 1, i, MatrixOf<S>(qr.matrixQR().topRows(inner).template triangularView<Eigen::Upper>()));
    return absl::OkStatus();
  });
}

// By normal equations when fast, of the smaller side; else the shortest of all solutions, by an orthogonal decomposition.
template <typename S>
absl::Status SolveLeastSquares(const MatrixOf<S>& a, const MatrixOf<S>& b, double l2, bool fast, MatrixOf<S>& x) {
  using Matrix = MatrixOf<S>;
  if (!fast) {
    x = a.completeOrthogonalDecomposition().solve(b);
    return absl::OkStatus();
  }
  const bool tall = a.rows() >= a.cols();
  Matrix gram = tall ? Matrix(a.adjoint() * a) : Matrix(a * a.adjoint());
  gram.diagonal().array() += l2;
  const Eigen::LLT<Matrix> llt(gram);
  if (llt.info() != Eigen::Success) {
    return absl::InvalidArgumentError("Input matrix was rank deficient or ill-conditioned. Try setting fast=False or provide a larger l2_regularizer > 0.");
  }
  x = tall ? Matrix(llt.solve(a.adjoint() * b)) : Matrix(a.adjoint() * llt.solve(b));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeLeastSquares(const OpInstance& node) {
  const bool fast = node.attrs.GetOr<bool>("fast", true);
  const int64_t sides = node.inputs[1].shape.dim(node.inputs[1].shape.rank() - 1);
  return EachMatrix(node, [=](auto scalar, const KernelContext& context, const MatrixBatch& batch, int64_t i) -> absl::Status {
    using S = decltype(scalar);
    if (batch.columns == 0 || sides == 0) return absl::OkStatus();
    MatrixOf<S> x = MatrixOf<S>::Zero(batch.columns, sides);
    if (batch.rows > 0) {
      const double l2 = *static_cast<const double*>(ValueReader(context).data(2));
      const MatrixOf<S> a = LoadMatrix<S>(context, 0, i, batch.rows, batch.columns);
      MR_RETURN_IF_ERROR(SolveLeastSquares<S>(a, LoadMatrix<S>(context, 1, i, batch.rows, sides), l2, fast, x));
    }
    StoreMatrix<S>(context, 0, i, x);
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterDecomposeKernels(KernelRegistry& registry) {
  AddKernel(registry, "Qr", Widened(MakeQr));
  AddKernel(registry, "MatrixSolveLs", MakeLeastSquares);
}

}  // namespace millrace::cpu
