// Tensors of ONNX files.
#ifndef MILLRACE_SRC_IMPORT_ONNX_TENSORS_H_
#define MILLRACE_SRC_IMPORT_ONNX_TENSORS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/tensor.h"
#include "millrace/proto/onnx.pb.h"

namespace millrace::onnx {

// `folder` is where external data may lie; empty: nowhere. InvalidArgument when the elements do not fit the dimensions,
// when external data is outside the folder or too short.
// 4-bit integers and 8-bit floats are Unimplemented.
absl::StatusOr<Tensor> TensorFromOnnx(const onnx_proto::TensorProto& proto, const std::string& folder);

// The same; 4-bit integers become int8 or uint8, 8-bit floats float.
absl::StatusOr<Tensor> WidenedFromOnnx(const onnx_proto::TensorProto& proto, const std::string& folder);

// The files that hold external data of the model's tensors, those of nested graphs and functions too, by name.
std::vector<std::string> ExternalFiles(const onnx_proto::ModelProto& model, const std::string& folder);

}  // namespace millrace::onnx

#endif  // MILLRACE_SRC_IMPORT_ONNX_TENSORS_H_
