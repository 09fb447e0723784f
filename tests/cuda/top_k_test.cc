// The greatest of rows have the indices that a heap of libstdc++'s leaves, as the CPU's kernel has it, whichever way they are found, and
// the values' bits; of one rank they are the first of the greatest numbers. Once as loops (cuda_kernels_test) and once on the grid (cuda_grid_test).
#include "cuda/launch/top_k.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/launch/scalar.h"

namespace millrace::cuda {
namespace {

template <typename T>
std::vector<int64_t> TopByDefinition(const T* in, int64_t size, int64_t k, bool sorts) {
  const auto before = [in](int64_t a, int64_t b) { return Widen(in[b]) < Widen(in[a]) || (!(Widen(in[a]) < Widen(in[b])) && a < b); };
  if (k == 1) {
    int64_t first = 0;
    for (int64_t i = 1; i < size; ++i) {
      if (Widen(in[first]) < Widen(in[i]) || (Widen(in[first]) != Widen(in[first]) && Widen(in[i]) == Widen(in[i]))) first = i;
    }
    return {first};
  }
  std::vector<int64_t> heap(std::min(k + 1, size));
  std::iota(heap.begin(), heap.end(), 0);
  std::make_heap(heap.begin(), heap.end(), before);
  if (k < size) std::pop_heap(heap.begin(), heap.end(), before);
  heap.resize(k);
  for (int64_t i = k + 1; i < size; ++i) {
    if (!before(i, heap[0])) continue;
    std::pop_heap(heap.begin(), heap.end(), before);
    heap.back() = i;
    std::push_heap(heap.begin(), heap.end(), before);
  }
  if (sorts || k == size) std::sort_heap(heap.begin(), heap.end(), before);
  return heap;
}

// The scratch memory is as large as is said.
template <typename T, typename Index>
void ExpectTopOf(Type type, const std::vector<T>& x, int64_t rows, int64_t k, bool sorted) {
  const int64_t columns = static_cast<int64_t>(x.size()) / rows;
  SCOPED_TRACE(std::to_string(columns) + " columns, k " + std::to_string(k) + (sorted ? "" : ", unsorted"));
  const TopShape shape = {sizeof(Index) == 8, sorted, rows, columns, k};
  Fault fault;
  std::vector<uint64_t> scratch((TopKScratchBytes(type, shape) + 7) / 8 + 1, 7);
  scratch.back() = 77;
  std::vector<T> values(rows * k);
  std::vector<Index> indices(rows * k);
  LaunchTopK({nullptr, &fault, 0}, type, shape, x.data(), values.data(), indices.data(), scratch.data());
  EXPECT_EQ(scratch.back(), 77u);
  for (int64_t row = 0; row < rows; ++row) {
    const T* const from = x.data() + row * columns;
    const std::vector<int64_t> expected = TopByDefinition(from, columns, k, sorted);
    for (int64_t rank = 0; rank < k; ++rank) {
      ASSERT_EQ(indices[row * k + rank], expected[rank]) << row << ", " << rank;
      ASSERT_EQ(std::memcmp(&values[row * k + rank], &from[expected[rank]], sizeof(T)), 0) << row << ", " << rank;
    }
  }
}

// Any bits, many of them zeros of either sign; NaNs in every second row at most.
template <typename T>
std::vector<T> AnyBits(int64_t rows, int64_t columns) {
  std::mt19937_64 random(3);
  std::vector<T> x(rows * columns);
  for (int64_t i = 0; i < rows * columns; ++i) {
    const uint64_t kind = random() % 10, word = kind == 0 ? 0 : kind == 1 ? uint64_t{1} << (8 * sizeof(T) - 1) : random();
    std::memcpy(&x[i], &word, sizeof x[i]);
    if (i / columns % 2 == 0 && Widen(x[i]) != Widen(x[i])) x[i] = {};
  }
  return x;
}

template <typename T>
void ExpectTop(Type type) {
  constexpr int64_t kRows = 3;
  for (const int64_t columns : {20, 700}) {
    const std::vector<T> x = AnyBits<T>(kRows, columns);
    for (const int64_t k : {int64_t{1}, int64_t{2}, int64_t{16}, int64_t{17}, columns - 1, columns}) {
      for (const bool sorted : {true, false}) {
        if (k > 256 && (!sorted || sizeof(T) > 4)) continue;  // the host's
        ExpectTopOf<T, int32_t>(type, x, kRows, k, sorted);
        ExpectTopOf<T, int64_t>(type, x, kRows, k, sorted);
      }
    }
  }
}

TEST(TopKTest, EveryTypeHasTheOrderOfAHeap) {
  ExpectTop<float>(Type::kFloat);
  ExpectTop<double>(Type::kDouble);
  ExpectTop<Half>(Type::kHalf);
  ExpectTop<Bfloat16>(Type::kBfloat16);
  ExpectTop<int32_t>(Type::kInt32);
  ExpectTop<int64_t>(Type::kInt64);
  ExpectTop<uint8_t>(Type::kUint8);
}

// Many equal numbers; of the second row every third is NaN.
template <typename T, typename Index>
void ExpectTopOfLongRows(Type type, int64_t columns, int64_t k, int64_t rows = 3) {
  std::mt19937 random(5);
  std::vector<T> x(rows * columns);
  for (T& value : x) value = static_cast<T>(static_cast<int32_t>(random() % 2000) - 1000);
  if (type == Type::kFloat) {
    for (int64_t i = 0; i < columns; i += 3) x[columns + i] = static_cast<T>(0.0 / 0.0);
  }
  ASSERT_TRUE(TopKSorts(type, columns, k));
  ExpectTopOf<T, Index>(type, x, rows, k, /*sorted=*/true);
}

TEST(TopKTest, LongRowsAreSortedPieceByPiece) {
  ExpectTopOfLongRows<float, int32_t>(Type::kFloat, 4097, 4096 / 2);
  ExpectTopOfLongRows<float, int64_t>(Type::kFloat, 9000, 17);
  ExpectTopOfLongRows<float, int32_t>(Type::kFloat, 50'000, 2048);
  ExpectTopOfLongRows<float, int32_t>(Type::kFloat, 2500, 2500);
  ExpectTopOfLongRows<int32_t, int32_t>(Type::kInt32, 20'000, 1000);
}

// All enter, none, and runs of some length with others between them.
TEST(TopKTest, AHeapTakesWhatEntersItAndNothingElse) {
  constexpr int64_t kColumns = 9000;
  std::vector<float> x(3 * kColumns);
  for (int64_t i = 0; i < kColumns; ++i) {
    x[i] = static_cast<float>(i);
    x[kColumns + i] = static_cast<float>(-i);
    x[2 * kColumns + i] = static_cast<float>(i % 100 < 11 ? i : -i);
  }
  for (const int64_t k : {2, 40}) ExpectTopOf<float, int32_t>(Type::kFloat, x, 3, k, /*sorted=*/false);
}

TEST(TopKTest, NanIsTheGreatestOnlyAmongNans) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
  for (const int64_t columns : {3, 40, 5000}) {
    std::vector<float> x(3 * columns, kNan);
    x[columns - 1] = x[columns - 2] = -kInfinity;
    x[columns + 1] = 5;
    ExpectTopOf<float, int32_t>(Type::kFloat, x, 3, 1, /*sorted=*/true);
    ExpectTopOf<float, int32_t>(Type::kFloat, x, 3, 1, /*sorted=*/false);
  }
}

// Many rows come some after others, through the same memory.
TEST(TopKTest, ScratchMemoryDoesNotGrowWithTheRows) {
  const auto bytes = [](int64_t rows, int64_t columns, int64_t k) { return TopKScratchBytes(Type::kFloat, {false, true, rows, columns, k}); };
  constexpr int64_t kMost = 8 << 20;
  EXPECT_EQ(bytes(100, 4096, 4096), 0);
  EXPECT_EQ(bytes(1000, 50'000, 17), 1000 * 13 * 17 * 4);
  EXPECT_LE(bytes(1'000'000, 50'000, 2048), kMost);
  EXPECT_EQ(bytes(1, 4096 * 1000, 2048), 3 * 4096 * 1000);
  EXPECT_GT(bytes(520, 4100, 2048), kMost - (32 << 10));
  ExpectTopOfLongRows<int32_t, int32_t>(Type::kInt32, 4100, 2048, 520);
}

TEST(TopKTest, WideElementsFewRanksAndMostOfALongRowAreNotSorted) {
  EXPECT_FALSE(TopKSorts(Type::kDouble, 100, 50));
  EXPECT_FALSE(TopKSorts(Type::kInt64, 100, 50));
  EXPECT_FALSE(TopKSorts(Type::kFloat, 100, 16));
  EXPECT_FALSE(TopKSorts(Type::kFloat, 4097, 2049));
  EXPECT_TRUE(TopKSorts(Type::kFloat, 4097, 2048));
  EXPECT_TRUE(TopKSorts(Type::kFloat, 4096, 4096));
}

}  // namespace
}  // namespace millrace::cuda
