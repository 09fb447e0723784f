// Singular values.
#include <Eigen/SVD>
#include <limits>

#include "cpu/kernels/families.h"
#include "cpu/kernels/linalg.h"

namespace millrace::cpu {
namespace {

absl::StatusOr<std::unique_ptr<Kernel>> MakeSvd(const OpInstance& node) {
  const bool full = node.attrs.GetOr<bool>("full_matrices", false), vectors = node.attrs.GetOr<bool>("compute_uv", true);
  const unsigned options = !vectors ? 0 : full ? Eigen::ComputeFullU | Eigen::ComputeFullV : Eigen::ComputeThinU | Eigen::ComputeThinV;
  return EachMatrix(node, [=](auto scalar, const KernelContext& context, const MatrixBatch& batch, int64_t i) -> absl::Status {
    using S = decltype(scalar);
    if (batch.elements() == 0) {
      if (vectors && full) StoreMatrix<S>(context, 1, i, MatrixOf<S>::Identity(batch.rows, batch.rows));
      if (vectors && full) StoreMatrix<S>(context, 2, i, MatrixOf<S>::Identity(batch.columns, batch.columns));
      return absl::OkStatus();
    }
    const MatrixOf<S> matrix = LoadMatrix<S>(context, 0, i, batch.rows, batch.columns);
    if (!matrix.allFinite()) {
      const auto fill = [&](int output, int64_t rows, int64_t columns) {
        StoreMatrix<S>(context, output, i, MatrixOf<S>::Constant(rows, columns, std::numeric_limits<double>::quiet_NaN()));
      };
      const int64_t inner = std::min(batch.rows, batch.columns);
      fill(0, inner, 1);
      if (vectors) fill(1, batch.rows, full ? batch.rows : inner);
      if (vectors) fill(2, batch.columns, full ? batch.columns : inner);
      return absl::OkStatus();
    }
    const Eigen::BDCSVD<MatrixOf<S>> svd(matrix, options);
    StoreMatrix<S>(context, 0, i, svd.singularValues().template cast<S>());
    if (!vectors) return absl::OkStatus();
    StoreMatrix<S>(context, 1, i, svd.matrixU());
    StoreMatrix<S>(context, 2, i, svd.matrixV());
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterSingularValueKernels(KernelRegistry& registry) { AddKernel(registry, "Svd", MakeSvd); }

}  // namespace millrace::cpu
