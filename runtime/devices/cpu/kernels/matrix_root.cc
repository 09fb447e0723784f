// Square roots and logarithms of matrices.
#include <limits>

#include <Eigen/Eigenvalues>
#include <Eigen/LU>
#include <unsupported/Eigen/MatrixFunctions>

#include "cpu/kernels/families.h"
#include "cpu/kernels/linalg.h"

namespace millrace::cpu {
namespace {

absl::StatusOr<std::unique_ptr<Kernel>> MakeSquareRoot(const OpInstance& node) {
  return EachMatrix(node, [](auto scalar, const KernelContext& context, const MatrixBatch& batch, int64_t i) -> absl::Status {
    using S = decltype(scalar);
    const int64_t n = batch.rows;
    if (n == 0) return absl::OkStatus();
    const MatrixOf<S> matrix = LoadMatrix<S>(context, 0, i, n, n);
    MatrixOf<S> root = MatrixOf<S>::Constant(n, n, Eigen::NumTraits<S>::quiet_NaN());
    if (matrix.allFinite()) root = matrix.sqrt();  // for what is not finite the algorithm does not end
    StoreMatrix<S>(context, 0, i, root);
    return absl::OkStatus();
  });
}

// Eigen takes roots of a block of close eigenvalues until it is near 1, which never ends where one is 0 or a root is not finite.
// Of a singular matrix nothing is a logarithm: NaN, as Eigen gives where it ends.
struct LogarithmOfBlock {
  using Complex = std::complex<double>;
  using Block = Eigen::Matrix<Complex, Eigen::Dynamic, Eigen::Dynamic>;

  static bool Ends(const Block& block) {
    constexpr int kMostRoots = 1100;  // halve the exponent of any number beyond its last bit
    constexpr double kNear = 0.26;    // below, Eigen takes no more roots
    if (block.rows() <= 2) return true;
    const Block one = Block::Identity(block.rows(), block.cols());
    Block root = block.triangularView<Eigen::Upper>(), next;
    for (int roots = 0; roots < kMostRoots; ++roots) {
      if (!root.allFinite() || root.diagonal().cwiseAbs().minCoeff() == 0) return false;
      if ((root - one).cwiseAbs().colwise().sum().maxCoeff() < kNear) return true;
      Eigen::matrix_sqrt_triangular(root, next);
      root = next.triangularView<Eigen::Upper>();
    }
    return false;
  }

  Block compute(const Block& block) const {
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    if (!Ends(block)) return Block::Constant(block.rows(), block.cols(), Complex(kNan, kNan));
    return Eigen::internal::MatrixLogarithmAtomic<Block>().compute(block);
  }
};

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
    MatrixOf<Complex> logarithm = MatrixOf<Complex>::Constant(n, n, none);
    LogarithmOfBlock of_block;
    if (matrix.allFinite()) Eigen::internal::matrix_function_compute<MatrixOf<Complex>>::run(matrix, of_block, logarithm);
    StoreMatrix<Complex>(context, 0, i, logarithm);
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterMatrixRootKernels(KernelRegistry& registry) {
  AddKernel(registry, "MatrixSquareRoot", MakeSquareRoot);
  AddKernel(registry, "MatrixLogarithm", MakeLogarithm);
}

}  // namespace millrace::cpu
