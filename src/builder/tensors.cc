#include "builder/tensors.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "builder/emit.h"
#include "graph/float16.h"
#include "millrace/status.h"

namespace millrace {
namespace {

absl::Status NotHeld(DataType dtype, double value, std::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("a constant ", value, " of type ", std::string(DataTypeName(dtype)), ", expected ", std::string(expected)));
}

template <typename T>
absl::Status Fill(Tensor& tensor, T value) {
  absl::Span<T> elements(static_cast<T*>(tensor.mutable_data()), tensor.num_elements());
  std::fill(elements.begin(), elements.end(), value);
  return absl::OkStatus();
}

template <typename T>
absl::Status FillInteger(Tensor& tensor, double value) {
  constexpr T kLeast = std::numeric_limits<T>::min(), kMost = std::numeric_limits<T>::max();
  // The largest number of 64 bits is no double, one more is.
  const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);
  if (value >= static_cast<double>(kLeast) && value < end && value == std::trunc(value)) return Fill(tensor, static_cast<T>(value));
  return NotHeld(tensor.dtype(), value, absl::StrCat("a whole number of ", kLeast, " to ", kMost));
}

absl::Status FillBool(Tensor& tensor, double value) {
  if (value == 0 || value == 1) return Fill(tensor, value == 1);
  return NotHeld(tensor.dtype(), value, "0 or 1");
}

absl::Status FillAny(Tensor& tensor, double value) {
  switch (tensor.dtype()) {
    case DataType::kFloat: return Fill(tensor, static_cast<float>(value));
    case DataType::kDouble: return Fill(tensor, value);
    case DataType::kComplex64: return Fill(tensor, std::complex<float>(static_cast<float>(value)));
    case DataType::kComplex128: return Fill(tensor, std::complex<double>(value));
    case DataType::kHalf: return Fill(tensor, FloatToHalf(static_cast<float>(value)));
    case DataType::kBfloat16: return Fill(tensor, FloatToBfloat16(static_cast<float>(value)));
    case DataType::kInt8: return FillInteger<int8_t>(tensor, value);
    case DataType::kInt16: return FillInteger<int16_t>(tensor, value);
    case DataType::kInt32: return FillInteger<int32_t>(tensor, value);
    case DataType::kInt64: return FillInteger<int64_t>(tensor, value);
    case DataType::kUint8: return FillInteger<uint8_t>(tensor, value);
    case DataType::kUint16: return FillInteger<uint16_t>(tensor, value);
    case DataType::kUint32: return FillInteger<uint32_t>(tensor, value);
    case DataType::kUint64: return FillInteger<uint64_t>(tensor, value);
    case DataType::kBool: return FillBool(tensor, value);
    default: return NotHeld(tensor.dtype(), value, "a number type");
  }
}

}  // namespace

absl::StatusOr<Tensor> FilledTensor(DataType dtype, Shape shape, double value) {
  Tensor tensor(dtype, std::move(shape));
  MR_RETURN_IF_ERROR(FillAny(tensor, value));
  return tensor;
}

Output Constant(std::string_view op, const Output& x, DataType dtype, double value, std::string_view name) {
  if (x.builder() == nullptr) return Output();
  absl::StatusOr<Tensor> tensor = FilledTensor(dtype, Shape(), value);
  if (!tensor.ok()) return Refuse(op, {x}, name, std::string(tensor.status().message()));
  return x.builder()->SharedConst(*std::move(tensor));
}

}  // namespace millrace
