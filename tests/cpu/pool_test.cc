#include <cmath>
#include <cstring>
#include <limits>

#include <gmock/gmock.h>

#include "kernel_testing.h"

namespace millrace::cpu {
namespace {

using Ints = std::vector<int64_t>;

// A pool over [batch, depth, rows, columns, channels]; two-dimensional ones have depth 1.
struct Case {
  Ints input;
  Ints window, strides;
  const char* padding;
  DataType dtype = DataType::kFloat;
};

struct Tap {
  int64_t output;
  int64_t input;
};

struct Naive {
  Ints output;
  std::vector<Tap> taps;  // in order of output, then of input
};

Naive NaiveTaps(const Case& test) {
  Naive naive;
  Ints pad(3), size(3);
  for (int i = 0; i < 3; ++i) {
    const int64_t in = test.input[i + 1], window = test.window[i], stride = test.strides[i];
    const bool same = std::string(test.padding) == "SAME";
    size[i] = same ? (in + stride - 1) / stride : (in - window) / stride + 1;
    pad[i] = same ? std::max<int64_t>((size[i] - 1) * stride + window - in, 0) / 2 : 0;
  }
  const int64_t channels = test.input[4];
  naive.output = {test.input[0], size[0], size[1], size[2], channels};
  int64_t output = 0;
  for (int64_t n = 0; n < test.input[0]; ++n)
    for (int64_t j0 = 0; j0 < size[0]; ++j0)
      for (int64_t j1 = 0; j1 < size[1]; ++j1)
        for (int64_t j2 = 0; j2 < size[2]; ++j2)
          for (int64_t c = 0; c < channels; ++c, ++output)
            for (int64_t k0 = 0; k0 < test.window[0]; ++k0)
              for (int64_t k1 = 0; k1 < test.window[1]; ++k1)
                for (int64_t k2 = 0; k2 < test.window[2]; ++k2) {
                  const int64_t d0 = j0 * test.strides[0] - pad[0] + k0, d1 = j1 * test.strides[1] - pad[1] + k1;
                  const int64_t d2 = j2 * test.strides[2] - pad[2] + k2;
                  if (d0 < 0 || d1 < 0 || d2 < 0) continue;
                  if (d0 >= test.input[1] || d1 >= test.input[2] || d2 >= test.input[3]) continue;
                  const int64_t row = (n * test.input[1] + d0) * test.input[2] + d1;
                  naive.taps.push_back({output, (row * test.input[3] + d2) * channels + c});
                }
  return naive;
}

class Pool : public testing::TestWithParam<Case> {
 protected:
  bool is_3d() const { return GetParam().input[1] > 1; }
  Shape ShapeOf(const Ints& dims) const {
    if (is_3d()) return Shape{absl::Span<const int64_t>(dims)};
    return Shape({dims[0], dims[2], dims[3], dims[4]});
  }
  AttrMap Attrs() const {
    const Case& test = GetParam();
    AttrMap attrs;
    attrs.Set("padding", std::string(test.padding));
    for (const auto& [name, list] : {std::pair("ksize", &test.window), std::pair("strides", &test.strides)}) {
      Ints all = {1};
      all.insert(all.end(), list->begin() + (is_3d() ? 0 : 1), list->end());
      all.push_back(1);
      attrs.Set(name, all);
    }
    return attrs;
  }
  std::string Op(const std::string& kind, const std::string& suffix = "") const {
    return kind + "Pool" + (is_3d() ? "3D" : "") + suffix;
  }
  std::vector<double> NaiveMax(const Naive& naive, const Tensor& x) const {
    std::vector<double> y(ShapeOf(naive.output).num_elements(), -1e30);
    for (const Tap& tap : naive.taps) y[tap.output] = std::max(y[tap.output], x.DoubleAt(tap.input));
    return y;
  }
  Tensor ShapeTensor() const {
    const Shape shape = ShapeOf(GetParam().input);
    Tensor tensor(DataType::kInt32, Shape({shape.rank()}));
    for (int i = 0; i < shape.rank(); ++i) tensor.mutable_as<int32_t>()[i] = static_cast<int32_t>(shape.dim(i));
    return tensor;
  }
};

TEST_P(Pool, MaximumAndItsGradientAgreeWithTheDefinition) {
  const Case& test = GetParam();
  const Naive naive = NaiveTaps(test);
  const Tensor x = TestValues(test.dtype, ShapeOf(test.input), 1);
  const Tensor y = EvaluateOnThreads({Op("Max"), Attrs(), {x}});
  const std::vector<double> expected = NaiveMax(naive, x);
  ExpectClose(y, expected, 0);
  const Tensor dy = TestValues(test.dtype, ShapeOf(naive.output), 2);
  std::vector<double> dx(x.num_elements());
  std::vector<bool> taken(expected.size());
  for (const Tap& tap : naive.taps) {
    if (x.DoubleAt(tap.input) != expected[tap.output] || (taken[tap.output] && !is_3d())) continue;
    dx[tap.input] += dy.DoubleAt(tap.output);
    taken[tap.output] = true;
  }
  ExpectClose(EvaluateOnThreads({Op("Max", "Grad"), Attrs(), {x, y, dy}}), dx, 2 * Tolerance(test.dtype));
}

TEST_P(Pool, SecondGradientTakesTheFirstMaximum) {
  const Case& test = GetParam();
  const Naive naive = NaiveTaps(test);
  const Tensor x = TestValues(test.dtype, ShapeOf(test.input), 1), ddx = TestValues(test.dtype, ShapeOf(test.input), 3);
  const std::vector<double> maximum = NaiveMax(naive, x);
  std::vector<double> expected(maximum.size());
  std::vector<bool> taken(maximum.size());
  for (const Tap& tap : naive.taps) {
    if (taken[tap.output] || x.DoubleAt(tap.input) != maximum[tap.output]) continue;
    taken[tap.output] = true;
    expected[tap.output] = ddx.DoubleAt(tap.input);
  }
  const Tensor y = EvaluateOnThreads({Op("Max"), Attrs(), {x}});
  ExpectClose(EvaluateOnThreads({Op("Max", "GradGrad"), Attrs(), {x, y, ddx}}), expected, 0);
}

void Put(double value, int64_t i, Tensor& to) {
  switch (to.dtype()) {
    case DataType::kDouble: to.mutable_as<double>()[i] = value; return;
    case DataType::kHalf: static_cast<Eigen::half*>(to.mutable_data())[i] = Eigen::half(value); return;
    case DataType::kBfloat16: static_cast<Eigen::bfloat16*>(to.mutable_data())[i] = Eigen::bfloat16(static_cast<float>(value)); return;
    default: to.mutable_as<float>()[i] = static_cast<float>(value);
  }
}

// All NaNs are the quiet one without a sign.
TEST_P(Pool, AsXlaNanWinsAndWindowsStartFromNothing) {
  const double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();
  const Case& test = GetParam();
  const Naive naive = NaiveTaps(test);
  AttrMap attrs = Attrs();
  attrs.Set("_as_xla", true);
  for (const int64_t every : {3, 31}) {  // of the elements is a NaN of either sign
    Tensor x = TestValues(test.dtype, ShapeOf(test.input), 1);
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      if (every == 31 && i * 7919 % 13 != 0) Put(i * 7919 % 5 == 0 ? kInfinity : -kInfinity, i, x);
      if (i * 7919 % every == 0) Put(i % 2 == 0 ? kNan : -kNan, i, x);
    }
    std::vector<double> y(ShapeOf(naive.output).num_elements(), -kInfinity);
    for (const Tap& tap : naive.taps) {
      const double value = x.DoubleAt(tap.input);
      if (!(value <= y[tap.output])) y[tap.output] = std::isnan(y[tap.output]) ? kNan : value;
    }
    const Tensor got = EvaluateOnThreads({Op("Max"), attrs, {x}});
    Tensor nan(test.dtype, Shape({1}));
    Put(kNan, 0, nan);
    const int64_t bytes = DataTypeSize(test.dtype);
    for (size_t i = 0; i < y.size(); ++i) {
      const double value = got.DoubleAt(static_cast<int64_t>(i));
      const bool quiet = std::memcmp(static_cast<const char*>(got.data()) + i * bytes, nan.data(), bytes) == 0;
      ASSERT_TRUE(std::isnan(y[i]) ? quiet : value == y[i]) << i << ": " << value << ", expected " << y[i];
    }
  }
}

TEST_P(Pool, AsXlaTheGradientGoesToTheFirstMaximum) {
  const Case& test = GetParam();
  const Naive naive = NaiveTaps(test);
  AttrMap attrs = Attrs();
  attrs.Set("_as_xla", true);
  Tensor x = TestValues(test.dtype, ShapeOf(test.input), 1);
  for (int64_t i = 0; i < x.num_elements(); ++i) Put(static_cast<double>(i * 7919 % 3), i, x);
  const std::vector<double> maximum = NaiveMax(naive, x);
  const Tensor y = EvaluateOnThreads({Op("Max"), attrs, {x}}), dy = TestValues(test.dtype, ShapeOf(naive.output), 2);
  std::vector<double> dx(x.num_elements());
  std::vector<bool> taken(maximum.size());
  for (const Tap& tap : naive.taps) {
    if (taken[tap.output] || x.DoubleAt(tap.input) != maximum[tap.output]) continue;
    taken[tap.output] = true;
    dx[tap.input] += dy.DoubleAt(tap.output);
  }
  ExpectClose(EvaluateOnThreads({Op("Max", "Grad"), attrs, {x, y, dy}}), dx, 2 * Tolerance(test.dtype));
}

TEST_P(Pool, MeanAndItsGradientCountOnlyTheInput) {
  const Case& test = GetParam();
  const Naive naive = NaiveTaps(test);
  const Tensor x = TestValues(test.dtype, ShapeOf(test.input), 1), dy = TestValues(test.dtype, ShapeOf(naive.output), 2);
  std::vector<double> y(dy.num_elements()), count(dy.num_elements()), dx(x.num_elements());
  for (const Tap& tap : naive.taps) {
    y[tap.output] += x.DoubleAt(tap.input);
    count[tap.output] += 1;
  }
  for (size_t i = 0; i < y.size(); ++i) y[i] /= count[i];
  for (const Tap& tap : naive.taps) dx[tap.input] += dy.DoubleAt(tap.output) / count[tap.output];
  ExpectClose(EvaluateOnThreads({Op("Avg"), Attrs(), {x}}), y, 2 * Tolerance(test.dtype));
  ExpectClose(EvaluateOnThreads({Op("Avg", "Grad"), Attrs(), {ShapeTensor(), dy}, {true, false}}), dx,
              4 * Tolerance(test.dtype));
}

INSTANTIATE_TEST_SUITE_P(
    Windows, Pool,
    testing::Values(Case{{2, 1, 7, 9, 5}, {1, 3, 3}, {1, 2, 2}, "SAME"}, Case{{2, 1, 7, 9, 5}, {1, 3, 3}, {1, 2, 2}, "VALID"},
                    Case{{3, 1, 20, 24, 70}, {1, 3, 3}, {1, 1, 1}, "SAME"}, Case{{1, 1, 8, 8, 16}, {1, 2, 2}, {1, 2, 2}, "VALID"},
                    Case{{1, 1, 6, 6, 3}, {1, 2, 2}, {1, 3, 3}, "VALID"}, Case{{1, 1, 5, 4, 2}, {1, 5, 1}, {1, 1, 2}, "SAME"},
                    Case{{2, 1, 7, 7, 4}, {1, 7, 7}, {1, 1, 1}, "VALID"}, Case{{0, 1, 7, 7, 4}, {1, 2, 2}, {1, 1, 1}, "VALID"},
                    Case{{2, 4, 6, 5, 9}, {2, 2, 2}, {2, 2, 2}, "SAME"}, Case{{1, 5, 12, 14, 32}, {3, 3, 3}, {1, 2, 1}, "SAME"},
                    Case{{2, 4, 6, 5, 3}, {2, 3, 2}, {2, 1, 1}, "VALID"},
                    // Wide windows, with channels that do not fill a vector; few channels, in rows of several parts.
                    Case{{2, 1, 9, 11, 19}, {1, 7, 7}, {1, 1, 1}, "SAME"}, Case{{1, 1, 12, 13, 16}, {1, 9, 6}, {1, 2, 3}, "VALID"},
                    Case{{2, 1, 9, 8, 33}, {1, 6, 7}, {1, 1, 1}, "SAME", DataType::kDouble},
                    Case{{1, 1, 8, 9, 17}, {1, 7, 6}, {1, 1, 2}, "SAME", DataType::kHalf},
                    Case{{1, 1, 8, 9, 17}, {1, 7, 6}, {1, 1, 2}, "SAME", DataType::kBfloat16},
                    Case{{1, 1, 5, 1500, 3}, {1, 3, 3}, {1, 2, 2}, "SAME"}, Case{{1, 1, 5, 1400, 3}, {1, 2, 4}, {1, 1, 3}, "VALID", DataType::kHalf},
                    Case{{1, 1, 4, 1100, 4}, {1, 3, 1}, {1, 2, 3}, "SAME", DataType::kBfloat16},
                    // Lines of columns: each number of channels with loops of its own, strides beyond the window, planes, several parts.
                    Case{{2, 1, 6, 37, 1}, {1, 3, 3}, {1, 1, 2}, "SAME"}, Case{{2, 1, 6, 36, 2}, {1, 2, 2}, {1, 2, 2}, "SAME"},
                    Case{{1, 3, 4, 35, 3}, {2, 2, 3}, {2, 2, 2}, "SAME"}, Case{{1, 3, 4, 34, 4}, {2, 2, 5}, {1, 2, 3}, "SAME"},
                    Case{{1, 3, 4, 13, 8}, {3, 3, 3}, {2, 2, 2}, "SAME"}, Case{{1, 4, 5, 12, 16}, {3, 3, 3}, {2, 2, 2}, "SAME"},
                    Case{{1, 4, 5, 12, 16}, {2, 2, 2}, {3, 3, 3}, "VALID"}, Case{{1, 3, 3, 11, 48}, {2, 3, 2}, {1, 1, 2}, "SAME"},
                    Case{{1, 3, 4, 13, 8}, {3, 3, 3}, {2, 2, 2}, "SAME", DataType::kDouble},
                    Case{{1, 3, 4, 13, 3}, {3, 3, 3}, {2, 1, 2}, "SAME", DataType::kHalf},
                    Case{{1, 2, 3, 150, 33}, {2, 2, 4}, {1, 1, 1}, "SAME"}, Case{{1, 1, 3, 3000, 1}, {1, 2, 5}, {1, 1, 1}, "SAME"},
                    Case{{2, 1, 6, 3, 2}, {1, 3, 7}, {1, 1, 1}, "SAME"}, Case{{1, 2, 2, 3, 2500}, {2, 2, 2}, {1, 1, 2}, "SAME"},
                    Case{{2, 1, 9, 61, 10}, {1, 3, 2}, {1, 2, 2}, "SAME"}, Case{{1, 1, 7, 90, 24}, {1, 2, 3}, {1, 3, 4}, "VALID"},
                    Case{{2, 1, 5, 6, 3}, {1, 3, 3}, {1, 2, 2}, "SAME", DataType::kDouble},
                    Case{{1, 1, 2, 3, 2051}, {1, 2, 2}, {1, 1, 2}, "SAME"}, Case{{2, 1, 9, 10, 32}, {1, 2, 2}, {1, 2, 2}, "SAME"},
                    Case{{2, 1, 7, 9, 19}, {1, 3, 3}, {1, 2, 1}, "SAME", DataType::kDouble},
                    Case{{2, 1, 7, 9, 19}, {1, 3, 3}, {1, 2, 1}, "SAME", DataType::kHalf},
                    Case{{2, 1, 7, 9, 19}, {1, 3, 3}, {1, 2, 1}, "SAME", DataType::kBfloat16},
                    Case{{2, 1, 9, 61, 24}, {1, 2, 2}, {1, 2, 2}, "SAME", DataType::kBfloat16},
                    Case{{1, 1, 7, 90, 3}, {1, 3, 3}, {1, 2, 2}, "SAME", DataType::kBfloat16},
                    Case{{2, 1, 3, 33, 40}, {1, 1, 3}, {1, 1, 2}, "SAME", DataType::kBfloat16},
                    Case{{1, 1, 6, 7, 70}, {1, 3, 3}, {1, 1, 1}, "SAME", DataType::kBfloat16},
                    Case{{2, 1, 6, 9, 52}, {1, 3, 2}, {1, 2, 2}, "SAME", DataType::kBfloat16}));

AttrMap RowAttrs(int64_t window, int64_t stride, const char* padding) {
  AttrMap attrs;
  attrs.Set("ksize", Ints{1, 1, window, 1});
  attrs.Set("strides", Ints{1, 1, stride, 1});
  attrs.Set("padding", std::string(padding));
  return attrs;
}

Tensor Row(absl::Span<const float> values) {
  return Tensor::Vector<float>(values).Reshaped(Shape({1, 1, static_cast<int64_t>(values.size()), 1}));
}

TEST(PoolEdges, NanNeverWinsButKeepsTheGradientOfItsPlace) {
  const float nan = std::nanf("");
  const Tensor x = Row({1, nan, 3, nan, nan});
  const Tensor y = EvaluateOnThreads({"MaxPool", RowAttrs(2, 1, "VALID"), {x}});
  ExpectClose(y, {1, 3, 3, std::numeric_limits<float>::lowest()}, 0);
  ExpectClose(EvaluateOnThreads({"MaxPoolGrad", RowAttrs(2, 1, "VALID"), {x, y, Row({10, 20, 30, 40})}}),
              {10, 20, 30, 40, 0}, 0);
}

// A NaN, signs of zero and infinities in wide windows go by the same rule as in small ones, in every type.
TEST(PoolEdges, WideWindowsKeepTheFirstMaximum) {
  constexpr int64_t kWidth = 40;
  const float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> values(kWidth, -kInfinity), gradient(kWidth, 0.0f);
  values[1] = kNan;
  values[2] = -0.0f;
  values[3] = 0.0f;
  const auto gradient_of = [&](float first) {
    values[0] = first;
    const Tensor x = Row(values), dy = Row({1.0f});
    return EvaluateOnThreads({"MaxPoolGrad", RowAttrs(kWidth, 1, "VALID"), {x, dy, dy}});
  };
  gradient[2] = 1;
  EXPECT_TRUE(gradient_of(-kInfinity).BitEqual(Row(gradient)));
  gradient[2] = 0;
  gradient[0] = 1;
  EXPECT_TRUE(gradient_of(kNan).BitEqual(Row(gradient)));
  EXPECT_TRUE(gradient_of(0.0f).BitEqual(Row(gradient)));
}

// Windows that are wide enough for maxima of rows, and small ones. NaNs and -inf are at first taps, of rows, and elsewhere.
TEST(PoolEdges, NanAtAWindowsFirstTapStaysAndNoOtherWins) {
  constexpr int64_t kImages = 4, kSide = 9, kChannels = 3;
  const double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();
  for (const DataType dtype : {DataType::kFloat, DataType::kDouble, DataType::kHalf, DataType::kBfloat16}) {
    for (const int64_t window : {3, 7}) {
      const int64_t out = kSide - window + 1;
      Tensor x(dtype, Shape({kImages, kSide, kSide, kChannels})), dy(dtype, Shape({kImages, out, out, kChannels}));
      for (int64_t i = 0; i < x.num_elements(); ++i) {
        const int64_t kind = i * 7919 % 11, numbers = i / (kSide * kSide * kChannels) * 2;  // more of them from image to image
        Put(kind < 4 ? kNan : kind < 10 - numbers ? -kInfinity : static_cast<double>(i * 31 % 5), i, x);
      }
      for (int64_t i = 0; i < dy.num_elements(); ++i) Put(static_cast<double>(1 + i % 3), i, dy);
      std::vector<double> dx(x.num_elements());
      for (int64_t w = 0; w < dy.num_elements(); ++w) {
        const int64_t c = w % kChannels, column = w / kChannels % out, row = w / kChannels / out % out, image = w / kChannels / out / out;
        int64_t first = -1;
        for (int64_t tap = 0; tap < window * window; ++tap) {
          const int64_t at = ((image * kSide + row + tap / window) * kSide + column + tap % window) * kChannels + c;
          if (first < 0 || x.DoubleAt(first) < x.DoubleAt(at)) first = at;
        }
        dx[first] += dy.DoubleAt(w);
      }
      AttrMap attrs = RowAttrs(window, 1, "VALID");
      attrs.Set("ksize", Ints{1, window, window, 1});
      ExpectClose(EvaluateOnThreads({"MaxPoolGrad", attrs, {x, dy, dy}}), dx, 0);
    }
  }
}

// The first image is of the least of numbers alone.
TEST(PoolEdges, WideWindowsOfIntegersGoByTheSameRule) {
  constexpr int64_t kImages = 4, kSide = 9, kWindow = 7, kOut = kSide - kWindow + 1;
  const Shape shape({kImages, kSide, kSide, 1}), windows({kImages, kOut, kOut, 1});
  Tensor x(DataType::kInt32, shape), same(DataType::kDouble, shape), dy(DataType::kInt32, windows), same_dy(DataType::kDouble, windows);
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    x.mutable_as<int32_t>()[i] = i < kSide * kSide ? std::numeric_limits<int32_t>::lowest() : static_cast<int32_t>(i * 31 % 5);
    Put(x.as<int32_t>()[i], i, same);
  }
  for (int64_t i = 0; i < dy.num_elements(); ++i) {
    dy.mutable_as<int32_t>()[i] = static_cast<int32_t>(1 + i % 3);
    Put(dy.as<int32_t>()[i], i, same_dy);
  }
  AttrMap attrs = RowAttrs(kWindow, 1, "VALID");
  attrs.Set("ksize", Ints{1, kWindow, kWindow, 1});
  const Tensor dx = EvaluateOnThreads({"MaxPoolGrad", attrs, {x, dy, dy}}), expected = EvaluateOnThreads({"MaxPoolGrad", attrs, {same, same_dy, same_dy}});
  for (int64_t i = 0; i < dx.num_elements(); ++i) EXPECT_EQ(dx.DoubleAt(i), expected.DoubleAt(i)) << i;
}

TEST(PoolEdges, ShortFloatsCompareAsNumbers) {
  const float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
  const auto maximum_of = [](DataType dtype, const std::vector<float>& values) {
    Tensor x(dtype, Shape({1, 1, static_cast<int64_t>(values.size()), 1}));
    for (size_t i = 0; i < values.size(); ++i) {
      if (dtype == DataType::kHalf) static_cast<Eigen::half*>(x.mutable_data())[i] = Eigen::half(values[i]);
      if (dtype == DataType::kBfloat16) static_cast<Eigen::bfloat16*>(x.mutable_data())[i] = Eigen::bfloat16(values[i]);
    }
    return EvaluateOnThreads({"MaxPool", RowAttrs(static_cast<int64_t>(values.size()), 1, "VALID"), {x}}).DoubleAt(0);
  };
  for (DataType dtype : {DataType::kHalf, DataType::kBfloat16}) {
    EXPECT_EQ(maximum_of(dtype, {-3, kNan, -2, -kNan, -4}), -2);
    EXPECT_EQ(maximum_of(dtype, {kNan, 0.5f, kInfinity, 7}), kInfinity);
    EXPECT_TRUE(std::signbit(maximum_of(dtype, {-1, -0.0f, 0.0f})));
    EXPECT_FALSE(std::signbit(maximum_of(dtype, {-1, 0.0f, -0.0f})));
  }
}

TEST(PoolEdges, ExplicitPaddingAndIntegers) {
  AttrMap attrs = RowAttrs(2, 1, "EXPLICIT");
  attrs.Set("explicit_paddings", Ints{0, 0, 0, 0, 1, 0, 0, 0});
  ExpectClose(EvaluateOnThreads({"MaxPool", attrs, {Row({-1, -2, -3})}}), {-1, -1, -2}, 0);
  Tensor ints = Tensor::Vector<int32_t>({5, -7, 2, 9}).Reshaped(Shape({1, 1, 4, 1}));
  ExpectClose(EvaluateOnThreads({"MaxPool", RowAttrs(2, 2, "VALID"), {ints}}), {5, 9}, 0);
}

TEST(PoolEdges, ChannelsFirstAndDepthWindowsAndWindowInputs) {
  const Tensor x = TestValues(DataType::kFloat, Shape({2, 3, 1, 6}), 1);
  AttrMap first;
  first.Set("ksize", Ints{1, 1, 1, 2});
  first.Set("strides", Ints{1, 1, 1, 2});
  first.Set("padding", std::string("VALID"));
  first.Set("data_format", std::string("NCHW"));
  std::vector<double> pairs;
  for (int64_t i = 0; i < x.num_elements(); i += 2) pairs.push_back(std::max(x.DoubleAt(i), x.DoubleAt(i + 1)));
  ExpectClose(EvaluateOnThreads({"MaxPool", first, {x}}), pairs, 0);
  AttrMap depth = first;
  depth.Set("data_format", std::string("NHWC"));
  ExpectClose(EvaluateOnThreads({"MaxPool", depth, {x}}), pairs, 0);
  AttrMap padding;
  padding.Set("padding", std::string("VALID"));
  const Tensor ksize = Tensor::Vector<int32_t>({1, 1, 1, 2});
  ExpectClose(EvaluateOnThreads({"MaxPoolV2", padding, {x, ksize, ksize}, {false, true, true}}), pairs, 0);
}

TEST(PoolEdges, RefusesWhatDoesNotFit) {
  const Tensor x = TestValues(DataType::kFloat, Shape({1, 1, 4, 6}), 1);
  EXPECT_FALSE(Evaluate({"MaxPool", RowAttrs(9, 1, "VALID"), {x}}).ok());
  EXPECT_FALSE(Evaluate({"MaxPool", RowAttrs(0, 1, "VALID"), {x}}).ok());
  EXPECT_FALSE(Evaluate({"MaxPool", RowAttrs(2, 1, "WHATEVER"), {x}}).ok());
  EXPECT_FALSE(Evaluate({"MaxPool", {}, {x}}).ok());
  EXPECT_FALSE(Evaluate({"MaxPool3D", RowAttrs(2, 1, "VALID"), {x}}).ok());
  EXPECT_FALSE(Evaluate({"MaxPoolGrad", RowAttrs(2, 1, "VALID"), {x, x, x}}).ok());
  AttrMap depth = RowAttrs(1, 1, "VALID");
  depth.Set("ksize", Ints{1, 1, 1, 4});
  depth.Set("strides", Ints{1, 1, 1, 4});
  EXPECT_THAT(Evaluate({"MaxPool", depth, {x}}).status().ToString(), testing::HasSubstr("divides the depth"));
  AttrMap batch = RowAttrs(1, 1, "VALID");
  batch.Set("ksize", Ints{2, 1, 1, 1});
  EXPECT_FALSE(Evaluate({"AvgPool", batch, {x}}).ok());
}

}  // namespace
}  // namespace millrace::cpu
