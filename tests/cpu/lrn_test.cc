#include <algorithm>
#include <cmath>

#include "kernel_testing.h"

namespace millrace::cpu {
namespace {

struct Case {
  int64_t radius;
  float bias, alpha, beta;
  DataType dtype = DataType::kFloat;
  int64_t channels = 17;
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
  const int64_t channels = test.channels;
  const Shape shape({2, 3, 60, channels});
  const Tensor x = TestValues(test.dtype, shape, 1), dy = TestValues(test.dtype, shape, 2);
  const std::vector<double> norms = Norms(x);
  std::vector<double> y(norms.size()), dx(norms.size());
  for (size_t i = 0; i < y.size(); ++i) y[i] = x.DoubleAt(i) * std::pow(norms[i], -test.beta);
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    dx[i] += dy.DoubleAt(i) * std::pow(norms[i], -test.beta);
    for (int64_t j = i / channels * channels; j < (i / channels + 1) * channels; ++j) {
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
                                         Case{5, 1, 1, 0.5f, DataType::kBfloat16},
                                         Case{5, 1, 1, 0.75f, DataType::kFloat, 1}, Case{2, 1, 0.5f, 0.6f, DataType::kFloat, 3},
                                         Case{1, 2, 0.5f, 0.75f, DataType::kHalf, 8}, Case{3, 1, 0.2f, 1, DataType::kFloat, 63},
                                         Case{3, 1, 0.2f, 0.6f, DataType::kFloat, 64}, Case{2, 1, 0.2f, 0.5f, DataType::kFloat, 70}));

// Positions of few channels, which are computed together, are kept apart, and their bits are those of each alone.
TEST(LrnEdges, PositionsHaveTheBitsThatTheyHaveAlone) {
  constexpr int64_t kPositions = 61, kChannels = 5;
  AttrMap attrs;
  attrs.Set("depth_radius", int64_t{2});
  attrs.Set("bias", 0.0f);
  attrs.Set("beta", 0.6f);
  Tensor x = TestValues(DataType::kFloat, Shape({kPositions, 1, 1, kChannels}), 1);
  const Tensor dy = TestValues(DataType::kFloat, x.shape(), 2);
  std::fill_n(&x.mutable_as<float>()[10 * kChannels], kChannels, std::nanf(""));
  std::fill_n(&x.mutable_as<float>()[20 * kChannels], kChannels, 0.0f);
  const auto gradient_of = [&](const Tensor& dy, const Tensor& x) {
    return EvaluateOnThreads({"LRNGrad", attrs, {dy, x, EvaluateOnThreads({"LRN", attrs, {x}})}});
  };
  const auto position = [&](const Tensor& of, int64_t p) {
    return Tensor::Vector<float>(of.as<float>().subspan(p * kChannels, kChannels)).Reshaped(Shape({1, 1, 1, kChannels}));
  };
  const Tensor together = gradient_of(dy, x);
  for (int64_t p = 0; p < kPositions; ++p) {
    if (p == 10 || p == 20) continue;  // NaN
    EXPECT_TRUE(position(together, p).BitEqual(gradient_of(position(dy, p), position(x, p)))) << p;
  }
}

TEST(LrnEdges, RefusesWrongInputs) {
  const Tensor x = TestValues(DataType::kFloat, Shape({1, 1, 2, 3}), 1);
  EXPECT_FALSE(Evaluate({"LRN", {}, {TestValues(DataType::kFloat, Shape({2, 3}), 1)}}).ok());
  EXPECT_FALSE(Evaluate({"LRNGrad", {}, {x, x, TestValues(DataType::kFloat, Shape({1, 1, 3, 2}), 1)}}).ok());
  EXPECT_FALSE(Evaluate({"LRN", {}, {TestValues(DataType::kInt32, Shape({1, 1, 2, 3}), 1)}}).ok());
  EXPECT_TRUE(Evaluate({"LRN", {}, {Tensor(DataType::kFloat, Shape({0, 1, 2, 3}))}}).ok());
}

}  // namespace
}  // namespace millrace::cpu
