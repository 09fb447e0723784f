// BandedTriangularSolve. A matrix is given by its diagonals, [diagonals, n]: the main one comes first of a lower triangle, last of an upper one.
#include <bit>
#include <vector>

#include "cpu/kernels/families.h"
#include "cpu/kernels/linalg.h"
#include "cpu/kernels/matrix_rows.h"

namespace millrace::cpu {
namespace {

// With more diagonals than kNarrow that are at least 1 / kWidePart of a triangle, it is solved as a whole one.
constexpr int64_t kNarrow = 8, kWidePart = 8;

// S: what is computed with, T: what is in memory.
template <typename S, typename T>
class BandedSolve {
 public:
  explicit BandedSolve(const OpInstance& node)
      : lower_(node.attrs.GetOr<bool>("lower", true)),
        adjoint_(node.attrs.GetOr<bool>("adjoint", false)),
        matrices_(node.inputs[0].shape),
        sides_(node.inputs[1].shape),
        result_(node.outputs[0].shape) {}

  absl::Status operator()(const KernelContext& context) const {
    const MatrixBatch batch(result_), given(matrices_);
    if (batch.elements() == 0) return absl::OkStatus();
    if (given.rows == 0) return NotInvertible();
    for (int64_t i = 0; i < given.count; ++i) {
      const T* diagonal = context.input<T>(0) + (i * given.rows + (lower_ ? 0 : given.rows - 1)) * given.columns;
      if (std::find(diagonal, diagonal + given.columns, T(0)) != diagonal + given.columns) return NotInvertible();
    }
    const int64_t strips = (batch.columns + kStripColumns<S> - 1) / kStripColumns<S>;
    const int64_t work = batch.rows * given.rows * std::min(batch.columns, kStripColumns<S>);  // products
    ParallelRange(context, batch.count * strips, std::max<int64_t>(8 * kElementGrain / work, 1), [&](int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t i = unit / strips, strip = unit % strips;
        const T* matrix = context.input<T>(0) + BroadcastIndex(matrices_, result_, i) * given.elements();
        const T* side = context.input<T>(1) + BroadcastIndex(sides_, result_, i) * batch.elements();
        ForStripRows<S>(batch.columns, strip, strip + 1, [&](auto tag, int64_t first, int64_t count) {
          Solve<typename decltype(tag)::type>(matrix, side + first, count, context.output<T>(0) + i * batch.elements() + first);
        });
      }
    });
    return absl::OkStatus();
  }

 private:
  // Of `count` neighbouring columns. Only as many rows as there are diagonals are kept; they are subtracted in rising order.
  template <typename Row>
  void Solve(const T* matrix, const T* side, int64_t count, T* out) const {
    const MatrixBatch batch(result_), given(matrices_);
    const int64_t n = batch.rows, diagonals = given.rows;
    const bool lower = lower_ != adjoint_;
    const auto element = [&](int64_t at_row, int64_t at_column) { return Element(matrix, diagonals, n, at_row, at_column); };
    const auto mask = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(diagonals))) - 1;
    std::vector<Row> solved(mask + 1);
    for (int64_t step = 0; step < n; ++step) {
      const int64_t row = lower ? step : n - 1 - step;
      const int64_t begin = lower ? std::max<int64_t>(row - diagonals + 1, 0) : row + 1, end = lower ? row : std::min(n, row + diagonals);
      Row sum = {};
      Convert(side + row * batch.columns, count, sum.data());
      for (int64_t j = begin; j < end; ++j) sum.Subtract(element(row, j), solved[j & mask]);
      sum.Divide(element(row, row));
      solved[row & mask] = sum;
      Convert(sum.data(), count, out + row * batch.columns);
    }
  }

  // Of the triangle that is solved for: the matrix's or its adjoint's.
  S Element(const T* matrix, int64_t diagonals, int64_t n, int64_t row, int64_t column) const {
    if (adjoint_) std::swap(row, column);
    const int64_t diagonal = lower_ ? row - column : row - column + diagonals - 1;
    const S value = static_cast<S>(matrix[diagonal * n + row]);
    return adjoint_ ? Eigen::numext::conj(value) : value;
  }

  bool lower_, adjoint_;
  Shape matrices_, sides_, result_;
};

absl::StatusOr<std::unique_ptr<Kernel>> MakeBandedSolve(const OpInstance& node) {
  const MatrixBatch given(node.inputs[0].shape);
  if (given.rows * kWidePart >= given.columns && given.rows > kNarrow) return MakeWideBandedSolve(node);
  return DispatchMatrix(node, node.inputs[0].dtype, [&](auto scalar) -> std::unique_ptr<Kernel> {
    using S = decltype(scalar);
    if (node.inputs[0].dtype == InMemory<S>::kDoubled) return MakeKernel(BandedSolve<S, S>(node));
    return MakeKernel(BandedSolve<S, typename InMemory<S>::Single>(node));
  });
}

}  // namespace

void RegisterBandedKernels(KernelRegistry& registry) { AddKernel(registry, "BandedTriangularSolve", MakeBandedSolve); }

}  // namespace millrace::cpu
