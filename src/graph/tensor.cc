#include "millrace/tensor.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "graph/float16.h"
#include "graph/float8.h"
#include "millrace/quantized_types.h"

namespace millrace {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 60;

template <typename T>
T At(const Tensor& tensor, int64_t i) {
  return static_cast<const T*>(tensor.data())[i];
}

template <typename Result>
Result ElementAt(const Tensor& tensor, int64_t i) {
  switch (HeldIn(tensor.dtype())) {
    case DataType::kFloat: return static_cast<Result>(At<float>(tensor, i));
    case DataType::kDouble: return static_cast<Result>(At<double>(tensor, i));
    case DataType::kInt8: return static_cast<Result>(At<int8_t>(tensor, i));
    case DataType::kInt16: return static_cast<Result>(At<int16_t>(tensor, i));
    case DataType::kInt32: return static_cast<Result>(At<int32_t>(tensor, i));
    case DataType::kInt64: return static_cast<Result>(At<int64_t>(tensor, i));
    case DataType::kUint8: return static_cast<Result>(At<uint8_t>(tensor, i));
    case DataType::kUint16: return static_cast<Result>(At<uint16_t>(tensor, i));
    case DataType::kUint32: return static_cast<Result>(At<uint32_t>(tensor, i));
    case DataType::kUint64: return static_cast<Result>(At<uint64_t>(tensor, i));
    case DataType::kBool: return static_cast<Result>(At<bool>(tensor, i));
    case DataType::kHalf: return static_cast<Result>(HalfToFloat(At<uint16_t>(tensor, i)));
    case DataType::kBfloat16: return static_cast<Result>(Bfloat16ToFloat(At<uint16_t>(tensor, i)));
    case DataType::kFloat8E5M2: return static_cast<Result>(Float8ToFloat<E5M2>(At<uint8_t>(tensor, i)));
    case DataType::kFloat8E4M3fn: return static_cast<Result>(Float8ToFloat<E4M3fn>(At<uint8_t>(tensor, i)));
    default: return Result();
  }
}

void ExpectKnownShape(const TensorType& type) {
  if (!type.shape.fully_known()) throw std::invalid_argument(absl::StrCat("a tensor of type ", type.ToString(), ", whose shape is not known"));
}

}  // namespace

Tensor::Tensor(DataType dtype, Shape shape) : type_{dtype, std::move(shape)} {
  ExpectKnownShape(type_);
  // Sizes that are no number saturate; what the standard's containers throw then, this throws.
  if (dtype == DataType::kString) {
    if (num_elements() > kMostBytes / static_cast<int64_t>(sizeof(std::string))) throw std::bad_alloc();
    strings_ = std::make_shared<std::vector<std::string>>(num_elements());
    return;
  }
  if (size_bytes() > kMostBytes) throw std::bad_alloc();
  const int64_t bytes = AlignUp(std::max<int64_t>(size_bytes(), 1));
  void* data = std::aligned_alloc(kTensorAlignment, bytes);
  if (data == nullptr) throw std::bad_alloc();
  std::memset(data, 0, bytes);
  data_ = std::shared_ptr<void>(data, std::free);
}

Tensor Tensor::Wrap(DataType dtype, Shape shape, void* data, std::shared_ptr<void> owner) {
  Tensor tensor;
  tensor.type_ = {dtype, std::move(shape)};
  ExpectKnownShape(tensor.type_);
  if (dtype == DataType::kString) throw std::invalid_argument("Tensor::Wrap: strings are no bytes to wrap, expected a Tensor and its mutable_strings()");
  if (data == nullptr && tensor.size_bytes() > 0) {
    throw std::invalid_argument(absl::StrCat("Tensor::Wrap: no memory for ", tensor.type_.ToString(), ", expected ", tensor.size_bytes(), " bytes"));
  }
  tensor.data_ = std::shared_ptr<void>(std::move(owner), data);
  return tensor;
}

size_t Tensor::ElementsOf(size_t element_bytes) const {
  if (empty()) return 0;
  if (static_cast<int64_t>(element_bytes) != DataTypeSize(dtype())) {
    throw std::invalid_argument(
        absl::StrCat("Tensor::as: ", type_.ToString(), " as elements of ", element_bytes, " bytes, expected those of ", std::string(DataTypeName(dtype()))));
  }
  return static_cast<size_t>(num_elements());
}

int64_t Tensor::IntAt(int64_t i) const { return ElementAt<int64_t>(*this, i); }
double Tensor::DoubleAt(int64_t i) const { return ElementAt<double>(*this, i); }

Tensor Tensor::Reshaped(Shape shape) const {
  Tensor result = *this;
  result.type_.shape = std::move(shape);
  ExpectKnownShape(result.type_);
  if (result.num_elements() != num_elements()) {
    throw std::invalid_argument(
        absl::StrCat("Tensor::Reshaped: ", type_.ToString(), " as ", result.type_.ToString(), ", expected ", num_elements(), " elements"));
  }
  return result;
}

bool Tensor::BitEqual(const Tensor& other) const {
  if (!(type_ == other.type_)) return false;
  if (dtype() == DataType::kString) return strings() == other.strings();
  return size_bytes() == 0 || std::memcmp(data(), other.data(), size_bytes()) == 0;
}

}  // namespace millrace
