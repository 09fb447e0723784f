// Kernels of sparse tensors, (indices [n, rank], values [n], dense shape [rank]).
#include <cmath>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/arithmetic.h"
#include "cpu/kernels/complex.h"
#include "cpu/kernels/families.h"
#include "cpu/kernels/indices.h"
#include "cpu/kernels/sparse_shapes.h"
#include "cpu/kernels/values.h"
#include "graph/shape_math.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

// Where index row i is in a dense tensor of these dimensions; broadcast dimensions (1) count as 0.
class Places {
 public:
  static absl::StatusOr<Places> Make(const KernelContext& context, absl::Span<const int64_t> dims) {
    Places places;
    places.rank_ = context.input_type(0).shape.dim(1);
    places.strides_.assign(places.rank_, 0);
    int64_t stride = 1;
    const int64_t missing = places.rank_ - static_cast<int64_t>(dims.size());
    for (int64_t d = static_cast<int64_t>(dims.size()) - 1; d >= 0; --d) {
      if (d + missing >= 0 && dims[d] != 1) places.strides_[d + missing] = stride;
      stride *= dims[d];
    }
    return places;
  }
  template <typename Index>
  int64_t At(const Index* row) const {
    int64_t at = 0;
    for (int64_t d = 0; d < rank_; ++d) at += static_cast<int64_t>(row[d]) * strides_[d];
    return at;
  }

 private:
  int64_t rank_ = 0;
  std::vector<int64_t> strides_;
};

template <typename T>
T Conjugated(T value, bool conjugated) {
  if constexpr (Eigen::NumTraits<T>::IsComplex) {
    return conjugated ? std::conj(value) : value;
  } else {
    return value;
  }
}

// Halves are added up as floats; bfloat16, as in TensorFlow, as what they are.
template <typename T>
using ProductSum = std::conditional_t<std::is_same_v<T, Eigen::half>, float, T>;

// Columns [begin, end) of the result, rows of which are summed in the order of the indices. sums: as many elements as the result has.
template <typename T, typename Index>
void MultiplyColumns(const KernelContext& context, bool adjoint_a, bool adjoint_b, int64_t begin, int64_t end, ProductSum<T>* sums) {
  using W = ProductSum<T>;
  const int64_t count = context.input_type(1).shape.num_elements(), width = context.input_type(3).shape.dim(1);
  const int64_t rows = context.output_type(0).shape.dim(0), columns = context.output_type(0).shape.dim(1);
  const Index* indices = context.input<Index>(0);
  const T *values = context.input<T>(1), *b = context.input<T>(3);
  for (int64_t r = 0; r < rows; ++r) std::fill(sums + r * columns + begin, sums + r * columns + end, W(0));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = indices[2 * i + (adjoint_a ? 1 : 0)], inner = indices[2 * i + (adjoint_a ? 0 : 1)];
    const auto value = static_cast<W>(Conjugated(values[i], adjoint_a));
    for (int64_t c = begin; c < end; ++c) {
      const T factor = b[adjoint_b ? c * width + inner : inner * width + c];
      sums[row * columns + c] += Product(value, static_cast<W>(Conjugated(factor, adjoint_b)));
    }
  }
}

template <typename T, typename Index>
absl::Status MultiplyMatrix(const KernelContext& context, bool adjoint_a, bool adjoint_b) {
  MR_ASSIGN_OR_RETURN(const Ints dims, ValueReader(context).ints(2));
  MR_RETURN_IF_ERROR(CheckInside<Index>(context, 0, dims));
  const Shape& out_shape = context.output_type(0).shape;
  const int64_t count = context.input_type(1).shape.num_elements(), rows = out_shape.dim(0), columns = out_shape.dim(1);
  T* out = context.output<T>(0);
  // Columns are shared out, so that no two shards touch one element.
  ParallelRange(context, columns, std::max<int64_t>(kElementGrain / std::max<int64_t>(count + rows, 1), 1), [&](int64_t begin, int64_t end) {
    if constexpr (std::is_same_v<T, ProductSum<T>>) {
      MultiplyColumns<T, Index>(context, adjoint_a, adjoint_b, begin, end, out);
    } else {
      auto* sums = static_cast<ProductSum<T>*>(context.scratch);
      MultiplyColumns<T, Index>(context, adjoint_a, adjoint_b, begin, end, sums);
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t i = r * columns + begin; i < r * columns + end; ++i) out[i] = static_cast<T>(sums[i]);
      }
    }
  });
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeSparseMatMul(const OpInstance& node) {
  const bool adjoint_a = node.attrs.GetOr<bool>("adjoint_a", false), adjoint_b = node.attrs.GetOr<bool>("adjoint_b", false);
  const int64_t elements = node.outputs[0].shape.num_elements();
  return DispatchNumericOrComplex(node, node.inputs[1].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using W = ProductSum<T>;
    const int64_t scratch = std::is_same_v<T, W> ? 0 : elements * static_cast<int64_t>(sizeof(W));
    return DispatchIndex(node, 0, [&](auto index_tag) -> std::unique_ptr<Kernel> {
      using Index = typename decltype(index_tag)::type;
      return MakeKernel([=](const KernelContext& context) { return MultiplyMatrix<T, Index>(context, adjoint_a, adjoint_b); }, scratch);
    });
  });
}

// Of a tensor of these dimensions, whose product int64 holds. Unsigned: the place of an index outside may wrap around.
std::vector<uint64_t> WrappingStrides(absl::Span<const int64_t> dims) {
  std::vector<uint64_t> strides(dims.size(), 1);
  for (size_t d = dims.size(); d > 1; --d) strides[d - 2] = strides[d - 1] * static_cast<uint64_t>(dims[d - 1]);
  return strides;
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeSparseReshape(const OpInstance& node) {
  const int64_t count = node.inputs[0].shape.dim(0);
  return MakeKernel([count](const KernelContext& context) -> absl::Status {
    const ValueReader reader(context);
    MR_ASSIGN_OR_RETURN(const Ints from, reader.ints(1));
    MR_ASSIGN_OR_RETURN(const Ints asked, reader.ints(2));
    MR_ASSIGN_OR_RETURN(const std::vector<int64_t> to, ResolveSparseReshape(from, asked));
    std::copy(to.begin(), to.end(), context.output<int64_t>(1));
    const int64_t* in = context.input<int64_t>(0);
    int64_t* out = context.output<int64_t>(0);
    if (std::equal(from.begin(), from.end(), to.begin(), to.end())) {
      std::copy_n(in, count * static_cast<int64_t>(from.size()), out);
      return absl::OkStatus();
    }
    if (count > 0 && std::count(from.begin(), from.end(), 0) > 0) {
      return absl::InvalidArgumentError(absl::StrCat("Input tensor has ", count, " non zero elements but its shape is empty"));
    }
    const std::vector<uint64_t> from_strides = WrappingStrides(from), to_strides = WrappingStrides(to);
    for (int64_t i = 0; i < count; ++i) {
      uint64_t place = 0;
      for (const uint64_t stride : from_strides) place += static_cast<uint64_t>(*in++) * stride;
      // An index outside stays outside: the first dimension takes what the others leave.
      auto rest = static_cast<int64_t>(place);
      for (const uint64_t stride : to_strides) {
        *out++ = rest / static_cast<int64_t>(stride);
        rest %= static_cast<int64_t>(stride);
      }
    }
    return absl::OkStatus();
  });
}

// Index rows in lexical order, equal ones as they were.
absl::StatusOr<std::unique_ptr<Kernel>> MakeSparseReorder(const OpInstance& node) {
  const int64_t count = node.inputs[0].shape.dim(0), rank = node.inputs[0].shape.dim(1);
  const int64_t bytes = DataTypeSize(node.inputs[1].dtype);
  return MakeKernel(
      [=](const KernelContext& context) {
        int64_t* order = static_cast<int64_t*>(context.scratch);
        std::iota(order, order + count, 0);
        const int64_t* in = context.input<int64_t>(0);
        std::sort(order, order + count, [&](int64_t a, int64_t b) {
          const int64_t *x = in + a * rank, *y = in + b * rank;
          for (int64_t d = 0; d < rank; ++d) {
            if (x[d] != y[d]) return x[d] < y[d];
          }
          return a < b;
        });
        for (int64_t i = 0; i < count; ++i) {
          std::copy_n(in + order[i] * rank, rank, context.output<int64_t>(0) + i * rank);
          CopyRow(context.output<char>(1) + i * bytes, context.input<char>(1) + order[i] * bytes, bytes);
        }
        return absl::OkStatus();
      },
      count * static_cast<int64_t>(sizeof(int64_t)));
}

enum class Mix { kAdd, kMul, kDiv };

template <Mix kMix, typename T>
T Mixed(T a, T b) {
  if constexpr (kMix == Mix::kAdd) return Wrapping(a, b, [](auto x, auto y) { return x + y; });
  if constexpr (kMix == Mix::kMul) return Wrapping(a, b, [](auto x, auto y) { return x * y; });
  return Quotient(a, b);
}

template <Mix kMix>
absl::StatusOr<std::unique_ptr<Kernel>> MakeCwise(const OpInstance& node) {
  const int64_t count = node.inputs[1].shape.num_elements(), rank = node.inputs[0].shape.dim(1);
  const Shape dense = node.inputs[3].shape;
  return DispatchNumeric(node, node.inputs[1].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([=](const KernelContext& context) -> absl::Status {
      MR_ASSIGN_OR_RETURN(const Ints dims, ValueReader(context).ints(2));
      MR_RETURN_IF_ERROR(CheckInside<int64_t>(context, 0, dims));
      for (int d = 1; d <= dense.rank(); ++d) {
        const int64_t size = dense.dim(dense.rank() - d);
        if (d <= rank && (size == 1 || size == dims[rank - d])) continue;
        return absl::InvalidArgumentError(absl::StrCat("SparseDenseBinaryOpShared broadcasts dense to sparse only; got dense shape ",
                                                       dense.ToString()));
      }
      MR_ASSIGN_OR_RETURN(const Places places, Places::Make(context, dense.dims()));
      for (int64_t i = 0; i < count; ++i) {
        const T a = context.input<T>(1)[i], b = context.input<T>(3)[places.At(context.input<int64_t>(0) + i * rank)];
        if (kMix == Mix::kDiv && b == T(0)) {
          return absl::InvalidArgumentError(absl::StrCat("SparseDenseCwiseDiv cannot divide by zero, which the dense tensor has for value ", i));
        }
        context.output<T>(0)[i] = Mixed<kMix>(a, b);
      }
      return absl::OkStatus();
    });
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeDenseAdd(const OpInstance& node) {
  const int64_t count = node.inputs[1].shape.num_elements(), rank = node.inputs[0].shape.dim(1);
  const Shape dense = node.inputs[3].shape;
  return DispatchNumericOrComplex(node, node.inputs[1].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return DispatchIndex(node, 0, [&](auto index_tag) -> std::unique_ptr<Kernel> {
      using Index = typename decltype(index_tag)::type;
      return MakeKernel([=](const KernelContext& context) -> absl::Status {
        MR_ASSIGN_OR_RETURN(const Ints dims, ValueReader(context).ints(2));
        for (int d = 0; d < dense.rank(); ++d) {
          if (dims[d] == dense.dim(d)) continue;
          return absl::InvalidArgumentError(absl::StrCat("Dimension ", d, " does not equal (no broadcasting is supported): sparse side ", dims[d],
                                                         " vs dense side ", dense.dim(d)));
        }
        MR_RETURN_IF_ERROR(CheckInside<Index>(context, 0, dense.dims()));
        MR_ASSIGN_OR_RETURN(const Places places, Places::Make(context, dense.dims()));
        T* out = context.output<T>(0);
        if (out != context.input<T>(3)) std::copy_n(context.input<T>(3), dense.num_elements(), out);
        // A dimension of one element has stride 0 in Places, and index 0.
        for (int64_t i = 0; i < count; ++i) out[places.At(context.input<Index>(0) + i * rank)] += context.input<T>(1)[i];
        return absl::OkStatus();
      });
    });
  });
}

// Over each run of index rows that agree in all but the last number; indices are sorted.
absl::StatusOr<std::unique_ptr<Kernel>> MakeSparseSoftmax(const OpInstance& node) {
  const int64_t count = node.inputs[1].shape.num_elements(), rank = node.inputs[0].shape.dim(1);
  return DispatchFloating(node, node.inputs[1].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    using W = std::conditional_t<std::is_same_v<T, double>, double, float>;
    return MakeKernel([=](const KernelContext& context) -> absl::Status {
      MR_RETURN_IF_ERROR(DenseShape(context, 2).status());
      const int64_t* indices = context.input<int64_t>(0);
      const T* in = context.input<T>(1);
      T* out = context.output<T>(0);
      for (int64_t begin = 0, end; begin < count; begin = end) {
        end = begin + 1;
        W largest = static_cast<W>(in[begin]), sum = 0;
        while (end < count && std::equal(indices + begin * rank, indices + begin * rank + rank - 1, indices + end * rank)) {
          largest = std::max(largest, static_cast<W>(in[end++]));
        }
        for (int64_t i = begin; i < end; ++i) sum += std::exp(static_cast<W>(in[i]) - largest);
        for (int64_t i = begin; i < end; ++i) out[i] = static_cast<T>(std::exp(static_cast<W>(in[i]) - largest) / sum);
      }
      return absl::OkStatus();
    });
  });
}

}  // namespace

void RegisterSparseKernels(KernelRegistry& registry) {
  AddKernel(registry, "SparseTensorDenseMatMul", MakeSparseMatMul);
  AddKernel(registry, "SparseReshape", MakeSparseReshape);
  AddKernel(registry, "SparseReorder", MakeSparseReorder);
  AddKernel(registry, "SparseDenseCwiseAdd", MakeCwise<Mix::kAdd>);
  AddKernel(registry, "SparseDenseCwiseMul", MakeCwise<Mix::kMul>);
  AddKernel(registry, "SparseDenseCwiseDiv", MakeCwise<Mix::kDiv>);
  AddKernel(registry, "SparseTensorDenseAdd", MakeDenseAdd);
  AddKernel(registry, "SparseSoftmax", MakeSparseSoftmax);
}

}  // namespace millrace::cpu
