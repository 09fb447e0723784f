// A tensor in host memory: what goes in as a feed, comes out as a fetch, or sits in a graph as a constant.
//
// Copies share the bytes. A tensor may be read by any thread; mutable_data() is for the thread that made
// the tensor, before it is shared. What is moved from is no tensor, empty().
#ifndef MILLRACE_TENSOR_H_
#define MILLRACE_TENSOR_H_

#include <algorithm>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "millrace/types.h"

namespace millrace {

class Tensor {
 public:
  // No tensor: empty(), of type kInvalid and without bytes, to be assigned to.
  Tensor() = default;
  // Zeroed elements; elements of type string are empty strings. Throws std::invalid_argument where the shape is not fully known, and
  // std::bad_alloc where there is no such memory.
  Tensor(DataType dtype, Shape shape);
  Tensor(const Tensor& other) = default;
  Tensor(Tensor&& other) noexcept { Swap(other); }
  Tensor& operator=(const Tensor& other) = default;
  Tensor& operator=(Tensor&& other) noexcept {
    Tensor(std::move(other)).Swap(*this);
    return *this;
  }
  // A tensor of one element / of rank 1.
  template <typename T>
  static Tensor Scalar(T value);
  template <typename T>
  static Tensor Vector(absl::Span<const T> values);
  // Wraps memory that `owner` keeps alive (an mmapped file, a host pool). Throws std::invalid_argument where the shape is not fully
  // known, of strings, and where there is no memory for some bytes.
  static Tensor Wrap(DataType dtype, Shape shape, void* data, std::shared_ptr<void> owner);

  DataType dtype() const { return type_.dtype; }
  const Shape& shape() const { return type_.shape; }
  const TensorType& type() const { return type_; }
  int64_t num_elements() const { return type_.shape.num_elements(); }
  int64_t size_bytes() const { return type_.size_bytes(); }
  bool empty() const { return type_.dtype == DataType::kInvalid; }

  const void* data() const { return data_.get(); }
  void* mutable_data() { return data_.get(); }
  // The elements, none where it is empty(). T need not be the type's own, but throws std::invalid_argument when it has another size: halves
  // are read as uint16_t. Out of a loop: it looks that up.
  template <typename T>
  absl::Span<const T> as() const {
    return absl::Span<const T>(static_cast<const T*>(data()), ElementsOf(sizeof(T)));
  }
  template <typename T>
  absl::Span<T> mutable_as() {
    return absl::Span<T>(static_cast<T*>(mutable_data()), ElementsOf(sizeof(T)));
  }
  // Requires dtype() == kString.
  const std::vector<std::string>& strings() const { return *strings_; }
  std::vector<std::string>& mutable_strings() { return *strings_; }

  // Element `i` of an integer (or bool) tensor as int64; of any numeric tensor as double.
  int64_t IntAt(int64_t i) const;
  double DoubleAt(int64_t i) const;
  // The same bytes under another shape. Throws std::invalid_argument where the shape is not fully known or has another number of elements.
  Tensor Reshaped(Shape shape) const;
  // Same type and, bit for bit, same elements.
  bool BitEqual(const Tensor& other) const;

 private:
  size_t ElementsOf(size_t element_bytes) const;
  void Swap(Tensor& other) noexcept {
    std::swap(type_, other.type_);
    data_.swap(other.data_);
    strings_.swap(other.strings_);
  }

  TensorType type_{DataType::kInvalid, Shape()};
  std::shared_ptr<void> data_;
  std::shared_ptr<std::vector<std::string>> strings_;
};

// The DataType of a C++ element type (float, double, int8..int64, uint8..uint64, bool).
template <typename T>
constexpr DataType DataTypeOf() {
  if constexpr (std::is_same_v<T, float>) return DataType::kFloat;
  if constexpr (std::is_same_v<T, double>) return DataType::kDouble;
  if constexpr (std::is_same_v<T, int8_t>) return DataType::kInt8;
  if constexpr (std::is_same_v<T, int16_t>) return DataType::kInt16;
  if constexpr (std::is_same_v<T, int32_t>) return DataType::kInt32;
  if constexpr (std::is_same_v<T, int64_t>) return DataType::kInt64;
  if constexpr (std::is_same_v<T, uint8_t>) return DataType::kUint8;
  if constexpr (std::is_same_v<T, uint16_t>) return DataType::kUint16;
  if constexpr (std::is_same_v<T, uint32_t>) return DataType::kUint32;
  if constexpr (std::is_same_v<T, uint64_t>) return DataType::kUint64;
  if constexpr (std::is_same_v<T, bool>) return DataType::kBool;
  return DataType::kInvalid;
}

template <typename T>
Tensor Tensor::Scalar(T value) {
  static_assert(DataTypeOf<T>() != DataType::kInvalid);
  Tensor tensor(DataTypeOf<T>(), Shape());
  tensor.mutable_as<T>()[0] = value;
  return tensor;
}

template <typename T>
Tensor Tensor::Vector(absl::Span<const T> values) {
  static_assert(DataTypeOf<T>() != DataType::kInvalid);
  Tensor tensor(DataTypeOf<T>(), Shape({static_cast<int64_t>(values.size())}));
  std::copy(values.begin(), values.end(), tensor.mutable_as<T>().begin());
  return tensor;
}

}  // namespace millrace

#endif  // MILLRACE_TENSOR_H_
