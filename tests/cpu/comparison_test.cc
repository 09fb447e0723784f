// Comparisons, logical and bitwise ops, selections, bounds and checks of numbers.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <limits>

#include "absl/strings/str_cat.h"
#include "kernel_testing.h"
#include "typed_values.h"

namespace millrace::cpu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(ComparisonTest, EveryTypeAgrees) {
  const std::vector<std::pair<const char*, std::function<bool(double, double)>>> ops = {
      {"Less", std::less<double>()},       {"LessEqual", std::less_equal<double>()},
      {"Greater", std::greater<double>()}, {"GreaterEqual", std::greater_equal<double>()},
      {"Equal", std::equal_to<double>()},  {"NotEqual", std::not_equal_to<double>()},
  };
  for (DataType dtype : kNumberTypes) {
    const Tensor a = NumbersOf(dtype, Shape({700, 3}), 1), b = NumbersOf(dtype, Shape({3}), 2);
    for (const auto& [op, expected] : ops) {
      SCOPED_TRACE(absl::StrCat(op, " ", std::string(DataTypeName(dtype))));
      const Tensor got = EvaluateOnThreads({op, {}, {a, b}});
      ASSERT_EQ(got.type().ToString(), "bool[700,3]");
      for (int64_t i = 0; i < got.num_elements(); ++i) {
        ASSERT_EQ(got.as<bool>()[i], expected(a.DoubleAt(i), b.DoubleAt(i % 3))) << i;
      }
    }
  }
}

TEST(ComparisonTest, NanEqualsNothing) {
  const Tensor nan = TensorOf(DataType::kFloat, {kNan});
  EXPECT_FALSE(EvaluateOnThreads({"Equal", {}, {nan, nan}}).as<bool>()[0]);
  EXPECT_TRUE(EvaluateOnThreads({"NotEqual", {}, {nan, nan}}).as<bool>()[0]);
  EXPECT_FALSE(EvaluateOnThreads({"LessEqual", {}, {nan, nan}}).as<bool>()[0]);
}

TEST(ComparisonTest, EqualityOfShapesThatDoNotBroadcastIsAnErrorOrFalse) {
  const Tensor two = TensorOf(DataType::kInt32, {1, 2}), three = TensorOf(DataType::kInt32, {1, 2, 3});
  EXPECT_THAT(Evaluate({"Equal", {}, {two, three}}).status().message(), HasSubstr("[2] and [3]"));
  AttrMap attrs;
  attrs.Set("incompatible_shape_error", false);
  EXPECT_THAT(EvaluateOnThreads({"Equal", attrs, {two, three}}).as<bool>(), ElementsAre(false));
  EXPECT_THAT(EvaluateOnThreads({"NotEqual", attrs, {two, three}}).as<bool>(), ElementsAre(true));
  EXPECT_THAT(EvaluateOnThreads({"Equal", attrs, {two, two}}).as<bool>(), ElementsAre(true, true));
}

TEST(ComparisonTest, ApproximateEqualUsesItsTolerance) {
  AttrMap attrs;
  attrs.Set("tolerance", 0.5f);
  const Tensor a = TensorOf(DataType::kFloat, {1, 1, 1}), b = TensorOf(DataType::kFloat, {1.25, 0.25, 1.5});
  EXPECT_THAT(EvaluateOnThreads({"ApproximateEqual", attrs, {a, b}}).as<bool>(), ElementsAre(true, false, false));
}

TEST(LogicalTest, TruthTables) {
  const Tensor a = TensorOf(DataType::kBool, {0, 0, 1, 1}), b = TensorOf(DataType::kBool, {0, 1, 0, 1});
  EXPECT_THAT(EvaluateOnThreads({"LogicalAnd", {}, {a, b}}).as<bool>(), ElementsAre(false, false, false, true));
  EXPECT_THAT(EvaluateOnThreads({"LogicalOr", {}, {a, b}}).as<bool>(), ElementsAre(false, true, true, true));
  EXPECT_THAT(EvaluateOnThreads({"LogicalNot", {}, {a}}).as<bool>(), ElementsAre(true, true, false, false));
}

TEST(BitwiseTest, EveryIntegerTypeAgrees) {
  for (DataType dtype : kNumberTypes) {
    if (!IsInteger(dtype)) continue;
    const Tensor a = TensorOf(dtype, {12, 10, 127, 0}), b = TensorOf(dtype, {10, 3, 1, 5});
    ExpectClose(EvaluateOnThreads({"BitwiseAnd", {}, {a, b}}), {8, 2, 1, 0}, 0);
    ExpectClose(EvaluateOnThreads({"BitwiseOr", {}, {a, b}}), {14, 11, 127, 5}, 0);
    ExpectClose(EvaluateOnThreads({"BitwiseXor", {}, {a, b}}), {6, 9, 126, 5}, 0);
    ExpectClose(EvaluateOnThreads({"RightShift", {}, {a, TensorOf(dtype, {1, 2, 3, 4})}}), {6, 2, 15, 0}, 0);
    ExpectClose(EvaluateOnThreads({"LeftShift", {}, {b, TensorOf(dtype, {1, 2, 3, 4})}}), {20, 12, 8, 80}, 0);
  }
}

TEST(BitwiseTest, ShiftsStayInsideTheType) {
  const Tensor shifts = TensorOf(DataType::kInt32, {40, -1});
  EXPECT_THAT(EvaluateOnThreads({"LeftShift", {}, {TensorOf(DataType::kInt32, {1, 1}), shifts}}).as<int32_t>(),
              ElementsAre(INT32_MIN, 1));
  EXPECT_THAT(EvaluateOnThreads({"RightShift", {}, {TensorOf(DataType::kInt32, {-16, -16}), shifts}}).as<int32_t>(),
              ElementsAre(-1, -16));
  const Tensor bytes =
      EvaluateOnThreads({"LeftShift", {}, {TensorOf(DataType::kUint8, {129}), TensorOf(DataType::kUint8, {1})}});
  EXPECT_THAT(bytes.as<uint8_t>(), ElementsAre(2));
}

template <typename T>
void CheckPowersByOneExponent(DataType dtype) {
  SCOPED_TRACE(std::string(DataTypeName(dtype)));
  for (int64_t exponent : {0, 1, 6, 31}) {
    const Tensor bases = NumbersOf(dtype, Shape({300}), 1), last = TensorOf(dtype, {static_cast<double>(exponent)}, Shape({}));
    const Tensor powers = EvaluateOnThreads({"Pow", {}, {bases, last}});
    for (int64_t i = 0; i < bases.num_elements(); ++i) {
      uint64_t power = 1;
      for (int64_t k = 0; k < exponent; ++k) power *= static_cast<uint64_t>(bases.as<T>()[i]);
      ASSERT_EQ(powers.as<T>()[i], static_cast<T>(power)) << +bases.as<T>()[i] << " to the power of " << exponent;
    }
  }
}

TEST(PowTest, FloatsAgreeWithTheStandardLibraryAndIntegersWrap) {
  for (DataType dtype : {DataType::kFloat, DataType::kDouble, DataType::kHalf}) {
    const Tensor base = TensorOf(dtype, {2, 3, 0.5, 1.5, 7, -2, 0, 5, 1}),
                 exponent = TensorOf(dtype, {3, 0.5, -2, 2.5, 0, 3, 0, 1, -8});
    std::vector<double> expected;
    for (int64_t i = 0; i < base.num_elements(); ++i)
      expected.push_back(std::pow(base.DoubleAt(i), exponent.DoubleAt(i)));
    ExpectClose(EvaluateOnThreads({"Pow", {}, {base, exponent}}), expected, Tolerance(dtype));
  }
  const Tensor two = TensorOf(DataType::kInt32, {2, -3, 2}), exponents = TensorOf(DataType::kInt32, {10, 3, 32});
  EXPECT_THAT(EvaluateOnThreads({"Pow", {}, {two, exponents}}).as<int32_t>(), ElementsAre(1024, -27, 0));
  CheckPowersByOneExponent<int8_t>(DataType::kInt8);
  CheckPowersByOneExponent<int32_t>(DataType::kInt32);
  CheckPowersByOneExponent<int64_t>(DataType::kInt64);
  CheckPowersByOneExponent<uint64_t>(DataType::kUint64);
  for (DataType dtype : {DataType::kInt8, DataType::kInt32, DataType::kInt64}) {
    EXPECT_THAT(Evaluate({"Pow", {}, {TensorOf(dtype, {2}), TensorOf(dtype, {-1})}}).status().message(),
                HasSubstr("negative integer powers"));
  }
}

TEST(BinaryMathTest, AgreesWithTheStandardLibrary) {
  for (DataType dtype : {DataType::kFloat, DataType::kDouble}) {
    const Tensor x = TensorOf(dtype, {0, 0, 2, -1.5, 3}), y = TensorOf(dtype, {0, kNan, 0.5, 2.5, 100});
    std::vector<double> xlogy = {0, 0}, xlog1py = {0, 0};
    for (int64_t i = 2; i < 5; ++i) {
      xlogy.push_back(x.DoubleAt(i) * std::log(y.DoubleAt(i)));
      xlog1py.push_back(x.DoubleAt(i) * std::log1p(y.DoubleAt(i)));
    }
    ExpectClose(EvaluateOnThreads({"Xlogy", {}, {x, y}}), xlogy, Tolerance(dtype));
    ExpectClose(EvaluateOnThreads({"Xlog1py", {}, {x, y}}), xlog1py, Tolerance(dtype));
    const Tensor b = TensorOf(dtype, {1, -1, -1, 2, -0.5});
    std::vector<double> atan2;
    for (int64_t i = 0; i < 5; ++i) atan2.push_back(std::atan2(x.DoubleAt(i), b.DoubleAt(i)));
    ExpectClose(EvaluateOnThreads({"Atan2", {}, {x, b}}), atan2, Tolerance(dtype));
  }
  const Tensor next =
      EvaluateOnThreads({"NextAfter", {}, {TensorOf(DataType::kFloat, {1}), TensorOf(DataType::kFloat, {2})}});
  EXPECT_EQ(next.as<float>()[0], std::nextafter(1.0f, 2.0f));
}

TEST(SpecialFunctionTest, AgreeWithKnownValues) {
  for (DataType dtype : {DataType::kFloat, DataType::kDouble, DataType::kHalf}) {
    const double tolerance = 4 * Tolerance(dtype);
    const Tensor x = NumbersOf(dtype, Shape({2003}), 3);
    const auto check = [&](const char* op, const Tensor& at, const std::function<double(double)>& expected) {
      SCOPED_TRACE(absl::StrCat(op, " ", std::string(DataTypeName(dtype))));
      std::vector<double> values;
      for (int64_t i = 0; i < at.num_elements(); ++i) values.push_back(expected(at.DoubleAt(i)));
      ExpectClose(EvaluateOnThreads({op, {}, {at}}), values, tolerance);
    };
    check("Erf", x, [](double v) { return std::erf(v); });
    check("Erfc", x, [](double v) { return std::erfc(v); });
    const Tensor positive = TensorOf(dtype, {0.5, 1, 1.5, 2, 3.25, 10});
    check("Lgamma", positive, [](double v) { return std::lgamma(v); });
    ExpectClose(EvaluateOnThreads({"Digamma", {}, {TensorOf(dtype, {1, 0.5, 10})}}),
                {-0.57721566490153286, -1.9635100260214235, 2.2517525890667211}, tolerance);
    ExpectClose(EvaluateOnThreads({"Ndtri", {}, {TensorOf(dtype, {0.5, 0.75, 0.125})}}),
                {0, 0.67448975019608171, -1.1503493803760082}, tolerance);
    ExpectClose(EvaluateOnThreads({"Erfinv", {}, {TensorOf(dtype, {0, 0.5, -0.75})}}),
                {0, 0.47693627620446987, -0.81341984759761854}, tolerance);
    ExpectClose(EvaluateOnThreads({"BesselI0e", {}, {TensorOf(dtype, {0, 1})}}), {1, 0.46575960759364043}, tolerance);
    ExpectClose(EvaluateOnThreads({"BesselI1", {}, {TensorOf(dtype, {0, 1})}}), {0, 0.56515910399248503}, tolerance);
    const Tensor a = TensorOf(dtype, {1, 2}), b = TensorOf(dtype, {1, 0.5});
    ExpectClose(EvaluateOnThreads({"Igamma", {}, {a, b}}), {0.63212055882855768, 0.090204010431049864}, tolerance);
    ExpectClose(EvaluateOnThreads({"Igammac", {}, {a, b}}), {0.36787944117144233, 0.90979598956895014}, tolerance);
  }
}

TEST(SpecialFunctionTest, DoublesKeepTheirDigits) {
  std::vector<double> at, expected;
  for (int i = 0; i <= 100; ++i) at.push_back(0.4 + i * 0.007);
  for (const double x : at) expected.push_back(std::erfc(x));
  const Tensor erfc = EvaluateOnThreads({"Erfc", {}, {TensorOf(DataType::kDouble, at)}});
  for (size_t i = 0; i < at.size(); ++i) EXPECT_NEAR(erfc.as<double>()[i], expected[i], expected[i] * 1e-15) << at[i];
  // Less than normal numbers.
  EXPECT_NEAR(EvaluateOnThreads({"Erfc", {}, {TensorOf(DataType::kDouble, {26.7})}}).as<double>()[0] / std::erfc(26.7), 1, 1e-9);
  EXPECT_EQ(EvaluateOnThreads({"Elu", {}, {TensorOf(DataType::kDouble, {-5e-324})}}).as<double>()[0], -5e-324);
}

double At(const Tensor& tensor, const std::vector<int64_t>& strides, int64_t i, int64_t j) {
  return tensor.DoubleAt(i * strides[0] + j * strides[1]);
}

TEST(SelectTest, EveryRepetitionAgreesForEverySizeOfElement) {
  const int64_t m = 90, n = 500;
  // Shapes that broadcast to [m, n], with their strides.
  const std::vector<std::pair<Shape, std::vector<int64_t>>> shapes = {
      {Shape({m, n}), {n, 1}}, {Shape({n}), {0, 1}}, {Shape({m, 1}), {1, 0}}, {Shape(), {0, 0}}};
  for (DataType dtype : {DataType::kFloat, DataType::kDouble, DataType::kInt8, DataType::kHalf}) {
    for (const auto& [condition_shape, c] : shapes) {
      for (const auto& [a_shape, s] : shapes) {
        for (const auto& [b_shape, t] : shapes) {
          const Tensor bits = NumbersOf(DataType::kInt32, condition_shape, 1);
          const Tensor condition = EvaluateOnThreads({"Greater", {}, {bits, TensorOf(DataType::kInt32, {0}, Shape())}});
          const Tensor a = NumbersOf(dtype, a_shape, 2), b = NumbersOf(dtype, b_shape, 3);
          const auto got = Evaluate({"SelectV2", {}, {condition, a, b}});
          ASSERT_TRUE(got.ok()) << got.status();
          const Shape& shape = (*got)[0].shape();
          const bool full = shape == Shape({m, n});
          for (int64_t i = 0; full && i < m; ++i) {
            for (int64_t j = 0; j < n; j += 7) {
              const double expected = At(condition, c, i, j) != 0 ? At(a, s, i, j) : At(b, t, i, j);
              ASSERT_EQ((*got)[0].DoubleAt(i * n + j), expected) << i << "," << j;
            }
          }
        }
      }
    }
  }
}

TEST(SelectTest, VectorOfFirstVersionChoosesRows) {
  const Tensor a = TensorOf(DataType::kFloat, {1, 2, 3, 4}, Shape({2, 2})),
               b = TensorOf(DataType::kFloat, {5, 6, 7, 8}, Shape({2, 2}));
  const Tensor rows = TensorOf(DataType::kBool, {0, 1});
  EXPECT_THAT(EvaluateOnThreads({"Select", {}, {rows, a, b}}).as<float>(), ElementsAre(5, 6, 3, 4));
  EXPECT_THAT(EvaluateOnThreads({"SelectV2", {}, {rows, a, b}}).as<float>(), ElementsAre(5, 2, 7, 4));
  EXPECT_THAT(EvaluateOnThreads({"Select", {}, {TensorOf(DataType::kBool, {1}, Shape()), a, b}}).as<float>(),
              ElementsAre(1, 2, 3, 4));
  EXPECT_FALSE(Evaluate({"Select", {}, {TensorOf(DataType::kBool, {0, 1, 1}), a, b}}).ok());
  EXPECT_FALSE(Evaluate({"Select", {}, {a, a, b}}).ok());
}

TEST(ClipTest, BoundsBindAndNanStays) {
  const auto scalar = [](float v) { return TensorOf(DataType::kFloat, {v}, Shape()); };
  const Tensor x = TensorOf(DataType::kFloat, {-2, 0.25, 2, kNan});
  const Tensor got = EvaluateOnThreads({"ClipByValue", {}, {x, scalar(-0.5), scalar(0.5)}});
  EXPECT_THAT(got.as<float>().subspan(0, 3), ElementsAre(-0.5, 0.25, 0.5));
  EXPECT_TRUE(std::isnan(got.DoubleAt(3)));
  const Tensor low = EvaluateOnThreads({"ClipByValue", {}, {x, scalar(kNan), scalar(0.5)}});
  EXPECT_THAT(low.as<float>().subspan(0, 3), ElementsAre(-2, 0.25, 0.5));
  const Tensor each = EvaluateOnThreads({"ClipByValue", {}, {x, x, TensorOf(DataType::kFloat, {1, 0, 3, 0})}});
  EXPECT_THAT(each.as<float>().subspan(0, 3), ElementsAre(-2, 0.25, 2));
  EXPECT_FALSE(Evaluate({"ClipByValue", {}, {scalar(1), x, scalar(1)}}).ok());
}

TEST(CheckNumericsTest, PassesNumbersAndNamesTheRest) {
  AttrMap attrs;
  attrs.Set("message", std::string("loss"));
  for (DataType dtype : {DataType::kFloat, DataType::kDouble, DataType::kHalf, DataType::kBfloat16}) {
    const Tensor fine = NumbersOf(dtype, Shape({50000}), 1);
    EXPECT_TRUE(EvaluateOnThreads({"CheckNumerics", attrs, {fine}}).BitEqual(fine));
    const auto message = [&](const char* op, const std::vector<double>& values) {
      return std::string(Evaluate({op, attrs, {TensorOf(dtype, values)}}).status().message());
    };
    EXPECT_EQ(message("CheckNumerics", {1, kNan}), "loss : Tensor had NaN values");
    EXPECT_EQ(message("CheckNumerics", {1, -kInf}), "loss : Tensor had Inf values");
    EXPECT_EQ(message("CheckNumerics", {kNan, kInf}), "loss : Tensor had Inf and NaN values");
    EXPECT_EQ(message("CheckNumericsV2", {1, -kInf}), "loss : Tensor had -Inf values");
    EXPECT_EQ(message("CheckNumericsV2", {kNan, kInf}), "loss : Tensor had +Inf, and NaN values");
  }
}

}  // namespace
}  // namespace millrace::cpu
