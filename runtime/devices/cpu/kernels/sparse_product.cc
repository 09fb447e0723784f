// Products of sparse matrices, row by row: each value of a row of `a` adds a row of `b` (F. Gustavson, TOMS 4, 1978).
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/rarest.h"
#include "cpu/kernels/real_shapes.h"
#include "cpu/kernels/values.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

// A matrix by rows: those of row r are entries [first[r], first[r + 1]), in the order of their columns.
template <typename T>
struct Rows {
  std::vector<int64_t> first, columns;
  std::vector<T> values;
};

// Of inputs `at`, at + 1 and at + 2, transposed or not.
template <typename T>
absl::StatusOr<Rows<T>> RowsOf(const KernelContext& context, int at, bool transposed) {
  MR_ASSIGN_OR_RETURN(const Ints dims, ValueReader(context).ints(at + 2));
  const int64_t count = context.input_type(at + 1).shape.num_elements();
  const int64_t *indices = context.input<int64_t>(at), row_at = transposed ? 1 : 0;
  const T* values = context.input<T>(at + 1);
  Rows<T> rows;
  rows.first.assign(dims[row_at] + 1, 0);
  for (int64_t i = 0; i < 2 * count; ++i) {
    if (indices[i] < 0 || indices[i] >= dims[i % 2]) {
      return absl::InvalidArgumentError(absl::StrCat("index ", indices[i], " is not in [0, ", dims[i % 2], ")"));
    }
    if (i % 2 == row_at) ++rows.first[indices[i] + 1];
  }
  for (int64_t r = 0; r < dims[row_at]; ++r) rows.first[r + 1] += rows.first[r];
  std::vector<int64_t> next(rows.first.begin(), rows.first.end() - 1);
  rows.columns.resize(count);
  rows.values.resize(count);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t to = next[indices[2 * i + row_at]]++;
    rows.columns[to] = indices[2 * i + 1 - row_at];
    rows.values[to] = values[i];
  }
  return rows;
}

template <typename T>
absl::Status Multiply(const KernelContext& context, bool transpose_a, bool transpose_b) {
  MR_ASSIGN_OR_RETURN(const Rows<T> a, RowsOf<T>(context, 0, transpose_a));
  MR_ASSIGN_OR_RETURN(const Rows<T> b, RowsOf<T>(context, 3, transpose_b));
  MR_ASSIGN_OR_RETURN(const Ints dims, ValueReader(context).ints(5));
  std::vector<T> sums(dims[transpose_b ? 0 : 1]);
  std::vector<bool> there(sums.size(), false);
  std::vector<int64_t> columns;
  int64_t found = 0;
  for (size_t r = 0; r + 1 < a.first.size(); ++r) {
    columns.clear();
    for (int64_t i = a.first[r]; i < a.first[r + 1]; ++i) {
      const int64_t inner = a.columns[i];
      for (int64_t k = b.first[inner]; k < b.first[inner + 1]; ++k) {
        const int64_t column = b.columns[k];
        const T product = a.values[i] * b.values[k];
        sums[column] = there[column] ? sums[column] + product : product;
        if (!there[column]) columns.push_back(column);
        there[column] = true;
      }
    }
    std::sort(columns.begin(), columns.end());
    for (int64_t column : columns) {
      context.output<int64_t>(0)[2 * found] = static_cast<int64_t>(r);
      context.output<int64_t>(0)[2 * found + 1] = column;
      context.output<T>(1)[found++] = sums[column];
      there[column] = false;
    }
  }
  SetRealRows(context, 0, 1, found, 2);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeProduct(const OpInstance& node) {
  const bool transpose_a = node.attrs.GetOr<bool>("transpose_a", false), transpose_b = node.attrs.GetOr<bool>("transpose_b", false);
  return DispatchFloating(node, node.inputs[1].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([=](const KernelContext& context) { return Multiply<T>(context, transpose_a, transpose_b); });
  });
}

}  // namespace

void RegisterSparseProductKernels(KernelRegistry& registry) { AddKernel(registry, "_SparseMatrixProduct", MakeProduct); }

}  // namespace millrace::cpu
