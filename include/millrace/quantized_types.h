// TensorFlow's quantized element types: integers whose range travels beside them as two floats. Only what makes, reads and
// moves them knows them; for all other ops they are types without arithmetic.
#ifndef MILLRACE_QUANTIZED_TYPES_H_
#define MILLRACE_QUANTIZED_TYPES_H_

#include "millrace/types.h"

namespace millrace {

// TensorFlow's numbers, as in DataType.
inline constexpr DataType kQint8 = static_cast<DataType>(11);
inline constexpr DataType kQuint8 = static_cast<DataType>(12);
inline constexpr DataType kQint32 = static_cast<DataType>(13);
inline constexpr DataType kQint16 = static_cast<DataType>(15);
inline constexpr DataType kQuint16 = static_cast<DataType>(16);

// The integers that a quantized type is held in; any other type is held in itself.
inline constexpr DataType HeldIn(DataType dtype) {
  if (dtype == kQint8) return DataType::kInt8;
  if (dtype == kQuint8) return DataType::kUint8;
  if (dtype == kQint32) return DataType::kInt32;
  if (dtype == kQint16) return DataType::kInt16;
  if (dtype == kQuint16) return DataType::kUint16;
  return dtype;
}

inline constexpr bool IsQuantized(DataType dtype) { return HeldIn(dtype) != dtype; }

}  // namespace millrace

#endif  // MILLRACE_QUANTIZED_TYPES_H_
