// Cholesky, inverses, determinants and solutions of linear equations.
#include "cpu/kernels/linalg.h"

#include <limits>

#include <Eigen/Cholesky>
#include <Eigen/LU>

#include "cpu/kernels/families.h"
#include "cpu/kernels/widened.h"

namespace millrace::cpu {

Matrix LoadMatrix(const KernelContext& context, int input, int64_t i, int64_t rows, int64_t columns) {
  Matrix matrix(rows, columns);
  const int64_t n = rows * columns;
  if (context.input_type(input).dtype == DataType::kDouble) {
    std::copy_n(context.input<double>(input) + i * n, n, matrix.data());
  } else {
    std::copy_n(context.input<float>(input) + i * n, n, matrix.data());
  }
  return matrix;
}

void StoreMatrix(const KernelContext& context, int output, int64_t i, const Matrix& matrix) {
  const int64_t n = matrix.size();
  if (context.output_type(output).dtype == DataType::kDouble) {
    std::copy_n(matrix.data(), n, context.output<double>(output) + i * n);
  } else {
    std::transform(matrix.data(), matrix.data() + n, context.output<float>(output) + i * n,
                   [](double value) { return static_cast<float>(value); });
  }
}

namespace {

using Lu = Eigen::PartialPivLU<Matrix>;

absl::Status NotInvertible() { return absl::InvalidArgumentError("Input is not invertible."); }

absl::Status CheckInvertible(const Lu& lu) {
  return lu.matrixLU().diagonal().cwiseAbs().minCoeff() > 0 ? absl::OkStatus() : NotInvertible();
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeCholesky(const OpInstance& node) {
  return EachMatrix(node, [](const KernelContext& context, const MatrixBatch& batch, int64_t i) -> absl::Status {
    const int64_t n = batch.rows;
    if (n == 0) return absl::OkStatus();
    const Eigen::LLT<Matrix> factor(LoadMatrix(context, 0, i, n, n));
    Matrix out = factor.matrixL();
    // As in TensorFlow a matrix that is not positive definite gives NaN, no error.
    if (factor.info() != Eigen::Success) {
      out.triangularView<Eigen::Lower>().setConstant(std::numeric_limits<double>::quiet_NaN());
    }
    StoreMatrix(context, 0, i, out);
    return absl::OkStatus();
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeInverse(const OpInstance& node) {
  const bool adjoint = node.attrs.GetOr<bool>("adjoint", false);
  return EachMatrix(node, [adjoint](const KernelContext& context, const MatrixBatch& batch, int64_t i) -> absl::Status {
    const int64_t n = batch.rows;
    if (n == 0) return absl::OkStatus();
    Matrix in = LoadMatrix(context, 0, i, n, n);
    if (adjoint) in.transposeInPlace();
    const Lu lu(in);
    MR_RETURN_IF_ERROR(CheckInvertible(lu));
    StoreMatrix(context, 0, i, lu.inverse());
    return absl::OkStatus();
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeLu(const OpInstance& node) {
  return EachMatrix(node, [](const KernelContext& context, const MatrixBatch& batch, int64_t i) -> absl::Status {
    const int64_t n = batch.rows;
    if (n == 0) return absl::OkStatus();
    const Lu lu(LoadMatrix(context, 0, i, n, n));
    MR_RETURN_IF_ERROR(CheckInvertible(lu));
    StoreMatrix(context, 0, i, lu.matrixLU());
    const Eigen::PermutationMatrix<Eigen::Dynamic> rows(lu.permutationP().transpose());
    for (int64_t k = 0; k < n; ++k) {
      if (context.output_type(1).dtype == DataType::kInt64) {
        context.output<int64_t>(1)[i * n + k] = rows.indices()[k];
      } else {
        context.output<int32_t>(1)[i * n + k] = static_cast<int32_t>(rows.indices()[k]);
      }
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeDeterminant(const OpInstance& node) {
  return EachMatrix(node, [](const KernelContext& context, const MatrixBatch& batch, int64_t i) {
    const int64_t n = batch.rows;
    const double value = n == 0 ? 1 : Lu(LoadMatrix(context, 0, i, n, n)).determinant();
    StoreMatrix(context, 0, i, Matrix::Constant(1, 1, value));
    return absl::OkStatus();
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeLogDeterminant(const OpInstance& node) {
  return EachMatrix(node, [](const KernelContext& context, const MatrixBatch& batch, int64_t i) {
    const int64_t n = batch.rows;
    double sign = 1, sum = 0;
    if (n > 0) {
      const Lu lu(LoadMatrix(context, 0, i, n, n));
      sign = static_cast<double>(lu.permutationP().determinant());
      for (int64_t k = 0; k < n; ++k) {
        const double pivot = lu.matrixLU()(k, k);
        sign *= pivot > 0 ? 1 : pivot < 0 ? -1 : pivot;  // 0 or NaN
        sum += std::log(std::abs(pivot));
      }
    }
    StoreMatrix(context, 0, i, Matrix::Constant(1, 1, sign));
    StoreMatrix(context, 1, i, Matrix::Constant(1, 1, sum));
    return absl::OkStatus();
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeSolve(const OpInstance& node) {
  const bool adjoint = node.attrs.GetOr<bool>("adjoint", false);
  const int64_t columns = node.inputs[1].shape.dim(node.inputs[1].shape.rank() - 1);
  return EachMatrix(node, [=](const KernelContext& context, const MatrixBatch& batch, int64_t i) -> absl::Status {
    const int64_t n = batch.rows;
    if (n == 0 || columns == 0) return absl::OkStatus();
    Matrix in = LoadMatrix(context, 0, i, n, n);
    if (adjoint) in.transposeInPlace();
    const Lu lu(in);
    MR_RETURN_IF_ERROR(CheckInvertible(lu));
    StoreMatrix(context, 0, i, lu.solve(LoadMatrix(context, 1, i, n, columns)));
    return absl::OkStatus();
  });
}

// The number of the matrix of `shape` that matrix `i` of the broadcast batch `out` takes.
int64_t BroadcastIndex(const Shape& shape, const Shape& out, int64_t i) {
  int64_t index = 0, stride = 1;
  for (int d = 0; d < out.rank() - 2; ++d) {
    const int at = out.rank() - 3 - d, from = shape.rank() - 3 - d;
    const int64_t coordinate = i % out.dim(at);
    i /= out.dim(at);
    if (from < 0) continue;
    if (shape.dim(from) != 1) index += coordinate * stride;
    stride *= shape.dim(from);
  }
  return index;
}

// x of triangle * x = side, by substitution.
void SolveTriangle(const Matrix& triangle, bool lower, Matrix& side) {
  const int64_t n = triangle.rows();
  for (int64_t k = 0; k < n; ++k) {
    const int64_t row = lower ? k : n - 1 - k;
    const int64_t first = lower ? 0 : row + 1, last = lower ? row : n;
    for (int64_t j = first; j < last; ++j) side.row(row) -= triangle(row, j) * side.row(j);
    side.row(row) /= triangle(row, row);
  }
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeTriangularSolve(const OpInstance& node) {
  const DataType dtype = node.inputs[0].dtype;
  if (dtype != DataType::kFloat && dtype != DataType::kDouble) return UnsupportedType(node, dtype);
  const bool lower = node.attrs.GetOr<bool>("lower", true), adjoint = node.attrs.GetOr<bool>("adjoint", false);
  const Shape matrices = node.inputs[0].shape, sides = node.inputs[1].shape, result = node.outputs[0].shape;
  return MakeKernel([=](const KernelContext& context) -> absl::Status {
    const MatrixBatch batch(result);
    for (int64_t i = 0; batch.elements() > 0 && i < batch.count; ++i) {
      Matrix triangle = LoadMatrix(context, 0, BroadcastIndex(matrices, result, i), batch.rows, batch.rows);
      if (adjoint) triangle.transposeInPlace();
      Matrix side = LoadMatrix(context, 1, BroadcastIndex(sides, result, i), batch.rows, batch.columns);
      SolveTriangle(triangle, lower != adjoint, side);
      StoreMatrix(context, 0, i, side);
    }
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterLinalgKernels(KernelRegistry& registry) {
  // Eigen would cut its products by the number of OpenMP's threads, which no result may depend on.
  Eigen::setNbThreads(1);
  AddKernel(registry, "Cholesky", MakeCholesky);
  AddKernel(registry, "MatrixInverse", Widened(MakeInverse));
  AddKernel(registry, "Lu", MakeLu);
  AddKernel(registry, "MatrixDeterminant", MakeDeterminant);
  AddKernel(registry, "LogMatrixDeterminant", MakeLogDeterminant);
  AddKernel(registry, "MatrixSolve", MakeSolve);
  AddKernel(registry, "MatrixTriangularSolve", MakeTriangularSolve);
}

}  // namespace millrace::cpu
