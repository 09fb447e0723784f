// Segment reductions: sorted ids (Segment*, SparseSegment* and their gradients) and unsorted ones.
#include <cmath>
#include <limits>
#include <numeric>

#include "cpu/kernels/complex.h"
#include "cpu/kernels/indices.h"
#include "cpu/kernels/real_shapes.h"
#include "cpu/kernels/register.h"
#include "cpu/kernels/scatter_rows.h"
#include "cpu/kernels/strided_copy.h"
#include "cpu/kernels/values.h"
#include "cpu/kernels/wide_sums.h"

namespace millrace::cpu {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

enum class Reduction { kSum, kProd, kMax, kMin, kMean, kSqrtN };

constexpr Combine CombineOf(Reduction reduction) {
  switch (reduction) {
    case Reduction::kProd: return Combine::kMul;
    case Reduction::kMax: return Combine::kMax;
    case Reduction::kMin: return Combine::kMin;
    default: return Combine::kAdd;
  }
}

template <typename T>
T Lowest() {
  if constexpr (std::is_integral_v<T>) {
    return std::numeric_limits<T>::lowest();
  } else {
    return -Eigen::NumTraits<T>::highest();
  }
}

template <typename T>
T Highest() {
  if constexpr (std::is_integral_v<T>) {
    return std::numeric_limits<T>::max();
  } else {
    return Eigen::NumTraits<T>::highest();
  }
}

// What an unsorted segment without rows holds.
template <Reduction kReduction, typename T>
T Identity() {
  if constexpr (kReduction == Reduction::kMax) return Lowest<T>();
  if constexpr (kReduction == Reduction::kMin) return Highest<T>();
  return static_cast<T>(kReduction == Reduction::kProd ? 1 : 0);
}

int64_t RowWidth(const Shape& shape, int from) {
  int64_t width = 1;
  for (int i = from; i < shape.rank(); ++i) width *= shape.dim(i);
  return width;
}

template <typename Index>
absl::Status CopyTargets(const KernelContext& context, int64_t segments, int64_t* targets) {
  const Index* ids = context.input<Index>(1);
  const Shape& shape = context.input_type(1).shape;
  const int64_t rows = shape.num_elements();
  for (int64_t r = 0; r < rows; ++r) {
    if (ids[r] >= segments) {
      return absl::InvalidArgumentError(absl::StrCat("segment_ids", IndexString(shape, r), " = ", ids[r],
                                                     " is out of range [0, ", segments, ")"));
    }
    targets[r] = ids[r];  // negative ids drop their row
  }
  return absl::OkStatus();
}

absl::Status UnsortedTargets(const KernelContext& context, int64_t segments, int64_t* targets) {
  switch (context.input_type(1).dtype) {
    case DataType::kInt16: return CopyTargets<int16_t>(context, segments, targets);
    case DataType::kInt32: return CopyTargets<int32_t>(context, segments, targets);
    default: return CopyTargets<int64_t>(context, segments, targets);
  }
}

// A segment of NaN alone is NaN, not what a segment without rows holds.
constexpr Combine UnsortedCombineOf(Reduction reduction) {
  if (reduction == Reduction::kMax) return Combine::kMaxOrLater;
  if (reduction == Reduction::kMin) return Combine::kMinOrLater;
  return CombineOf(reduction);
}

// Complex numbers are added part by part, multiplied as they are, and have no order.
template <bool kMultiplies, typename Visit>
KernelOr DispatchReduced(const OpInstance& instance, Reduction reduction, Visit&& visit) {
  const DataType dtype = instance.inputs[0].dtype;
  return DispatchNumbers<kMultiplies>(instance, CombineOf(reduction) == Combine::kAdd ? PartOf(dtype) : dtype, visit);
}
int64_t PartsIn(const OpInstance& instance, Reduction reduction) {
  return CombineOf(reduction) == Combine::kAdd ? PartsOf(instance.inputs[0].dtype) : 1;
}

template <Reduction kReduction>
KernelOr MakeUnsorted(const OpInstance& instance) {
  const int64_t rows = instance.inputs[1].shape.num_elements();
  const int64_t width = RowWidth(instance.inputs[0].shape, instance.inputs[1].shape.rank()) * PartsIn(instance, kReduction);
  const int64_t segments = instance.outputs[0].shape.dim(0);
  const DataType index = instance.inputs[1].dtype;
  if (index != DataType::kInt16 && index != DataType::kInt32 && index != DataType::kInt64) return UnsupportedType(instance, index);
  return DispatchReduced<kReduction == Reduction::kProd>(instance, kReduction, [&](auto tag) -> KernelOr {
    using T = typename decltype(tag)::type;
    auto run = [rows, width, segments](const KernelContext& context) -> absl::Status {
      auto* targets = static_cast<int64_t*>(context.scratch);
      MR_RETURN_IF_ERROR(UnsortedTargets(context, segments, targets));
      T* out = context.output<T>(0);
      ParallelRange(context, segments * width, kElementGrain, [&](int64_t begin, int64_t end) {
        std::fill(out + begin, out + end, Identity<kReduction, T>());
      });
      if (width > 0) {
        ScatterRowsAs<T, UnsortedCombineOf(kReduction)>(context, targets, rows, width, context.input<T>(0), out, segments);
      }
      return absl::OkStatus();
    };
    return MakeKernel(std::move(run), rows * static_cast<int64_t>(sizeof(int64_t)));
  });
}

// Sorted ids of `rows` rows; row r of the data is row indices[r] (or r).
struct SortedForm {
  Reduction reduction;
  bool sparse;        // input 1 holds indices, input 2 the ids
  bool fixed_rows;    // the number of output rows is an input
  int64_t parts = 1;  // that every element has
};

absl::Status CheckSorted(absl::Span<const int64_t> ids, int64_t limit, bool fixed_rows) {
  if (!std::is_sorted(ids.begin(), ids.end())) return absl::InvalidArgumentError("segment ids are not increasing");
  if (!fixed_rows && !ids.empty() && ids.front() >= 0 && ids.back() >= limit) {
    return absl::UnimplementedError(absl::StrCat("segment id ", ids.back(), " leaves gaps, which are not covered where ids are known only when running: ",
                                                 "its output was planned with at most ", limit, " rows"));
  }
  if (!ids.empty() && (ids.front() < 0 || ids.back() >= limit)) {
    return absl::InvalidArgumentError(absl::StrCat("Segment id ", ids.front() < 0 ? ids.front() : ids.back(),
                                                   " out of range [0, ", limit, ")"));
  }
  return absl::OkStatus();
}

// A mean is divided by the number of rows as an element: a narrow one may make 0 of it.
template <typename T>
absl::Status CheckCounts(Reduction reduction, absl::Span<const int64_t> ids) {
  if constexpr (std::is_integral_v<T>) {
    if (reduction != Reduction::kMean) return absl::OkStatus();
    for (auto begin = ids.begin(); begin != ids.end();) {
      const auto end = std::upper_bound(begin, ids.end(), *begin);
      if (static_cast<T>(end - begin) == 0) {
        return absl::InvalidArgumentError(absl::StrCat("segment ", *begin, " has ", end - begin, " rows, by which its elements cannot be divided"));
      }
      begin = end;
    }
  }
  return absl::OkStatus();
}

template <typename T, typename W>
void CombineRow(Combine combine, const T* from, int64_t width, W* out) {
  const auto run = [=]<Combine kCombine>() {
    for (int64_t c = 0; c < width; ++c) out[c] = CombineOne<W, kCombine>(out[c], static_cast<W>(from[c]));
  };
  if constexpr (!Eigen::NumTraits<T>::IsComplex) {
    if (combine == Combine::kMax) return run.template operator()<Combine::kMax>();
    if (combine == Combine::kMin) return run.template operator()<Combine::kMin>();
  }
  combine == Combine::kMul ? run.template operator()<Combine::kMul>() : run.template operator()<Combine::kAdd>();
}

// The reduction of `count` > 0 rows, of which row(k) is the k-th, in their order.
template <typename W, typename RowAt>
void ReduceInto(Reduction reduction, int64_t count, int64_t width, RowAt&& row, W* out) {
  const auto* first = row(0);
  for (int64_t c = 0; c < width; ++c) out[c] = static_cast<W>(first[c]);
  for (int64_t k = 1; k < count; ++k) CombineRow(CombineOf(reduction), row(k), width, out);
  if (reduction != Reduction::kMean && reduction != Reduction::kSqrtN) return;
  const W divisor = reduction == Reduction::kMean ? static_cast<W>(count) : static_cast<W>(std::sqrt(static_cast<double>(count)));
  for (int64_t c = 0; c < width; ++c) out[c] = static_cast<W>(out[c] / divisor);
}

// Calls reduce(first column, columns, W*) for all columns of a row of T, some at a time where W is another type.
template <typename W, typename T, typename Reduce>
void InColumns(int64_t width, T* out, Reduce&& reduce) {
  if constexpr (std::is_same_v<W, T>) {
    reduce(int64_t{0}, width, out);
  } else {
    constexpr int64_t kAtOnce = 512;
    W sums[kAtOnce];
    for (int64_t c = 0; c < width; c += kAtOnce) {
      const int64_t columns = std::min(kAtOnce, width - c);
      reduce(c, columns, sums);
      for (int64_t k = 0; k < columns; ++k) out[c + k] = static_cast<T>(sums[k]);
    }
  }
}

// One output row: the reduction of rows [begin, end), in their order, made in numbers of type W.
template <typename W, typename T>
void ReduceRows(Reduction reduction, const T* data, const int64_t* indices, int64_t begin, int64_t end, int64_t width,
                T* out) {
  if (begin == end) {
    std::fill_n(out, width, static_cast<T>(reduction == Reduction::kProd ? 1 : 0));
    return;
  }
  InColumns<W>(width, out, [&](int64_t column, int64_t columns, W* sums) {
    const auto row = [&](int64_t k) { return data + (indices == nullptr ? begin + k : indices[begin + k]) * width + column; };
    ReduceInto(reduction, end - begin, columns, row, sums);
  });
}

template <typename T, typename W>
absl::Status RunSorted(const KernelContext& context, const SortedForm& form) {
  const ValueReader reader(context);
  const Shape &data = context.input_type(0).shape, &planned = context.output_type(0).shape;
  const int64_t width = RowWidth(data, 1) * form.parts;
  MR_ASSIGN_OR_RETURN(const Ints ids, reader.ints(form.sparse ? 2 : 1));
  MR_RETURN_IF_ERROR(CheckSorted(ids, planned.dim(0), form.fixed_rows));
  MR_RETURN_IF_ERROR(CheckCounts<T>(form.reduction, ids));
  Ints indices;
  if (form.sparse) {
    MR_ASSIGN_OR_RETURN(indices, reader.ints(1));
    MR_RETURN_IF_ERROR(CheckIndices(indices.data(), context.input_type(1).shape, data.dim(0), "indices"));
  }
  const int64_t rows = form.fixed_rows ? planned.dim(0) : ids.empty() ? 0 : ids.back() + 1;
  const int64_t work_per_row = std::max<int64_t>(static_cast<int64_t>(ids.size()) * width / std::max<int64_t>(rows, 1), 1);
  ParallelRange(context, rows, std::max<int64_t>(kElementGrain / work_per_row, 1), [&](int64_t first, int64_t last) {
    int64_t begin = std::lower_bound(ids.begin(), ids.end(), first) - ids.begin();
    for (int64_t row = first; row < last; ++row) {
      int64_t end = begin;
      while (end < static_cast<int64_t>(ids.size()) && ids[end] == row) ++end;
      ReduceRows<W>(form.reduction, context.input<T>(0), form.sparse ? indices.data() : nullptr, begin, end, width,
                    context.output<T>(0) + row * width);
      begin = end;
    }
  });
  if (rows != planned.dim(0)) SetRealDim(context, 0, 0, rows);
  return absl::OkStatus();
}

KernelFactory Sorted(const SortedForm& form) {
  return [form](const OpInstance& instance) -> KernelOr {
    SortedForm own = form;
    own.parts = PartsIn(instance, form.reduction);
    const auto make = [&](auto tag) -> KernelOr {
      using T = typename decltype(tag)::type;
      return MakeKernel([own](const KernelContext& context) {
        return own.sparse ? RunSorted<T, WideSum<T>>(context, own) : RunSorted<T, T>(context, own);
      });
    };
    return form.reduction == Reduction::kProd ? DispatchReduced<true>(instance, form.reduction, make)
                                              : DispatchReduced<false>(instance, form.reduction, make);
  };
}

struct SparseGradInputs {
  Ints indices, ids;
  std::vector<double> scale;  // by segment
};

// grad [segments, …], indices, segment_ids; `rows` there are for the indices.
absl::StatusOr<SparseGradInputs> ReadSparseGrad(const KernelContext& context, Reduction reduction, int64_t rows) {
  const ValueReader reader(context);
  const int64_t segments = context.input_type(0).shape.dim(0);
  SparseGradInputs read;
  MR_ASSIGN_OR_RETURN(read.indices, reader.ints(1));
  MR_ASSIGN_OR_RETURN(read.ids, reader.ints(2));
  MR_RETURN_IF_ERROR(CheckIndices(read.indices.data(), context.input_type(1).shape, rows, "indices"));
  MR_RETURN_IF_ERROR(CheckIndices(read.ids.data(), context.input_type(2).shape, segments, "segment_ids"));
  read.scale.resize(segments, 0);
  for (int64_t id : read.ids) read.scale[id] += 1;
  for (double& value : read.scale) {
    if (value > 0) value = reduction == Reduction::kSum ? 1 : 1 / (reduction == Reduction::kMean ? value : std::sqrt(value));
  }
  return read;
}

// Row row_of(r) of the output gets grad[ids[r]], scaled by its segment. The output is 0 before.
template <typename T, typename RowOf>
void AddSparseGrad(const KernelContext& context, const SparseGradInputs& read, RowOf&& row_of) {
  const int64_t width = RowWidth(context.input_type(0).shape, 1);
  for (size_t r = 0; r < read.ids.size(); ++r) {
    const T* from = context.input<T>(0) + read.ids[r] * width;
    T* to = context.output<T>(0) + row_of(r) * width;
    const T factor = static_cast<T>(read.scale[read.ids[r]]);
    for (int64_t c = 0; c < width; ++c) to[c] = static_cast<T>(to[c] + static_cast<T>(from[c] * factor));
  }
}

// The same where sums are made in a wider type: row by row of the output.
template <typename T, typename RowOf>
void AddSparseGradWide(const KernelContext& context, const SparseGradInputs& read, RowOf&& row_of) {
  using W = WideSum<T>;
  const int64_t width = RowWidth(context.input_type(0).shape, 1);
  std::vector<size_t> order(read.ids.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return read.indices[a] < read.indices[b]; });
  for (auto begin = order.begin(), end = begin; begin != order.end(); begin = end) {
    while (end != order.end() && read.indices[*end] == read.indices[*begin]) ++end;
    InColumns<W>(width, context.output<T>(0) + row_of(*begin) * width, [&](int64_t column, int64_t columns, W* sums) {
      std::fill_n(sums, columns, W(0));
      for (auto r = begin; r != end; ++r) {
        const T* from = context.input<T>(0) + read.ids[*r] * width + column;
        const W factor = static_cast<W>(read.scale[read.ids[*r]]);
        for (int64_t c = 0; c < columns; ++c) sums[c] += static_cast<W>(from[c]) * factor;
      }
    });
  }
}

template <typename T, typename RowOf>
void SumSparseGrad(const KernelContext& context, const SparseGradInputs& read, RowOf&& row_of) {
  if constexpr (std::is_same_v<T, WideSum<T>>) {
    AddSparseGrad<T>(context, read, row_of);
  } else {
    AddSparseGradWide<T>(context, read, row_of);
  }
}

// Input 3 says how many rows there are.
template <typename T>
absl::Status RunSparseGrad(const KernelContext& context, Reduction reduction) {
  MR_ASSIGN_OR_RETURN(const SparseGradInputs read, ReadSparseGrad(context, reduction, context.output_type(0).shape.dim(0)));
  FillZero(context, context.outputs[0], context.output_type(0).size_bytes());
  SumSparseGrad<T>(context, read, [&](size_t r) { return read.indices[r]; });
  return absl::OkStatus();
}

// Only the rows that get anything; output 1 has their numbers, rising.
template <typename T>
absl::Status RunSparseRowsGrad(const KernelContext& context, Reduction reduction) {
  MR_ASSIGN_OR_RETURN(const Ints all, ValueReader(context).ints(3));
  MR_ASSIGN_OR_RETURN(const SparseGradInputs read, ReadSparseGrad(context, reduction, all[0]));
  std::vector<int64_t> rows(read.indices.begin(), read.indices.end());
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  const int64_t count = static_cast<int64_t>(rows.size());
  FillZero(context, context.outputs[0], count * RowWidth(context.input_type(0).shape, 1) * static_cast<int64_t>(sizeof(T)));
  SumSparseGrad<T>(context, read, [&](size_t r) { return std::lower_bound(rows.begin(), rows.end(), read.indices[r]) - rows.begin(); });
  for (int64_t i = 0; i < count; ++i) {
    if (context.output_type(1).dtype == DataType::kInt64) {
      context.output<int64_t>(1)[i] = rows[i];
    } else {
      context.output<int32_t>(1)[i] = static_cast<int32_t>(rows[i]);
    }
  }
  SetRealDim(context, 0, 0, count);
  SetRealDim(context, 1, 0, count);
  return absl::OkStatus();
}

KernelFactory SparseGrad(Reduction reduction, bool given_rows) {
  return [=](const OpInstance& instance) -> KernelOr {
    return DispatchFloating(instance, instance.inputs[0].dtype, [&](auto tag) -> KernelOr {
      using T = typename decltype(tag)::type;
      return MakeKernel([=](const KernelContext& context) {
        return given_rows ? RunSparseRowsGrad<T>(context, reduction) : RunSparseGrad<T>(context, reduction);
      });
    });
  };
}

}  // namespace

void RegisterSegmentKernels(KernelRegistry& registry) {
  AddKernel(registry, "UnsortedSegmentSum", MakeUnsorted<Reduction::kSum>);
  AddKernel(registry, "UnsortedSegmentProd", MakeUnsorted<Reduction::kProd>);
  AddKernel(registry, "UnsortedSegmentMax", MakeUnsorted<Reduction::kMax>);
  AddKernel(registry, "UnsortedSegmentMin", MakeUnsorted<Reduction::kMin>);
  const std::pair<const char*, Reduction> sorted[] = {{"Sum", Reduction::kSum},
                                                      {"Prod", Reduction::kProd},
                                                      {"Max", Reduction::kMax},
                                                      {"Min", Reduction::kMin},
                                                      {"Mean", Reduction::kMean}};
  for (const auto& [name, reduction] : sorted) {
    AddKernel(registry, absl::StrCat("Segment", name), Sorted({reduction, false, false}));
  }
  const std::pair<const char*, Reduction> sparse[] = {
      {"Sum", Reduction::kSum}, {"Mean", Reduction::kMean}, {"SqrtN", Reduction::kSqrtN}};
  for (const auto& [name, reduction] : sparse) {
    AddKernel(registry, absl::StrCat("SparseSegment", name), Sorted({reduction, true, false}));
    AddKernel(registry, absl::StrCat("SparseSegment", name, "WithNumSegments"), Sorted({reduction, true, true}));
    AddKernel(registry, absl::StrCat("SparseSegment", name, "Grad"), SparseGrad(reduction, false));
    AddKernel(registry, absl::StrCat("SparseSegment", name, "GradV2"), SparseGrad(reduction, true));
  }
}

}  // namespace millrace::cpu
