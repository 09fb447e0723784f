#include "cpu/kernels/indices.h"

#include "absl/strings/str_join.h"

namespace millrace::cpu {

std::string IndexString(const Shape& shape, int64_t flat) {
  if (shape.rank() == 0) return "";
  std::vector<int64_t> index(shape.rank());
  for (int d = shape.rank() - 1; d >= 0; --d) {
    index[d] = flat % shape.dim(d);
    flat /= shape.dim(d);
  }
  return absl::StrCat("[", absl::StrJoin(index, ","), "]");
}

NdLayout MakeNdLayout(const Shape& sliced, const Shape& indices, int64_t element_bytes) {
  NdLayout layout;
  layout.depth = indices.dim(indices.rank() - 1);
  for (int i = 0; i + 1 < indices.rank(); ++i) layout.rows *= indices.dim(i);
  for (int i = static_cast<int>(layout.depth); i < sliced.rank(); ++i) layout.slice_elements *= sliced.dim(i);
  layout.slice_bytes = layout.slice_elements * element_bytes;
  layout.dims.assign(sliced.dims().begin(), sliced.dims().begin() + layout.depth);
  layout.strides.assign(layout.depth, 1);
  for (int64_t d = layout.depth - 2; d >= 0; --d) layout.strides[d] = layout.strides[d + 1] * layout.dims[d + 1];
  return layout;
}

absl::Status NdIndexError(const Shape& indices, int64_t row, absl::Span<const int64_t> values, const Shape& sliced) {
  const Shape rows(indices.dims().subspan(0, indices.rank() - 1));
  return absl::InvalidArgumentError(absl::StrCat("indices", IndexString(rows, row), " = [",
                                                 absl::StrJoin(values, ", "), "] does not index into shape ",
                                                 sliced.ToString()));
}

}  // namespace millrace::cpu
