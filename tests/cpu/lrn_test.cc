#include <cmath>

#include "kernel_testing.h"

namespace millrace::cpu {
namespace {

struct Case {
  int64_t radius;
  float bias, alpha, beta;
  DataType dtype = DataType::kFloat;
};

class Lrn : public testing::TestWithParam<Case> {
 protected:
  AttrMap Attrs() const {
    AttrMap attrs;
    attrs.Set("depth_radius", GetParam().radius);
    attrs.Set("bias", GetParam().bias);
    attrs.Set("alpha", GetParam().alpha);
    attrs.Set("beta", GetParam().beta);
    return attrs;
  }
  // bias + alpha * (sum of squares in the window around every element).
  std::vector<double> Norms(const Tensor& x) const {
    const int64_t channels = x.shape().dim(3);
    std::vector<double> norms(x.num_elements(), GetParam().bias);
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      for (int64_t j = i / channels * channels; j < (i / channels + 1) * channels; ++j) {
        if (std::abs(j - i) <= GetParam().radius) norms[i] += GetParam().alpha * std::pow(x.DoubleAt(j), 2);
      }
    }
    return norms;
  }
};

TEST_P(Lrn, ValueAndGradientAgreeWithTheDefinition) {
  const Case& test = GetParam();
  const Shape shape({2, 3, 60, 17});
  const Tensor x = TestValues(test.dtype, shape, 1), dy = TestValues(test.dtype, shape, 2);
  const std::vector<double> norms = Norms(x);
  std::vector<double> y(norms.size()), dx(norms.size());
  for (size_t i = 0; i < y.size(); ++i) y[i] = x.DoubleAt(i) * std::pow(norms[i], -test.beta);
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    dx[i] += dy.DoubleAt(i) * std::pow(norms[i], -test.beta);
    for (int64_t j = i / 17 * 17; j < (i / 17 + 1) * 17; ++j) {
      if (std::abs(j - i) > test.radius) continue;
      dx[i] -= 2.0 * test.alpha * test.beta * x.DoubleAt(i) * y[j] * dy.DoubleAt(j) / norms[j];
    }
  }
  const Tensor got = EvaluateOnThreads({"LRN", Attrs(), {x}});
  ExpectClose(got, y, 2 * Tolerance(test.dtype));
  ExpectClose(EvaluateOnThreads({"LRNGrad", Attrs(), {dy, x, got}}), dx, 4 * Tolerance(test.dtype));
}

INSTANTIATE_TEST_SUITE_P(Attributes, Lrn,
                         testing::Values(Case{5, 1, 1, 0.5f}, Case{2, 2, 0.01f, 0.75f}, Case{0, 1, 0.5f, 1},
                                         Case{40, 1, 0.1f, 0.6f}, Case{5, 1, 1, 0.5f, DataType::kHalf},
                                         Case{5, 1, 1, 0.5f, DataType::kBfloat16}));

TEST(LrnEdges, RefusesWrongInputs) {
  const Tensor x = TestValues(DataType::kFloat, Shape({1, 1, 2, 3}), 1);
  EXPECT_FALSE(Evaluate({"LRN", {}, {TestValues(DataType::kFloat, Shape({2, 3}), 1)}}).ok());
  EXPECT_FALSE(Evaluate({"LRNGrad", {}, {x, x, TestValues(DataType::kFloat, Shape({1, 1, 3, 2}), 1)}}).ok());
  EXPECT_FALSE(Evaluate({"LRN", {}, {TestValues(DataType::kInt32, Shape({1, 1, 2, 3}), 1)}}).ok());
  EXPECT_TRUE(Evaluate({"LRN", {}, {Tensor(DataType::kFloat, Shape({0, 1, 2, 3}))}}).ok());
}

}  // namespace
}  // namespace millrace::cpu
