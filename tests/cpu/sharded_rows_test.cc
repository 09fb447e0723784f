// Kernels that share out rows or columns: the bits do not depend on which threads take which.
#include <cstring>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/linalg.h"
#include "kernel_testing.h"

namespace millrace::cpu {
namespace {

// Values whose sums are rounded: near to `center`, all bits of their fractions in use.
Tensor Rounded(DataType dtype, const Shape& shape, double center = 0) {
  Tensor values(dtype, shape);
  const int64_t parts = dtype == DataType::kComplex64 || dtype == DataType::kComplex128 ? 2 : 1;
  uint32_t state = 1;
  for (int64_t i = 0; i < shape.num_elements() * parts; ++i) {
    state = state * 1664525u + 1013904223u;
    const double value = center + (static_cast<double>(state) / 4294967296.0 - 0.5) * (center == 0 ? 2 : 0.01);
    if (dtype == DataType::kFloat || dtype == DataType::kComplex64) {
      static_cast<float*>(values.mutable_data())[i] = static_cast<float>(value);
    } else {
      static_cast<double*>(values.mutable_data())[i] = value;
    }
  }
  return values;
}

template <typename T>
Tensor Vector(const std::vector<T>& elements, const Shape& shape) {
  Tensor values(std::is_same_v<T, int32_t> ? DataType::kInt32 : DataType::kInt64, shape);
  std::memcpy(values.mutable_data(), elements.data(), elements.size() * sizeof(T));
  return values;
}

TEST(ShardedRows, TriangularSolves) {
  for (bool lower : {false, true}) {
    AttrMap attrs;
    attrs.Set("lower", lower);
    EvaluateOnThreads({"MatrixTriangularSolve", attrs, {Rounded(DataType::kDouble, Shape({70, 70}), 1), Rounded(DataType::kDouble, Shape({70, 140}))}});
    EvaluateOnThreads({"MatrixTriangularSolve", attrs, {Rounded(DataType::kFloat, Shape({900, 11, 11}), 1), Rounded(DataType::kFloat, Shape({900, 11, 7}))}});
  }
}

TEST(ShardedRows, BatchesOfMatrices) {
  for (const char* op : {"Lu", "MatrixInverse", "LogMatrixDeterminant", "Qr", "Svd", "SelfAdjointEigV2"}) {
    AttrMap attrs;
    if (std::string(op) == "SelfAdjointEigV2") attrs.Set("compute_v", true);
    EvaluateOnThreads({op, attrs, {Rounded(DataType::kFloat, Shape({90, 23, 23}))}});
  }
  EvaluateOnThreads({"MatrixTriangularSolve", {}, {Rounded(DataType::kFloat, Shape({17, 65, 65}), 1), Rounded(DataType::kFloat, Shape({17, 65, 140}))}});
}

// Whichever shard comes to an end first.
TEST(ShardedRows, OfMatricesThatFailTheFirstTellsTheError) {
  KernelRegistry kernels;
  AddKernel(kernels, "MatrixInverse", [](const OpInstance& node) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    return EachMatrixOf<double>(node, [](double, const KernelContext&, const MatrixBatch&, int64_t i) {
      return i == 37 || i == 210 || i == 399 ? absl::InvalidArgumentError(absl::StrCat(i)) : absl::OkStatus();
    });
  });
  const NodeRun run = {"MatrixInverse", {}, {Rounded(DataType::kFloat, Shape({400, 20, 20}))}};
  for (int threads : {1, 2, 4}) {
    ThreadsRunner runner(threads);
    EXPECT_EQ(Evaluate(run, &runner, kernels).status().message(), "37") << threads << " threads";
  }
}

// What each is computed in is outside of the plan.
TEST(ShardedRows, LargeMatricesAreTakenOneByOne) {
  const auto most = [](const Shape& taken, const Shape& given) {
    OpInstance node;
    node.inputs = {{DataType::kFloat, taken}};
    node.outputs = {{DataType::kFloat, given}};
    return MostSideBySide(node, MatrixBatch(taken));
  };
  EXPECT_EQ(most(Shape({400, 20, 20}), Shape({400})), kMaxShards);
  EXPECT_EQ(most(Shape({400, 128, 128}), Shape({400, 128, 128})), kMaxShards);
  EXPECT_EQ(most(Shape({400, 256, 256}), Shape({400})), kMaxShards / 4);
  EXPECT_EQ(most(Shape({400, 512, 512}), Shape({400, 512, 512})), 1);
  EXPECT_EQ(most(Shape({400, 4096, 1}), Shape({400, 4096, 4096})), 1);  // a whole Q of narrow matrices
  EXPECT_EQ(most(Shape({400, 0, 0}), Shape({400, 0, 0})), kMaxShards);
}

TEST(ShardedRows, FakeQuantisation) {
  for (int64_t channels : {1, 3, 31, 64, 70}) {
    const Tensor values = Rounded(DataType::kFloat, Shape({140000 / channels, channels}));
    Tensor min(DataType::kFloat, Shape({channels})), max(DataType::kFloat, Shape({channels}));
    for (int64_t c = 0; c < channels; ++c) {
      min.mutable_as<float>()[c] = c % 5 == 4 ? 0.0f : -0.5f - static_cast<float>(c) / 200;
      max.mutable_as<float>()[c] = c % 5 == 4 ? 0.0f : 0.5f;
    }
    EvaluateOnThreads({"FakeQuantWithMinMaxVarsPerChannel", {}, {values, min, max}});
    EvaluateOnThreads({"FakeQuantWithMinMaxVarsPerChannelGradient", {}, {values, values, min, max}});
  }
}

TEST(ShardedRows, GradientsOfMirroredPadding) {
  AttrMap attrs;
  attrs.Set("mode", std::string("SYMMETRIC"));
  const Tensor paddings = Vector<int32_t>({2, 2, 3, 3, 0, 0}, Shape({3, 2}));
  EvaluateOnThreads({"MirrorPadGrad", attrs, {Rounded(DataType::kFloat, Shape({36, 46, 70})), paddings}, {false, true}});
}

TEST(ShardedRows, SumsOfSegments) {
  for (int64_t width : {1, 15, 32, 70}) {
    const int64_t rows = 140000 / width;
    std::vector<int32_t> ids(rows);
    for (int64_t r = 0; r < rows; ++r) ids[r] = static_cast<int32_t>(r * r % 91) - 1;
    EvaluateOnThreads({"UnsortedSegmentSum", {}, {Rounded(DataType::kFloat, Shape({rows, width})), Vector(ids, Shape({rows})), Tensor::Scalar<int32_t>(90)},
                       {false, false, true}});
  }
}

TEST(ShardedRows, RaggedRows) {
  std::vector<int64_t> splits = {0};
  for (int64_t row = 0; row < 5000; ++row) splits.push_back(splits.back() + row * 7 % 25);
  AttrMap attrs;
  attrs.Set("row_partition_types", std::vector<std::string>{"ROW_SPLITS"});
  const Tensor values = Rounded(DataType::kFloat, Shape({splits.back()}));
  EvaluateOnThreads({"RaggedTensorToTensor", attrs, {Vector<int64_t>({-1, 20}, Shape({2})), values, Tensor::Scalar<float>(0), Vector(splits, Shape({5001}))},
                     {true, false, false, false}});
}

TEST(ShardedRows, ProductsOfComplexNumbers) {
  for (DataType dtype : {DataType::kComplex64, DataType::kComplex128}) {
    EvaluateOnThreads({"BatchMatMulV2", {}, {Rounded(dtype, Shape({3, 37, 66})), Rounded(dtype, Shape({1, 66, 35}))}});
  }
}

}  // namespace
}  // namespace millrace::cpu
