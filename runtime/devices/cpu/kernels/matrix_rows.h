// Matrices by their rows, as they are in memory, and what substitution through the rows of a triangle works with.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_MATRIX_ROWS_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_MATRIX_ROWS_H_

#include <algorithm>
#include <complex>

#include <Eigen/Core>

#include "cpu/kernels/common.h"
#include "cpu/kernels/factor.h"
#include "cpu/kernels/gemm_tile.h"
#include "millrace/status.h"

namespace millrace::cpu {

template <typename S>
using RowsOf = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Between what is in memory and what is computed with.
template <typename From, typename To>
void Convert(const From* from, int64_t n, To* to) {
  std::transform(from, from + n, to, [](const From& value) { return static_cast<To>(value); });
}

// The types in memory of single and double precision for matrices of S.
template <typename S>
struct InMemory {
  using Single = float;
  static constexpr DataType kDoubled = DataType::kDouble;
};
template <>
struct InMemory<std::complex<double>> {
  using Single = std::complex<float>;
  static constexpr DataType kDoubled = DataType::kComplex128;
};

// As LoadMatrix and StoreMatrix of linalg.h.
template <typename S>
RowsOf<S> LoadRows(const KernelContext& context, int input, int64_t i, int64_t rows, int64_t columns);
template <typename S>
void StoreRows(const KernelContext& context, int output, int64_t i, const RowsOf<S>& rows);

// Matrix i of an input of floats or doubles, or its transpose, at `to`; of PaddedElements.
DoublePart LoadPadded(const KernelContext& context, int input, int64_t i, int64_t rows, int64_t columns, bool transposed, double* to);
// Writes matrix i of an output of floats or doubles, or what is the transpose of a [rows, columns].
void StorePart(const KernelContext& context, int output, int64_t i, int64_t rows, int64_t columns, bool transposed, DoublePart from);

inline absl::Status NotInvertible() { return absl::InvalidArgumentError("Input is not invertible."); }

// The number of the matrix of `shape` that matrix `i` of the broadcast batch `out` takes.
inline int64_t BroadcastIndex(const Shape& shape, const Shape& out, int64_t i) {
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

// Some columns of a side, row by row: in registers where there are any for S.
template <typename S>
struct Lane {
  using Type = S;
  static constexpr int kCount = 1;
};
template <>
struct Lane<double> {
  using Type = GemmVector<double>;
  static constexpr int kCount = kGemmLanes<double>;
};
template <typename S, int kLanes>
struct StripRow {
  typename Lane<S>::Type lanes[kLanes];

  static constexpr int kColumns = kLanes * Lane<S>::kCount;
  S* data() { return reinterpret_cast<S*>(lanes); }
  void Subtract(S factor, const StripRow& other) {
    for (int l = 0; l < kLanes; ++l) lanes[l] -= factor * other.lanes[l];
  }
  void Divide(S divisor) {
    for (int l = 0; l < kLanes; ++l) lanes[l] /= divisor;
  }
};

template <typename S>
constexpr int64_t kStripColumns = StripRow<S, 4>::kColumns;

// Calls fn(TypeTag<StripRow>, first column, number of columns) for the strips [begin, end) of `columns`: of rows that hold them.
template <typename S, typename Fn>
void ForStripRows(int64_t columns, int64_t begin, int64_t end, Fn&& fn) {
  for (int64_t strip = begin; strip < end; ++strip) {
    const int64_t first = strip * kStripColumns<S>, count = std::min(kStripColumns<S>, columns - first);
    if (count <= kStripColumns<S> / 4) {
      fn(TypeTag<StripRow<S, 1>>(), first, count);
    } else if (count <= kStripColumns<S> / 2) {
      fn(TypeTag<StripRow<S, 2>>(), first, count);
    } else {
      fn(TypeTag<StripRow<S, 4>>(), first, count);
    }
  }
}

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_MATRIX_ROWS_H_
