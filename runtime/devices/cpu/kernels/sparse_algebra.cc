// Sparse tensors combined with sparse tensors, cut, joined and reduced. Indices come in lexical order and leave in it.
#include <cmath>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/complex.h"
#include "cpu/kernels/convert.h"
#include "cpu/kernels/rare.h"
#include "cpu/kernels/real_shapes.h"
#include "cpu/kernels/sparse_shapes.h"
#include "cpu/kernels/values.h"
#include "cpu/kernels/wide_sums.h"
#include "graph/shape_math.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

int64_t RowsOf(const KernelContext& context, int input) { return context.input_type(input).shape.dim(0); }
int64_t RankOf(const KernelContext& context, int input) { return context.input_type(input).shape.dim(1); }

int Compare(const int64_t* a, const int64_t* b, int64_t rank) {
  for (int64_t d = 0; d < rank; ++d) {
    if (a[d] != b[d]) return a[d] < b[d] ? -1 : 1;
  }
  return 0;
}

enum class Join { kAdd, kMax, kMin };

// Goes through both index lists at once: both(i, j) where they agree, one(i) and other(j) where not.
template <typename One, typename Other, typename Both>
void Walk(const KernelContext& context, int a, int b, One one, Other other, Both both) {
  const int64_t rows_a = RowsOf(context, a), rows_b = RowsOf(context, b), rank = RankOf(context, a);
  const int64_t *at_a = context.input<int64_t>(a), *at_b = context.input<int64_t>(b);
  for (int64_t i = 0, j = 0; i < rows_a || j < rows_b;) {
    const int order = i == rows_a ? 1 : j == rows_b ? -1 : Compare(at_a + i * rank, at_b + j * rank, rank);
    if (order < 0) one(i++);
    if (order > 0) other(j++);
    if (order == 0) both(i++, j++);
  }
}

absl::Status ExpectEqualShapes(const KernelContext& context, int a, int b) {
  MR_ASSIGN_OR_RETURN(const Ints x, ValueReader(context).ints(a));
  MR_ASSIGN_OR_RETURN(const Ints y, ValueReader(context).ints(b));
  if (x == y) return absl::OkStatus();
  for (size_t d = 0; d < x.size(); ++d) {
    if (x[d] != y[d]) {
      return absl::InvalidArgumentError(absl::StrCat("Operands' shapes do not match: got ", x[d], " and ", y[d], " for dimension ", d));
    }
  }
  return absl::OkStatus();
}

template <typename T>
double SizeOf(T value) {
  if constexpr (Eigen::NumTraits<T>::IsComplex) {
    return std::abs(value);
  } else {
    return std::abs(static_cast<double>(value));
  }
}

// SparseAdd's; its type need not be that of the numbers.
double Threshold(const KernelContext& context) {
  double threshold;
  ConversionOf(context.input_type(6).dtype, DataType::kDouble).RunBlock(context.inputs[6], &threshold, 1);
  return threshold;
}

// keep_all: no sum is too small, nor NaN.
template <typename T, Join kJoin>
absl::Status Unite(const KernelContext& context, bool keep_all) {
  MR_RETURN_IF_ERROR(ExpectEqualShapes(context, 2, 5));
  if constexpr (kJoin != Join::kAdd) {
    MR_ASSIGN_OR_RETURN(const Ints inside, ValueReader(context).ints(2));
    for (int indices : {0, 3}) MR_RETURN_IF_ERROR(CheckInside<int64_t>(context, indices, inside));
  }
  const int64_t rank = RankOf(context, 0);
  int64_t rows = 0;
  const auto put = [&](int input, int64_t i, T value) {
    std::copy_n(context.input<int64_t>(input) + i * rank, rank, context.output<int64_t>(0) + rows * rank);
    context.output<T>(1)[rows++] = value;
  };
  const T *a = context.input<T>(1), *b = context.input<T>(4);
  const double least = kJoin == Join::kAdd ? Threshold(context) : 0;
  // What is not there counts as 0 in a comparison, and is nothing in a sum.
  const auto alone = [](T value) {
    if constexpr (kJoin == Join::kAdd) {
      return value;
    } else {
      return kJoin == Join::kMax ? std::max(value, T(0)) : std::min(value, T(0));
    }
  };
  Walk(context, 0, 3, [&](int64_t i) { put(0, i, alone(a[i])); }, [&](int64_t j) { put(3, j, alone(b[j])); },
       [&](int64_t i, int64_t j) {
         if constexpr (kJoin == Join::kAdd) {
           const T sum = static_cast<T>(a[i] + b[j]);
           if (keep_all || least <= SizeOf(sum)) put(0, i, sum);
         } else {
           const bool is_nan = b[j] != b[j];  // one of a stays by itself
           put(0, i, is_nan ? b[j] : kJoin == Join::kMax ? std::max(a[i], b[j]) : std::min(a[i], b[j]));
         }
       });
  if constexpr (kJoin == Join::kAdd) {
    MR_ASSIGN_OR_RETURN(const Ints dims, ValueReader(context).ints(2));
    std::copy(dims.begin(), dims.end(), context.output<int64_t>(2));
  }
  SetRealRows(context, 0, 1, rows, rank);
  return absl::OkStatus();
}

template <Join kJoin>
KernelOr MakeUnite(const OpInstance& node) {
  if (kJoin == Join::kAdd && !ConversionOf(node.inputs[6].dtype, DataType::kDouble).covered()) return UnsupportedType(node, node.inputs[6].dtype);
  const bool keep_all = node.attrs.GetOr("_keep_all", false);
  return DispatchNumbers<kJoin == Join::kAdd>(node, node.inputs[1].dtype, [keep_all](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([keep_all](const KernelContext& context) { return Unite<T, kJoin>(context, keep_all); });
  });
}

// Gradients of what is in the sum; of what fell out of it, 0.
template <typename T>
absl::Status AddGrad(const KernelContext& context) {
  const int64_t sums = RowsOf(context, 3), rank = RankOf(context, 3);
  for (int side : {0, 1}) {
    const int64_t rows = RowsOf(context, side + 1);
    const int64_t *indices = context.input<int64_t>(side + 1), *sum = context.input<int64_t>(3);
    for (int64_t i = 0, k = 0; i < rows; ++i) {
      while (k < sums && Compare(sum + k * rank, indices + i * rank, rank) < 0) ++k;
      const bool there = k < sums && Compare(sum + k * rank, indices + i * rank, rank) == 0;
      context.output<T>(side)[i] = there ? context.input<T>(0)[k] : T(0);
    }
  }
  return absl::OkStatus();
}

KernelOr MakeAddGrad(const OpInstance& node) {
  if (node.inputs[1].shape.dim(1) != node.inputs[3].shape.dim(1) || node.inputs[2].shape.dim(1) != node.inputs[3].shape.dim(1) ||
      node.inputs[0].shape.num_elements() != node.inputs[3].shape.dim(0)) {
    return absl::InvalidArgumentError("indices of the operands and of the sum do not fit each other or the gradient");
  }
  return DispatchNumericOrComplex(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([](const KernelContext& context) { return AddGrad<T>(context); });
  });
}

template <typename T>
absl::Status Concat(const KernelContext& context, int64_t axis) {
  const int count = static_cast<int>(context.instance->inputs.size()) / 3;
  const int64_t rank = context.output_type(2).shape.dim(0);
  std::vector<Ints> dims(count);
  for (int i = 0; i < count; ++i) {
    MR_ASSIGN_OR_RETURN(dims[i], DenseShape(context, 2 * count + i));
  }
  std::vector<std::pair<int, int64_t>> order;
  std::vector<int64_t> offset(count + 1, 0);
  for (int i = 0; i < count; ++i) {
    for (int64_t d = 0; d < rank; ++d) {
      if (d == axis || dims[i][d] == dims[0][d]) continue;
      return absl::InvalidArgumentError(absl::StrCat("Input shapes must match: expected ", dims[0][d], " for dimension ", d, " but got ",
                                                     dims[i][d], " at position ", i));
    }
    if (__builtin_add_overflow(offset[i], dims[i][axis], &offset[i + 1])) {
      return absl::InvalidArgumentError(absl::StrCat("Encountered overflow when adding up ", offset[i], " and ", dims[i][axis], " of dimension ", axis));
    }
    for (int64_t r = 0; r < RowsOf(context, i); ++r) order.emplace_back(i, r);
  }
  const auto index = [&](const std::pair<int, int64_t>& at, int64_t d) {
    return context.input<int64_t>(at.first)[at.second * rank + d] + (d == axis ? offset[at.first] : 0);
  };
  std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    for (int64_t d = 0; d < rank; ++d) {
      if (index(a, d) != index(b, d)) return index(a, d) < index(b, d);
    }
    return false;
  });
  for (size_t k = 0; k < order.size(); ++k) {
    for (int64_t d = 0; d < rank; ++d) context.output<int64_t>(0)[static_cast<int64_t>(k) * rank + d] = index(order[k], d);
    context.output<T>(1)[k] = context.input<T>(count + order[k].first)[order[k].second];
  }
  for (int64_t d = 0; d < rank; ++d) context.output<int64_t>(2)[d] = d == axis ? offset[count] : dims[0][d];
  return absl::OkStatus();
}

KernelOr MakeConcat(const OpInstance& node) {
  MR_ASSIGN_OR_RETURN(const int axis, ResolveAxis(node.attrs.GetOr<int64_t>("concat_dim", 0), static_cast<int>(node.outputs[2].shape.dim(0))));
  return DispatchBySize(node, node.outputs[1].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([axis](const KernelContext& context) { return Concat<T>(context, axis); });
  });
}

// Entries of the box [start, start + size) into outputs `indices` and `values`, counted from its corner.
template <typename T>
void CopyBox(const KernelContext& context, int first, const Ints& start, const Ints& size, int indices, int values) {
  const int64_t count = RowsOf(context, first), rank = RankOf(context, first);
  int64_t rows = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t* row = context.input<int64_t>(first) + i * rank;
    bool inside = true;
    for (int64_t d = 0; d < rank; ++d) {
      inside = inside && row[d] >= start[d] && static_cast<uint64_t>(row[d]) - static_cast<uint64_t>(start[d]) < static_cast<uint64_t>(size[d]);
    }
    if (!inside) continue;
    for (int64_t d = 0; d < rank; ++d) context.output<int64_t>(indices)[rows * rank + d] = row[d] - start[d];
    context.output<T>(values)[rows++] = context.input<T>(first + 1)[i];
  }
  SetRealRows(context, indices, values, rows, rank);
}

template <typename T>
absl::Status Slice(const KernelContext& context) {
  const ValueReader reader(context);
  MR_ASSIGN_OR_RETURN(const Ints dims, DenseShape(context, 2));
  MR_ASSIGN_OR_RETURN(const Ints start, reader.ints(3));
  MR_ASSIGN_OR_RETURN(Ints size, reader.ints(4));
  for (size_t d = 0; d < dims.size(); ++d) {
    if (size[d] < 0) return absl::InvalidArgumentError(absl::StrCat("Expected a non-negative size, got ", size[d]));
    size[d] = SparseSliceSize(dims[d], start[d], size[d]);
  }
  CopyBox<T>(context, 0, start, size, 0, 1);
  std::copy(size.begin(), size.end(), context.output<int64_t>(2));
  return absl::OkStatus();
}

template <typename T>
absl::Status Split(const KernelContext& context) {
  const ValueReader reader(context);
  MR_ASSIGN_OR_RETURN(const int64_t given, reader.scalar(0));
  MR_ASSIGN_OR_RETURN(const Ints dims, DenseShape(context, 3));
  MR_ASSIGN_OR_RETURN(const int axis, ResolveAxis(given, static_cast<int>(dims.size())));
  MR_RETURN_IF_ERROR(CheckInside<int64_t>(context, 1, dims));
  const int parts = static_cast<int>(context.instance->outputs.size()) / 3;
  if (parts > dims[axis]) {
    return absl::InvalidArgumentError(absl::StrCat("Argument num_split ", parts, " must be in the interval [1, ", dims[axis], "]"));
  }
  Ints start(dims.size(), 0), size = dims;
  for (int i = 0; i < parts; ++i) {
    size[axis] = dims[axis] / parts + (i < dims[axis] % parts ? 1 : 0);
    CopyBox<T>(context, 1, start, size, i, parts + i);
    std::copy(size.begin(), size.end(), context.output<int64_t>(2 * parts + i));
    start[axis] += size[axis];
  }
  return absl::OkStatus();
}

// The slice's entries are the input's, in the same order.
template <typename T>
absl::Status SliceGrad(const KernelContext& context) {
  MR_ASSIGN_OR_RETURN(const Ints start, ValueReader(context).ints(2));
  const int64_t rows = RowsOf(context, 1), slices = RowsOf(context, 3), rank = RankOf(context, 1);
  int64_t k = 0;
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t *row = context.input<int64_t>(1) + i * rank, *slice = context.input<int64_t>(3) + k * rank;
    bool same = k < slices;
    for (int64_t d = 0; d < rank && same; ++d) same = row[d] - start[d] == slice[d];
    context.output<T>(0)[i] = same ? context.input<T>(0)[k++] : T(0);
  }
  if (k == slices) return absl::OkStatus();
  return absl::InvalidArgumentError("Elements of backprop_val_grad aren't all propagated: output_indices are no slice of input_indices");
}

KernelOr MakeSliceGrad(const OpInstance& node) {
  if (node.inputs[1].shape.dim(1) != node.inputs[3].shape.dim(1) || node.inputs[2].shape.num_elements() != node.inputs[1].shape.dim(1) ||
      node.inputs[0].shape.num_elements() != node.inputs[3].shape.dim(0)) {
    return absl::InvalidArgumentError("the slice's gradient, indices and start do not fit each other");
  }
  return DispatchNumericOrComplex(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([](const KernelContext& context) { return SliceGrad<T>(context); });
  });
}

template <bool kSplit>
KernelOr MakeBox(const OpInstance& node) {
  return DispatchBySize(node, node.inputs[kSplit ? 2 : 1].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([](const KernelContext& context) { return kSplit ? Split<T>(context) : Slice<T>(context); });
  });
}

// What entries of type T become one in.
template <typename T, bool kMax>
using Total = std::conditional_t<kMax, T, WideSum<T>>;

// Of two that do not compare the later one: TensorFlow's, but for groups of whole SIMD packets, where it drops NaN.
template <bool kMax, typename W>
W Joined(W a, W b) {
  if constexpr (kMax) {
    return a > b ? a : b;
  } else {
    return static_cast<W>(a + b);
  }
}

// Sums in the order of the entries; a group without entries is 0.
template <typename T, bool kMax>
absl::Status Reduce(const KernelContext& context) {
  const ValueReader reader(context);
  MR_ASSIGN_OR_RETURN(const Ints dims, DenseShape(context, 2));
  MR_ASSIGN_OR_RETURN(const Ints axes, reader.ints(3));
  const int64_t rank = static_cast<int64_t>(dims.size()), count = RowsOf(context, 0);
  std::vector<bool> reduced(rank, false);
  for (int64_t axis : axes) {
    MR_ASSIGN_OR_RETURN(const int at, ResolveAxis(axis, static_cast<int>(rank)));
    reduced[at] = true;
  }
  std::vector<int64_t> strides(rank, 0);
  int64_t elements = 1;
  for (int64_t d = rank - 1; d >= 0; --d) {
    if (reduced[d]) continue;
    strides[d] = elements;
    elements *= dims[d];
  }
  using W = Total<T, kMax>;
  W* joined = static_cast<W*>(std::is_same_v<W, T> ? context.outputs[0] : context.scratch);
  std::fill_n(joined, elements, W(0));
  std::vector<bool> seen(elements, false);
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = 0;
    for (int64_t d = 0; d < rank; ++d) {
      const int64_t index = context.input<int64_t>(0)[i * rank + d];
      if (index < 0 || index >= dims[d]) return absl::InvalidArgumentError(absl::StrCat("index ", index, " is not in [0, ", dims[d], ")"));
      at += index * strides[d];
    }
    const auto value = static_cast<W>(context.input<T>(1)[i]);
    joined[at] = seen[at] ? Joined<kMax>(joined[at], value) : value;
    seen[at] = true;
  }
  if constexpr (!std::is_same_v<W, T>) {
    std::transform(joined, joined + elements, context.output<T>(0), [](W value) { return static_cast<T>(value); });
  }
  return absl::OkStatus();
}

template <bool kMax>
KernelOr MakeReduce(const OpInstance& node) {
  const int64_t elements = node.outputs[0].shape.num_elements();
  return DispatchNumbers<!kMax>(node, node.inputs[1].dtype, [elements](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    using W = Total<T, kMax>;
    const int64_t scratch = std::is_same_v<T, W> ? 0 : elements * static_cast<int64_t>(sizeof(W));
    return MakeKernel([](const KernelContext& context) { return Reduce<T, kMax>(context); }, scratch);
  });
}

// Entries that agree in all but the reduced dimensions become one, in the order of their indices; where there are none, there is none.
template <typename T, bool kMax>
absl::Status ReduceToSparse(const KernelContext& context) {
  const ValueReader reader(context);
  MR_ASSIGN_OR_RETURN(const Ints dims, DenseShape(context, 2));
  MR_ASSIGN_OR_RETURN(const Ints axes, reader.ints(3));
  const auto rank = static_cast<int64_t>(dims.size()), count = RowsOf(context, 0);
  std::vector<bool> reduced(rank, false);
  for (int64_t axis : axes) {
    MR_ASSIGN_OR_RETURN(const int at, ResolveAxis(axis, static_cast<int>(rank)));
    reduced[at] = true;
  }
  Ints kept, order_of;
  for (int64_t d = 0; d < rank; ++d) {
    if (!reduced[d]) kept.push_back(d);
  }
  order_of = kept;
  for (int64_t d = 0; d < rank; ++d) {
    if (reduced[d]) order_of.push_back(d);
  }
  const int64_t* indices = context.input<int64_t>(0);
  const auto compare = [&](int64_t a, int64_t b, const Ints& by) {
    for (int64_t d : by) {
      if (indices[a * rank + d] != indices[b * rank + d]) return indices[a * rank + d] < indices[b * rank + d] ? -1 : 1;
    }
    return 0;
  };
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return compare(a, b, order_of) < 0; });
  const bool keep = context.instance->attrs.GetOr<bool>("keep_dims", false);
  int64_t rows = 0;
  int64_t* out = context.output<int64_t>(0);
  for (int64_t begin = 0, end; begin < count; begin = end) {
    auto joined = static_cast<Total<T, kMax>>(context.input<T>(1)[order[begin]]);
    for (end = begin + 1; end < count && compare(order[begin], order[end], kept) == 0; ++end) {
      joined = Joined<kMax>(joined, static_cast<Total<T, kMax>>(context.input<T>(1)[order[end]]));
    }
    for (int64_t d = 0; d < rank; ++d) {
      if (!reduced[d] || keep) *out++ = reduced[d] ? 0 : indices[order[begin] * rank + d];
    }
    context.output<T>(1)[rows++] = static_cast<T>(joined);
  }
  const int64_t left = context.output_type(2).shape.dim(0);
  int64_t* shape = context.output<int64_t>(2);
  for (int64_t d = 0; d < rank; ++d) {
    if (!reduced[d] || keep) *shape++ = reduced[d] ? 1 : dims[d];
  }
  SetRealRows(context, 0, 1, rows, left);
  return absl::OkStatus();
}

template <bool kMax>
KernelOr MakeReduceToSparse(const OpInstance& node) {
  return DispatchNumbers<!kMax>(node, node.inputs[1].dtype, [](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([](const KernelContext& context) { return ReduceToSparse<T, kMax>(context); });
  });
}

}  // namespace

void RegisterSparseAlgebraKernels(KernelRegistry& registry) {
  AddKernel(registry, "SparseAdd", MakeUnite<Join::kAdd>);
  AddKernel(registry, "SparseSparseMaximum", MakeUnite<Join::kMax>);
  AddKernel(registry, "SparseSparseMinimum", MakeUnite<Join::kMin>);
  AddKernel(registry, "SparseAddGrad", MakeAddGrad);
  AddKernel(registry, "SparseConcat", MakeConcat);
  AddKernel(registry, "SparseSlice", MakeBox<false>);
  AddKernel(registry, "SparseSplit", MakeBox<true>);
  AddKernel(registry, "SparseSliceGrad", MakeSliceGrad);
  AddKernel(registry, "SparseReduceSum", MakeReduce<false>);
  AddKernel(registry, "SparseReduceMax", MakeReduce<true>);
  AddKernel(registry, "SparseReduceSumSparse", MakeReduceToSparse<false>);
  AddKernel(registry, "SparseReduceMaxSparse", MakeReduceToSparse<true>);
}

}  // namespace millrace::cpu
