// Indices that name rows of a variable, read, checked, and shared out so that equal rows are updated in order.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_ROW_INDICES_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_ROW_INDICES_H_

#include "cpu/kernels/common.h"

namespace millrace::cpu {

class RowIndices {
 public:
  // Of a variable's first dimension. InvalidArgument when the type is not int32 or int64.
  static absl::StatusOr<RowIndices> Create(const OpInstance& instance, int input, const Shape& variable);

  int64_t count() const { return count_; }
  int64_t row_elements() const { return row_elements_; }

  // InvalidArgument that names the first index out of range.
  absl::Status Check(const KernelContext& context) const;

  // Calls update(row, i) for index i = 0, 1, … that names `row`, for equal rows in the order of the indices. Ranges of
  // rows are shared out to shards, each of which reads all indices, so that no two shards touch one row.
  template <typename Update>
  void ForEach(const KernelContext& context, Update&& update) const {
    const int64_t shards = NumShards(count_ * row_elements_, kElementGrain / 2);
    if (shards == 1) {
      for (int64_t i = 0; i < count_; ++i) update(RowOf(context, i), i);
      return;
    }
    context.parallel->For(shards, [&](int64_t s) {
      const int64_t first = rows_ * s / shards, last = rows_ * (s + 1) / shards;
      for (int64_t i = 0; i < count_; ++i) {
        const int64_t row = RowOf(context, i);
        if (row >= first && row < last) update(row, i);
      }
    });
  }

 private:
  int64_t RowOf(const KernelContext& context, int64_t i) const {
    return wide_ ? context.input<int64_t>(input_)[i] : context.input<int32_t>(input_)[i];
  }

  int input_ = 0;
  bool wide_ = false;
  int64_t count_ = 0;
  int64_t rows_ = 0;
  int64_t row_elements_ = 1;
};

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_ROW_INDICES_H_
