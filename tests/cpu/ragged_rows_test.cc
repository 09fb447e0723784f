// What a feed may say of rows that are not there, where TensorFlow reads memory that is nobody's or fills what it likes.
#include <algorithm>
#include <cstdint>
#include <limits>

#include <gmock/gmock.h>

#include "kernel_testing.h"

namespace millrace::cpu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Refusal(const std::vector<std::vector<int64_t>>& splits) {
  NodeRun run{"RaggedTensorToTensor", {}, {Tensor::Vector<int64_t>(std::vector<int64_t>(splits.size() + 1, -1)), Tensor::Vector<float>({0, 1, 2, 3, 4}), Tensor::Scalar(0.0f)}};
  run.known = {true};
  for (const std::vector<int64_t>& each : splits) run.inputs.push_back(Tensor::Vector<int64_t>(each));
  run.attrs.Set("row_partition_types", std::vector<std::string>(splits.size(), "ROW_SPLITS"));
  run.attrs.Set("num_row_partition_tensors", static_cast<int64_t>(splits.size()));
  const absl::StatusOr<OpInstance> instance = Infer(run);
  if (!instance.ok()) return std::string(instance.status().message());
  return std::string(EvaluateOp(*OpRegistry::Builtin().Find(run.op), CpuKernels(), *instance, run.inputs).status().message());
}

TEST(RaggedRows, WhatASplitSaysMustBeThere) {
  EXPECT_EQ(Refusal({{0, 2, 5}}), "");
  EXPECT_EQ(Refusal({{0, 1, 3}, {0, 2, 2, 5}}), "");
  EXPECT_THAT(Refusal({{0, 1, 100}}), HasSubstr("row_splits hold 100 rows or values, where 5 are"));
  EXPECT_THAT(Refusal({{0, 1, 100}, {0, 2, 2, 5}}), HasSubstr("row_splits hold 100 rows or values, where 3 are"));
  EXPECT_THAT(Refusal({{0, std::numeric_limits<int64_t>::min(), 5}}), HasSubstr("row_splits are not sorted"));
  EXPECT_THAT(Refusal({{0, std::numeric_limits<int64_t>::max()}}), HasSubstr("row_splits hold"));
  EXPECT_THAT(Refusal({{0, 1, 4}}), HasSubstr("row partitions hold 4 values of 5"));
}

Tensor Matrix(std::vector<int64_t> values, int64_t columns) {
  Tensor matrix(DataType::kInt64, Shape({static_cast<int64_t>(values.size()) / columns, columns}));
  std::copy(values.begin(), values.end(), matrix.mutable_as<int64_t>().begin());
  return matrix;
}

Tensor Ints(std::vector<int64_t> values) { return Tensor::Vector<int64_t>(values); }

std::string ErrorOf(const NodeRun& run) { return std::string(Evaluate(run).status().message()); }

TEST(RaggedRows, RowIdsAreOfTheRowsThereAre) {
  const auto refusal = [](int64_t rows, std::vector<int64_t> ids, int64_t asked) {
    NodeRun run{"RaggedTensorToTensor", {}, {Ints({asked, -1}), Tensor::Vector<float>({0, 1, 2, 3, 4}), Tensor::Scalar(0.0f), Tensor::Scalar(rows), Ints(ids)}};
    run.known = {true, false, false, true};
    run.attrs.Set("row_partition_types", std::vector<std::string>{"FIRST_DIM_SIZE", "VALUE_ROWIDS"});
    run.attrs.Set("num_row_partition_tensors", int64_t{2});
    return ErrorOf(run);
  };
  EXPECT_EQ(refusal(3, {0, 0, 2, 2, 2}, -1), "");
  EXPECT_EQ(refusal(3, {0, 0, 2, 2, 2}, 2), "");  // a row that was not asked for
  for (int64_t asked : {-1, 2, 4}) EXPECT_THAT(refusal(3, {0, 0, 2, 2, 3}, asked), HasSubstr("value_rowids name rows 0 to 3")) << asked;
  EXPECT_THAT(refusal(3, {-1, 0, 2, 2, 2}, -1), HasSubstr("value_rowids name rows -1 to 2"));
}

TEST(RaggedRows, SplitsOfRowsThatNobodyGathersAreInOrder) {
  const auto refusal = [](std::vector<int64_t> splits) {
    NodeRun run{"RaggedGather", {}, {Ints(splits), Tensor::Vector<float>({0, 1, 2, 3, 4}), Ints({0})}, {true, false, true}};
    return ErrorOf(run);
  };
  EXPECT_EQ(refusal({0, 2, 3, 5}), "");
  EXPECT_EQ(refusal({1, 2, 3, 4}), "");
  EXPECT_THAT(refusal({0, 2, 1, 5}), HasSubstr("Ragged splits must be sorted"));
  EXPECT_THAT(refusal({0, 2, 3, 9}), HasSubstr("Ragged splits must be sorted"));
}

TEST(RaggedRows, RangesHaveTheElementsPlanned) {
  const auto row = [](float value) { return Tensor::Vector<float>({value}); };
  const auto floats = Evaluate({"RaggedRange", {}, {row(0), row(0.3f), row(0.1f)}, {true, true, true}});
  ASSERT_TRUE(floats.ok()) << floats.status();
  EXPECT_THAT((*floats)[0].as<int64_t>(), ElementsAre(0, 3));
  EXPECT_THAT((*floats)[1].as<float>(), ElementsAre(0, 0.1f, 0.2f));
  const int64_t least = std::numeric_limits<int64_t>::min();
  const auto ints = Evaluate({"RaggedRange", {}, {Ints({least}), Ints({least + 3}), Ints({2})}, {true, true, true}});
  ASSERT_TRUE(ints.ok()) << ints.status();
  EXPECT_THAT((*ints)[1].as<int64_t>(), ElementsAre(least, least + 2));
}

TEST(SparseRows, CountedOnesLieInsideTheirShape) {
  const auto refusal = [](std::vector<int64_t> index, std::vector<int64_t> dims) {
    return ErrorOf({"SparseCountSparseOutput", {}, {Matrix(index, static_cast<int64_t>(dims.size())), Ints({1}), Ints(dims), Ints({})}});
  };
  EXPECT_EQ(refusal({1, 2}, {2, 3}), "");
  EXPECT_THAT(refusal({0, 5}, {2, 3}), HasSubstr("dimension 1 has value 5 which is not in [0, 3)"));
  EXPECT_THAT(refusal({0, -1}, {2, 3}), HasSubstr("dimension 1 has value -1 which is not in [0, 3)"));
  EXPECT_THAT(refusal({5}, {3}), HasSubstr("dimension 0 has value 5 which is not in [0, 3)"));
}

NodeRun Reshape(std::vector<int64_t> index, std::vector<int64_t> from, std::vector<int64_t> to) {
  return {"SparseReshape", {}, {Matrix(index, static_cast<int64_t>(from.size())), Ints(from), Ints(to)}};
}

TEST(SparseRows, ReshapedHaveAsManyElements) {
  EXPECT_THAT(ErrorOf(Reshape({}, {12}, {-1, -1})), HasSubstr("only one output dimension may be -1, not both 0 and 1"));
  EXPECT_THAT(ErrorOf(Reshape({1}, {12}, {-2, -6})), HasSubstr("to be non-negative, got -2"));
  EXPECT_THAT(ErrorOf(Reshape({}, {0, 4}, {-1, 0})), HasSubstr("cannot infer the missing input size"));
  EXPECT_THAT(ErrorOf(Reshape({0, 0}, {3, 4}, {5, -1})), HasSubstr("requires a multiple of 5"));
  EXPECT_THAT(ErrorOf(Reshape({0, 0}, {3, 4}, {13})), HasSubstr("but the requested shape has 13"));
  EXPECT_THAT(ErrorOf(Reshape({0, 0}, {0, 4}, {0, 5})), HasSubstr("its shape is empty"));
  constexpr int64_t kLarge = int64_t{1} << 32;
  EXPECT_THAT(ErrorOf(Reshape({1, 1}, {kLarge, kLarge}, {kLarge / 2, 2 * kLarge})), HasSubstr("overflow"));
  EXPECT_THAT(ErrorOf(Reshape({1, 1}, {kLarge * 256, kLarge * 256}, {-1})), HasSubstr("overflow"));
}

TEST(SparseRows, ReshapedIndicesOutsideStayOutside) {
  const auto reshaped = [](std::vector<int64_t> index, std::vector<int64_t> to) {
    const auto outputs = Evaluate(Reshape(index, {3, 4}, to));
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    const auto indices = (*outputs)[0].as<int64_t>();
    return std::vector<int64_t>(indices.begin(), indices.end());
  };
  EXPECT_THAT(reshaped({2, 3}, {2, -1}), ElementsAre(1, 5));
  EXPECT_THAT(reshaped({5, 5}, {12}), ElementsAre(25));
  EXPECT_THAT(reshaped({5, 5}, {2, 2, 3}), ElementsAre(4, 0, 1));
  EXPECT_THAT(reshaped({5, 5}, {3, 4}), ElementsAre(5, 5));
  EXPECT_THAT(reshaped({-1, 2}, {6, 2}), ElementsAre(-1, 0));
}

TEST(SparseRows, AddedOnesHaveTheDenseShape) {
  const Tensor dense(DataType::kFloat, Shape({3, 4}));
  const auto refusal = [&](std::vector<int64_t> dims) {
    return ErrorOf({"SparseTensorDenseAdd", {}, {Matrix({0, 0}, 2), Tensor::Vector<float>({1}), Ints(dims), dense}});
  };
  EXPECT_EQ(refusal({3, 4}), "");
  EXPECT_THAT(refusal({4, 4}), HasSubstr("sparse side 4 vs dense side 3"));
}

TEST(SparseRows, SlicesMayBeginBeforeTheFirst) {
  const auto slice = [](std::vector<int64_t> start, std::vector<int64_t> size) {
    return Evaluate({"SparseSlice", {}, {Matrix({0, 0, 0, 1, 1, 1, 2, 3}, 2), Tensor::Vector<float>({1, 2, 3, 4}), Ints({3, 4}), Ints(start), Ints(size)}});
  };
  auto outputs = slice({-1, 0}, {2, 2});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT((*outputs)[0].as<int64_t>(), ElementsAre(1, 0, 1, 1));
  EXPECT_THAT((*outputs)[1].as<float>(), ElementsAre(1, 2));
  EXPECT_THAT((*outputs)[2].as<int64_t>(), ElementsAre(2, 2));
  outputs = slice({-1, 0}, {5, 9});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT((*outputs)[0].as<int64_t>(), ElementsAre(1, 0, 1, 1, 2, 1, 3, 3));
  EXPECT_THAT((*outputs)[2].as<int64_t>(), ElementsAre(4, 4));
  outputs = slice({std::numeric_limits<int64_t>::min(), 0}, {2, 2});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ((*outputs)[1].num_elements(), 0);
  EXPECT_THAT((*outputs)[2].as<int64_t>(), ElementsAre(2, 2));
  EXPECT_THAT(std::string(slice({0, 0}, {-1, 2}).status().message()), HasSubstr("Expected a non-negative size, got -1"));
}

TEST(SparseRows, ShapesThatNoIntegerCountsAreRefused) {
  const int64_t half = int64_t{1} << 62;
  NodeRun concat{"SparseConcat", {}, {}};
  for (int i = 0; i < 2; ++i) concat.inputs.push_back(Matrix({0, 0}, 2));
  for (int i = 0; i < 2; ++i) concat.inputs.push_back(Tensor::Vector<float>({1}));
  for (int i = 0; i < 2; ++i) concat.inputs.push_back(Ints({half + 5, 1}));
  concat.attrs.Set("concat_dim", int64_t{0});
  concat.attrs.Set("N", int64_t{2});
  EXPECT_THAT(ErrorOf(concat), HasSubstr("overflow"));
  NodeRun split{"SparseSplit", {}, {Tensor::Scalar<int64_t>(0), Matrix({0, 0}, 2), Tensor::Vector<float>({1}), Ints({half, half})}};
  split.attrs.Set("num_split", int64_t{2});
  EXPECT_THAT(ErrorOf(split), HasSubstr("overflow"));
}

TEST(FlatIndices, AreOfDimensionsThatTheirTypeCounts) {
  const auto refusal = [](const Tensor& dims) {
    return ErrorOf({"UnravelIndex", {}, {dims.dtype() == DataType::kInt32 ? Tensor::Vector<int32_t>({0, 1}) : Ints({0, 1}), dims}});
  };
  EXPECT_EQ(refusal(Ints({1, 5})), "");
  EXPECT_THAT(refusal(Ints({-1, -5})), HasSubstr("Got dim = -1 at index 0"));
  EXPECT_THAT(refusal(Ints({5, 0})), HasSubstr("Got dim = 0 at index 1"));
  EXPECT_THAT(refusal(Tensor::Vector<int32_t>({1 << 20, 1 << 20})), HasSubstr("integer overflow"));
  EXPECT_EQ(refusal(Ints({1 << 20, 1 << 20})), "");
}

TEST(StitchedRows, ThoseThatNoIndexNamesAreZeroThoughOthersAreNamedTwice) {
  NodeRun run{"DynamicStitch", {}, {Tensor::Vector<int32_t>({3, 1}), Tensor::Vector<int32_t>({1, 0}), Tensor::Vector<float>({1, 2}), Tensor::Vector<float>({3, 4})}};
  run.attrs.Set("N", int64_t{2});
  run.known = {true, true};
  const absl::StatusOr<OpInstance> instance = Infer(run);
  ASSERT_TRUE(instance.ok()) << instance.status();
  const auto outputs = EvaluateOp(*OpRegistry::Builtin().Find(run.op), CpuKernels(), *instance, run.inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT((*outputs)[0].as<float>(), ::testing::ElementsAre(4, 3, 0, 1));
}

}  // namespace
}  // namespace millrace::cpu
