// Tensors, shapes and attributes between TensorFlow's messages and Millrace's values.
#ifndef MILLRACE_SRC_IMPORT_TENSOR_PROTO_H_
#define MILLRACE_SRC_IMPORT_TENSOR_PROTO_H_

#include "absl/status/statusor.h"
#include "millrace/attr.h"
#include "millrace/tensor.h"
#include "millrace/proto/graph.pb.h"

namespace millrace {

// Most bytes of a tensor whose file holds fewer elements than its shape (one value repeated).
inline constexpr int64_t kMaxRepeatedBytes = int64_t{1} << 30;

// InvalidArgument for dimensions below -1 and ranks above TensorFlow's 254.
absl::StatusOr<Shape> ShapeFromProto(const proto::TensorShapeProto& proto);
void ShapeToProto(const Shape& shape, proto::TensorShapeProto* proto);

// InvalidArgument when the bytes or values do not fit the shape, Unimplemented for other element types. Handles
// and variants come back without a value.
absl::StatusOr<Tensor> TensorFromProto(const proto::TensorProto& proto);
void TensorToProto(const Tensor& tensor, proto::TensorProto* proto);

absl::StatusOr<AttrValue> AttrFromProto(const proto::AttrValue& proto);
void AttrToProto(const AttrValue& value, proto::AttrValue* proto);

// A map in a message is a list of entries; the last one of a name counts. Errors name the attribute.
absl::StatusOr<AttrMap> AttrMapFromProto(const google::protobuf::RepeatedPtrField<proto::AttrEntry>& entries);
void AttrMapToProto(const AttrMap& attrs, google::protobuf::RepeatedPtrField<proto::AttrEntry>* entries);

}  // namespace millrace

#endif  // MILLRACE_SRC_IMPORT_TENSOR_PROTO_H_
