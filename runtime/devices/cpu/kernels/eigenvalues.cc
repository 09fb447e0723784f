// Eigenvalues: of matrices that are their own adjoints, and of any square ones.
#include <type_traits>

#include <Eigen/Eigenvalues>

#include "cpu/kernels/families.h"
#include "cpu/kernels/linalg.h"

namespace millrace::cpu {
namespace {

using Complex = std::complex<double>;

absl::StatusOr<std::unique_ptr<Kernel>> MakeSelfAdjoint(const OpInstance& node) {
  const bool vectors = node.attrs.GetOr<bool>("compute_v", true);
  return EachMatrix(node, [vectors](auto scalar, const KernelContext& context, const MatrixBatch& batch, int64_t i) -> absl::Status {
    using S = decltype(scalar);
    const int64_t n = batch.rows;
    if (n == 0) return absl::OkStatus();
    const Eigen::SelfAdjointEigenSolver<MatrixOf<S>> solver(LoadMatrix<S>(context, 0, i, n, n),
                                                       vectors ? Eigen::ComputeEigenvectors : Eigen::EigenvaluesOnly);
    if (solver.info() != Eigen::Success) {
      return absl::InvalidArgumentError("Self-adjoint eigen decomposition was not successful. The input might not be valid.");
    }
    StoreMatrix<S>(context, 0, i, solver.eigenvalues().template cast<S>());
    if (vectors) StoreMatrix<S>(context, 1, i, solver.eigenvectors());
    return absl::OkStatus();
  });
}

// Those of a real matrix come in TensorFlow's order, which is that of its real Schur form; of a complex one by size.
template <typename S>
using GeneralSolver = std::conditional_t<std::is_same_v<S, double>, Eigen::EigenSolver<MatrixOf<double>>, Eigen::ComplexEigenSolver<MatrixOf<Complex>>>;

absl::StatusOr<std::unique_ptr<Kernel>> MakeGeneral(const OpInstance& node) {
  const bool vectors = node.attrs.GetOr<bool>("compute_v", true);
  return EachMatrix(node, [vectors](auto scalar, const KernelContext& context, const MatrixBatch& batch, int64_t i) -> absl::Status {
    using S = decltype(scalar);
    const int64_t n = batch.rows;
    if (n == 0) return absl::OkStatus();
    const MatrixOf<S> matrix = LoadMatrix<S>(context, 0, i, n, n);
    if (!matrix.allFinite()) return absl::InvalidArgumentError("Input matrix contains NaN or infinities, it has no eigenvalues.");
    const GeneralSolver<S> solver(matrix, vectors);
    if (solver.info() != Eigen::Success) {
      return absl::InvalidArgumentError("Eigen decomposition was not successful. The input might not be valid.");
    }
    StoreMatrix<Complex>(context, 0, i, solver.eigenvalues());
    if (vectors) StoreMatrix<Complex>(context, 1, i, solver.eigenvectors());
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterEigenvalueKernels(KernelRegistry& registry) {
  AddKernel(registry, "SelfAdjointEigV2", MakeSelfAdjoint);
  AddKernel(registry, "Eig", MakeGeneral);
}

}  // namespace millrace::cpu
