#include "cpu/kernels/indices.h"

namespace millrace::cpu {

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

}  // namespace millrace::cpu
