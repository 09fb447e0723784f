#include <cmath>

#include <gmock/gmock.h>

#include "kernel_testing.h"

namespace millrace::cpu {
namespace {

// Rows of softmax of x; the log of it when `log`.
std::vector<double> NaiveSoftmax(const Tensor& x, bool log) {
  const int64_t columns = x.shape().dim(x.shape().rank() - 1);
  std::vector<double> y(x.num_elements());
  for (int64_t r = 0; r < x.num_elements() / std::max<int64_t>(columns, 1); ++r) {
    double sum = 0;
    for (int64_t c = 0; c < columns; ++c) sum += std::exp(x.DoubleAt(r * columns + c));
    for (int64_t c = 0; c < columns; ++c) {
      const double log_y = x.DoubleAt(r * columns + c) - std::log(sum);
      y[r * columns + c] = log ? log_y : std::exp(log_y);
    }
  }
  return y;
}

class SoftmaxTest : public testing::TestWithParam<std::tuple<Shape, DataType>> {
 protected:
  Tensor Logits() const { return TestValues(std::get<1>(GetParam()), std::get<0>(GetParam()), 1); }
  double tolerance() const { return std::max(2 * Tolerance(std::get<1>(GetParam())), 1e-13); }
};

TEST_P(SoftmaxTest, AgreesWithTheDefinition) {
  const Tensor x = Logits();
  ExpectClose(EvaluateOnThreads({"Softmax", {}, {x}}), NaiveSoftmax(x, false), tolerance());
  ExpectClose(EvaluateOnThreads({"LogSoftmax", {}, {x}}), NaiveSoftmax(x, true), tolerance());
}

TEST(SmallestNormalTest, IsKept) {
  Tensor x(DataType::kDouble, Shape({1, 2}));
  x.mutable_as<double>()[0] = 0;
  x.mutable_as<double>()[1] = -708.39;
  EXPECT_NEAR(EvaluateOnThreads({"Softmax", {}, {x}}).as<double>()[1] / std::exp(-708.39), 1, 1e-14);
}

using CrossEntropyTest = SoftmaxTest;

TEST_P(CrossEntropyTest, LossAndGradientAgreeWithTheDefinition) {
  const auto& [shape, dtype] = GetParam();
  const int64_t rows = shape.dim(0), columns = shape.dim(1);
  const Tensor x = Logits(), labels = TestValues(dtype, shape, 2);
  Tensor classes(DataType::kInt64, Shape({rows}));
  for (int64_t r = 0; r < rows; ++r) classes.mutable_as<int64_t>()[r] = (r * 7 + 3) % columns;
  const std::vector<double> softmax = NaiveSoftmax(x, false), log_softmax = NaiveSoftmax(x, true);
  std::vector<double> loss(rows), sparse_loss(rows), gradient = softmax, sparse_gradient = softmax;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      loss[r] -= labels.DoubleAt(r * columns + c) * log_softmax[r * columns + c];
      gradient[r * columns + c] -= labels.DoubleAt(r * columns + c);
    }
    sparse_loss[r] = -log_softmax[r * columns + classes.IntAt(r)];
    sparse_gradient[r * columns + classes.IntAt(r)] -= 1;
  }
  const NodeRun dense{"SoftmaxCrossEntropyWithLogits", {}, {x, labels}};
  ExpectClose(EvaluateOnThreads(dense), loss, 8 * tolerance());
  ExpectClose(Evaluate(dense).value()[1], gradient, tolerance());
  const NodeRun sparse{"SparseSoftmaxCrossEntropyWithLogits", {}, {x, classes}};
  ExpectClose(EvaluateOnThreads(sparse), sparse_loss, tolerance());
  ExpectClose(Evaluate(sparse).value()[1], sparse_gradient, tolerance());
}

const auto kMatrices = testing::Values(Shape({3, 7}), Shape({700, 100}), Shape({3, 2}), Shape({0, 4}), Shape({16, 5000}));
const auto kTypes = testing::Values(DataType::kFloat, DataType::kDouble, DataType::kHalf, DataType::kBfloat16);

INSTANTIATE_TEST_SUITE_P(Matrices, SoftmaxTest, testing::Combine(kMatrices, kTypes));
INSTANTIATE_TEST_SUITE_P(OtherRanks, SoftmaxTest,
                         testing::Combine(testing::Values(Shape({5}), Shape({1, 2, 3, 33})), kTypes));
INSTANTIATE_TEST_SUITE_P(Matrices, CrossEntropyTest, testing::Combine(kMatrices, kTypes));

TEST(SoftmaxEdges, InfinitiesAndNan) {
  const float inf = INFINITY;
  const Tensor x = Tensor::Vector<float>({1, -inf, 1, 0, -1e9f, -200, inf, 1, 1, NAN, 1, 1}).Reshaped(Shape({4, 3}));
  const Tensor y = EvaluateOnThreads({"Softmax", {}, {x}});
  EXPECT_EQ(std::vector<float>(y.as<float>().begin(), y.as<float>().begin() + 6),
            std::vector<float>({0.5f, 0, 0.5f, 1, 0, 0}));
  for (int i = 6; i < 12; ++i) EXPECT_TRUE(std::isnan(y.DoubleAt(i))) << i;
}

TEST(SoftmaxEdges, ExponentialIsAccurateOverItsRange) {
  constexpr int kValues = 20000;
  Tensor x(DataType::kFloat, Shape({kValues, 2}));  // exp(x) / (1 + exp(x)) by rows (0, x)
  for (int i = 0; i < kValues; ++i) x.mutable_as<float>()[2 * i + 1] = -87.0f * i / kValues;
  const Tensor y = EvaluateOnThreads({"Softmax", {}, {x}});
  for (int i = 0; i < kValues; ++i) {
    const double e = std::exp(x.DoubleAt(2 * i + 1)), expected = e / (1 + e);
    ASSERT_NEAR(y.DoubleAt(2 * i + 1), expected, 4e-7 * expected) << x.DoubleAt(2 * i + 1);
  }
}

TEST(CrossEntropyEdges, BroadcastsLogitsAndLabels) {
  const Tensor x = TestValues(DataType::kFloat, Shape({1, 4}), 1), labels = TestValues(DataType::kFloat, Shape({3, 1}), 2);
  const std::vector<Tensor> outputs = Evaluate({"SoftmaxCrossEntropyWithLogits", {}, {x, labels}}).value();
  const std::vector<double> log_softmax = NaiveSoftmax(x, true);
  std::vector<double> loss(3);
  for (int r = 0; r < 3; ++r) {
    for (double value : log_softmax) loss[r] -= value * labels.DoubleAt(r);
  }
  ExpectClose(outputs[0], loss, 4e-6);
  EXPECT_EQ(outputs[1].shape(), Shape({3, 4}));
}

TEST(CrossEntropyEdges, LabelOutOfRangeIsAnError) {
  const Tensor x = TestValues(DataType::kFloat, Shape({2, 4}), 1);
  for (int32_t label : {-1, 4}) {
    EXPECT_THAT(Evaluate({"SparseSoftmaxCrossEntropyWithLogits", {}, {x, Tensor::Vector<int32_t>({0, label})}})
                    .status()
                    .ToString(),
                testing::HasSubstr("of row 1 is out of range, expected [0, 4)"));
  }
  EXPECT_FALSE(Evaluate({"SparseSoftmaxCrossEntropyWithLogits", {}, {x, Tensor::Vector<int32_t>({0})}}).ok());
  EXPECT_FALSE(Evaluate({"SoftmaxCrossEntropyWithLogits", {}, {x, TestValues(DataType::kDouble, x.shape(), 1)}}).ok());
  EXPECT_FALSE(Evaluate({"Softmax", {}, {Tensor::Scalar(1.0f)}}).ok());
}

}  // namespace
}  // namespace millrace::cpu
