// Cholesky, inverses, determinants and solutions of linear equations.
#include "cpu/kernels/linalg.h"

#include <limits>
#include <vector>

#include <Eigen/Cholesky>
#include <Eigen/LU>

#include "cpu/kernels/factor.h"
#include "cpu/kernels/families.h"
#include "cpu/kernels/matrix_rows.h"
#include "cpu/kernels/widened.h"

namespace millrace::cpu {

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

template <typename S>
void StoreRows(const KernelContext& context, int output, int64_t i, const RowsOf<S>& rows) {
  using Single = typename InMemory<S>::Single;
  const int64_t n = rows.size();
  if (context.output_type(output).dtype == InMemory<S>::kDoubled) {
    Convert(rows.data(), n, static_cast<S*>(context.outputs[output]) + i * n);
  } else {
    Convert(rows.data(), n, static_cast<Single*>(context.outputs[output]) + i * n);
  }
}

namespace {

// Calls fn(elements) for those of matrix i, of n elements each, of a tensor of floats or doubles.
template <typename Fn>
void WithElements(DataType dtype, void* tensor, int64_t i, int64_t n, Fn&& fn) {
  dtype == DataType::kDouble ? fn(static_cast<double*>(tensor) + i * n) : fn(static_cast<float*>(tensor) + i * n);
}
template <typename Fn>
void WithInput(const KernelContext& context, int input, int64_t i, int64_t n, Fn&& fn) {
  WithElements(context.input_type(input).dtype, const_cast<void*>(context.inputs[input]), i, n, fn);
}
template <typename Fn>
void WithOutput(const KernelContext& context, int output, int64_t i, int64_t n, Fn&& fn) {
  WithElements(context.output_type(output).dtype, context.outputs[output], i, n, fn);
}

// Of [rows, columns] with these steps from row to row. Transposes go by squares that caches hold.
template <typename From, typename To>
void Copy(int64_t rows, int64_t columns, bool transposed, const From* from, int64_t from_step, To* to, int64_t to_step) {
  constexpr int64_t kSquare = 8;
  for (int64_t i = 0; i < rows; i += transposed ? kSquare : 1) {
    if (!transposed) Convert(from + i * from_step, columns, to + i * to_step);
    for (int64_t j = 0; transposed && j < columns; j += kSquare) {
      for (int64_t row = i; row < std::min(i + kSquare, rows); ++row) {
        for (int64_t column = j; column < std::min(j + kSquare, columns); ++column) {
          to[column * to_step + row] = static_cast<To>(from[row * from_step + column]);
        }
      }
    }
  }
}

}  // namespace

DoublePart LoadPadded(const KernelContext& context, int input, int64_t i, int64_t rows, int64_t columns, bool transposed, double* to) {
  const DoublePart part = transposed ? PaddedZeros(to, columns, rows) : PaddedZeros(to, rows, columns);
  WithInput(context, input, i, rows * columns, [&](const auto* from) { Copy(rows, columns, transposed, from, columns, part.data, part.step); });
  return part;
}

void StorePart(const KernelContext& context, int output, int64_t i, int64_t rows, int64_t columns, bool transposed, DoublePart from) {
  WithOutput(context, output, i, rows * columns,
             [&](auto* to) { Copy(rows, columns, transposed, from.data, from.step, to, transposed ? rows : columns); });
}

template <typename S>
MatrixOf<S> LoadMatrix(const KernelContext& context, int input, int64_t i, int64_t rows, int64_t columns) {
  return LoadRows<S>(context, input, i, rows, columns);
}

template <typename S>
void StoreMatrix(const KernelContext& context, int output, int64_t i, const MatrixOf<S>& matrix) {
  StoreRows<S>(context, output, i, matrix);
}

template RowsOf<double> LoadRows<double>(const KernelContext&, int, int64_t, int64_t, int64_t);
template RowsOf<std::complex<double>> LoadRows<std::complex<double>>(const KernelContext&, int, int64_t, int64_t, int64_t);
template void StoreRows<double>(const KernelContext&, int, int64_t, const RowsOf<double>&);
template void StoreRows<std::complex<double>>(const KernelContext&, int, int64_t, const RowsOf<std::complex<double>>&);
template MatrixOf<double> LoadMatrix<double>(const KernelContext&, int, int64_t, int64_t, int64_t);
template MatrixOf<std::complex<double>> LoadMatrix<std::complex<double>>(const KernelContext&, int, int64_t, int64_t, int64_t);
template void StoreMatrix<double>(const KernelContext&, int, int64_t, const MatrixOf<double>&);
template void StoreMatrix<std::complex<double>>(const KernelContext&, int, int64_t, const MatrixOf<std::complex<double>>&);

namespace {

using Complex = std::complex<double>;

// Input 0's matrix i, or its adjoint, with its rows exchanged as a product of two triangles.
template <typename S>
class Lu;
template <>
class Lu<double> {
 public:
  static int64_t workspace(int64_t n) { return PaddedElements(n, n); }

  Lu(const KernelContext& context, int64_t i, int64_t n, bool adjoint, double* workspace)
      : context_(context), i_(i), n_(n), a_(LoadPadded(context, 0, i, n, n, adjoint, workspace)), rest_(workspace + PaddedElements(n, n)), source_(n) {
    sign_ = FactorLu(n, a_, source_.data());
  }

  int64_t n() const { return n_; }
  double pivot(int64_t k) const { return a_(k, k); }
  // The row that became this one.
  int64_t source(int64_t row) const { return source_[row]; }
  // Of the exchanges.
  double sign() const { return sign_; }
  // Both triangles, to output 0, as what follows.
  void StoreFactors() const { StorePart(context_, 0, i_, n_, n_, false, a_); }
  // These require pivots that are not 0, and a workspace that has room for the result, too.
  void StoreInverse() const {
    const DoublePart x = PaddedZeros(rest_, n_, n_);
    InvertByLu(n_, a_, x);
    WithOutput(context_, 0, i_, n_ * n_, [&](auto* to) {
      for (int64_t row = 0; row < n_; ++row) {
        for (int64_t k = 0; k < n_; ++k) to[row * n_ + source_[k]] = static_cast<std::decay_t<decltype(*to)>>(x(row, k));
      }
    });
  }
  void StoreSolution(int64_t columns) const {
    const DoublePart x = PaddedZeros(rest_, n_, columns);
    WithInput(context_, 1, i_, n_ * columns, [&](const auto* side) {
      for (int64_t row = 0; row < n_; ++row) Convert(side + source_[row] * columns, columns, x.row(row));
    });
    SolveByLu(n_, a_, columns, x);
    StorePart(context_, 0, i_, n_, columns, false, x);
  }

 private:
  const KernelContext& context_;
  int64_t i_, n_;
  DoublePart a_;
  double* rest_;
  std::vector<int64_t> source_;
  double sign_;
};
template <>
class Lu<Complex> {
 public:
  Lu(const KernelContext& context, int64_t i, int64_t n, bool adjoint, double*) : context_(context), i_(i) {
    MatrixOf<Complex> matrix = LoadMatrix<Complex>(context, 0, i, n, n);
    if (adjoint) matrix.adjointInPlace();
    lu_.compute(matrix);
    sources_ = lu_.permutationP().transpose();
  }

  int64_t n() const { return lu_.rows(); }
  Complex pivot(int64_t k) const { return lu_.matrixLU()(k, k); }
  int64_t source(int64_t row) const { return sources_.indices()[row]; }
  double sign() const { return static_cast<double>(lu_.permutationP().determinant()); }
  void StoreFactors() const { StoreMatrix<Complex>(context_, 0, i_, lu_.matrixLU()); }
  void StoreInverse() const { StoreMatrix<Complex>(context_, 0, i_, lu_.inverse()); }
  void StoreSolution(int64_t columns) const { StoreMatrix<Complex>(context_, 0, i_, lu_.solve(LoadMatrix<Complex>(context_, 1, i_, n(), columns))); }

 private:
  const KernelContext& context_;
  int64_t i_;
  Eigen::PartialPivLU<MatrixOf<Complex>> lu_;
  Eigen::PermutationMatrix<Eigen::Dynamic> sources_;
};

// As in TensorFlow NaN passes: it gives NaN.
template <typename S>
absl::Status CheckInvertible(const Lu<S>& lu) {
  for (int64_t k = 0; k < lu.n(); ++k) {
    if (lu.pivot(k) == S(0)) return NotInvertible();
  }
  return absl::OkStatus();
}

// As in TensorFlow a matrix that is not positive definite gives NaN, no error.
constexpr double kNoFactor = std::numeric_limits<double>::quiet_NaN();

void RunCholesky(double, const KernelContext& context, int64_t i, int64_t n, double* workspace) {
  const DoublePart upper = LoadPadded(context, 0, i, n, n, true, workspace);
  const bool is_positive = FactorPositive(n, upper);
  for (int64_t row = 0; row < n; ++row) {
    std::fill_n(upper.row(row), row, 0.0);
    if (!is_positive) std::fill(upper.row(row) + row, upper.row(row) + n, kNoFactor);
  }
  StorePart(context, 0, i, n, n, true, upper);
}
void RunCholesky(Complex, const KernelContext& context, int64_t i, int64_t n, double*) {
  const Eigen::LLT<MatrixOf<Complex>> factor(LoadMatrix<Complex>(context, 0, i, n, n));
  MatrixOf<Complex> lower = factor.matrixL();
  if (factor.info() != Eigen::Success) lower.template triangularView<Eigen::Lower>().setConstant(kNoFactor);
  StoreMatrix<Complex>(context, 0, i, lower);
}

// Makes a kernel that calls fn(S(), context, i, n, workspace) -> Status for every matrix that has elements.
template <typename Fn>
absl::StatusOr<std::unique_ptr<Kernel>> EachSquare(const OpInstance& node, int64_t doubles, Fn fn) {
  return EachMatrixIn(node, doubles, [fn](auto scalar, const KernelContext& context, const MatrixBatch& batch, int64_t i, double* workspace) {
    return batch.rows == 0 ? absl::OkStatus() : fn(scalar, context, i, batch.rows, workspace);
  });
}
int64_t SideOf(const OpInstance& node) { return MatrixBatch(node.inputs[0].shape).rows; }

absl::StatusOr<std::unique_ptr<Kernel>> MakeCholesky(const OpInstance& node) {
  return EachSquare(node, Lu<double>::workspace(SideOf(node)), [](auto scalar, const KernelContext& context, int64_t i, int64_t n, double* workspace) {
    RunCholesky(scalar, context, i, n, workspace);
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
  const int64_t doubles = Lu<double>::workspace(SideOf(node)) + PaddedElements(SideOf(node), SideOf(node));
  return EachSquare(node, doubles, [=](auto scalar, const KernelContext& context, int64_t i, int64_t n, double* workspace) -> absl::Status {
    const Lu<decltype(scalar)> lu(context, i, n, adjoint, workspace);
    MR_RETURN_IF_ERROR(CheckInvertible(lu));
    lu.StoreInverse();
    return absl::OkStatus();
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeLu(const OpInstance& node) {
  const int64_t doubles = Lu<double>::workspace(SideOf(node));
  return EachSquare(node, doubles, [](auto scalar, const KernelContext& context, int64_t i, int64_t n, double* workspace) -> absl::Status {
    const Lu<decltype(scalar)> lu(context, i, n, false, workspace);
    MR_RETURN_IF_ERROR(CheckInvertible(lu));
    lu.StoreFactors();
    for (int64_t k = 0; k < n; ++k) {
      if (context.output_type(1).dtype == DataType::kInt64) {
        context.output<int64_t>(1)[i * n + k] = lu.source(k);
      } else {
        context.output<int32_t>(1)[i * n + k] = static_cast<int32_t>(lu.source(k));
      }
    }
    return absl::OkStatus();
  });
}

template <typename S>
void StoreNumber(const KernelContext& context, int output, int64_t i, S value) {
  StoreMatrix<S>(context, output, i, MatrixOf<S>::Constant(1, 1, value));
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeDeterminant(const OpInstance& node) {
  const int64_t doubles = Lu<double>::workspace(SideOf(node));
  return EachMatrixIn(node, doubles, [](auto scalar, const KernelContext& context, const MatrixBatch& batch, int64_t i, double* workspace) {
    using S = decltype(scalar);
    S value = 1;
    if (batch.rows > 0) {
      const Lu<S> lu(context, i, batch.rows, false, workspace);
      value = lu.sign();
      for (int64_t k = 0; k < lu.n(); ++k) value *= lu.pivot(k);
    }
    StoreNumber(context, 0, i, value);
    return absl::OkStatus();
  });
}

// The number of size 1 in that direction; 0 and NaN have none but themselves.
double Direction(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
Complex Direction(Complex x) {
  const double size = std::abs(x);
  return size > 0 ? x / size : x;
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeLogDeterminant(const OpInstance& node) {
  const int64_t doubles = Lu<double>::workspace(SideOf(node));
  return EachMatrixIn(node, doubles, [](auto scalar, const KernelContext& context, const MatrixBatch& batch, int64_t i, double* workspace) {
    using S = decltype(scalar);
    S sign = 1;
    double sum = 0;
    if (batch.rows > 0) {
      const Lu<S> lu(context, i, batch.rows, false, workspace);
      sign = lu.sign();
      for (int64_t k = 0; k < lu.n(); ++k) {
        sign *= Direction(lu.pivot(k));
        sum += std::log(std::abs(lu.pivot(k)));
      }
    }
    StoreNumber<S>(context, 0, i, sign);
    StoreNumber<S>(context, 1, i, sum);
    return absl::OkStatus();
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeSolve(const OpInstance& node) {
  const bool adjoint = node.attrs.GetOr<bool>("adjoint", false);
  const int64_t columns = node.inputs[1].shape.dim(node.inputs[1].shape.rank() - 1);
  const int64_t doubles = Lu<double>::workspace(SideOf(node)) + PaddedElements(SideOf(node), columns);
  return EachSquare(node, doubles, [=](auto scalar, const KernelContext& context, int64_t i, int64_t n, double* workspace) -> absl::Status {
    if (columns == 0) return absl::OkStatus();
    const Lu<decltype(scalar)> lu(context, i, n, adjoint, workspace);
    MR_RETURN_IF_ERROR(CheckInvertible(lu));
    lu.StoreSolution(columns);
    return absl::OkStatus();
  });
}

// x of triangle * x = side, by substitution, in place of the side. From every row the others are subtracted in rising order.
template <typename Row, typename S>
void SolveLower(const RowsOf<S>& triangle, Row* x) {
  ForRowGroups<4>(triangle.rows(), [&](auto count, int64_t group) {
    Row sums[count()];
    std::copy_n(x + group, count(), sums);
    for (int64_t j = 0; j < group; ++j) {
      for (int i = 0; i < count(); ++i) sums[i].Subtract(triangle(group + i, j), x[j]);
    }
    for (int i = 0; i < count(); ++i) {
      const int64_t row = group + i;
      for (int64_t j = group; j < row; ++j) sums[i].Subtract(triangle(row, j), x[j]);
      sums[i].Divide(triangle(row, row));
      x[row] = sums[i];
    }
  });
}
template <typename Row, typename S>
void SolveUpper(const RowsOf<S>& triangle, Row* x) {
  const int64_t n = triangle.rows();
  for (int64_t row = n - 1; row >= 0; --row) {
    Row sum = x[row];
    for (int64_t j = row + 1; j < n; ++j) sum.Subtract(triangle(row, j), x[j]);
    sum.Divide(triangle(row, row));
    x[row] = sum;
  }
}

template <typename S>
struct Triangle {
  RowsOf<S> rows;
  bool lower;
};

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

// Strips [begin, end) of a side of `columns`.
template <typename S, typename T>
void SolveStrips(const Triangle<S>& triangle, const T* side, int64_t columns, int64_t begin, int64_t end, T* out) {
  const int64_t n = triangle.rows.rows();
  ForStripRows<S>(columns, begin, end, [&](auto tag, int64_t first, int64_t count) {
    std::vector<typename decltype(tag)::type> x(n);
    for (int64_t row = 0; row < n; ++row) Convert(side + row * columns + first, count, x[row].data());
    triangle.lower ? SolveLower(triangle.rows, x.data()) : SolveUpper(triangle.rows, x.data());
    for (int64_t row = 0; row < n; ++row) Convert(x[row].data(), count, out + row * columns + first);
  });
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
      if ((bands.row(lower_ ? 0 : given.rows - 1).array() == S(0)).any()) return NotInvertible();
    }
    return absl::OkStatus();
  }

  void Solve(const KernelContext& context, int64_t i, int64_t strips, int64_t grain) const {
    const MatrixBatch batch(result_), given(matrices_);
    Triangle<S> triangle = {LoadRows<S>(context, 0, BroadcastIndex(matrices_, result_, i), given.rows, given.columns), lower_ != adjoint_};
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

absl::StatusOr<std::unique_ptr<Kernel>> MakeWideBandedSolve(const OpInstance& node) { return MakeTriangularSolve<true>(node); }

void RegisterLinalgKernels(KernelRegistry& registry) {
  // Eigen would cut its products by the number of OpenMP's threads, which no result may depend on.
  Eigen::setNbThreads(1);
  RegisterBandedKernels(registry);
  AddKernel(registry, "CholeskyGrad", MakeCholeskyGrad);
  AddKernel(registry, "Cholesky", MakeCholesky);
  AddKernel(registry, "MatrixInverse", Widened(MakeInverse));
  AddKernel(registry, "Lu", MakeLu);
  AddKernel(registry, "MatrixDeterminant", MakeDeterminant);
  AddKernel(registry, "LogMatrixDeterminant", MakeLogDeterminant);
  AddKernel(registry, "MatrixSolve", MakeSolve);
  AddKernel(registry, "MatrixTriangularSolve", MakeTriangularSolve<false>);
}

}  // namespace millrace::cpu
