#include "cpu/kernels/row_indices.h"

#include "absl/strings/str_cat.h"

namespace millrace::cpu {

absl::StatusOr<RowIndices> RowIndices::Create(const OpInstance& instance, int input, const Shape& variable) {
  RowIndices indices;
  const TensorType& type = instance.inputs[input];
  if (type.dtype != DataType::kInt32 && type.dtype != DataType::kInt64) return UnsupportedType(instance, type.dtype);
  indices.input_ = input;
  indices.wide_ = type.dtype == DataType::kInt64;
  indices.count_ = type.shape.num_elements();
  indices.rows_ = variable.dim(0);
  for (int d = 1; d < variable.rank(); ++d) indices.row_elements_ *= variable.dim(d);
  return indices;
}

absl::Status RowIndices::Check(const KernelContext& context) const {
  for (int64_t i = 0; i < count_; ++i) {
    const int64_t row = RowOf(context, i);
    if (row >= 0 && row < rows_) continue;
    return absl::InvalidArgumentError(absl::StrCat("indices[", i, "] = ", row, " is not in [0, ", rows_, ")"));
  }
  return absl::OkStatus();
}

}  // namespace millrace::cpu
