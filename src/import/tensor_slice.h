// Slices of tensors in a checkpoint: under which keys their bytes are, and copying between boxes of one tensor.
#ifndef MILLRACE_SRC_IMPORT_TENSOR_SLICE_H_
#define MILLRACE_SRC_IMPORT_TENSOR_SLICE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/import.h"
#include "millrace/proto/saved_model.pb.h"

namespace millrace {

// All of a tensor, as a slice.
TensorSlice WholeSlice(const Shape& whole);
bool IsWhole(const TensorSlice& slice);

// InvalidArgument unless the slice is a box within its whole, of known shape.
absl::Status CheckSlice(const TensorSlice& slice);

// InvalidArgument when it does not lie within `whole`. An extent without a length is the whole dimension.
absl::StatusOr<TensorSlice> SliceFromProto(const Shape& whole, const proto::TensorSliceProto& proto);
void SliceToProto(const TensorSlice& slice, proto::TensorSliceProto* proto);

// The key of the slice's bytes in the index: TensorFlow's ordered code of 0, name, rank, and start and length of each extent.
std::string SliceKey(const std::string& name, const proto::TensorSliceProto& slice);

// Elements that both slices of one tensor hold, and copying them. Requires elements of a fixed size.
int64_t CommonElements(const TensorSlice& a, const TensorSlice& b);
void CopyCommon(const TensorSlice& from, const Tensor& source, const TensorSlice& to, Tensor& target);

// Whether any two of these slices of one tensor hold the same element: what they hold together would not say what they leave out.
bool AnyOverlap(std::vector<TensorSlice> slices);

}  // namespace millrace

#endif  // MILLRACE_SRC_IMPORT_TENSOR_SLICE_H_
