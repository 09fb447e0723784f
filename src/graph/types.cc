#include "millrace/types.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "millrace/quantized_types.h"

namespace millrace {
namespace {

struct TypeRow {
  DataType dtype;
  const char* name;
  const char* numpy_name;
  int64_t size_bytes;
};

constexpr TypeRow kTypes[] = {
    {DataType::kFloat, "float", "float32", 4},
    {DataType::kDouble, "double", "float64", 8},
    {DataType::kInt32, "int32", "int32", 4},
    {DataType::kUint8, "uint8", "uint8", 1},
    {DataType::kInt16, "int16", "int16", 2},
    {DataType::kInt8, "int8", "int8", 1},
    {DataType::kString, "string", "str", 0},
    {DataType::kComplex64, "complex64", "complex64", 8},
    {DataType::kInt64, "int64", "int64", 8},
    {DataType::kBool, "bool", "bool", 1},
    {DataType::kBfloat16, "bfloat16", "bfloat16", 2},
    {DataType::kUint16, "uint16", "uint16", 2},
    {DataType::kComplex128, "complex128", "complex128", 16},
    {DataType::kHalf, "half", "float16", 2},
    {DataType::kResource, "resource", "resource", 0},
    {DataType::kVariant, "variant", "variant", 0},
    {DataType::kUint32, "uint32", "uint32", 4},
    {DataType::kUint64, "uint64", "uint64", 8},
    {kQint8, "qint8", "qint8", 1},
    {kQuint8, "quint8", "quint8", 1},
    {kQint32, "qint32", "qint32", 4},
    {kQint16, "qint16", "qint16", 2},
    {kQuint16, "quint16", "quint16", 2},
    {DataType::kFloat8E5M2, "float8_e5m2", "float8_e5m2", 1},
    {DataType::kFloat8E4M3fn, "float8_e4m3fn", "float8_e4m3fn", 1},
};

const TypeRow* FindType(DataType dtype) {
  for (const TypeRow& row : kTypes) {
    if (row.dtype == dtype) return &row;
  }
  return nullptr;
}

}  // namespace

int64_t DataTypeSize(DataType dtype) {
  const TypeRow* row = FindType(dtype);
  return row == nullptr ? 0 : row->size_bytes;
}

std::string_view DataTypeName(DataType dtype) {
  const TypeRow* row = FindType(dtype);
  return row == nullptr ? "invalid" : row->name;
}

DataType DataTypeFromName(std::string_view name) {
  for (const TypeRow& row : kTypes) {
    if (name == row.name || name == row.numpy_name) return row.dtype;
  }
  return DataType::kInvalid;
}

bool IsFloating(DataType dtype) {
  return dtype == DataType::kFloat || dtype == DataType::kDouble || dtype == DataType::kHalf ||
         dtype == DataType::kBfloat16;
}

bool IsInteger(DataType dtype) {
  switch (dtype) {
    case DataType::kInt8:
    case DataType::kInt16:
    case DataType::kInt32:
    case DataType::kInt64:
    case DataType::kUint8:
    case DataType::kUint16:
    case DataType::kUint32:
    case DataType::kUint64:
      return true;
    default:
      return false;
  }
}

bool Shape::fully_known() const {
  if (unknown_rank_) return false;
  for (int64_t dim : *dims_) {
    if (dim < 0) return false;
  }
  return true;
}

int64_t Shape::num_elements() const {
  int64_t count = 1;
  bool saturated = false;
  for (int64_t dim : *dims_) {
    if (dim == 0) return 0;
    saturated = saturated || __builtin_mul_overflow(count, dim, &count);
  }
  return saturated ? std::numeric_limits<int64_t>::max() : count;
}

std::string Shape::ToString() const {
  if (unknown_rank_) return "<unknown>";
  return absl::StrCat("[", absl::StrJoin(*dims_, ",", [](std::string* out, int64_t dim) {
                        dim < 0 ? absl::StrAppend(out, "?") : absl::StrAppend(out, dim);
                      }), "]");
}

int64_t TensorType::size_bytes() const {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(shape.num_elements(), DataTypeSize(dtype), &bytes)) {
    return std::numeric_limits<int64_t>::max();
  }
  return bytes;
}

std::string TensorType::ToString() const {
  const std::string_view name = DataTypeName(dtype);
  return std::string(name.data(), name.size()) + shape.ToString();
}

}  // namespace millrace
