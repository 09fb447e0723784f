// Softmax and the losses of rows of every length, in place or not. Once as loops (cuda_kernels_test) and once on the grid, by a thread,
// a warp or a block for a row (cuda_grid_test).
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/launch/reduce.h"
#include "cuda/launch/scalar.h"

namespace millrace::cuda {
namespace {

constexpr int64_t kRows = 3;
// Of a thread, of a warp, of blocks of both sizes: less than their threads take at once, and more than one turn of it.
constexpr int64_t kColumns[] = {1, 5, 37, 300, 3000, 4097, 9001};

template <typename T>
std::vector<T> Noise(int64_t n, uint32_t seed, float low, float high) {
  std::mt19937 random(seed);
  std::vector<T> values(n);
  for (T& value : values) {
    const float number = low + (high - low) * static_cast<float>(random() % 10001) / 10000;
    value = Wide<T>::Narrow(static_cast<typename Wide<T>::type>(number));
  }
  return values;
}

template <typename T>
double At(const std::vector<T>& tensor, int64_t i) {
  return static_cast<double>(Widen(tensor[i]));
}

template <typename T>
bool Same(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

struct LogSum {
  double max = -INFINITY, sum = 0;
};
template <typename T>
LogSum LogSumOf(const std::vector<T>& x, int64_t row, int64_t columns) {
  LogSum result;
  for (int64_t k = 0; k < columns; ++k) result.max = std::max(result.max, At(x, row * columns + k));
  for (int64_t k = 0; k < columns; ++k) result.sum += std::exp(At(x, row * columns + k) - result.max);
  return result;
}

// A result is what was expected, but for what rounding numbers of this magnitude to T makes of it.
template <typename T>
void ExpectNear(double result, double expected, double magnitude) {
  const double relative = sizeof(T) == 8 ? 1e-14 : sizeof(T) == 4 ? 2e-6 : 1e-2;
  ASSERT_NEAR(result, expected, relative * magnitude + (sizeof(T) == 2 ? 1e-7 : 1e-37));
}

template <typename T>
void CheckSoftmax(Type type, int64_t columns) {
  SCOPED_TRACE(::testing::Message() << columns << " columns, type " << static_cast<int>(type));
  Fault fault;
  const std::vector<T> x = Noise<T>(kRows * columns, 1, -8, 8);
  for (const bool log : {false, true}) {
    std::vector<T> y(x.size()), place = x;
    LaunchSoftmax({nullptr, &fault, 0}, type, log, kRows, columns, x.data(), y.data());
    LaunchSoftmax({nullptr, &fault, 0}, type, log, kRows, columns, place.data(), place.data());
    EXPECT_TRUE(Same(y, place));
    for (int64_t row = 0; row < kRows; ++row) {
      const LogSum all = LogSumOf(x, row, columns);
      for (int64_t i = row * columns; i < (row + 1) * columns; ++i) {
        const double shifted = At(x, i) - all.max;
        const double expected = log ? shifted - std::log(all.sum) : std::exp(shifted) / all.sum;
        ExpectNear<T>(At(y, i), expected, std::abs(expected));
      }
    }
  }
}

template <typename T>
void CheckLosses(Type type, int64_t columns) {
  SCOPED_TRACE(::testing::Message() << columns << " columns, type " << static_cast<int>(type));
  Fault fault;
  const std::vector<T> x = Noise<T>(kRows * columns, 1, -2, 2), dense = Noise<T>(x.size(), 2, 0.25f, 0.5f);
  const std::vector<int64_t> labels = {0, columns / 2, columns - 1};
  for (const bool indices : {true, false}) {
    const void* const wanted = indices ? static_cast<const void*>(labels.data()) : dense.data();
    std::vector<T> dx(x.size()), place = x, loss(kRows), place_loss(kRows);
    LaunchCrossEntropy({nullptr, &fault, 0}, type, indices, true, kRows, columns, x.data(), wanted, loss.data(), dx.data());
    LaunchCrossEntropy({nullptr, &fault, 0}, type, indices, true, kRows, columns, place.data(), wanted, place_loss.data(), place.data());
    EXPECT_TRUE(Same(dx, place) && Same(loss, place_loss));
    for (int64_t row = 0; row < kRows; ++row) {
      const LogSum all = LogSumOf(x, row, columns);
      double expected = 0;
      for (int64_t k = 0; k < columns; ++k) {
        const double share = indices ? (labels[row] == k ? 1 : 0) : At(dense, row * columns + k);
        const double shifted = At(x, row * columns + k) - all.max, p = std::exp(shifted) / all.sum;
        expected += share * (std::log(all.sum) - shifted);
        ExpectNear<T>(At(dx, row * columns + k), p - share, p + share);
      }
      ExpectNear<T>(At(loss, row), expected, expected);
    }
  }
}

TEST(SoftmaxTest, IsThatOfItsDefinitionForRowsOfEveryLengthAndType) {
  for (const int64_t columns : kColumns) CheckSoftmax<float>(Type::kFloat, columns);
  for (const int64_t columns : {300, 9001}) {
    CheckSoftmax<double>(Type::kDouble, columns);
    CheckSoftmax<Half>(Type::kHalf, columns);
    CheckSoftmax<Bfloat16>(Type::kBfloat16, columns);
  }
}

TEST(SoftmaxTest, LossesAreThoseOfTheirDefinitionForRowsOfEveryLengthAndType) {
  for (const int64_t columns : kColumns) CheckLosses<float>(Type::kFloat, columns);
  for (const int64_t columns : {300, 9001}) {
    CheckLosses<double>(Type::kDouble, columns);
    CheckLosses<Half>(Type::kHalf, columns);
    CheckLosses<Bfloat16>(Type::kBfloat16, columns);
  }
}

TEST(SoftmaxTest, OfALongRowWithANanIsNan) {
  std::vector<float> x = Noise<float>(9001, 3, -1, 1);
  x[8500] = NAN;
  Fault fault;
  LaunchSoftmax({nullptr, &fault, 0}, Type::kFloat, false, 1, 9001, x.data(), x.data());
  for (const float y : x) ASSERT_TRUE(std::isnan(y));
}

}  // namespace
}  // namespace millrace::cuda
