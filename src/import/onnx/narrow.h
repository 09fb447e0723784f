// Element types of fewer than 16 bits that TensorFlow's kernels do not compute in: 4-bit integers and 8-bit floats.
#ifndef MILLRACE_SRC_IMPORT_ONNX_NARROW_H_
#define MILLRACE_SRC_IMPORT_ONNX_NARROW_H_

#include <cstdint>
#include <string>

#include "millrace/tensor.h"

namespace millrace::onnx {

// "INT4"; the number where the type has no name.
std::string ElementTypeName(int64_t type);

// The type that holds every value of a narrow one: int8, uint8, float. kInvalid for types that are not narrow.
DataType WideType(int32_t type);

// Bytes in which a file has that many elements.
int64_t PackedBytes(int32_t type, int64_t elements);

// The elements in bytes, of WideType(type). Requires PackedBytes of them.
Tensor Widen(int32_t type, const Tensor& bytes, const Shape& shape);

}  // namespace millrace::onnx

#endif  // MILLRACE_SRC_IMPORT_ONNX_NARROW_H_
