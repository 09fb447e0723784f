// SparseFillEmptyRows, RaggedFillEmptyRows: a default value at column 0 of every row without values; and their gradient.
#include <vector>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/complex.h"
#include "cpu/kernels/rare.h"
#include "cpu/kernels/real_shapes.h"
#include "cpu/kernels/values.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

// Where each row's values begin in the result, and which rows are empty.
absl::StatusOr<std::vector<int64_t>> RowStarts(const int64_t* indices, int64_t count, int64_t rank, int64_t rows, bool* empty) {
  std::vector<int64_t> starts(rows + 1, 0);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = indices[i * rank];
    if (row < 0 || row >= rows) {
      return absl::InvalidArgumentError(absl::StrCat("indices(", i, ", 0) is invalid: ", row, " >= ", rows));
    }
    ++starts[row + 1];
  }
  for (int64_t row = 0; row < rows; ++row) {
    empty[row] = starts[row + 1] == 0;
    starts[row + 1] = starts[row] + std::max<int64_t>(starts[row + 1], 1);
  }
  return starts;
}

// (indices, values, dense_shape, default_value) -> indices, values, empty_row_indicator, reverse_index_map;
// of ragged rows, each value's row in place of its indices, and the number of rows in place of the shape.
template <typename T>
absl::Status FillRows(const KernelContext& context) {
  const Shape& shape = context.input_type(0).shape;
  const bool ragged = shape.rank() == 1;
  const int64_t count = shape.dim(0), rank = ragged ? 1 : shape.dim(1);
  MR_ASSIGN_OR_RETURN(const Ints dense, ValueReader(context).ints(2));
  const int64_t rows = dense[0];
  const int64_t* indices = context.input<int64_t>(0);
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> starts, RowStarts(indices, count, rank, rows, context.output<bool>(2)));
  int64_t* out = context.output<int64_t>(0);
  std::vector<int64_t> next(starts.begin(), starts.end());
  for (int64_t i = 0; i < count; ++i) {
    const int64_t to = next[indices[i * rank]]++;
    std::copy_n(indices + i * rank, rank, out + to * rank);
    context.output<T>(1)[to] = context.input<T>(1)[i];
    context.output<int64_t>(3)[i] = to;
  }
  for (int64_t row = 0; row < rows; ++row) {
    if (!context.output<bool>(2)[row]) continue;
    std::fill_n(out + starts[row] * rank, rank, int64_t{0});
    out[starts[row] * rank] = row;
    context.output<T>(1)[starts[row]] = *context.input<T>(3);
  }
  SetRealRows(context, 0, 1, starts[rows], rank);
  if (ragged) SetRealShape(context, 0, Shape({starts[rows]}));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeFillRows(const OpInstance& node) {
  return DispatchBySize(node, node.inputs[1].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([](const KernelContext& context) { return FillRows<T>(context); });
  });
}

// (reverse_index_map, grad_values) -> d_values, d_default_value: the sum of what no value is mapped to.
template <typename T>
absl::Status FillRowsGrad(const KernelContext& context) {
  const int64_t count = context.input_type(0).shape.num_elements(), filled = context.input_type(1).shape.num_elements();
  std::vector<bool> visited(filled, false);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t from = context.input<int64_t>(0)[i];
    if (from < 0 || from >= filled) {
      return absl::InvalidArgumentError(absl::StrCat("Elements in reverse index must be in [0, ", filled, ") but got ", from));
    }
    context.output<T>(0)[i] = context.input<T>(1)[from];
    visited[from] = true;
  }
  T sum(0);
  for (int64_t k = 0; k < filled; ++k) {
    if (!visited[k]) sum = static_cast<T>(sum + context.input<T>(1)[k]);
  }
  *context.output<T>(1) = sum;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeFillRowsGrad(const OpInstance& node) {
  return DispatchNumericOrComplex(node, node.inputs[1].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([](const KernelContext& context) { return FillRowsGrad<T>(context); });
  });
}

}  // namespace

void RegisterFillRowsKernels(KernelRegistry& registry) {
  for (const char* name : {"SparseFillEmptyRows", "RaggedFillEmptyRows"}) AddKernel(registry, name, MakeFillRows);
  for (const char* name : {"SparseFillEmptyRowsGrad", "RaggedFillEmptyRowsGrad"}) AddKernel(registry, name, MakeFillRowsGrad);
}

}  // namespace millrace::cpu
