// Sums and products of complex numbers: AddN, reductions over axes, running totals, matrix products.
#include <vector>

#include "cpu/kernels/complex.h"
#include "cpu/kernels/gemm_tile.h"
#include "cpu/kernels/reduce.h"
#include "cpu/kernels/values.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

absl::StatusOr<std::unique_ptr<Kernel>> MakeAddN(const OpInstance& node) {
  const int64_t n = node.outputs[0].shape.num_elements();
  const int count = static_cast<int>(node.inputs.size());
  return DispatchComplex(node, node.outputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using C = typename decltype(tag)::type;
    return MakeKernel([n, count](const KernelContext& context) {
      for (int64_t i = 0; i < n; ++i) {
        C sum = context.input<C>(0)[i];
        for (int k = 1; k < count; ++k) sum += context.input<C>(k)[i];
        context.output<C>(0)[i] = sum;
      }
      return absl::OkStatus();
    });
  });
}

enum class Total { kSum, kMean, kProd, kNorm };  // the norm is the root of the sum of squared magnitudes

// Per dimension of the input how far its index moves the result; 0 along reduced axes.
absl::StatusOr<std::vector<int64_t>> ResultStrides(const Shape& shape, const Ints& axes) {
  std::vector<bool> reduced(shape.rank(), false);
  for (int64_t given : axes) {
    MR_ASSIGN_OR_RETURN(const int axis, ResolveAxis(given, shape.rank()));
    reduced[axis] = true;
  }
  std::vector<int64_t> strides(shape.rank(), 0);
  int64_t stride = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    if (reduced[d]) continue;
    strides[d] = stride;
    stride *= shape.dim(d);
  }
  return strides;
}

// BiasAddGrad's: the channels are kept.
std::vector<int64_t> ChannelStrides(const OpInstance& node) {
  const int rank = node.inputs[0].shape.rank();
  std::vector<int64_t> strides(rank, 0);
  strides[node.attrs.GetOr<std::string>("data_format", "NHWC") == "NCHW" ? 1 : rank - 1] = 1;
  return strides;
}

// The elements in order, each onto its sum (in double precision, in the scratch).
template <typename C, Total kTotal>
void Reduce(const KernelContext& context, const std::vector<int64_t>& strides) {
  const Shape& shape = context.input_type(0).shape;
  const int64_t elements = shape.num_elements(), results = context.output_type(0).shape.num_elements();
  auto* sums = static_cast<std::complex<double>*>(context.scratch);
  std::fill(sums, sums + results, kTotal == Total::kProd ? 1.0 : 0.0);
  std::vector<int64_t> index(shape.rank(), 0);
  int64_t to = 0;
  for (int64_t i = 0; i < elements; ++i) {
    std::complex<double> x(context.input<C>(0)[i]);
    if (kTotal == Total::kNorm) x = std::norm(x);
    sums[to] = kTotal == Total::kProd ? Times(sums[to], x) : sums[to] + x;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      to += strides[d];
      if (++index[d] < shape.dim(d)) break;
      to -= strides[d] * shape.dim(d);
      index[d] = 0;
    }
  }
  const double count = static_cast<double>(elements) / static_cast<double>(std::max<int64_t>(results, 1));
  for (int64_t i = 0; i < results; ++i) {
    if (kTotal == Total::kMean && elements > 0) sums[i] /= count;  // of nothing it is 0, other than of real numbers
    if (kTotal == Total::kNorm) sums[i] = std::sqrt(sums[i].real());
    context.output<C>(0)[i] = C(sums[i]);
  }
}

// Along known axes real and imaginary parts are summed up as real numbers are, with a last dimension for the two.
absl::StatusOr<std::unique_ptr<Kernel>> MakeSumOfParts(const OpInstance& node, Reduction reduction) {
  OpInstance parts = node;
  TensorType& type = parts.inputs[0];
  const Tensor& axes = node.input_values[1];
  absl::InlinedVector<bool, 8> reduced(type.shape.rank() + 1, false);
  for (int64_t i = 0; i < axes.num_elements(); ++i) {
    MR_ASSIGN_OR_RETURN(const int axis, ResolveAxis(axes.IntAt(i), type.shape.rank()));
    reduced[axis] = true;
  }
  type.dtype = type.dtype == DataType::kComplex64 ? DataType::kFloat : DataType::kDouble;
  type.shape.AddDim(2);
  return MakeReduction(parts, reduction, type.shape, reduced);
}

template <Total kTotal>
absl::StatusOr<std::unique_ptr<Kernel>> MakeReduction(const OpInstance& node) {
  constexpr bool kOfParts = kTotal == Total::kSum || kTotal == Total::kMean;
  const bool known = node.input_values.size() > 1 && !node.input_values[1].empty();
  if (kOfParts && known && IsComplex(node.inputs[0].dtype) && node.inputs[0].shape.num_elements() > 0) {
    return MakeSumOfParts(node, kTotal == Total::kSum ? Reduction::kSum : Reduction::kMean);
  }
  const int64_t results = node.outputs[0].shape.num_elements();
  return DispatchComplex(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using C = typename decltype(tag)::type;
    return MakeKernel(
        [](const KernelContext& context) -> absl::Status {
          MR_ASSIGN_OR_RETURN(const Ints axes, ValueReader(context).ints(1));
          MR_ASSIGN_OR_RETURN(const std::vector<int64_t> strides, ResultStrides(context.input_type(0).shape, axes));
          Reduce<C, kTotal>(context, strides);
          return absl::OkStatus();
        },
        results * static_cast<int64_t>(sizeof(std::complex<double>)));
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeBiasAddGrad(const OpInstance& node) {
  const std::vector<int64_t> strides = ChannelStrides(node);
  const int64_t results = node.outputs[0].shape.num_elements();
  return DispatchComplex(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using C = typename decltype(tag)::type;
    return MakeKernel(
        [strides](const KernelContext& context) {
          Reduce<C, Total::kSum>(context, strides);
          return absl::OkStatus();
        },
        results * static_cast<int64_t>(sizeof(std::complex<double>)));
  });
}

// Running sums or products along an axis, in double precision.
template <bool kProduct>
absl::StatusOr<std::unique_ptr<Kernel>> MakeScan(const OpInstance& node) {
  const AxisLayout layout = MakeAxisLayout(node.inputs[0].shape, node.input_values[1].IntAt(0));
  const bool exclusive = node.attrs.GetOr("exclusive", false), reverse = node.attrs.GetOr("reverse", false);
  return DispatchComplex(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using C = typename decltype(tag)::type;
    return MakeKernel([=](const KernelContext& context) {
      ParallelRange(context, layout.outer * layout.inner, 1024, [&](int64_t begin, int64_t end) {
        for (int64_t line = begin; line < end; ++line) {
          const int64_t first = line / layout.inner * layout.length * layout.inner + line % layout.inner;
          std::complex<double> total(kProduct ? 1 : 0);
          for (int64_t step = 0; step < layout.length; ++step) {
            const int64_t at = first + (reverse ? layout.length - 1 - step : step) * layout.inner;
            const std::complex<double> x(context.input<C>(0)[at]), before = total;
            total = kProduct ? Times(total, x) : total + x;
            context.output<C>(0)[at] = C(exclusive ? before : total);
          }
        }
      });
      return absl::OkStatus();
    });
  });
}

// One operand of a product: where element (row, column) of matrix `batch` is.
struct Operand {
  Operand(const Shape& shape, const Shape& out, bool is_swapped, bool is_conjugated) : conjugated(is_conjugated) {
    const int64_t columns = shape.dim(shape.rank() - 1), rows = shape.dim(shape.rank() - 2);
    row = is_swapped ? 1 : columns;
    column = is_swapped ? columns : 1;
    inner = is_swapped ? rows : columns;
    int64_t stride = rows * columns;
    const int missing = out.rank() - shape.rank();
    batch.assign(out.rank() - 2, 0);
    for (int d = shape.rank() - 3; d >= 0; --d) {
      if (shape.dim(d) != 1) batch[d + missing] = stride;
      stride *= shape.dim(d);
    }
  }
  int64_t Start(const Shape& out, int64_t matrix) const {
    int64_t at = 0;
    for (int d = out.rank() - 3; d >= 0; --d) {
      at += matrix % out.dim(d) * batch[d];
      matrix /= out.dim(d);
    }
    return at;
  }
  int64_t row, column, inner;
  bool conjugated;
  std::vector<int64_t> batch;
};

// A strip of columns of the right side in vectors: as they are, and with the parts of every number swapped, the first of them negated.
template <typename T>
struct ComplexStrip {
  using Vector = GemmVector<T>;
  static constexpr int kVectors = 2, kColumns = kVectors * kGemmLanes<T> / 2, kDepth = 64;
  struct Row {
    Vector straight[kVectors], swapped[kVectors];
  };

  // Rows [begin, begin + depth), columns [first, first + columns); beside them there is nothing.
  void Load(const Operand& b, const std::complex<T>* y, int64_t begin, int64_t depth, int64_t first, int64_t columns) {
    for (int64_t k = 0; k < depth; ++k) {
      T *straight = reinterpret_cast<T*>(rows[k].straight), *swapped = reinterpret_cast<T*>(rows[k].swapped);
      for (int64_t j = 0; j < kColumns; ++j) {
        const std::complex<T> raw = j < columns ? y[(begin + k) * b.row + (first + j) * b.column] : std::complex<T>(0);
        const std::complex<T> value = b.conjugated ? std::conj(raw) : raw;
        straight[2 * j] = value.real();
        straight[2 * j + 1] = value.imag();
        swapped[2 * j] = -value.imag();
        swapped[2 * j + 1] = value.real();
      }
    }
  }

  Row rows[kDepth];
};

// Adds kRows rows times a strip to the rows of `out`, which are `step` numbers apart: the products one after the other.
template <int kRows, typename T>
void AddProducts(const Operand& a, const std::complex<T>* x, const ComplexStrip<T>& strip, int64_t depth, int64_t columns, std::complex<T>* out, int64_t step) {
  using Strip = ComplexStrip<T>;
  GemmVector<T> sums[kRows][Strip::kVectors] = {};
  for (int i = 0; i < kRows; ++i) std::memcpy(sums[i], out + i * step, columns * sizeof(*out));
  for (int64_t k = 0; k < depth; ++k) {
    const typename Strip::Row& right = strip.rows[k];
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      const std::complex<T> raw = x[i * a.row + k * a.column], left = a.conjugated ? std::conj(raw) : raw;
#pragma GCC unroll 2
      for (int v = 0; v < Strip::kVectors; ++v) sums[i][v] += left.real() * right.straight[v] + left.imag() * right.swapped[v];
    }
  }
  for (int i = 0; i < kRows; ++i) std::memcpy(static_cast<void*>(out + i * step), sums[i], columns * sizeof(*out));
}

// The same number by number, for matrices too small for strips.
template <typename C>
void MultiplySmall(const Operand& a, const Operand& b, int64_t columns, const C* x, const C* y, int64_t begin, int64_t end, C* out) {
  std::fill(out + begin * columns, out + end * columns, C(0));
  for (int64_t i = begin; i < end; ++i) {
    for (int64_t k = 0; k < a.inner; ++k) {
      const C raw = x[i * a.row + k * a.column], left = a.conjugated ? std::conj(raw) : raw;
      for (int64_t j = 0; j < columns; ++j) {
        const C right = y[k * b.row + j * b.column];
        out[i * columns + j] += Times(left, b.conjugated ? std::conj(right) : right);
      }
    }
  }
}

// Rows [begin, end) of a matrix of `columns`. Every element has its products added in the order of k.
template <typename T>
void Multiply(const Operand& a, const Operand& b, int64_t columns, const std::complex<T>* x, const std::complex<T>* y, int64_t begin, int64_t end,
              std::complex<T>* out) {
  using Strip = ComplexStrip<T>;
  // To bring the right side into vectors costs as much as some rows of products.
  if (columns * a.inner <= 16 || (b.column == 1 && end - begin < 8)) return MultiplySmall(a, b, columns, x, y, begin, end, out);
  std::fill(out + begin * columns, out + end * columns, std::complex<T>(0));
  Strip strip;
  for (int64_t first = 0; first < columns; first += Strip::kColumns) {
    const int64_t width = std::min<int64_t>(Strip::kColumns, columns - first);
    for (int64_t k = 0; k < a.inner; k += Strip::kDepth) {
      const int64_t depth = std::min<int64_t>(Strip::kDepth, a.inner - k);
      strip.Load(b, y, k, depth, first, width);
      ForRowGroups<4>(end - begin, [&](auto count, int64_t group) {
        const int64_t row = begin + group;
        AddProducts<count()>(a, x + row * a.row + k * a.column, strip, depth, width, out + row * columns + first, columns);
      });
    }
  }
}

// MatMul transposes, the batched ones take adjoints.
absl::StatusOr<std::unique_ptr<Kernel>> MakeProduct(const OpInstance& node) {
  const bool adjoint_x = node.attrs.GetOr("adj_x", false), adjoint_y = node.attrs.GetOr("adj_y", false);
  const Shape out = node.outputs[0].shape;
  const Operand a(node.inputs[0].shape, out, adjoint_x || node.attrs.GetOr("transpose_a", false), adjoint_x);
  const Operand b(node.inputs[1].shape, out, adjoint_y || node.attrs.GetOr("transpose_b", false), adjoint_y);
  if (node.inputs[0].dtype != node.outputs[0].dtype || node.inputs[1].dtype != node.outputs[0].dtype) {
    return UnsupportedType(node, node.outputs[0].dtype);
  }
  const int64_t rows = out.dim(out.rank() - 2), columns = out.dim(out.rank() - 1);
  const int64_t all = columns == 0 ? 0 : out.num_elements() / columns;  // rows of all matrices
  const int64_t grain = std::max<int64_t>(kElementGrain / std::max<int64_t>(columns * a.inner, 1), 8);
  return DispatchComplex(node, node.outputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using C = typename decltype(tag)::type;
    return MakeKernel([=](const KernelContext& context) {
      ParallelRange(context, all, grain, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end;) {
          const int64_t m = row / rows, first = row % rows, last = std::min(rows, first + end - row);
          Multiply(a, b, columns, context.input<C>(0) + a.Start(out, m), context.input<C>(1) + b.Start(out, m), first, last,
                   context.output<C>(0) + m * rows * columns);
          row += last - first;
        }
      });
      return absl::OkStatus();
    });
  });
}

}  // namespace

KernelFactory ComplexSums(std::string_view op) {
  if (op == "AddN" || op == "AccumulateNV2") return MakeAddN;
  if (op == "Sum") return MakeReduction<Total::kSum>;
  if (op == "Mean") return MakeReduction<Total::kMean>;
  if (op == "Prod") return MakeReduction<Total::kProd>;
  if (op == "EuclideanNorm") return MakeReduction<Total::kNorm>;
  if (op == "BiasAddGrad") return MakeBiasAddGrad;
  if (op == "Cumsum") return MakeScan<false>;
  if (op == "Cumprod") return MakeScan<true>;
  if (op == "MatMul" || op == "BatchMatMul" || op == "BatchMatMulV2" || op == "BatchMatMulV3") return MakeProduct;
  return nullptr;
}

}  // namespace millrace::cpu
