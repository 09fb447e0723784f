// Indices that ops read from tensors: dispatch on their type, range checks with TensorFlow's messages, and the
// layout of GatherNd and ScatterNd.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_INDICES_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_INDICES_H_

#include <cstring>

#include "cpu/kernels/common.h"
#include "graph/value_errors.h"
#include "millrace/status.h"

namespace millrace::cpu {

// visit(TypeTag<int32_t or int64_t>()) for the type of input `input`.
template <typename Visit>
absl::StatusOr<std::unique_ptr<Kernel>> DispatchIndex(const OpInstance& instance, int input, Visit&& visit) {
  switch (instance.inputs[input].dtype) {
    case DataType::kInt32: return visit(TypeTag<int32_t>());
    case DataType::kInt64: return visit(TypeTag<int64_t>());
    default: return UnsupportedType(instance, instance.inputs[input].dtype);
  }
}

// The few ops that take indices of 16 bits too.
template <typename Visit>
absl::StatusOr<std::unique_ptr<Kernel>> DispatchAnyIndex(const OpInstance& instance, int input, Visit&& visit) {
  if (instance.inputs[input].dtype == DataType::kInt16) return visit(TypeTag<int16_t>());
  return DispatchIndex(instance, input, visit);
}

inline void CopyRow(char* out, const char* in, int64_t bytes) {
  switch (bytes) {  // scalars, without a call
    case 1: *out = *in; return;
    case 2: std::memcpy(out, in, 2); return;
    case 4: std::memcpy(out, in, 4); return;
    case 8: std::memcpy(out, in, 8); return;
    default: std::memcpy(out, in, bytes);
  }
}

// InvalidArgument that names the first index outside [0, limit): "indices[0,1] = 7 is not in [0, 5)".
template <typename Index>
absl::Status CheckIndices(const Index* indices, const Shape& shape, int64_t limit, std::string_view name) {
  const int64_t count = shape.num_elements();
  bool good = true;
  for (int64_t i = 0; i < count; ++i) good &= static_cast<uint64_t>(indices[i]) < static_cast<uint64_t>(limit);
  for (int64_t i = 0; !good && i < count; ++i) {
    if (static_cast<uint64_t>(indices[i]) >= static_cast<uint64_t>(limit)) {
      return absl::InvalidArgumentError(absl::StrCat(std::string(name), IndexString(shape, i), " = ", indices[i],
                                                     " is not in [0, ", limit, ")"));
    }
  }
  return absl::OkStatus();
}

// Rows of `indices` name slices of a tensor: index row r is depth numbers, a slice has slice_bytes bytes.
struct NdLayout {
  int64_t rows = 1, depth = 0, slice_bytes = 0, slice_elements = 1;
  absl::InlinedVector<int64_t, 8> dims, strides;  // of the indexed dimensions, strides in slices

  // The slice that index row r names. Requires a checked row.
  template <typename Index>
  int64_t Row(const Index* indices, int64_t r) const {
    int64_t slice = 0;
    for (int64_t d = 0; d < depth; ++d) slice += static_cast<int64_t>(indices[r * depth + d]) * strides[d];
    return slice;
  }
  template <typename Index>
  bool Inside(const Index* indices, int64_t r) const {
    bool inside = true;
    for (int64_t d = 0; d < depth; ++d) {
      inside &= static_cast<uint64_t>(indices[r * depth + d]) < static_cast<uint64_t>(dims[d]);
    }
    return inside;
  }
};
NdLayout MakeNdLayout(const Shape& sliced, const Shape& indices, int64_t element_bytes);

template <typename Index>
absl::Status CheckNdIndices(const NdLayout& layout, const Index* indices, const Shape& shape, const Shape& sliced) {
  for (int64_t r = 0; r < layout.rows; ++r) {
    if (layout.Inside(indices, r)) continue;
    const absl::InlinedVector<int64_t, 8> values(indices + r * layout.depth, indices + (r + 1) * layout.depth);
    return NdIndexError(shape, r, values, sliced);
  }
  return absl::OkStatus();
}

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_INDICES_H_
