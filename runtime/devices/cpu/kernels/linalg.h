// What the kernels of matrices share: a batch of matrices in memory, read and written in double or complex<double>. Eigen's
// algorithms are compiled for these two alone (factor.h has faster ones of doubles); matrices of floats are computed in double and rounded.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_LINALG_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_LINALG_H_

#include <algorithm>
#include <array>
#include <complex>
#include <type_traits>

#include <Eigen/Core>

#include "cpu/kernels/common.h"
#include "millrace/status.h"

namespace millrace::cpu {

// By columns, as what Eigen's algorithms make for themselves is: of both orders each would be compiled twice.
template <typename S>
using MatrixOf = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic>;

// A tensor [..., rows, columns].
struct MatrixBatch {
  explicit MatrixBatch(const Shape& shape) : rows(shape.dim(shape.rank() - 2)), columns(shape.dim(shape.rank() - 1)) {
    for (int d = 0; d < shape.rank() - 2; ++d) count *= shape.dim(d);
  }
  int64_t elements() const { return rows * columns; }
  int64_t count = 1, rows, columns;
};

// Matrix i of an input of floats or doubles, or of complex numbers where S is one.
template <typename S>
MatrixOf<S> LoadMatrix(const KernelContext& context, int input, int64_t i, int64_t rows, int64_t columns);
// Writes matrix i of an output.
template <typename S>
void StoreMatrix(const KernelContext& context, int output, int64_t i, const MatrixOf<S>& matrix);

// A kernel by visit(S()), S being the type that matrices of `dtype` are computed in.
template <typename Visit>
absl::StatusOr<std::unique_ptr<Kernel>> DispatchMatrix(const OpInstance& node, DataType dtype, Visit&& visit) {
  switch (dtype) {
    case DataType::kFloat:
    case DataType::kDouble: return visit(double());
    case DataType::kComplex64:
    case DataType::kComplex128: return visit(std::complex<double>());
    default: return UnsupportedType(node, dtype);
  }
}

// How many matrices are taken side by side at most. What Eigen computes them in is outside of the plan: the largest that a node takes or
// gives for each of them have together no more elements than so many of 128 by 128, or there is one at a time.
inline int64_t MostSideBySide(const OpInstance& node, const MatrixBatch& batch) {
  int64_t most = std::max<int64_t>(batch.elements(), 1);
  for (const auto* types : {&node.inputs, &node.outputs}) {
    for (const TensorType& type : *types) most = std::max(most, type.shape.num_elements() / std::max<int64_t>(batch.count, 1));
  }
  return std::clamp<int64_t>(kMaxShards * 128 * 128 / most, 1, kMaxShards);
}

// A kernel that calls fn(S(), context, batch, i, workspace) -> Status for every matrix i of input 0, small ones side by side; `doubles` of the
// plan's are the workspace. Fails as the first of those does that fail.
template <typename S, typename Fn>
std::unique_ptr<Kernel> EachMatrixIn(const OpInstance& node, int64_t doubles, Fn fn) {
  constexpr int64_t kGrain = 8 * kElementGrain;  // products
  const MatrixBatch batch(node.inputs[0].shape);
  const int64_t work = batch.elements() * std::min(batch.rows, batch.columns), stride = AlignUp(doubles * static_cast<int64_t>(sizeof(double)));
  const int64_t shards = NumShards(batch.count, kGrain / std::max<int64_t>(work, 1), MostSideBySide(node, batch));
  return MakeKernel(
      [=](const KernelContext& context) -> absl::Status {
        std::array<absl::Status, kMaxShards> failures;
        const auto run = [&](int64_t s) {
          auto* workspace = reinterpret_cast<double*>(static_cast<char*>(context.scratch) + s * stride);
          for (int64_t i = batch.count * s / shards; i < batch.count * (s + 1) / shards && failures[s].ok(); ++i) {
            failures[s] = fn(S(), context, batch, i, workspace);
          }
        };
        shards == 1 ? run(0) : context.parallel->For(shards, run);
        const auto first = std::find_if(failures.begin(), failures.end(), [](const absl::Status& status) { return !status.ok(); });
        return first == failures.end() ? absl::OkStatus() : *first;
      },
      shards * stride);
}

// The same of what needs none of it: fn(S(), context, batch, i).
template <typename S, typename Fn>
std::unique_ptr<Kernel> EachMatrixOf(const OpInstance& node, Fn fn) {
  return EachMatrixIn<S>(node, 0, [fn](S, const KernelContext& context, const MatrixBatch& batch, int64_t i, double*) {
    return fn(S(), context, batch, i);
  });
}

// Of floats and doubles only, without that first argument.
template <typename Fn>
absl::StatusOr<std::unique_ptr<Kernel>> EachRealMatrix(const OpInstance& node, Fn fn) {
  const DataType dtype = node.inputs[0].dtype;
  if (dtype != DataType::kFloat && dtype != DataType::kDouble) return UnsupportedType(node, dtype);
  return EachMatrixOf<double>(node, [fn](double, const KernelContext& context, const MatrixBatch& batch, int64_t i) {
    return fn(context, batch, i);
  });
}

template <typename Fn>
absl::StatusOr<std::unique_ptr<Kernel>> EachMatrix(const OpInstance& node, Fn fn) {
  return DispatchMatrix(node, node.inputs[0].dtype,
                        [&](auto scalar) -> std::unique_ptr<Kernel> { return EachMatrixOf<decltype(scalar)>(node, fn); });
}

// With a workspace where matrices are computed in double.
template <typename Fn>
absl::StatusOr<std::unique_ptr<Kernel>> EachMatrixIn(const OpInstance& node, int64_t doubles, Fn fn) {
  return DispatchMatrix(node, node.inputs[0].dtype, [&](auto scalar) -> std::unique_ptr<Kernel> {
    using S = decltype(scalar);
    return EachMatrixIn<S>(node, std::is_same_v<S, double> ? doubles : 0, fn);
  });
}

// banded.cc's, by RegisterLinalgKernels.
void RegisterBandedKernels(KernelRegistry& registry);
// A BandedTriangularSolve with zeros and all: where there are not many of them.
absl::StatusOr<std::unique_ptr<Kernel>> MakeWideBandedSolve(const OpInstance& node);

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_LINALG_H_
