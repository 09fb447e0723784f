// Tensors of any number type from doubles.
#ifndef MILLRACE_TESTS_CPU_TYPED_VALUES_H_
#define MILLRACE_TESTS_CPU_TYPED_VALUES_H_

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "millrace/tensor.h"

namespace millrace::cpu {

inline constexpr DataType kNumberTypes[] = {DataType::kFloat, DataType::kDouble, DataType::kHalf,   DataType::kBfloat16,
                                            DataType::kInt8,  DataType::kInt16,  DataType::kInt32,  DataType::kInt64,
                                            DataType::kUint8, DataType::kUint16, DataType::kUint32, DataType::kUint64};

inline Tensor TensorOf(DataType dtype, const std::vector<double>& values, const Shape& shape) {
  Tensor tensor(dtype, shape);
  void* data = tensor.mutable_data();
  for (size_t i = 0; i < values.size(); ++i) {
    const double value = values[i];
    switch (dtype) {
      case DataType::kFloat:
        static_cast<float*>(data)[i] = static_cast<float>(value);
        break;
      case DataType::kDouble:
        static_cast<double*>(data)[i] = value;
        break;
      case DataType::kHalf:
        static_cast<Eigen::half*>(data)[i] = Eigen::half(value);
        break;
      case DataType::kBfloat16:
        static_cast<Eigen::bfloat16*>(data)[i] = Eigen::bfloat16(value);
        break;
      case DataType::kInt8:
        static_cast<int8_t*>(data)[i] = static_cast<int8_t>(value);
        break;
      case DataType::kInt16:
        static_cast<int16_t*>(data)[i] = static_cast<int16_t>(value);
        break;
      case DataType::kInt32:
        static_cast<int32_t*>(data)[i] = static_cast<int32_t>(value);
        break;
      case DataType::kInt64:
        static_cast<int64_t*>(data)[i] = static_cast<int64_t>(value);
        break;
      case DataType::kUint8:
        static_cast<uint8_t*>(data)[i] = static_cast<uint8_t>(value);
        break;
      case DataType::kUint16:
        static_cast<uint16_t*>(data)[i] = static_cast<uint16_t>(value);
        break;
      case DataType::kUint32:
        static_cast<uint32_t*>(data)[i] = static_cast<uint32_t>(value);
        break;
      case DataType::kUint64:
        static_cast<uint64_t*>(data)[i] = static_cast<uint64_t>(value);
        break;
      case DataType::kBool:
        static_cast<bool*>(data)[i] = value != 0;
        break;
      default:
        break;
    }
  }
  return tensor;
}
inline Tensor TensorOf(DataType dtype, const std::vector<double>& values) {
  return TensorOf(dtype, values, Shape({static_cast<int64_t>(values.size())}));
}

// Multiples of 1/8 in [-8, 8), integers in [-100, 100) or [0, 200) where the type has no fractions or no sign.
inline Tensor NumbersOf(DataType dtype, const Shape& shape, uint32_t seed) {
  std::vector<double> values(shape.num_elements());
  uint32_t state = seed * 2654435761u + 12345;
  const bool is_unsigned = std::string(DataTypeName(dtype))[0] == 'u';
  for (double& value : values) {
    state = state * 1664525u + 1013904223u;
    const int random = static_cast<int>(state >> 16);
    if (!IsInteger(dtype))
      value = (random % 128 - 64) / 8.0;
    else
      value = random % 200 - (is_unsigned ? 0 : 100);
  }
  return TensorOf(dtype, values, shape);
}

// An exact integer result as an integer type of that width holds it; other types as it is.
inline double Wrapped(DataType dtype, double value) {
  if (!IsInteger(dtype) || dtype == DataType::kInt64) return value;
  const double range = std::ldexp(1.0, static_cast<int>(8 * DataTypeSize(dtype)));
  value -= std::floor(value / range) * range;
  const bool is_unsigned = std::string(DataTypeName(dtype))[0] == 'u';
  return !is_unsigned && value >= range / 2 ? value - range : value;
}

}  // namespace millrace::cpu

#endif  // MILLRACE_TESTS_CPU_TYPED_VALUES_H_
