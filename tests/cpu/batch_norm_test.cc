#include <bit>
#include <cmath>
#include <utility>

#include <Eigen/Core>
#include <gmock/gmock.h>

#include "cpu/kernels/plain_floats.h"
#include "kernel_testing.h"

namespace millrace::cpu {
namespace {

struct Statistics {
  std::vector<double> mean, variance;
};

int64_t ChannelOf(const Shape& shape, bool channels_first, int64_t element) {
  if (!channels_first) return element % shape.dim(shape.rank() - 1);
  int64_t inner = 1;
  for (int i = 2; i < shape.rank(); ++i) inner *= shape.dim(i);
  return element / inner % shape.dim(1);
}

Statistics NaiveStatistics(const Tensor& x, bool channels_first) {
  const int64_t channels = x.shape().dim(channels_first ? 1 : x.shape().rank() - 1);
  const double count = static_cast<double>(x.num_elements()) / channels;
  Statistics statistics{std::vector<double>(channels), std::vector<double>(channels)};
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    statistics.mean[ChannelOf(x.shape(), channels_first, i)] += x.DoubleAt(i) / count;
  }
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const int64_t c = ChannelOf(x.shape(), channels_first, i);
    statistics.variance[c] += std::pow(x.DoubleAt(i) - statistics.mean[c], 2) / count;
  }
  return statistics;
}

struct Case {
  Shape shape;
  const char* format;
  DataType dtype;
};

class BatchNorm : public testing::TestWithParam<Case> {
 protected:
  bool channels_first() const { return std::string(GetParam().format)[1] == 'C'; }
  int64_t channels() const {
    const Shape& shape = GetParam().shape;
    return shape.dim(channels_first() ? 1 : shape.rank() - 1);
  }
  Tensor PerChannel(uint32_t seed, double add) const {
    Tensor values = TestValues(DataType::kFloat, Shape({channels()}), seed);
    for (float& value : values.mutable_as<float>()) value = std::abs(value) + add;
    return values;
  }
  AttrMap Attrs(bool training) const {
    AttrMap attrs;
    attrs.Set("data_format", std::string(GetParam().format));
    attrs.Set("is_training", training);
    attrs.Set("epsilon", 1e-3f);
    return attrs;
  }
};

TEST_P(BatchNorm, NormalizesByTheStatisticsOfTheBatch) {
  const auto& [shape, format, dtype] = GetParam();
  const Tensor x = TestValues(dtype, shape, 1), scale = PerChannel(2, 0.5), offset = PerChannel(3, -1);
  const Tensor empty(DataType::kFloat, Shape({0}));
  const NodeRun run{"FusedBatchNormV3", Attrs(true), {x, scale, offset, empty, empty}};
  EvaluateOnThreads(run);
  const std::vector<Tensor> outputs = Evaluate(run).value();
  const Statistics statistics = NaiveStatistics(x, channels_first());
  std::vector<double> y(x.num_elements()), unbiased = statistics.variance;
  for (size_t i = 0; i < y.size(); ++i) {
    const int64_t c = ChannelOf(shape, channels_first(), i);
    y[i] = (x.DoubleAt(i) - statistics.mean[c]) / std::sqrt(statistics.variance[c] + 1e-3) * scale.DoubleAt(c) +
           offset.DoubleAt(c);
  }
  const double count = static_cast<double>(x.num_elements()) / channels();
  for (double& value : unbiased) value *= count / std::max(count - 1, 1.0);
  ExpectClose(outputs[0], y, Tolerance(dtype));
  ExpectClose(outputs[1], statistics.mean, 1e-6);
  ExpectClose(outputs[2], unbiased, 1e-6);
  ExpectClose(outputs[3], statistics.mean, 1e-6);
  ExpectClose(outputs[4], statistics.variance, 1e-6);
}

TEST_P(BatchNorm, MovesTheAverages) {
  const Tensor x = TestValues(GetParam().dtype, GetParam().shape, 1), mean = PerChannel(4, 0), variance = PerChannel(5, 1);
  AttrMap attrs = Attrs(true);
  attrs.Set("exponential_avg_factor", 0.25f);
  const std::vector<Tensor> outputs =
      Evaluate({"FusedBatchNormV3", attrs, {x, PerChannel(2, 1), PerChannel(3, 0), mean, variance}}).value();
  std::vector<double> moved_mean(channels()), moved_variance(channels());
  const double count = static_cast<double>(x.num_elements()) / channels();
  for (int64_t c = 0; c < channels(); ++c) {
    moved_mean[c] = 0.75 * mean.DoubleAt(c) + 0.25 * outputs[3].DoubleAt(c);
    moved_variance[c] = 0.75 * variance.DoubleAt(c) + 0.25 * outputs[4].DoubleAt(c) * count / std::max(count - 1, 1.0);
  }
  ExpectClose(outputs[1], moved_mean, 1e-6);
  ExpectClose(outputs[2], moved_variance, 1e-6);
}

TEST_P(BatchNorm, UsesGivenStatisticsWhenNotTraining) {
  const auto& [shape, format, dtype] = GetParam();
  const Tensor x = TestValues(dtype, shape, 1), scale = PerChannel(2, 0.5), offset = PerChannel(3, -1);
  const Tensor mean = PerChannel(4, 0), variance = PerChannel(5, 0.5);
  const std::vector<Tensor> outputs =
      Evaluate({"FusedBatchNormV3", Attrs(false), {x, scale, offset, mean, variance}}).value();
  std::vector<double> y(x.num_elements());
  for (size_t i = 0; i < y.size(); ++i) {
    const int64_t c = ChannelOf(shape, channels_first(), i);
    y[i] = (x.DoubleAt(i) - mean.DoubleAt(c)) / std::sqrt(variance.DoubleAt(c) + 1e-3) * scale.DoubleAt(c) +
           offset.DoubleAt(c);
  }
  ExpectClose(outputs[0], y, Tolerance(dtype));
  EXPECT_TRUE(outputs[1].BitEqual(mean) && outputs[2].BitEqual(variance));
}

TEST_P(BatchNorm, GradientIsThatOfTheFormula) {
  const auto& [shape, format, dtype] = GetParam();
  const Tensor dy = TestValues(dtype, shape, 6), x = TestValues(dtype, shape, 1), scale = PerChannel(2, 0.5);
  const Tensor mean = PerChannel(4, 0), variance = PerChannel(5, 0.5), unused(DataType::kFloat, Shape({0}));
  const int64_t n = x.num_elements();
  const double count = static_cast<double>(n) / channels();
  std::vector<double> sum(channels()), product(channels()), d_scale(channels()), dx(n), dx_frozen(n);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t c = ChannelOf(shape, channels_first(), i);
    sum[c] += dy.DoubleAt(i);
    product[c] += dy.DoubleAt(i) * (x.DoubleAt(i) - mean.DoubleAt(c));
  }
  for (int64_t i = 0; i < n; ++i) {
    const int64_t c = ChannelOf(shape, channels_first(), i);
    const double inverse = 1 / std::sqrt(variance.DoubleAt(c) + 1e-3), centered = x.DoubleAt(i) - mean.DoubleAt(c);
    d_scale[c] = product[c] * inverse;
    dx_frozen[i] = dy.DoubleAt(i) * scale.DoubleAt(c) * inverse;
    dx[i] = scale.DoubleAt(c) * inverse *
            (dy.DoubleAt(i) - sum[c] / count - centered * inverse * inverse * product[c] / count);
  }
  for (bool training : {true, false}) {
    const NodeRun run{"FusedBatchNormGradV3", Attrs(training), {dy, x, scale, mean, variance, unused}};
    EvaluateOnThreads(run);
    const std::vector<Tensor> outputs = Evaluate(run).value();
    ExpectClose(outputs[0], training ? dx : dx_frozen, 2 * Tolerance(dtype));
    ExpectClose(outputs[1], d_scale, 2e-6);
    ExpectClose(outputs[2], sum, 2e-6);
  }
}

// As one node or as several: the same bits (graph/fused_norm.h).
TEST_P(BatchNorm, SumAndReluBehindHaveTheBitsOfTheOpsAlone) {
  const auto& [shape, format, dtype] = GetParam();
  const Tensor x = TestValues(dtype, shape, 1), side = TestValues(dtype, shape, 7), dr = TestValues(dtype, shape, 6);
  Tensor scale = PerChannel(2, 0.5), offset = PerChannel(3, -1);
  scale.mutable_as<float>()[0] = 2e-8f, offset.mutable_as<float>()[0] = 0;  // halves near 0
  const Tensor mean = PerChannel(4, 0), variance = PerChannel(5, 0.5), unused(DataType::kFloat, Shape({0}));
  for (const bool training : {true, false}) {
    const std::vector<Tensor> apart = Evaluate({"FusedBatchNormV3", Attrs(training), {x, scale, offset, mean, variance}}).value();
    const Tensor relu = Evaluate({"Relu", {}, {apart[0]}}).value()[0], sum = Evaluate({"AddV2", {}, {apart[0], side}}).value()[0];
    const Tensor both = Evaluate({"Relu", {}, {sum}}).value()[0];
    for (const auto& [activation, with_side, y] : {std::tuple("Relu", false, relu), {"Identity", true, sum}, {"Relu", true, both}}) {
      NodeRun run{"_FusedBatchNormEx", Attrs(training), {x, scale, offset, mean, variance}};
      if (with_side) run.inputs.push_back(side);
      run.attrs.Set("num_side_inputs", int64_t{with_side ? 1 : 0});
      run.attrs.Set("activation_mode", std::string(activation));
      EXPECT_TRUE(EvaluateOnThreads(run).BitEqual(y)) << activation;
      const std::vector<Tensor> outputs = Evaluate(run).value();
      ASSERT_EQ(outputs.size(), apart.size());
      for (size_t i = 1; i < apart.size(); ++i) EXPECT_TRUE(outputs[i].BitEqual(apart[i])) << i;
    }
    const Tensor dy = Evaluate({"ReluGrad", {}, {dr, relu}}).value()[0];
    const std::vector<Tensor> expected = Evaluate({"FusedBatchNormGradV3", Attrs(training), {dy, x, scale, apart[3], apart[4], unused}}).value();
    const NodeRun run{"_FusedBatchNormReluGrad", Attrs(training), {dr, x, scale, apart[3], apart[4], offset}};
    EvaluateOnThreads(run);
    const std::vector<Tensor> got = Evaluate(run).value();
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(got[i].BitEqual(expected[i])) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, BatchNorm,
                         testing::Values(Case{{4, 7, 5, 3}, "NHWC", DataType::kFloat},
                                         Case{{8, 12, 12, 64}, "NHWC", DataType::kFloat},
                                         Case{{64, 32, 8, 16}, "NHWC", DataType::kFloat},
                                         Case{{2, 3, 3, 130}, "NHWC", DataType::kFloat},
                                         Case{{1, 1, 1, 5}, "NHWC", DataType::kFloat},
                                         Case{{3, 6, 9, 11}, "NCHW", DataType::kFloat},
                                         Case{{4, 16, 64, 64}, "NCHW", DataType::kFloat},
                                         Case{{2, 3, 4, 5, 6}, "NDHWC", DataType::kFloat},
                                         Case{{2, 3, 4, 5, 6}, "NCDHW", DataType::kFloat},
                                         Case{{4, 7, 5, 12}, "NHWC", DataType::kHalf},
                                         Case{{4, 7, 5, 12}, "NHWC", DataType::kBfloat16}));

TEST(BatchNormEdges, EmptyBatchHasNoStatistics) {
  const Tensor x(DataType::kFloat, Shape({0, 2, 2, 3})), ones = TestValues(DataType::kFloat, Shape({3}), 1);
  const std::vector<Tensor> outputs = Evaluate({"FusedBatchNormV3", {}, {x, ones, ones, ones, ones}}).value();
  EXPECT_TRUE(std::isnan(outputs[1].DoubleAt(0)) && std::isnan(outputs[2].DoubleAt(2)));
  EXPECT_EQ(outputs[3].DoubleAt(0), 0);
}

// Every half, and half a step of the last place beyond each: what is computed is rounded to the nearest, ties to even.
TEST(BatchNormEdges, HalvesAreReadAndRoundedAsNumbers) {
  constexpr int64_t kHalves = 1 << 16;
  Tensor x(DataType::kHalf, Shape({1, 1, kHalves / 4, 4}));
  for (int64_t i = 0; i < kHalves; ++i) static_cast<uint16_t*>(x.mutable_data())[i] = static_cast<uint16_t>(i);
  AttrMap attrs;
  attrs.Set("is_training", false);
  attrs.Set("epsilon", 0.0f);
  const auto same = [](float value) { return Tensor::Vector<float>({value, value, value, value}); };
  for (const float scale : {1.0f, 1.0f + 0x1p-11f, 0.37f, 0x1p-12f}) {
    const Tensor y = Evaluate({"FusedBatchNormV3", attrs, {x, same(scale), same(0), same(0), same(1)}}).value()[0];
    int64_t wrong = 0;
    for (int64_t i = 0; i < kHalves; ++i) {
      const Eigen::half expected(static_cast<float>(x.DoubleAt(i)) * scale + 0.0f);
      const Eigen::half got = static_cast<const Eigen::half*>(y.data())[i];
      wrong += std::isnan(static_cast<float>(expected)) ? !std::isnan(static_cast<float>(got)) : got.x != expected.x;
    }
    EXPECT_EQ(wrong, 0) << scale;
  }
}

// As the processor's instructions do.
TEST(PlainHalfTest, KeepsWhatNansCarryAndQuietsThem) {
  constexpr uint32_t kSign = 0x80000000;
  for (const uint32_t sign : {0u, kSign}) {
    const auto half_sign = static_cast<uint16_t>(sign >> 16);
    for (const auto& [nan, half] : {std::pair(0x7f800001u, 0x7e00), {0x7f802000u, 0x7e01}, {0x7fc00000u, 0x7e00}, {0x7fffffffu, 0x7fff}}) {
      EXPECT_EQ(std::bit_cast<uint16_t>(PlainHalf(std::bit_cast<float>(nan | sign))), half | half_sign) << nan;
    }
    for (const auto& [half, nan] : {std::pair(0x7c01, 0x7fc02000u), {0x7e00, 0x7fc00000u}, {0x7fff, 0x7fffe000u}}) {
      const auto read = static_cast<float>(std::bit_cast<PlainHalf>(static_cast<uint16_t>(half | half_sign)));
      EXPECT_EQ(std::bit_cast<uint32_t>(read), nan | sign) << half;
    }
  }
}

TEST(BatchNormEdges, VarianceSurvivesALargeMean) {
  Tensor x(DataType::kFloat, Shape({1, 1, 4, 1}));
  for (int i = 0; i < 4; ++i) x.mutable_as<float>()[i] = 10000.0f + i;
  const Tensor one = Tensor::Vector<float>({1.0f}), empty(DataType::kFloat, Shape({0}));
  const std::vector<Tensor> outputs = Evaluate({"FusedBatchNormV3", {}, {x, one, one, empty, empty}}).value();
  EXPECT_FLOAT_EQ(outputs[3].DoubleAt(0), 10001.5f);
  EXPECT_FLOAT_EQ(outputs[4].DoubleAt(0), 1.25f);
}

TEST(BatchNormEdges, RefusesWrongInputs) {
  const Tensor x = TestValues(DataType::kFloat, Shape({2, 2, 2, 3}), 1), c3 = TestValues(DataType::kFloat, Shape({3}), 1);
  const Tensor c4 = TestValues(DataType::kFloat, Shape({4}), 1), empty(DataType::kFloat, Shape({0}));
  EXPECT_THAT(Evaluate({"FusedBatchNormV3", {}, {x, c4, c3, c3, c3}}).status().ToString(),
              testing::HasSubstr("input 1 is [4], expected [3]"));
  AttrMap frozen;
  frozen.Set("is_training", false);
  EXPECT_FALSE(Evaluate({"FusedBatchNormV3", frozen, {x, c3, c3, empty, empty}}).ok());
  EXPECT_FALSE(Evaluate({"FusedBatchNormV3", {}, {c3, c3, c3, c3, c3}}).ok());
  EXPECT_FALSE(Evaluate({"FusedBatchNormGradV2", {}, {x, c3, c3, c3, c3}}).ok());
  EXPECT_FALSE(Evaluate({"FusedBatchNormV2", {}, {x, c3}}).ok());
  AttrMap added;
  added.Set("num_side_inputs", int64_t{1});
  EXPECT_THAT(Evaluate({"_FusedBatchNormEx", added, {x, c3, c3, c3, c3, TestValues(DataType::kFloat, Shape({2, 2, 1, 3}), 1)}}).status().ToString(),
              testing::HasSubstr("input 5 is [2,2,1,3], expected [2,2,2,3]"));
  EXPECT_FALSE(Evaluate({"_FusedBatchNormEx", added, {x, c3, c3, c3, c3}}).ok());
  added.Set("activation_mode", std::string("Elu"));
  EXPECT_THAT(Evaluate({"_FusedBatchNormEx", added, {x, c3, c3, c3, c3, x}}).status().ToString(), testing::HasSubstr("'Elu'"));
  EXPECT_THAT(Evaluate({"_FusedBatchNormReluGrad", {}, {x, x, c3, c3, c3, c4}}).status().ToString(), testing::HasSubstr("input 5 is [4], expected [3]"));
}

}  // namespace
}  // namespace millrace::cpu
