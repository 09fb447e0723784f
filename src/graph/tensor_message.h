// TensorFlow's TensorProto in a string, as SerializeTensor makes it and ParseTensor takes it.
#ifndef MILLRACE_SRC_GRAPH_TENSOR_MESSAGE_H_
#define MILLRACE_SRC_GRAPH_TENSOR_MESSAGE_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "millrace/tensor.h"

namespace millrace {

// The bytes that TensorFlow makes of the tensor: elements as they lie in memory, strings one by one.
std::string TensorMessage(const Tensor& tensor);
// InvalidArgument in TensorFlow's words unless the bytes are a message of a tensor of that type. Of fewer values than elements the last
// one stands for the rest, no value for zeros.
absl::StatusOr<Tensor> TensorOfMessage(std::string_view bytes, DataType type);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_TENSOR_MESSAGE_H_
