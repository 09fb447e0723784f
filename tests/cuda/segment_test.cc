// Segments, short ones by a thread for each element and long ones by blocks, have the bits of their rows combined one after another. Once
// as loops (cuda_kernels_test) and once on the grid (cuda_grid_test).
#include "cuda/launch/segment.h"

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/launch/scalar.h"

namespace millrace::cuda {
namespace {

constexpr SegmentOp kSegmentOps[] = {SegmentOp::kSum, SegmentOp::kProd, SegmentOp::kMax, SegmentOp::kMin, SegmentOp::kMean, SegmentOp::kSqrtN,
                                     SegmentOp::kMaxOrLater, SegmentOp::kMinOrLater, SegmentOp::kTotal};

template <typename W>
W NextOfSegment(SegmentOp op, W a, W b) {
  switch (op) {
    case SegmentOp::kProd: return static_cast<W>(a * b);
    case SegmentOp::kMax: return a < b ? b : a;
    case SegmentOp::kMin: return b < a ? b : a;
    case SegmentOp::kMaxOrLater: return a > b ? a : b;
    case SegmentOp::kMinOrLater: return a < b ? a : b;
    default: return static_cast<W>(a + b);
  }
}

// Segments of many lengths; those of more than 256 items are long.
struct Segments {
  std::vector<int32_t> begins, order;
  int64_t inner = 1;
};
Segments SegmentsOf(const std::vector<int>& lengths, int64_t inner) {
  Segments segments = {{0}, {}, inner};
  for (const int length : lengths) segments.begins.push_back(segments.begins.back() + length);
  const int32_t count = segments.begins.back();
  for (int32_t i = 0; i < count; ++i) segments.order.push_back(count - 1 - i);
  return segments;
}

// Floating ones near one, so that products stay numbers, and some NaN.
template <typename T>
std::vector<T> RowsOfSegments(int64_t n) {
  std::mt19937 random(6);
  std::vector<T> rows(n);
  for (T& value : rows) {
    const uint32_t word = random();
    const double near_one = word % 97 == 0 ? std::nan("") : 1 + (word % 1001 - 500.0) / 4000;
    const double number = std::is_integral_v<T> ? static_cast<double>(word % 7) : near_one;
    value = Wide<T>::Narrow(static_cast<typename Wide<T>::type>(number));
  }
  return rows;
}

template <typename T>
void ExpectSegments(Type type, SegmentOp op, const Segments& segments, bool ordered) {
  using W = typename Wide<T>::type;
  SCOPED_TRACE("type " + std::to_string(static_cast<int>(type)) + ", op " + std::to_string(static_cast<int>(op)) + ", inner " + std::to_string(segments.inner));
  SegmentItems items;
  items.count = segments.begins.back();
  items.segments = static_cast<int64_t>(segments.begins.size()) - 1;
  items.begins = segments.begins.data();
  items.order = ordered ? segments.order.data() : nullptr;
  const std::vector<T> data = RowsOfSegments<T>(items.count * segments.inner);
  std::vector<T> out(items.segments * segments.inner);
  Fault fault;
  LaunchSegments({nullptr, &fault, 0}, op, type, items, segments.inner, data.data(), out.data());
  for (int64_t s = 0; s < items.segments; ++s) {
    const int32_t begin = segments.begins[s], end = segments.begins[s + 1];
    if (begin == end) continue;
    for (int64_t c = 0; c < segments.inner; ++c) {
      const auto at = [&](int32_t k) { return Widen(data[(ordered ? segments.order[k] : k) * segments.inner + c]); };
      W value = op == SegmentOp::kTotal ? static_cast<W>(W(0) + at(begin)) : at(begin);
      for (int32_t k = begin + 1; k < end; ++k) value = NextOfSegment(op, value, at(k));
      const double count = end - begin;
      if (op == SegmentOp::kMean) value = static_cast<W>(value / static_cast<W>(count));
      if (op == SegmentOp::kSqrtN) value = static_cast<W>(value / static_cast<W>(std::sqrt(count)));
      const T expected = Wide<T>::Narrow(value), found = out[s * segments.inner + c];
      if (value != value && Widen(found) != Widen(found)) continue;
      ASSERT_EQ(std::memcmp(&found, &expected, sizeof(T)), 0) << "segment " << s << ", column " << c;
    }
  }
}

TEST(SegmentTest, LongOnesAmongShortOnes) {
  const std::vector<int> lengths = {3, 0, 256, 257, 1, 700, 0, 5, 5000, 258, 2, 300};
  for (const int64_t inner : {1, 5, 16, 17, 40}) {
    for (const bool ordered : {false, true}) {
      for (const SegmentOp op : kSegmentOps) ExpectSegments<float>(Type::kFloat, op, SegmentsOf(lengths, inner), ordered);
    }
  }
}

TEST(SegmentTest, LongOnesOfEveryType) {
  const Segments segments = SegmentsOf({300, 10, 600, 1000}, 3);
  for (const SegmentOp op : kSegmentOps) {
    ExpectSegments<double>(Type::kDouble, op, segments, true);
    ExpectSegments<Half>(Type::kHalf, op, segments, true);
    ExpectSegments<Bfloat16>(Type::kBfloat16, op, segments, false);
    if (op == SegmentOp::kProd) continue;  // of signed ones overflows
    ExpectSegments<int32_t>(Type::kInt32, op, segments, true);
    ExpectSegments<int64_t>(Type::kInt64, op, segments, false);
  }
}

// Where nothing weighs them: a product would make a signalling NaN a quiet one.
TEST(SegmentTest, ElementsWithoutWeightsKeepTheirBits) {
  const int32_t begins[] = {0, 1};
  SegmentItems items;
  items.count = items.segments = 1;
  items.begins = begins;
  const uint32_t signalling = 0x7fa00001;
  uint32_t out = 0;
  Fault fault;
  LaunchSegments({nullptr, &fault, 0}, SegmentOp::kMax, Type::kFloat, items, /*inner=*/1, &signalling, &out);
  EXPECT_EQ(out, signalling);
}

// None begins among the last items.
TEST(SegmentTest, OneSegmentOfAllItems) {
  for (const int length : {256, 257, 511, 512, 4096, 4097, 20'000}) ExpectSegments<float>(Type::kFloat, SegmentOp::kSum, SegmentsOf({length}, 2), false);
}

}  // namespace
}  // namespace millrace::cuda
