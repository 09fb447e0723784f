// What the kernels of matrices share: a batch of matrices in memory, read and written in double. Eigen's algorithms are
// compiled for double alone; matrices of floats are computed in double and rounded.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_LINALG_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_LINALG_H_

#include <Eigen/Core>

#include "cpu/kernels/common.h"
#include "millrace/status.h"

namespace millrace::cpu {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// A tensor [..., rows, columns].
struct MatrixBatch {
  explicit MatrixBatch(const Shape& shape) : rows(shape.dim(shape.rank() - 2)), columns(shape.dim(shape.rank() - 1)) {
    for (int d = 0; d < shape.rank() - 2; ++d) count *= shape.dim(d);
  }
  int64_t elements() const { return rows * columns; }
  int64_t count = 1, rows, columns;
};

// Matrix i of an input of floats or doubles.
Matrix LoadMatrix(const KernelContext& context, int input, int64_t i, int64_t rows, int64_t columns);
// Writes matrix i of an output.
void StoreMatrix(const KernelContext& context, int output, int64_t i, const Matrix& matrix);

// A kernel that calls fn(context, batch, i) -> Status for every matrix i of input 0, in order, until one fails.
template <typename Fn>
absl::StatusOr<std::unique_ptr<Kernel>> EachMatrix(const OpInstance& node, Fn fn) {
  const DataType dtype = node.inputs[0].dtype;
  if (dtype != DataType::kFloat && dtype != DataType::kDouble) return UnsupportedType(node, dtype);
  return MakeKernel([batch = MatrixBatch(node.inputs[0].shape), fn](const KernelContext& context) -> absl::Status {
    for (int64_t i = 0; i < batch.count; ++i) MR_RETURN_IF_ERROR(fn(context, batch, i));
    return absl::OkStatus();
  });
}

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_LINALG_H_
