#include "cli/feed_types.h"

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/feeds.h"
#include "glog/logging.h"
#include "graph/float16.h"
#include "millrace/status.h"

namespace millrace::cli {
namespace {

// Holds every value of every type here.
using Number = long double;
static_assert(std::numeric_limits<Number>::digits >= 64);

// The float below or above whose last bit is one, where no float is the number: rounding it again is rounding once.
float RoundedToOdd(Number number) {
  const float nearest = static_cast<float>(number);
  if (!std::isfinite(nearest) || nearest == number || (std::bit_cast<uint32_t>(nearest) & 1) != 0) return nearest;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  return std::nextafter(nearest, number > nearest ? kInfinity : -kInfinity);
}

// One type of 16 bits for each of TensorFlow's.
struct Half {
  static Number From(uint16_t bits) { return HalfToFloat(bits); }
  static uint16_t To(Number number) { return FloatToHalf(RoundedToOdd(number)); }
};
struct Bfloat16 {  // rounded twice, as ml_dtypes does
  static Number From(uint16_t bits) { return Bfloat16ToFloat(bits); }
  static uint16_t To(Number number) { return FloatToBfloat16(static_cast<float>(number)); }
};

// Calls `function` with a value of the C++ type of `dtype`; false where that is no number.
template <typename Function>
bool WithNumberType(DataType dtype, Function function) {
  switch (dtype) {
    case DataType::kFloat: return function(float{}), true;
    case DataType::kDouble: return function(double{}), true;
    case DataType::kHalf: return function(Half{}), true;
    case DataType::kBfloat16: return function(Bfloat16{}), true;
    case DataType::kInt8: return function(int8_t{}), true;
    case DataType::kInt16: return function(int16_t{}), true;
    case DataType::kInt32: return function(int32_t{}), true;
    case DataType::kInt64: return function(int64_t{}), true;
    case DataType::kUint8: return function(uint8_t{}), true;
    case DataType::kUint16: return function(uint16_t{}), true;
    case DataType::kUint32: return function(uint32_t{}), true;
    case DataType::kUint64: return function(uint64_t{}), true;
    case DataType::kBool: return function(bool{}), true;
    default: return false;
  }
}

bool IsNumber(DataType dtype) {
  return WithNumberType(dtype, [](auto) {});
}

template <typename T>
constexpr bool kIn16Bits = std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>;

template <typename T>
Number NumberAt(const void* data, int64_t i) {
  if constexpr (kIn16Bits<T>) {
    return T::From(static_cast<const uint16_t*>(data)[i]);
  } else {
    return static_cast<const T*>(data)[i];
  }
}

// False where the type does not hold the number.
template <typename T>
bool SetNumber(void* data, int64_t i, Number number) {
  if constexpr (kIn16Bits<T>) {
    static_cast<uint16_t*>(data)[i] = T::To(number);
  } else {
    if constexpr (std::is_integral_v<T>) {
      const bool held = number >= std::numeric_limits<T>::min() && number <= std::numeric_limits<T>::max() && number == std::trunc(number);
      if (!held) return false;
    }
    static_cast<T*>(data)[i] = static_cast<T>(number);
  }
  return true;
}

// The first element that `to` does not hold; their number where it holds all.
int64_t Convert(const Tensor& from, Tensor& to) {
  int64_t held = 0;
  WithNumberType(from.dtype(), [&](auto source) {
    WithNumberType(to.dtype(), [&](auto target) {
      void* const data = to.mutable_data();
      while (held < from.num_elements() && SetNumber<decltype(target)>(data, held, NumberAt<decltype(source)>(from.data(), held))) ++held;
    });
  });
  return held;
}

int64_t NumInfinite(const Tensor& tensor) {
  int64_t infinite = 0;
  WithNumberType(tensor.dtype(), [&](auto type) {
    for (int64_t i = 0; i < tensor.num_elements(); ++i) infinite += std::isinf(NumberAt<decltype(type)>(tensor.data(), i)) ? 1 : 0;
  });
  return infinite;
}

// So many strings in the declared shape, rounded down where its one open dimension does not come out; one dimension where the shape says
// less. A scalar of old producers may stand for a shape that is unknown.
Shape ShapeOfStrings(int64_t count, const Shape& declared) {
  if (declared.unknown_rank() || (declared.rank() == 0 && count != 1)) return Shape({count});
  Shape shape = declared;
  int open = -1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape.dim(i) >= 0) continue;
    if (open >= 0) return Shape({count});
    open = i;
    shape.set_dim(i, 1);
  }
  const int64_t row = shape.num_elements();
  if (open >= 0) shape.set_dim(open, row == 0 ? 0 : count / row);
  return shape;
}

absl::StatusOr<Tensor> StringsOf(const Session::Feeds::value_type& bytes, const Tensor& splits, const Shape& shape) {
  const int64_t count = splits.num_elements() - 1, end = bytes.second.num_elements();
  const std::string what = absl::StrCat("feed ", bytes.first, "/row_splits is ", splits.type().ToString(), ", expected ");
  if (!IsInteger(splits.dtype()) || splits.shape().rank() != 1 || count < 0) return absl::InvalidArgumentError(what + "integers, one more than strings");
  const Shape of_strings = ShapeOfStrings(count, shape);
  if (of_strings.num_elements() != count) {
    const std::string whole_rows = "one number more than strings, which fill whole rows,";
    const std::string numbers = shape.fully_known() ? absl::StrCat(of_strings.num_elements() + 1, " numbers") : whole_rows;
    return absl::InvalidArgumentError(absl::StrCat(what, numbers, " for string", shape.ToString()));
  }
  for (int64_t i = 0; i <= count; ++i) {
    const int64_t least = i == 0 ? 0 : splits.IntAt(i - 1), at = splits.IntAt(i), most = i == 0 ? 0 : end;
    if (at >= least && at <= most && (i < count || at == end)) continue;
    return absl::InvalidArgumentError(absl::StrCat(what, "numbers from 0 up to ", end, ", each at least the one before; number ", i, " is ", at));
  }
  Tensor strings(DataType::kString, of_strings);
  const char* data = static_cast<const char*>(bytes.second.data());
  for (int64_t i = 0; i < count; ++i) strings.mutable_strings()[i].assign(data + splits.IntAt(i), data + splits.IntAt(i + 1));
  return strings;
}

}  // namespace

absl::Status ConvertFeeds(const Graph& graph, Session::Feeds& feeds) {
  for (auto& [name, value] : feeds) {
    const absl::StatusOr<OutputRef> ref = graph.FindTensor(name);
    if (!ref.ok()) continue;  // the session says so
    const DataType declared = DeclaredFeedType(graph, *ref).dtype;
    if (declared == value.dtype() || !IsNumber(declared) || !IsNumber(value.dtype())) continue;
    Tensor converted(declared, value.shape());
    if (const int64_t held = Convert(value, converted); held < value.num_elements()) {
      return absl::InvalidArgumentError(absl::StrCat("feed ", name, " is ", value.type().ToString(), " in the file, expected ", converted.type().ToString(),
                                                     ": element ", held, " is ", absl::StrFormat("%.17g", value.DoubleAt(held)), ", which ",
                                                     std::string(DataTypeName(declared)), " does not hold"));
    }
    const int64_t too_large = NumInfinite(converted) - NumInfinite(value);
    LOG(WARNING) << "feed " << name << " is " << value.type().ToString() << " in the file, and is converted to " << DataTypeName(declared)
                 << (too_large > 0 ? absl::StrCat(", ", too_large, " of its numbers become infinite") : "");
    value = std::move(converted);
  }
  return absl::OkStatus();
}

absl::Status JoinByteStrings(absl::FunctionRef<TensorType(const std::string& name)> declared, Session::Feeds& feeds) {
  for (auto it = feeds.begin(); it != feeds.end(); ++it) {
    auto& [name, value] = *it;
    const auto splits = feeds.find(name + "/row_splits");
    if (value.dtype() != DataType::kUint8 || value.shape().rank() != 1 || splits == feeds.end()) continue;
    const TensorType type = declared(name);
    if (type.dtype != DataType::kString) continue;
    MR_ASSIGN_OR_RETURN(Tensor strings, StringsOf(*it, splits->second, type.shape));
    // An input of that name is fed, too. What is erased comes behind its bytes, so `it` stays.
    if (declared(splits->first).dtype == DataType::kInvalid) feeds.erase(splits);
    value = std::move(strings);
  }
  return absl::OkStatus();
}

absl::Status JoinByteStrings(const Graph& graph, Session::Feeds& feeds) {
  const auto declared = [&](const std::string& name) {
    const absl::StatusOr<OutputRef> ref = graph.FindTensor(name);
    return ref.ok() ? DeclaredFeedType(graph, *ref) : TensorType();
  };
  return JoinByteStrings(declared, feeds);
}

}  // namespace millrace::cli
