// Products with tridiagonal matrices and solutions of tridiagonal systems, each matrix of a batch on its own.
#include <cmath>
#include <limits>
#include <vector>

#include "cpu/kernels/complex.h"
#include "cpu/kernels/rare.h"

namespace millrace::cpu {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

// Gaussian elimination; with pivots a row changes places with the next one where that one's first element is larger, which
// fills a second diagonal above the first. rhs [n, k] is solved where it stands.
template <typename T, typename W>
void Solve(const T* diagonals, int64_t n, int64_t k, bool pivots, W* rhs) {
  std::vector<W> above(diagonals, diagonals + n), middle(diagonals + n, diagonals + 2 * n), second(n, W(0));
  for (int64_t i = 0; i < n; ++i) {
    const W below = i + 1 < n ? static_cast<W>(diagonals[2 * n + i + 1]) : W(0);
    W next_middle = i + 1 < n ? middle[i + 1] : W(0), next_above = i + 2 < n ? above[i + 1] : W(0), lower = below;
    if (i + 1 == n) above[i] = 0;
    if (pivots && std::abs(below) > std::abs(middle[i])) {
      lower = middle[i];
      middle[i] = below;
      std::swap(above[i], next_middle);
      second[i] = next_above;
      next_above = 0;
      std::swap_ranges(rhs + i * k, rhs + (i + 1) * k, rhs + (i + 1) * k);
    }
    if (middle[i] == W(0)) {
      std::fill_n(rhs, n * k, W(std::numeric_limits<double>::quiet_NaN()));  // as TensorFlow says that it is singular
      return;
    }
    if (i + 1 == n) break;
    const W factor = lower / middle[i];
    middle[i + 1] = next_middle - Product(factor, above[i]);
    above[i + 1] = next_above - Product(factor, second[i]);
    for (int64_t c = 0; c < k; ++c) rhs[(i + 1) * k + c] -= Product(factor, rhs[i * k + c]);
  }
  for (int64_t i = n; i-- > 0;) {
    for (int64_t c = 0; c < k; ++c) {
      W value = rhs[i * k + c];
      if (i + 1 < n) value -= Product(above[i], rhs[(i + 1) * k + c]);
      if (i + 2 < n) value -= Product(second[i], rhs[(i + 2) * k + c]);
      rhs[i * k + c] = value / middle[i];
    }
  }
}

// In double precision.
template <typename T>
absl::Status SolveAll(const KernelContext& context) {
  const Shape& shape = context.output_type(0).shape;
  const int64_t n = shape.dim(shape.rank() - 2), k = shape.dim(shape.rank() - 1);
  if (n * k == 0) return absl::OkStatus();
  const bool pivots = context.instance->attrs.GetOr<bool>("partial_pivoting", true);
  using W = std::conditional_t<Eigen::NumTraits<T>::IsComplex, std::complex<double>, double>;
  std::vector<W> rhs(n * k);
  for (int64_t i = 0; i < shape.num_elements() / (n * k); ++i) {
    std::copy_n(context.input<T>(1) + i * n * k, n * k, rhs.begin());
    Solve(context.input<T>(0) + i * 3 * n, n, k, pivots, rhs.data());
    std::transform(rhs.begin(), rhs.end(), context.output<T>(0) + i * n * k, [](W value) { return static_cast<T>(value); });
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status Multiply(const KernelContext& context) {
  const Shape& shape = context.output_type(0).shape;
  const int64_t n = shape.dim(shape.rank() - 2), k = shape.dim(shape.rank() - 1);
  for (int64_t at = 0; k > 0 && at < shape.num_elements() / k; ++at) {
    const int64_t row = at % n;
    for (int64_t c = 0; c < k; ++c) {
      const T* rhs = context.input<T>(3) + at * k + c;
      T value = Product(context.input<T>(1)[at], rhs[0]);
      if (row > 0) value += Product(context.input<T>(2)[at], rhs[-k]);
      if (row + 1 < n) value += Product(context.input<T>(0)[at], rhs[k]);
      context.output<T>(0)[at * k + c] = value;
    }
  }
  return absl::OkStatus();
}

template <bool kSolve>
KernelOr Make(const OpInstance& node) {
  const auto make = [](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([](const KernelContext& context) { return kSolve ? SolveAll<T>(context) : Multiply<T>(context); });
  };
  const DataType dtype = node.outputs[0].dtype;
  if (dtype == DataType::kFloat) return make(TypeTag<float>());
  if (dtype == DataType::kDouble) return make(TypeTag<double>());
  return DispatchComplex(node, dtype, make);
}

}  // namespace

void RegisterTridiagonalKernels(KernelRegistry& registry) {
  AddKernel(registry, "TridiagonalSolve", Make<true>);
  AddKernel(registry, "TridiagonalMatMul", Make<false>);
}

}  // namespace millrace::cpu
