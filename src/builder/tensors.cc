#include "builder/tensors.h"

#include <algorithm>
#include <complex>

#include "absl/strings/str_cat.h"
#include "graph/float16.h"

namespace millrace {
namespace {

template <typename T>
void Fill(Tensor& tensor, T value) {
  absl::Span<T> elements(static_cast<T*>(tensor.mutable_data()), tensor.num_elements());
  std::fill(elements.begin(), elements.end(), value);
}

}  // namespace

absl::StatusOr<Tensor> FilledTensor(DataType dtype, Shape shape, double value) {
  Tensor tensor(dtype, std::move(shape));
  switch (dtype) {
    case DataType::kFloat: Fill(tensor, static_cast<float>(value)); break;
    case DataType::kDouble: Fill(tensor, value); break;
    case DataType::kComplex64: Fill(tensor, std::complex<float>(static_cast<float>(value))); break;
    case DataType::kComplex128: Fill(tensor, std::complex<double>(value)); break;
    case DataType::kHalf: Fill(tensor, FloatToHalf(static_cast<float>(value))); break;
    case DataType::kBfloat16: Fill(tensor, FloatToBfloat16(static_cast<float>(value))); break;
    case DataType::kInt8: Fill(tensor, static_cast<int8_t>(value)); break;
    case DataType::kInt16: Fill(tensor, static_cast<int16_t>(value)); break;
    case DataType::kInt32: Fill(tensor, static_cast<int32_t>(value)); break;
    case DataType::kInt64: Fill(tensor, static_cast<int64_t>(value)); break;
    case DataType::kUint8: Fill(tensor, static_cast<uint8_t>(value)); break;
    case DataType::kUint16: Fill(tensor, static_cast<uint16_t>(value)); break;
    case DataType::kUint32: Fill(tensor, static_cast<uint32_t>(value)); break;
    case DataType::kUint64: Fill(tensor, static_cast<uint64_t>(value)); break;
    case DataType::kBool: Fill(tensor, value != 0); break;
    default:
      return absl::InvalidArgumentError(absl::StrCat("a constant ", value, " of type ",
                                                     std::string(DataTypeName(dtype)), ", expected a number type"));
  }
  return tensor;
}

}  // namespace millrace
