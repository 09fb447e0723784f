// Rows that updates are combined with have the bits of updates one after another in the order of the indices, be they few or many
// for a row. Once as loops (cuda_kernels_test) and once on the grid (cuda_grid_test).
#include "cuda/launch/scatter.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/launch/scalar.h"

namespace millrace::cuda {
namespace {

struct Scatter {
  int64_t rows = 0, inner = 0;
  std::vector<int32_t> indices;
  bool one_update = false;
};

template <typename T>
T Combined(CombineOp op, T before, T update) {
  const auto a = Widen(before), b = Widen(update);
  switch (op) {
    case CombineOp::kAdd: return Wide<T>::Narrow(a + b);
    case CombineOp::kSub: return Wide<T>::Narrow(a - b);
    case CombineOp::kMul: return Wide<T>::Narrow(a * b);
    case CombineOp::kMax: return Wide<T>::Narrow(a < b ? b : a);
    case CombineOp::kMin: return Wide<T>::Narrow(b < a ? b : a);
    case CombineOp::kMaxOrNan: return Wide<T>::Narrow(a < b || b != b ? b : a);
    case CombineOp::kMinOrNan: return Wide<T>::Narrow(b < a || b != b ? b : a);
    default: return update;
  }
}

// Numbers of about one, of either sign, whose sums are rounded, and differently in another order.
template <typename T>
std::vector<T> Noise(int64_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<T> values(n);
  for (T& value : values) {
    const float number = static_cast<float>(random() % 20001) / 10000.0f - 1.0f;
    if constexpr (sizeof(T) == 8) {
      value = static_cast<T>(number) / 3;
    } else {
      value = Wide<T>::Narrow(static_cast<typename Wide<T>::type>(number));
    }
  }
  return values;
}

template <typename T>
void Check(const Scatter& scatter, CombineOp op, Type type, int shift = 0) {
  const int64_t n = static_cast<int64_t>(scatter.indices.size()), elements = scatter.rows * scatter.inner;
  const std::vector<T> updates = Noise<T>(scatter.one_update ? 1 : n * scatter.inner, 1);
  std::vector<T> out = Noise<T>(elements + shift, 2), expected = out;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t c = 0; c < scatter.inner && scatter.indices[i] >= 0; ++c) {
      T& at = expected[shift + scatter.indices[i] * scatter.inner + c];
      at = Combined(op, at, updates[scatter.one_update ? 0 : i * scatter.inner + c]);
    }
  }
  RowIndex index;
  index.skips_negative = true;
  index.count = n;
  index.dims[0] = scatter.rows;
  index.strides[0] = 1;
  Fault fault;
  std::vector<char> scratch(ScatterScratchBytes(n, scatter.rows));
  LaunchScatterRows({nullptr, &fault, 0}, op, type, index, scatter.rows, scatter.inner, scatter.one_update, scatter.indices.data(),
                    updates.data(), out.data() + shift, scratch.data());
  EXPECT_EQ(fault.code, FaultCode::kNone);
  EXPECT_EQ(std::memcmp(out.data(), expected.data(), out.size() * sizeof(T)), 0)
      << n << " indices, " << scatter.rows << " rows of " << scatter.inner << ", op " << static_cast<int>(op) << ", type "
      << static_cast<int>(type);
}

// Row 1 is named by all indices but every `every`-th, which name one after another, and none at times.
Scatter MostlyOne(int64_t n, int64_t every, int64_t inner) {
  Scatter scatter = {7, inner, std::vector<int32_t>(n, 1)};
  for (int64_t i = 0; i < n; i += every) scatter.indices[i] = static_cast<int32_t>(i / every % 8) - 1;
  return scatter;
}

// Rows named 0, 1, 2, ... times, mixed.
Scatter EveryLength(int64_t rows, int64_t inner) {
  Scatter scatter = {rows, inner, {}};
  for (int64_t row = 0; row < rows; ++row) scatter.indices.insert(scatter.indices.end(), row, static_cast<int32_t>(row));
  std::shuffle(scatter.indices.begin(), scatter.indices.end(), std::mt19937(5));
  return scatter;
}

TEST(ScatterTest, RowsOfEveryLengthAreSummedInTheOrderOfTheirIndices) {
  for (const int64_t inner : {1, 3, 16, 20, 37}) Check<float>(EveryLength(40, inner), CombineOp::kAdd, Type::kFloat);
}

TEST(ScatterTest, ARowThatNearlyAllIndicesNameIsSummedInTheirOrder) {
  for (const int64_t n : {16, 17, 18, 224, 225, 226, 448, 449, 1000}) {
    Check<float>(MostlyOne(n, 1 << 20, 20), CombineOp::kAdd, Type::kFloat);
  }
  Check<float>(MostlyOne(1500, 3, 33), CombineOp::kAdd, Type::kFloat);
  Check<float>(MostlyOne(5000, 9, 4), CombineOp::kAdd, Type::kFloat);  // more than are sorted in one launch
}

TEST(ScatterTest, EveryOperationAndType) {
  for (const CombineOp op : {CombineOp::kAssign, CombineOp::kAdd, CombineOp::kSub, CombineOp::kMul, CombineOp::kMax, CombineOp::kMin,
                             CombineOp::kMaxOrNan, CombineOp::kMinOrNan}) {
    const Scatter scatter = MostlyOne(400, 4, 24);
    Check<float>(scatter, op, Type::kFloat);
    Check<double>(scatter, op, Type::kDouble);
    Check<Half>(scatter, op, Type::kHalf);
    Check<Bfloat16>(scatter, op, Type::kBfloat16);
    Check<int32_t>(scatter, op, Type::kInt32);
    Check<uint8_t>(scatter, op, Type::kUint8);
  }
}

TEST(ScatterTest, RowsThatAreNotAlignedAndOneUpdateForAll) {
  Scatter scatter = MostlyOne(300, 4, 24);
  Check<float>(scatter, CombineOp::kAdd, Type::kFloat, /*shift=*/1);
  scatter.one_update = true;
  Check<float>(scatter, CombineOp::kAdd, Type::kFloat);
}

}  // namespace
}  // namespace millrace::cuda
