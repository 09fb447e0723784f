// Cholesky, inverses, determinants and solutions of linear equations.
#include "cpu/kernels/linalg.h"

#include <limits>
#include <vector>

#include <Eigen/Cholesky>
#include <Eigen/LU>

#include "cpu/kernels/families.h"
#include "cpu/kernels/gemm_tile.h"
#include "cpu/kernels/widened.h"

namespace millrace::cpu {

namespace {

// As in memory.
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

template <typename S>
RowsOf<S> LoadRows(const KernelContext& context, int input, int64_t i, int64_t rows, int64_t columns) {
  using Single = typename InMemory<S>::Single;
  RowsOf<S> matrix(rows, columns);
  const int64_t n = matrix.size();
  if (context.input_type(input).dtype == InMemory<S>::kDoubled) {
    Convert(static_cast<const S*>(context.inputs[input]) + i * n, n, matrix.data());
  } else {
    Convert(static_cast<const Single*>(context.inputs[input]) + i * n, n, matrix.data());
  }
  return matrix;
}

}  // namespace

template <typename S>
MatrixOf<S> LoadMatrix(const KernelContext& context, int input, int64_t i, int64_t rows, int64_t columns) {
  return LoadRows<S>(context, input, i, rows, columns);
}

template <typename S>
void StoreMatrix(const KernelContext& context, int output, int64_t i, const MatrixOf<S>& matrix) {
  using Single = typename InMemory<S>::Single;
  const RowsOf<S> rows = matrix;
  const int64_t n = matrix.size();
  if (context.output_type(output).dtype == InMemory<S>::kDoubled) {
    Convert(rows.data(), n, static_cast<S*>(context.outputs[output]) + i * n);
  } else {
    Convert(rows.data(), n, static_cast<Single*>(context.outputs[output]) + i * n);
  }
}

template MatrixOf<double> LoadMatrix<double>(const KernelContext&, int, int64_t, int64_t, int64_t);
template MatrixOf<std::complex<double>> LoadMatrix<std::complex<double>>(const KernelContext&, int, int64_t, int64_t, int64_t);
template void StoreMatrix<double>(const KernelContext&, int, int64_t, const MatrixOf<double>&);
template void StoreMatrix<std::complex<double>>(const KernelContext&, int, int64_t, const MatrixOf<std::complex<double>>&);

namespace {

template <typename S>
using Lu = Eigen::PartialPivLU<MatrixOf<S>>;

absl::Status NotInvertible() { return absl::InvalidArgumentError("Input is not invertible."); }

template <typename S>
absl::Status CheckInvertible(const Lu<S>& lu) {
  return lu.matrixLU().diagonal().cwiseAbs().minCoeff() > 0 ? absl::OkStatus() : NotInvertible();
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeCholesky(const OpInstance& node) {
  return EachMatrix(node, [](auto scalar, const KernelContext& context, const MatrixBatch& batch, int64_t i) -> absl::Status {
    using S = decltype(scalar);
    const int64_t n = batch.rows;
    if (n == 0) return absl::OkStatus();
    const Eigen::LLT<MatrixOf<S>> factor(LoadMatrix<S>(context, 0, i, n, n));
    MatrixOf<S> out = factor.matrixL();
    // As in TensorFlow a matrix that is not positive definite gives NaN, no error.
    if (factor.info() != Eigen::Success) {
      out.template triangularView<Eigen::Lower>().setConstant(std::numeric_limits<double>::quiet_NaN());
    }
    StoreMatrix<S>(context, 0, i, out);
    return absl::OkStatus();
  });
}

// (L, gradient of L). With P the lower triangle of L^T times the gradient, its diagonal halved: the symmetric part of L^-T P L^-1.
absl::StatusOr<std::unique_ptr<Kernel>> MakeCholeskyGrad(const OpInstance& node) {
  return EachRealMatrix(node, [](const KernelContext& context, const MatrixBatch& batch, int64_t i) -> absl::Status {
    const int64_t n = batch.rows;
    if (n == 0) return absl::OkStatus();
    const MatrixOf<double> factor = LoadMatrix<double>(context, 0, i, n, n), gradient = LoadMatrix<double>(context, 1, i, n, n);
    const auto lower = factor.triangularView<Eigen::Lower>();
    const MatrixOf<double> of_factor = gradient.triangularView<Eigen::Lower>();
    const MatrixOf<double> product = lower.transpose() * of_factor;
    MatrixOf<double> middle = product.triangularView<Eigen::Lower>();
    middle.diagonal() *= 0.5;
    lower.transpose().solveInPlace(middle);
    lower.solveInPlace<Eigen::OnTheRight>(middle);
    StoreMatrix<double>(context, 0, i, (middle + middle.transpose()) * 0.5);
    return absl::OkStatus();
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeInverse(const OpInstance& node) {
  const bool adjoint = node.attrs.GetOr<bool>("adjoint", false);
  return EachMatrix(node, [adjoint](auto scalar, const KernelContext& context, const MatrixBatch& batch, int64_t i) -> absl::Status {
    using S = decltype(scalar);
    const int64_t n = batch.rows;
    if (n == 0) return absl::OkStatus();
    MatrixOf<S> in = LoadMatrix<S>(context, 0, i, n, n);
    if (adjoint) in.adjointInPlace();
    const Lu<S> lu(in);
    MR_RETURN_IF_ERROR(CheckInvertible(lu));
    StoreMatrix<S>(context, 0, i, lu.inverse());
    return absl::OkStatus();
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeLu(const OpInstance& node) {
  return EachMatrix(node, [](auto scalar, const KernelContext& context, const MatrixBatch& batch, int64_t i) -> absl::Status {
    using S = decltype(scalar);
    const int64_t n = batch.rows;
    if (n == 0) return absl::OkStatus();
    const Lu<S> lu(LoadMatrix<S>(context, 0, i, n, n));
    MR_RETURN_IF_ERROR(CheckInvertible(lu));
    StoreMatrix<S>(context, 0, i, lu.matrixLU());
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
  return EachMatrix(node, [](auto scalar, const KernelContext& context, const MatrixBatch& batch, int64_t i) {
    using S = decltype(scalar);
    const int64_t n = batch.rows;
    const S value = n == 0 ? S(1) : Lu<S>(LoadMatrix<S>(context, 0, i, n, n)).determinant();
    StoreMatrix<S>(context, 0, i, MatrixOf<S>::Constant(1, 1, value));
    return absl::OkStatus();
  });
}

// The number of size 1 in that direction; 0 and NaN have none but themselves.
double Direction(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
std::complex<double> Direction(std::complex<double> x) {
  const double size = std::abs(x);
  return size > 0 ? x / size : x;
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeLogDeterminant(const OpInstance& node) {
  return EachMatrix(node, [](auto scalar, const KernelContext& context, const MatrixBatch& batch, int64_t i) {
    using S = decltype(scalar);
    const int64_t n = batch.rows;
    S sign = 1;
    double sum = 0;
    if (n > 0) {
      const Lu<S> lu(LoadMatrix<S>(context, 0, i, n, n));
      sign = static_cast<S>(static_cast<double>(lu.permutationP().determinant()));
      for (int64_t k = 0; k < n; ++k) {
        const S pivot = lu.matrixLU()(k, k);
        sign *= Direction(pivot);
        sum += std::log(std::abs(pivot));
      }
    }
    StoreMatrix<S>(context, 0, i, MatrixOf<S>::Constant(1, 1, sign));
    StoreMatrix<S>(context, 1, i, MatrixOf<S>::Constant(1, 1, sum));
    return absl::OkStatus();
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeSolve(const OpInstance& node) {
  const bool adjoint = node.attrs.GetOr<bool>("adjoint", false);
  const int64_t columns = node.inputs[1].shape.dim(node.inputs[1].shape.rank() - 1);
  return EachMatrix(node, [=](auto scalar, const KernelContext& context, const MatrixBatch& batch, int64_t i) -> absl::Status {
    using S = decltype(scalar);
    const int64_t n = batch.rows;
    if (n == 0 || columns == 0) return absl::OkStatus();
    MatrixOf<S> in = LoadMatrix<S>(context, 0, i, n, n);
    if (adjoint) in.adjointInPlace();
    const Lu<S> lu(in);
    MR_RETURN_IF_ERROR(CheckInvertible(lu));
    StoreMatrix<S>(context, 0, i, lu.solve(LoadMatrix<S>(context, 1, i, n, columns)));
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

// x of triangle * x = side, by substitution, in place of the side. Beside the first `bands` diagonals, the main one among them,
// there is nothing. From every row the others are subtracted in rising order.
template <typename Row, typename S>
void SolveLower(const RowsOf<S>& triangle, int64_t bands, Row* x) {
  const auto first_of = [bands](int64_t row) { return std::max<int64_t>(0, row - bands + 1); };
  ForRowGroups<4>(triangle.rows(), [&](auto count, int64_t group) {
    const int64_t shared = std::min(first_of(group + count() - 1), group);  // from there all rows of the group have columns
    Row sums[count()];
    for (int i = 0; i < count(); ++i) {
      sums[i] = x[group + i];
      for (int64_t j = first_of(group + i); j < shared; ++j) sums[i].Subtract(triangle(group + i, j), x[j]);
    }
    for (int64_t j = shared; j < group; ++j) {
      for (int i = 0; i < count(); ++i) sums[i].Subtract(triangle(group + i, j), x[j]);
    }
    for (int i = 0; i < count(); ++i) {
      const int64_t row = group + i;
      for (int64_t j = std::max(group, first_of(row)); j < row; ++j) sums[i].Subtract(triangle(row, j), x[j]);
      sums[i].Divide(triangle(row, row));
      x[row] = sums[i];
    }
  });
}
template <typename Row, typename S>
void SolveUpper(const RowsOf<S>& triangle, int64_t bands, Row* x) {
  const int64_t n = triangle.rows();
  for (int64_t row = n - 1; row >= 0; --row) {
    Row sum = x[row];
    for (int64_t j = row + 1; j < std::min(n, row + bands); ++j) sum.Subtract(triangle(row, j), x[j]);
    sum.Divide(triangle(row, row));
    x[row] = sum;
  }
}

template <typename S>
struct Triangle {
  RowsOf<S> rows;
  bool lower;
  int64_t bands;
};

// Of `side`, rows of `step` elements, the first `columns`, which a StripRow holds.
template <int kLanes, typename S, typename T>
void SolveStrip(const Triangle<S>& triangle, const T* side, int64_t step, int64_t columns, T* out) {
  using Row = StripRow<S, kLanes>;
  const int64_t n = triangle.rows.rows();
  std::vector<Row> x(n);
  for (int64_t row = 0; row < n; ++row) Convert(side + row * step, columns, x[row].data());
  triangle.lower ? SolveLower(triangle.rows, triangle.bands, x.data()) : SolveUpper(triangle.rows, triangle.bands, x.data());
  for (int64_t row = 0; row < n; ++row) Convert(x[row].data(), columns, out + row * step);
}

// By squares that caches hold.
template <typename S>
RowsOf<S> Adjoint(const RowsOf<S>& matrix) {
  constexpr int64_t kSquare = 8;
  const int64_t n = matrix.rows();
  RowsOf<S> adjoint(n, n);
  for (int64_t i = 0; i < n; i += kSquare) {
    for (int64_t j = 0; j < n; j += kSquare) {
      const int64_t rows = std::min(kSquare, n - i), columns = std::min(kSquare, n - j);
      adjoint.block(j, i, columns, rows) = matrix.block(i, j, rows, columns).adjoint();
    }
  }
  return adjoint;
}

template <typename S>
constexpr int64_t kStripColumns = StripRow<S, 4>::kColumns;

// Strips [begin, end) of a side of `columns`.
template <typename S, typename T>
void SolveStrips(const Triangle<S>& triangle, const T* side, int64_t columns, int64_t begin, int64_t end, T* out) {
  for (int64_t strip = begin; strip < end; ++strip) {
    const int64_t first = strip * kStripColumns<S>, count = std::min(kStripColumns<S>, columns - first);
    if (count <= kStripColumns<S> / 4) {
      SolveStrip<1>(triangle, side + first, columns, count, out + first);
    } else if (count <= kStripColumns<S> / 2) {
      SolveStrip<2>(triangle, side + first, columns, count, out + first);
    } else {
      SolveStrip<4>(triangle, side + first, columns, count, out + first);
    }
  }
}

// Rows of a triangle that has only some diagonals beside the main one, which is the first of them from above where the triangle
// is the lower one, the last where it is the upper one.
template <typename S>
RowsOf<S> TriangleOfBands(const RowsOf<S>& bands, bool lower) {
  const int64_t n = bands.cols(), count = bands.rows();
  RowsOf<S> triangle = RowsOf<S>::Zero(n, n);
  for (int64_t band = 0; band < count; ++band) {
    const int64_t below = lower ? band : band - (count - 1);
    for (int64_t row = std::max<int64_t>(below, 0); row < n && row - below < n; ++row) {
      triangle(row, row - below) = bands(band, row);
    }
  }
  return triangle;
}

// MatrixTriangularSolve, or BandedTriangularSolve whose matrices are given by their diagonals.
template <bool kBanded, typename S>
class TriangularSolve {
 public:
  explicit TriangularSolve(const OpInstance& node)
      : lower_(node.attrs.GetOr<bool>("lower", true)),
        adjoint_(node.attrs.GetOr<bool>("adjoint", false)),
        matrices_(node.inputs[0].shape),
        sides_(node.inputs[1].shape),
        result_(node.outputs[0].shape) {}

  absl::Status operator()(const KernelContext& context) const {
    const MatrixBatch batch(result_);
    if (batch.elements() == 0) return absl::OkStatus();
    if (kBanded) {
      MR_RETURN_IF_ERROR(CheckDiagonals(context));
    }
    // Of one matrix in memory at a time the columns are shared out. The matrices are where there is little to do or only a strip, and
    // where there are many of a size that one of every shard may be in memory.
    const int64_t strips = (batch.columns + kStripColumns<S> - 1) / kStripColumns<S>;
    const int64_t work = batch.rows * batch.rows * batch.columns;
    const bool side_by_side = batch.count >= kMaxShards && batch.rows * batch.rows <= 512 * 512;
    if (strips > 1 && work >= 2 * kGrain && !side_by_side) {
      for (int64_t i = 0; i < batch.count; ++i) Solve(context, i, strips, std::max<int64_t>(kGrain * strips / work, 1));
    } else {
      ParallelRange(context, batch.count, std::max<int64_t>(kGrain / work, 1), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) Solve(context, i, strips, strips);
      });
    }
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kGrain = 8 * kElementGrain;  // products

  absl::Status CheckDiagonals(const KernelContext& context) const {
    const MatrixBatch given(matrices_);
    for (int64_t i = 0; i < given.count; ++i) {
      const RowsOf<S> bands = LoadRows<S>(context, 0, i, given.rows, given.columns);
      if (given.rows == 0 || bands.row(lower_ ? 0 : given.rows - 1).cwiseAbs().minCoeff() == 0) return NotInvertible();
    }
    return absl::OkStatus();
  }

  void Solve(const KernelContext& context, int64_t i, int64_t strips, int64_t grain) const {
    const MatrixBatch batch(result_), given(matrices_);
    Triangle<S> triangle = {LoadRows<S>(context, 0, BroadcastIndex(matrices_, result_, i), given.rows, given.columns), lower_ != adjoint_, given.rows};
    if (kBanded) triangle.rows = TriangleOfBands<S>(triangle.rows, lower_);
    if (adjoint_) triangle.rows = Adjoint(triangle.rows);
    const auto solve = [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T* side = context.input<T>(1) + BroadcastIndex(sides_, result_, i) * batch.elements();
      ParallelRange(context, strips, grain, [&](int64_t begin, int64_t end) {
        SolveStrips(triangle, side, batch.columns, begin, end, context.output<T>(0) + i * batch.elements());
      });
    };
    context.input_type(1).dtype == InMemory<S>::kDoubled ? solve(TypeTag<S>()) : solve(TypeTag<typename InMemory<S>::Single>());
  }

  bool lower_, adjoint_;
  Shape matrices_, sides_, result_;
};

template <bool kBanded>
absl::StatusOr<std::unique_ptr<Kernel>> MakeTriangularSolve(const OpInstance& node) {
  return DispatchMatrix(node, node.inputs[0].dtype, [&](auto scalar) -> std::unique_ptr<Kernel> {
    return MakeKernel(TriangularSolve<kBanded, decltype(scalar)>(node));
  });
}

}  // namespace

void RegisterLinalgKernels(KernelRegistry& registry) {
  // Eigen would cut its products by the number of OpenMP's threads, which no result may depend on.
  Eigen::setNbThreads(1);
  AddKernel(registry, "CholeskyGrad", MakeCholeskyGrad);
  AddKernel(registry, "Cholesky", MakeCholesky);
  AddKernel(registry, "MatrixInverse", Widened(MakeInverse));
  AddKernel(registry, "Lu", MakeLu);
  AddKernel(registry, "MatrixDeterminant", MakeDeterminant);
  AddKernel(registry, "LogMatrixDeterminant", MakeLogDeterminant);
  AddKernel(registry, "MatrixSolve", MakeSolve);
  AddKernel(registry, "MatrixTriangularSolve", MakeTriangularSolve<false>);
  AddKernel(registry, "BandedTriangularSolve", MakeTriangularSolve<true>);
}

}  // namespace millrace::cpu
