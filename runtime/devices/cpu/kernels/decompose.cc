// QR decompositions and least squares.
#include <Eigen/Cholesky>
#include <Eigen/QR>

#include "cpu/kernels/factor.h"
#include "cpu/kernels/families.h"
#include "cpu/kernels/linalg.h"
#include "cpu/kernels/matrix_rows.h"
#include "cpu/kernels/values.h"
#include "cpu/kernels/widened.h"

namespace millrace::cpu {
namespace {

using Complex = std::complex<double>;

struct QrSizes {
  int64_t rows, columns, inner;  // `inner`: columns of q, rows of r

  // Of few, rows padded to whole vectors would take many times their memory.
  bool has_few_columns() const { return columns < 8; }
  int64_t workspace() const {
    if (has_few_columns()) return 0;
    return PaddedElements(rows, columns) + PaddedElements(rows, inner) + ElementsToFactorOrthogonal(rows, columns);
  }
};

template <typename S>
void RunQrByColumns(const KernelContext& context, const QrSizes& sizes, int64_t i) {
  using Matrix = MatrixOf<S>;
  const Eigen::HouseholderQR<Matrix> qr(LoadMatrix<S>(context, 0, i, sizes.rows, sizes.columns));
  Matrix q = Matrix::Identity(sizes.rows, sizes.inner);
  q.applyOnTheLeft(qr.householderQ());
  StoreMatrix<S>(context, 0, i, q);
  StoreMatrix<S>(context, 1, i, Matrix(qr.matrixQR().topRows(sizes.inner).template triangularView<Eigen::Upper>()));
}

void RunQr(double, const KernelContext& context, const QrSizes& sizes, int64_t i, double* workspace) {
  if (sizes.has_few_columns()) return RunQrByColumns<double>(context, sizes, i);
  const DoublePart a = LoadPadded(context, 0, i, sizes.rows, sizes.columns, false, workspace);
  const DoublePart q = PaddedZeros(workspace += PaddedElements(sizes.rows, sizes.columns), sizes.rows, sizes.inner);
  FactorOrthogonal(sizes.rows, sizes.columns, a, sizes.inner, q, workspace + PaddedElements(sizes.rows, sizes.inner));
  for (int64_t row = 0; row < sizes.inner; ++row) std::fill_n(a.row(row), std::min(row, sizes.columns), 0.0);
  StorePart(context, 0, i, sizes.rows, sizes.inner, false, q);
  StorePart(context, 1, i, sizes.inner, sizes.columns, false, a);
}
void RunQr(Complex, const KernelContext& context, const QrSizes& sizes, int64_t i, double*) {
  RunQrByColumns<Complex>(context, sizes, i);
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeQr(const OpInstance& node) {
  const MatrixBatch batch(node.inputs[0].shape);
  const bool full = node.attrs.GetOr<bool>("full_matrices", false);
  const QrSizes sizes = {batch.rows, batch.columns, full ? batch.rows : std::min(batch.rows, batch.columns)};
  return EachMatrixIn(node, sizes.workspace(), [sizes](auto scalar, const KernelContext& context, const MatrixBatch& batch, int64_t i, double* workspace) {
    using S = decltype(scalar);
    if (batch.elements() == 0) {
      StoreMatrix<S>(context, 0, i, MatrixOf<S>::Identity(sizes.rows, sizes.inner));
    } else {
      RunQr(scalar, context, sizes, i, workspace);
    }
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
