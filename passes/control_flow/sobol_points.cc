#include "passes/control_flow/sobol_points.h"

#include <bit>
#include <boost/random/sobol.hpp>
#include <limits>

#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

constexpr int kDigits = 32;                       // of a number of the sequence
constexpr int64_t kMostBytes = int64_t{1} << 30;  // they become a constant while planning

// TensorFlow takes as many digits as the last point needs, which is exact in a double.
template <typename T>
Tensor Points(int64_t dimensions, int64_t count, int64_t skip) {
  const int digits = std::bit_width(static_cast<uint64_t>(skip + count));
  const T unit = static_cast<T>(1.0 / static_cast<double>(int64_t{1} << digits));
  boost::random::sobol_engine<uint32_t, kDigits> sequence(static_cast<size_t>(dimensions));
  sequence.seed(static_cast<uint32_t>(skip));
  Tensor points(DataTypeOf<T>(), Shape({count, dimensions}));
  T* out = static_cast<T*>(points.mutable_data());
  for (int64_t i = 0; i < count * dimensions; ++i) out[i] = static_cast<T>(sequence() >> (kDigits - digits)) * unit;
  return points;
}

}  // namespace

absl::StatusOr<Tensor> SobolPoints(int64_t dimensions, int64_t count, int64_t skip, DataType dtype) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (dimensions < 1 || count < 1 || skip < 0 || count >= kMost - skip) {
    return absl::InvalidArgumentError(absl::StrCat("takes ", count, " points of ", dimensions, " dimensions, ", skip,
                                                   " left out, expected 1 or more points and dimensions, and fewer than ", kMost, " in all"));
  }
  if (dimensions > BOOST_RANDOM_SOBOL_MAX_DIMENSION) {
    return absl::UnimplementedError(
        absl::StrCat("is of ", dimensions, " dimensions, expected at most ", BOOST_RANDOM_SOBOL_MAX_DIMENSION));
  }
  if (const int64_t bytes = count * dimensions * static_cast<int64_t>(DataTypeSize(dtype)); bytes > kMostBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("gives ", count, " points of ", dimensions, " dimensions, ", bytes, " bytes, expected at most ", kMostBytes));
  }
  if (dtype == DataType::kFloat) return Points<float>(dimensions, count, skip);
  if (dtype == DataType::kDouble) return Points<double>(dimensions, count, skip);
  return absl::InvalidArgumentError(absl::StrCat("is of ", std::string(DataTypeName(dtype)), ", expected float or double"));
}

}  // namespace millrace
