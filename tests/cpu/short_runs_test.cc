// Rows of a few elements, whose loops run over many rows at once: against one element at a time, and on any number of threads.
#include <array>
#include <bit>
#include <cstring>

#include <gtest/gtest.h>

#include "kernel_testing.h"

namespace millrace::cpu {
namespace {

Tensor Vector(const std::vector<int32_t>& elements, const Shape& shape) {
  Tensor values(DataType::kInt32, shape);
  std::memcpy(values.mutable_data(), elements.data(), elements.size() * sizeof(int32_t));
  return values;
}

// 0, 1, 2, ... in as many bytes as the type has.
Tensor Counted(DataType dtype, const Shape& shape) {
  Tensor values(dtype, shape);
  const int64_t bytes = DataTypeSize(dtype);
  for (int64_t i = 0; i < shape.num_elements(); ++i) std::memcpy(static_cast<char*>(values.mutable_data()) + i * bytes, &i, std::min<int64_t>(bytes, 8));
  return values;
}

// Elements at(i) of `from`, one by one.
template <typename At>
void ExpectElements(const Tensor& got, const Tensor& from, At&& at) {
  const int64_t bytes = DataTypeSize(from.dtype());
  int64_t wrong = 0;
  for (int64_t i = 0; i < got.num_elements(); ++i) {
    wrong += std::memcmp(static_cast<const char*>(got.data()) + i * bytes, static_cast<const char*>(from.data()) + at(i) * bytes, bytes) != 0;
  }
  EXPECT_EQ(wrong, 0) << "of " << got.shape().ToString();
}

constexpr DataType kOfEverySize[] = {DataType::kInt8, DataType::kHalf, DataType::kFloat, DataType::kDouble, DataType::kComplex128};

TEST(ShortRuns, OperandsThatRepeatInEveryPlace) {
  for (DataType dtype : {DataType::kInt8, DataType::kHalf, DataType::kFloat, DataType::kDouble}) {
    for (int64_t width : {1, 2, 3, 4, 5, 16, 17, 32, 33}) {
      const int64_t rows = 70001 / width;
      const Shape whole({rows, width}), column({rows, 1}), row({1, width});
      for (const auto& [a, b] : {std::pair(whole, column), std::pair(column, whole), std::pair(whole, row), std::pair(column, row)}) {
        const Tensor x = TestValues(DataType::kFloat, a, 1), y = TestValues(DataType::kFloat, b, 2);
        const auto of = [&](const Tensor& values) {
          AttrMap attrs;
          attrs.Set("DstT", dtype);
          return (*Evaluate({"Cast", attrs, {values}}))[0];
        };
        const Tensor got = EvaluateOnThreads({"Sub", {}, {of(x), of(y)}});
        // Of the whole shape nothing repeats: one loop, as long as the tensor.
        const Tensor shape = Vector({static_cast<int32_t>(rows), static_cast<int32_t>(width)}, Shape({2}));
        const auto spread = [&](const Tensor& values) { return (*Evaluate({"BroadcastTo", {}, {of(values), shape}, {false, true}}))[0]; };
        EXPECT_TRUE(got.BitEqual((*Evaluate({"Sub", {}, {spread(x), spread(y)}}))[0])) << DataTypeName(dtype) << " " << width;
      }
    }
  }
}

TEST(ShortRuns, OperandsThatRepeatOverSeveralDimensions) {
  const Shape out({90, 7, 41, 3});
  for (const auto& [a, b] : {std::pair(Shape({90, 7, 41, 3}), Shape({90, 1, 41, 1})), std::pair(Shape({90, 1, 41, 1}), Shape({7, 1, 3})),
                             std::pair(Shape({90, 1, 1, 3}), Shape({7, 41, 1}))}) {
    const Tensor x = TestValues(DataType::kFloat, a, 1), y = TestValues(DataType::kFloat, b, 2);
    const Tensor got = EvaluateOnThreads({"Mul", {}, {x, y}});
    const Tensor shape = Vector({90, 7, 41, 3}, Shape({4}));
    const auto spread = [&](const Tensor& values) { return (*Evaluate({"BroadcastTo", {}, {values, shape}, {false, true}}))[0]; };
    EXPECT_TRUE(got.BitEqual((*Evaluate({"Mul", {}, {spread(x), spread(y)}}))[0]));
  }
}

TEST(ShortRuns, OfEmptyTensors) {
  for (DataType dtype : {DataType::kFloat, DataType::kComplex64}) {
    for (const Shape& other : {Shape({4, 1}), Shape({1, 0})}) {
      EXPECT_EQ(EvaluateOnThreads({"Sub", {}, {Tensor(dtype, Shape({4, 0})), Counted(dtype, other)}}).shape(), Shape({4, 0}));
    }
  }
}

TEST(ShortRuns, TransposesOfNarrowRows) {
  for (DataType dtype : kOfEverySize) {
    for (int64_t width : {1, 2, 3, 4, 7, 8, 9, 15, 16, 17}) {
      const int64_t m = 37, n = 1100 / width + 3;
      const Tensor in = Counted(dtype, Shape({2, m, n, width}));
      ExpectElements(EvaluateOnThreads({"Transpose", {}, {in, Vector({0, 2, 1, 3}, Shape({4}))}, {false, true}}), in, [&](int64_t i) {
        const int64_t c = i % width, a = i / width % m, b = i / width / m % n, image = i / width / m / n;
        return ((image * m + a) * n + b) * width + c;
      });
      ExpectElements(EvaluateOnThreads({"Transpose", {}, {in, Vector({0, 3, 1, 2}, Shape({4}))}, {false, true}}), in, [&](int64_t i) {
        const int64_t b = i % n, a = i / n % m, c = i / n / m % width, image = i / n / m / width;
        return ((image * m + a) * n + b) * width + c;
      });
      ExpectElements(EvaluateOnThreads({"ReverseV2", {}, {in, Vector({1, 3}, Shape({2}))}, {false, true}}), in, [&](int64_t i) {
        const int64_t c = i % width, b = i / width % n, a = i / width / n % m, image = i / width / n / m;
        return ((image * m + m - 1 - a) * n + b) * width + width - 1 - c;
      });
    }
  }
}

TEST(ShortRuns, ReversedWhereEveryDimensionIsShort) {
  const std::vector<int64_t> dims(17, 2);
  const Tensor in = Counted(DataType::kFloat, Shape(dims));
  // Every second axis: bits 15, 13, ... of the position.
  const Tensor axes = Vector({1, 3, 5, 7, 9, 11, 13, 15}, Shape({8}));
  ExpectElements(EvaluateOnThreads({"ReverseV2", {}, {in, axes}, {false, true}}), in, [](int64_t i) { return i ^ 0xAAAA; });
}

TEST(ShortRuns, ColumnsSplitAndJoined) {
  for (DataType dtype : kOfEverySize) {
    for (const auto& [parts, width, rows] : std::vector<std::array<int64_t, 3>>{{3, 1, 20001}, {3, 3, 20001}, {3, 4, 20001}, {3, 5, 20001}, {1030, 1, 67}}) {
      const Tensor in = Counted(dtype, Shape({rows, parts * width}));
      AttrMap attrs;
      attrs.Set("num_split", parts);
      const NodeRun split = {"Split", attrs, {Tensor::Scalar<int32_t>(1), in}, {true, false}};
      EvaluateOnThreads(split);
      const auto outputs = Evaluate(split);
      ASSERT_TRUE(outputs.ok()) << outputs.status();
      for (int64_t p = 0; p < parts; ++p) {
        ExpectElements((*outputs)[p], in, [&](int64_t i) { return i / width * parts * width + p * width + i % width; });
      }
      AttrMap joins;
      joins.Set("N", parts);
      NodeRun join = {"ConcatV2", joins, *outputs, std::vector<bool>(parts + 1)};
      join.inputs.push_back(Tensor::Scalar<int32_t>(1));
      join.known[parts] = true;
      const Tensor joined = EvaluateOnThreads(join);
      EXPECT_TRUE(joined.BitEqual(in));
    }
  }
}

TEST(ShortRuns, BlocksOfSpaceWithAndWithoutPadding) {
  for (int64_t depth : {1, 3, 40}) {
    for (const auto& [before, after] : {std::pair(0, 0), std::pair(5, 1), std::pair(1, 5)}) {
      // A block of 3 by 2, rows padded; with `before` past the first block.
      const int64_t height = 27 - before - after, width = 22;
      const Tensor in = Counted(DataType::kFloat, Shape({4, height, width, depth}));
      const Tensor block = Vector({3, 2}, Shape({2})), edges = Vector({before, after, 0, 0}, Shape({2, 2}));
      const Tensor blocked = EvaluateOnThreads({"SpaceToBatchND", {}, {in, block, edges}, {false, true, true}});
      ASSERT_EQ(blocked.shape(), Shape({24, 9, 11, depth}));
      for (int64_t i = 0; i < blocked.num_elements(); ++i) {
        const int64_t c = i % depth, x = i / depth % 11, y = i / depth / 11 % 9, entry = i / depth / 99;
        const int64_t row = y * 3 + entry / 4 / 2 - before, column = x * 2 + entry / 4 % 2, image = entry % 4;
        const bool inside = row >= 0 && row < height;
        const float expected = inside ? in.as<float>()[((image * height + row) * width + column) * depth + c] : 0.0f;
        ASSERT_EQ(std::bit_cast<int32_t>(blocked.as<float>()[i]), std::bit_cast<int32_t>(expected)) << i;
      }
      EXPECT_TRUE(EvaluateOnThreads({"BatchToSpaceND", {}, {blocked, block, edges}, {false, true, true}}).BitEqual(in));
    }
  }
}

// 144 offsets inside a block: each copy is too small to be shared out.
TEST(ShortRuns, SmallBlocksOfSpaceAreSharedOut) {
  class Counter final : public ParallelRunner {
   public:
    void For(int64_t shards, absl::FunctionRef<void(int64_t)> fn) override {
      most = std::max(most, shards);
      for (int64_t i = 0; i < shards; ++i) fn(i);
    }
    int64_t most = 0;
  };
  const Tensor block = Vector({12, 12}, Shape({2})), edges = Vector({2, 1, 1, 2}, Shape({2, 2}));
  const Tensor in = Counted(DataType::kFloat, Shape({1, 33, 33, 200}));
  const Tensor blocked = EvaluateOnThreads({"SpaceToBatchND", {}, {in, block, edges}, {false, true, true}});
  const NodeRun back = {"BatchToSpaceND", {}, {blocked, block, edges}, {false, true, true}};
  EXPECT_TRUE(EvaluateOnThreads(back).BitEqual(in));
  Counter counter;
  ASSERT_TRUE(Evaluate(back, &counter).ok());
  EXPECT_GT(counter.most, 1);
}

}  // namespace
}  // namespace millrace::cpu
