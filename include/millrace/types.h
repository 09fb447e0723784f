// Element types and shapes: the vocabulary that every other header speaks.
//
// Values are immutable after construction unless a method says otherwise; any thread may read them.
#ifndef MILLRACE_TYPES_H_
#define MILLRACE_TYPES_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "millrace/copy_on_write.h"

namespace millrace {

// TensorFlow's element types, with TensorFlow's numbers (tensorflow/core/framework/types.proto).
enum class DataType : int32_t {
  kInvalid = 0,
  kFloat = 1,
  kDouble = 2,
  kInt32 = 3,
  kUint8 = 4,
  kInt16 = 5,
  kInt8 = 6,
  kString = 7,
  kComplex64 = 8,
  kInt64 = 9,
  kBool = 10,
  kBfloat16 = 14,
  kUint16 = 17,
  kComplex128 = 18,
  kHalf = 19,
  kResource = 20,
  kVariant = 21,
  kUint32 = 22,
  kUint64 = 23,
  kFloat8E5M2 = 24,  // casts make and read both, what moves elements moves them; no op computes in them
  kFloat8E4M3fn = 25,
};

// A reference type (VariableV2's output) is its base type plus this, as in TensorFlow.
inline constexpr int32_t kRefTypeOffset = 100;

// Bytes of one element; 0 for types without a fixed size in memory (string, resource, variant).
int64_t DataTypeSize(DataType dtype);
// TensorFlow's short name ("float32"-style: "float", "int32", "bfloat16"); "invalid" when unknown.
std::string_view DataTypeName(DataType dtype);
// The type of DataTypeName's or of NumPy's name ("float32", "float"); kInvalid when unknown.
DataType DataTypeFromName(std::string_view name);
bool IsFloating(DataType dtype);
bool IsInteger(DataType dtype);

// A tensor's shape. A dimension of -1 is unknown; so may be the rank. Execution sees known shapes only. Copies share their
// dimensions; it takes 16 bytes.
class Shape {
 public:
  using Dims = absl::InlinedVector<int64_t, 4>;

  Shape() = default;  // rank 0, a scalar
  Shape(std::initializer_list<int64_t> dims) : Shape(absl::MakeConstSpan(dims.begin(), dims.size())) {}
  explicit Shape(absl::Span<const int64_t> dims) {
    if (!dims.empty()) dims_ = CopyOnWrite<Dims>(Dims(dims.begin(), dims.end()));
  }
  static Shape UnknownRank() {
    Shape shape;
    shape.unknown_rank_ = true;
    return shape;
  }

  bool unknown_rank() const { return unknown_rank_; }
  int rank() const { return unknown_rank_ ? -1 : static_cast<int>(dims_->size()); }
  int64_t dim(int i) const { return (*dims_)[i]; }
  absl::Span<const int64_t> dims() const { return *dims_; }
  bool fully_known() const;
  // Product of the dimensions. Requires fully_known(); saturates at INT64_MAX.
  int64_t num_elements() const;

  void set_dim(int i, int64_t value) { dims_.Own()[i] = value; }
  void AddDim(int64_t value) { dims_.Own().push_back(value); }

  // "[8,224,224,3]", "[?,10]", "<unknown>".
  std::string ToString() const;

  friend bool operator==(const Shape& a, const Shape& b) {
    return a.unknown_rank_ == b.unknown_rank_ && (a.dims_.SharesWith(b.dims_) || *a.dims_ == *b.dims_);
  }
  friend bool operator!=(const Shape& a, const Shape& b) { return !(a == b); }

 private:
  CopyOnWrite<Dims> dims_;
  bool unknown_rank_ = false;
};

// Element type and shape of a tensor: all that planning needs to know of it.
struct TensorType {
  DataType dtype = DataType::kInvalid;
  Shape shape = Shape::UnknownRank();

  // Bytes of the elements. Requires a fully known shape; 0 for types without a fixed size.
  int64_t size_bytes() const;
  std::string ToString() const;  // "float[8,10]"
  friend bool operator==(const TensorType& a, const TensorType& b) {
    return a.dtype == b.dtype && a.shape == b.shape;
  }
};

// Alignment of every tensor in device and host memory.
inline constexpr int64_t kTensorAlignment = 64;
inline constexpr int64_t AlignUp(int64_t bytes, int64_t alignment = kTensorAlignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace millrace

#endif  // MILLRACE_TYPES_H_
