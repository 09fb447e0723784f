// Conditional accumulators of gradients, in the bytes of a variable. What would wait for ever is an error: nothing runs beside a step
// that could end the wait.
#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/rare.h"
#include "cpu/kernels/real_shapes.h"
#include "graph/accumulator.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

struct Header {
  int64_t gradients = 0, global_step = 0;
};

Header& HeaderOf(const KernelContext& context) { return *context.variable<Header>(0); }
int32_t* RowCounts(const KernelContext& context) {
  return reinterpret_cast<int32_t*>(context.variable<char>(0) + AccumulatorLayout::kHeaderBytes);
}
template <typename T>
T* Sums(const KernelContext& context, const AccumulatorLayout& layout) {
  return reinterpret_cast<T*>(context.variable<char>(0) + layout.sums_at());
}

// A gradient from before the last one that was taken counts for nothing.
bool IsStale(const KernelContext& context) { return *context.input<int64_t>(1) < HeaderOf(context).global_step; }

absl::Status CheckThere(const KernelContext& context) {
  const int32_t required = *context.input<int32_t>(1);
  if (required <= 0) return absl::InvalidArgumentError(absl::StrCat("Argument num_required must be positive, got ", required));
  const Header& header = HeaderOf(context);
  if (header.gradients >= required) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "would wait for ever: ", required, " gradients are required and ", header.gradients, " there, and no other comes in this step; those of a "
      "local step before ", header.global_step, " do not count"));
}

template <typename T>
KernelOr ApplyOf(const AccumulatorLayout& layout) {
  return MakeKernel([layout](const KernelContext& context) -> absl::Status {
    if (IsStale(context)) return absl::OkStatus();
    const bool first = HeaderOf(context).gradients++ == 0;
    T* sums = Sums<T>(context, layout);
    const T* gradient = context.input<T>(2);
    ParallelRange(context, layout.shape.num_elements(), kElementGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) sums[i] = first ? gradient[i] : static_cast<T>(sums[i] + gradient[i]);
    });
    return absl::OkStatus();
  });
}

template <typename T>
KernelOr TakeOf(const AccumulatorLayout& layout) {
  return MakeKernel([layout](const KernelContext& context) -> absl::Status {
    MR_RETURN_IF_ERROR(CheckThere(context));
    Header& header = HeaderOf(context);
    const T count = static_cast<T>(layout.mean ? header.gradients : 1);
    T* sums = Sums<T>(context, layout);
    ParallelRange(context, layout.shape.num_elements(), kElementGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        context.output<T>(0)[i] = static_cast<T>(sums[i] / count);
        sums[i] = T();
      }
    });
    header = {0, header.global_step + 1};
    return absl::OkStatus();
  });
}

absl::Status CheckRows(const KernelContext& context, const AccumulatorLayout& layout) {
  const int64_t count = context.input_type(2).shape.num_elements();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = context.input<int64_t>(2)[i];
    if (row >= 0 && row < layout.rows()) continue;
    return absl::InvalidArgumentError(absl::StrCat("gradient_indices[", i, "] = ", row, " is not in [0, ", layout.rows(), ")"));
  }
  return absl::OkStatus();
}

// Rows of one gradient that are named twice are added up, and count once. While they are, those that were seen have a negative count.
template <typename T>
KernelOr SparseApplyOf(const AccumulatorLayout& layout) {
  return MakeKernel([layout](const KernelContext& context) -> absl::Status {
    MR_RETURN_IF_ERROR(CheckRows(context, layout));
    if (IsStale(context)) return absl::OkStatus();
    ++HeaderOf(context).gradients;
    int32_t* counts = RowCounts(context);
    const int64_t count = context.input_type(2).shape.num_elements(), size = layout.row_elements();
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = context.input<int64_t>(2)[i];
      T* sum = Sums<T>(context, layout) + row * size;
      const T* gradient = context.input<T>(3) + i * size;
      for (int64_t k = 0; k < size; ++k) sum[k] = counts[row] == 0 ? gradient[k] : static_cast<T>(sum[k] + gradient[k]);
      if (counts[row] >= 0) counts[row] = -(counts[row] + 1);
    }
    for (int64_t i = 0; i < count; ++i) {
      int32_t& of_row = counts[context.input<int64_t>(2)[i]];
      of_row = of_row < 0 ? -of_row : of_row;
    }
    return absl::OkStatus();
  });
}

template <typename T>
KernelOr SparseTakeOf(const AccumulatorLayout& layout) {
  return MakeKernel([layout](const KernelContext& context) -> absl::Status {
    MR_RETURN_IF_ERROR(CheckThere(context));
    const int64_t size = layout.row_elements();
    int64_t taken = 0;
    for (int64_t row = 0; row < layout.rows(); ++row) {
      int32_t& count = RowCounts(context)[row];
      if (count == 0) continue;
      T *sum = Sums<T>(context, layout) + row * size, *to = context.output<T>(1) + taken * size;
      for (int64_t k = 0; k < size; ++k) {
        to[k] = layout.mean ? static_cast<T>(sum[k] / static_cast<T>(count)) : sum[k];
        sum[k] = T();
      }
      context.output<int64_t>(0)[taken++] = row;
      count = 0;
    }
    for (int d = 0; d < layout.shape.rank(); ++d) context.output<int64_t>(2)[d] = layout.shape.dim(d);
    for (int output = 0; output < 2; ++output) SetRealDim(context, output, 0, taken);
    HeaderOf(context) = {0, HeaderOf(context).global_step + 1};
    return absl::OkStatus();
  });
}

template <typename Make>
KernelFactory OfGradients(Make make) {
  return [make](const OpInstance& instance) -> KernelOr {
    const AccumulatorLayout layout = AccumulatorLayout::Of(instance.attrs);
    return DispatchNumeric(instance, layout.dtype, [&](auto tag) -> KernelOr { return make(tag, layout); });
  };
}

KernelOr MakeCount(const OpInstance&) {
  return MakeKernel([](const KernelContext& context) -> absl::Status {
    *context.output<int32_t>(0) = static_cast<int32_t>(HeaderOf(context).gradients);
    return absl::OkStatus();
  });
}

KernelOr MakeSetStep(const OpInstance&) {
  return MakeKernel([](const KernelContext& context) -> absl::Status {
    HeaderOf(context).global_step = *context.input<int64_t>(1);
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterAccumulatorKernels(KernelRegistry& registry) {
  AddKernel(registry, "_AccumulatorApply", OfGradients([](auto tag, const AccumulatorLayout& l) { return ApplyOf<typename decltype(tag)::type>(l); }));
  AddKernel(registry, "_AccumulatorTake", OfGradients([](auto tag, const AccumulatorLayout& l) { return TakeOf<typename decltype(tag)::type>(l); }));
  AddKernel(registry, "_SparseAccumulatorApply",
            OfGradients([](auto tag, const AccumulatorLayout& l) { return SparseApplyOf<typename decltype(tag)::type>(l); }));
  AddKernel(registry, "_SparseAccumulatorTake",
            OfGradients([](auto tag, const AccumulatorLayout& l) { return SparseTakeOf<typename decltype(tag)::type>(l); }));
  AddKernel(registry, "_AccumulatorCount", MakeCount);
  AddKernel(registry, "_AccumulatorSetStep", MakeSetStep);
}

}  // namespace millrace::cpu
