// Elementwise kernels against scalar code: every broadcasting pattern, every type, in place, on several threads.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/convert.h"
#include "kernel_testing.h"
#include "typed_values.h"

namespace millrace::cpu {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

// Element of `tensor` (of `shape`'s broadcast) at flat index `i` of an output of shape `out`.
double BroadcastAt(const Tensor& tensor, const Shape& out, int64_t i) {
  int64_t offset = 0, stride = 1;
  for (int d = out.rank() - 1; d >= 0; --d) {
    const int64_t index = i % out.dim(d);
    i /= out.dim(d);
    const int own = d - (out.rank() - tensor.shape().rank());
    if (own < 0) continue;
    if (tensor.shape().dim(own) != 1) offset += index * stride;
    stride *= tensor.shape().dim(own);
  }
  return tensor.DoubleAt(offset);
}

using Binary = std::function<double(double, double)>;

void CheckBinary(const std::string& op, const Tensor& a, const Tensor& b, const Binary& expected, double tolerance) {
  SCOPED_TRACE(absl::StrCat(op, " ", a.type().ToString(), " ", b.type().ToString()));
  const Tensor got = EvaluateOnThreads({op, {}, {a, b}});
  std::vector<double> values(got.num_elements());
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = expected(BroadcastAt(a, got.shape(), i), BroadcastAt(b, got.shape(), i));
  }
  ExpectClose(got, values, tolerance);
}

TEST(BinaryTest, EveryBroadcastingPatternAgrees) {
  const std::vector<std::pair<Shape, Shape>> shapes = {
      {{}, {}},
      {{5}, {}},
      {{}, {5}},
      {{1}, {1, 1, 1}},
      {{2, 3, 4}, {2, 3, 4}},
      {{2, 3, 4}, {4}},
      {{4}, {2, 3, 4}},
      {{2, 3, 4}, {3, 1}},
      {{2, 1, 4}, {1, 3, 1}},
      {{1, 3, 1, 5}, {2, 1, 4, 1}},
      {{2, 1, 3, 1, 2, 1, 2, 3}, {1, 2, 1, 3, 1, 2, 1, 3}},
      {{3, 1, 2, 1, 2, 1, 2, 1}, {3, 3, 2, 2, 2, 3, 2, 2}},
      {{0, 3}, {1, 3}},
      {{100, 700}, {700}},
      {{700, 100}, {700, 1}},
      {{70001}, {1}},
      {{300, 7}, {7}},
      {{64, 30, 40}, {64, 1, 40}},
  };
  for (const auto& [a, b] : shapes) {
    CheckBinary("Sub", TestValues(DataType::kFloat, a, 1), TestValues(DataType::kFloat, b, 2), std::minus<double>(), 0);
    CheckBinary("Mul", TestValues(DataType::kInt32, a, 1), TestValues(DataType::kInt32, b, 2),
                std::multiplies<double>(), 0);
  }
}

TEST(BinaryTest, EveryTypeAgrees) {
  for (DataType dtype : kNumberTypes) {
    const Tensor a = NumbersOf(dtype, Shape({3, 1300}), 1), b = NumbersOf(dtype, Shape({1300}), 2);
    const double tolerance = Tolerance(dtype);
    CheckBinary(
        "AddV2", a, b, [&](double x, double y) { return Wrapped(dtype, x + y); }, tolerance);
    CheckBinary(
        "Sub", a, b, [&](double x, double y) { return Wrapped(dtype, x - y); }, tolerance);
    CheckBinary(
        "Mul", a, b, [&](double x, double y) { return Wrapped(dtype, x * y); }, tolerance);
    CheckBinary(
        "Maximum", a, b, [](double x, double y) { return std::max(x, y); }, 0);
    CheckBinary(
        "Minimum", a, b, [](double x, double y) { return std::min(x, y); }, 0);
    CheckBinary(
        "SquaredDifference", a, b, [&](double x, double y) { return Wrapped(dtype, (x - y) * (x - y)); },
        2 * tolerance);
  }
}

TEST(BinaryTest, DivisionsAndRemaindersHaveTensorFlowsSigns) {
  for (DataType dtype : kNumberTypes) {
    const bool is_signed = std::string(DataTypeName(dtype))[0] != 'u';
    const std::vector<double> x =
        is_signed ? std::vector<double>{7, -7, 7, -7, 0, 6, -6} : std::vector<double>{7, 8, 9, 1, 0, 6, 5};
    const std::vector<double> y =
        is_signed ? std::vector<double>{3, 3, -3, -3, 3, -1, 2} : std::vector<double>{3, 3, 4, 2, 1, 2, 5};
    const Tensor a = TensorOf(dtype, x), b = TensorOf(dtype, y);
    const auto floor_mod = [](double p, double q) { return p - q * std::floor(p / q); };
    CheckBinary(
        "FloorDiv", a, b, [](double p, double q) { return std::floor(p / q); }, 0);
    CheckBinary("FloorMod", a, b, floor_mod, 0);
    CheckBinary(
        "TruncateDiv", a, b, [](double p, double q) { return std::trunc(p / q); }, 0);
    CheckBinary(
        "Mod", a, b, [](double p, double q) { return std::fmod(p, q); }, 0);
    const bool real = IsFloating(dtype);
    CheckBinary(
        "Div", a, b, [&](double p, double q) { return real ? p / q : std::trunc(p / q); }, Tolerance(dtype));
  }
}

TEST(BinaryTest, WholeQuotientsAreThoseOfTheQuotientRoundedToItsType) {
  const auto of = [](const char* op, DataType dtype, double a, double b) {
    return EvaluateOnThreads({op, {}, {TensorOf(dtype, {a}), TensorOf(dtype, {b})}}).DoubleAt(0);
  };
  EXPECT_EQ(of("FloorDiv", DataType::kHalf, -1, 1 / 3.0), -3);  // TensorFlow's
  EXPECT_EQ(of("FloorDiv", DataType::kBfloat16, 1, 1 / 3.0), 3);
  EXPECT_EQ(of("TruncateDiv", DataType::kBfloat16, 1, 1 / 3.0), 3);
}

TEST(BinaryTest, OddPowersHaveTheSignOfTheirBase) {
  for (DataType dtype : {DataType::kFloat, DataType::kDouble, DataType::kHalf, DataType::kBfloat16}) {
    const Tensor x = TensorOf(dtype, {-0.0, -0.0, -kInf, -kInf, -0.5, -2}), y = TensorOf(dtype, {3, -3, 5, -3, 255, -255});
    const Tensor powers = EvaluateOnThreads({"Pow", {}, {x, y}});
    for (int64_t i = 0; i < powers.num_elements(); ++i) EXPECT_TRUE(std::signbit(powers.DoubleAt(i))) << DataTypeName(dtype) << " " << i;
  }
}

TEST(BinaryTest, DivisionOfLeastIntegerByMinusOneWrapsAround) {
  const Tensor least = Tensor::Scalar<int32_t>(std::numeric_limits<int32_t>::min());
  const Tensor minus_one = Tensor::Scalar<int32_t>(-1);
  EXPECT_TRUE(EvaluateOnThreads({"FloorDiv", {}, {least, minus_one}}).BitEqual(least));
  EXPECT_EQ(EvaluateOnThreads({"FloorMod", {}, {least, minus_one}}).IntAt(0), 0);
}

TEST(BinaryTest, IntegerDivisionByZeroIsAnErrorAndRealDivisionIsNot) {
  for (DataType dtype : {DataType::kInt8, DataType::kInt32, DataType::kInt64, DataType::kUint16}) {
    for (const char* op : {"Div", "FloorDiv", "TruncateDiv", "FloorMod", "Mod"}) {
      const auto result = Evaluate({op, {}, {TensorOf(dtype, {1, 2}), TensorOf(dtype, {1, 0})}});
      EXPECT_THAT(result.status().message(), testing::HasSubstr("division by zero")) << op;
    }
  }
  const Tensor none(DataType::kInt32, Shape({0, 2}));
  EXPECT_TRUE(Evaluate({"FloorDiv", {}, {none, TensorOf(DataType::kInt32, {0, 0})}}).ok());
  EXPECT_EQ(EvaluateOnThreads({"RealDiv", {}, {TensorOf(DataType::kFloat, {1}), TensorOf(DataType::kFloat, {0})}})
                .DoubleAt(0),
            kInf);
}

TEST(BinaryTest, MaximumAndMinimumKeepNanOfEitherSide) {
  const Tensor a = TensorOf(DataType::kFloat, {kNan, 1, kNan, 2}), b = TensorOf(DataType::kFloat, {1, kNan, kNan, 3});
  for (const char* op : {"Maximum", "Minimum"}) {
    const Tensor got = EvaluateOnThreads({op, {}, {a, b}});
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(got.DoubleAt(i))) << op << i;
  }
}

TEST(BinaryTest, ZeroOperandOfNoNanOpsGivesZero) {
  const Tensor zero = TensorOf(DataType::kFloat, {0}), nan = TensorOf(DataType::kFloat, {kNan});
  EXPECT_EQ(EvaluateOnThreads({"DivNoNan", {}, {nan, zero}}).DoubleAt(0), 0);
  EXPECT_EQ(EvaluateOnThreads({"MulNoNan", {}, {nan, zero}}).DoubleAt(0), 0);
  EXPECT_EQ(EvaluateOnThreads({"Xdivy", {}, {zero, nan}}).DoubleAt(0), 0);
}

TEST(BinaryTest, MismatchedShapesAndTypesAreErrors) {
  const auto shapes =
      Evaluate({"Add", {}, {TestValues(DataType::kFloat, {2}, 1), TestValues(DataType::kFloat, {3}, 1)}});
  EXPECT_THAT(shapes.status().message(), testing::HasSubstr("[2] and [3]"));
  const auto types =
      Evaluate({"Add", {}, {TestValues(DataType::kFloat, {2}, 1), TestValues(DataType::kInt32, {2}, 1)}});
  EXPECT_THAT(types.status().message(), testing::HasSubstr("equal element types"));
}

struct UnaryCase {
  const char* op;
  double (*expected)(double);
  bool positive = false;  // defined for positive values only
};

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double Softplus(double x) { return std::log1p(std::exp(x)); }
double Selu(double x) { return x < 0 ? 1.7580993408473768 * std::expm1(x) : 1.0507009873554805 * x; }

TEST(UnaryTest, FloatingOpsAgreeWithTheStandardLibrary) {
  const std::vector<UnaryCase> cases = {
      {"Abs", [](double x) { return std::fabs(x); }},
      {"Neg", [](double x) { return -x; }},
      {"Sign", [](double x) { return double((x > 0) - (x < 0)); }},
      {"Square", [](double x) { return x * x; }},
      {"Sqrt", [](double x) { return std::sqrt(x); }, true},
      {"Rsqrt", [](double x) { return 1 / std::sqrt(x); }, true},
      {"Reciprocal", [](double x) { return 1 / x; }, true},
      {"Floor", [](double x) { return std::floor(x); }},
      {"Ceil", [](double x) { return std::ceil(x); }},
      {"Round", [](double x) { return std::nearbyint(x); }},
      {"Exp", [](double x) { return std::exp(x); }},
      {"Expm1", [](double x) { return std::expm1(x); }},
      {"Log", [](double x) { return std::log(x); }, true},
      {"Log1p", [](double x) { return std::log1p(x); }, true},
      {"Sin", [](double x) { return std::sin(x); }},
      {"Cos", [](double x) { return std::cos(x); }},
      {"Tan", [](double x) { return std::tan(x / 2 * 2); }},
      {"Atan", [](double x) { return std::atan(x); }},
      {"Sinh", [](double x) { return std::sinh(x); }},
      {"Cosh", [](double x) { return std::cosh(x); }},
      {"Tanh", [](double x) { return std::tanh(x); }},
      {"Asinh", [](double x) { return std::asinh(x); }},
      {"Sigmoid", Sigmoid},
      {"Softplus", Softplus},
      {"Softsign", [](double x) { return x / (1 + std::fabs(x)); }},
      {"Relu", [](double x) { return std::max(x, 0.0); }},
      {"Relu6", [](double x) { return std::min(std::max(x, 0.0), 6.0); }},
      {"Elu", [](double x) { return x < 0 ? std::expm1(x) : x; }},
      {"Selu", Selu},
  };
  for (const UnaryCase& unary : cases) {
    for (DataType dtype : {DataType::kFloat, DataType::kDouble, DataType::kHalf, DataType::kBfloat16}) {
      SCOPED_TRACE(absl::StrCat(unary.op, " ", std::string(DataTypeName(dtype))));
      Tensor x = NumbersOf(dtype, Shape({20003}), 3);
      if (unary.positive) x = EvaluateOnThreads({"Maximum", {}, {x, TensorOf(dtype, {0.125})}});
      const Tensor got = EvaluateOnThreads({unary.op, {}, {x}});
      std::vector<double> expected(x.num_elements());
      for (size_t i = 0; i < expected.size(); ++i) expected[i] = unary.expected(x.DoubleAt(i));
      ExpectClose(got, expected, Tolerance(dtype));
    }
  }
}

TEST(UnaryTest, TranscendentalsOfOneElementEqualThoseOfManyElements) {
  const Tensor many = NumbersOf(DataType::kFloat, Shape({1003}), 4);
  for (const char* op : {"Exp", "Log", "Sigmoid", "Tanh", "Sin", "Softplus", "Elu"}) {
    const Tensor all = EvaluateOnThreads({op, {}, {many}});
    for (int64_t i : {0, 500, 1002}) {
      const Tensor one = EvaluateOnThreads({op, {}, {Tensor::Scalar(many.as<float>()[i])}});
      EXPECT_EQ(std::bit_cast<uint32_t>(one.as<float>()[0]), std::bit_cast<uint32_t>(all.as<float>()[i])) << op << i;
    }
  }
}

template <typename T>
double WorstAtanh(DataType dtype) {
  Tensor x(dtype, Shape({4001}));
  for (int i = 0; i < 4001; ++i) x.mutable_as<T>()[i] = static_cast<T>(i < 4000 ? (i - 2000) / T(2000.5) : T(1e-12));
  const Tensor got = EvaluateOnThreads({"Atanh", {}, {x}});
  double worst = 0;
  for (int i = 0; i < 4001; ++i) {
    const long double expected = std::atanh(static_cast<long double>(x.as<T>()[i]));
    const T size = std::abs(static_cast<T>(expected)), unit = std::nextafter(size, std::numeric_limits<T>::infinity()) - size;
    worst = std::max(worst, static_cast<double>(std::abs(static_cast<long double>(got.as<T>()[i]) - expected) / unit));
  }
  return worst;
}

TEST(UnaryTest, AtanhIsExactToAFewBits) {
  EXPECT_LE(WorstAtanh<float>(DataType::kFloat), 2);
  EXPECT_LE(WorstAtanh<double>(DataType::kDouble), 4);
  const Tensor edges = EvaluateOnThreads({"Atanh", {}, {TensorOf(DataType::kFloat, {1, -1, 0, -0.0, 1.5, kNan, kInf})}});
  const auto values = edges.as<float>();
  EXPECT_EQ(values[0], kInf);
  EXPECT_EQ(values[1], -kInf);
  EXPECT_FALSE(std::signbit(values[2]));
  EXPECT_TRUE(values[3] == 0 && std::signbit(values[3]));
  for (int i = 4; i < 7; ++i) EXPECT_TRUE(std::isnan(values[i])) << i;
}

TEST(UnaryTest, SpecialValuesComeOutAsTensorFlows) {
  const Tensor x = TensorOf(DataType::kFloat, {kNan, kInf, -kInf, 0});
  const auto values = [&](const char* op) {
    const Tensor y = EvaluateOnThreads({op, {}, {x}});
    return std::vector<float>(y.as<float>().begin(), y.as<float>().end());
  };
  using testing::ElementsAre;
  using testing::NanSensitiveFloatEq;
  const auto are = [](float a, float b, float c, float d) {
    return ElementsAre(NanSensitiveFloatEq(a), NanSensitiveFloatEq(b), NanSensitiveFloatEq(c), NanSensitiveFloatEq(d));
  };
  EXPECT_THAT(values("Relu"), are(kNan, kInf, 0, 0));
  EXPECT_THAT(values("Relu6"), are(kNan, 6, 0, 0));
  EXPECT_THAT(values("Elu"), are(kNan, kInf, -1, 0));
  EXPECT_THAT(values("Exp"), are(kNan, kInf, 0, 1));
  EXPECT_THAT(values("Log"), are(kNan, kInf, kNan, -kInf));
  EXPECT_THAT(values("Sigmoid"), are(kNan, 1, 0, 0.5));
  EXPECT_THAT(values("Tanh"), are(kNan, 1, -1, 0));
  EXPECT_THAT(values("Softplus"), are(kNan, kInf, 0, std::log(2.0f)));
  EXPECT_THAT(values("Sign"), are(kNan, 1, -1, 0));
  // TensorFlow flushes what is smaller than the smallest normal number.
  const Tensor low = TensorOf(DataType::kFloat, {-87.2, -87.5, -90, -103.9});
  for (const char* op : {"Exp", "Softplus"}) {
    const Tensor small = EvaluateOnThreads({op, {}, {low}});
    EXPECT_THAT(std::vector<float>(small.as<float>().begin(), small.as<float>().end()),
                ElementsAre(testing::FloatNear(1.34748e-38f, 1e-42f), 0, 0, 0)) << op;
  }
  const Tensor nan = EvaluateOnThreads({"IsNan", {}, {x}}), inf = EvaluateOnThreads({"IsInf", {}, {x}});
  const Tensor finite = EvaluateOnThreads({"IsFinite", {}, {x}});
  EXPECT_THAT(nan.as<bool>(), ElementsAre(true, false, false, false));
  EXPECT_THAT(inf.as<bool>(), ElementsAre(false, true, true, false));
  EXPECT_THAT(finite.as<bool>(), ElementsAre(false, false, false, true));
}

TEST(UnaryTest, IntegerOpsWrapAround) {
  for (DataType dtype : kNumberTypes) {
    if (!IsInteger(dtype)) continue;
    const Tensor x = NumbersOf(dtype, Shape({600}), 5);
    const auto check = [&](const char* op, const std::function<double(double)>& expected) {
      SCOPED_TRACE(absl::StrCat(op, " ", std::string(DataTypeName(dtype))));
      std::vector<double> values(x.num_elements());
      for (size_t i = 0; i < values.size(); ++i) values[i] = Wrapped(dtype, expected(x.DoubleAt(i)));
      ExpectClose(EvaluateOnThreads({op, {}, {x}}), values, 0);
    };
    check("Abs", [](double v) { return std::fabs(v); });
    check("Neg", [](double v) { return -v; });
    check("Square", [](double v) { return v * v; });
    check("Sign", [](double v) { return double((v > 0) - (v < 0)); });
    check("Invert", [](double v) { return -v - 1; });
    check("Relu", [](double v) { return std::max(v, 0.0); });
  }
}

TEST(CastTest, EveryPairOfTypesKeepsSmallNumbers) {
  for (DataType from : kNumberTypes) {
    for (DataType to : kNumberTypes) {
      SCOPED_TRACE(absl::StrCat(std::string(DataTypeName(from)), " to ", std::string(DataTypeName(to))));
      const Tensor x = TensorOf(from, {0, 1, 2, 3, 100, 127});
      AttrMap attrs;
      attrs.Set("DstT", to);
      ExpectClose(EvaluateOnThreads({"Cast", attrs, {x}}), {0, 1, 2, 3, 100, 127}, 0);
    }
  }
}

TEST(CastTest, FloatsAreTruncatedTowardsZeroAndBoolIsNotZero) {
  const auto cast = [](const Tensor& x, DataType to) {
    AttrMap attrs;
    attrs.Set("DstT", to);
    return EvaluateOnThreads({"Cast", attrs, {x}});
  };
  const Tensor x = TensorOf(DataType::kFloat, {-1.5, 1.75, 0, 0.25, kNan});
  EXPECT_THAT(cast(x, DataType::kInt32).as<int32_t>().subspan(0, 4), testing::ElementsAre(-1, 1, 0, 0));
  EXPECT_THAT(cast(x, DataType::kInt64).as<int64_t>().subspan(0, 4), testing::ElementsAre(-1, 1, 0, 0));
  EXPECT_THAT(cast(x, DataType::kBool).as<bool>(), testing::ElementsAre(true, true, false, true, true));
  EXPECT_THAT(cast(TensorOf(DataType::kInt32, {256, 0, -1}), DataType::kBool).as<bool>(),
              testing::ElementsAre(true, false, true));
  EXPECT_THAT(cast(TensorOf(DataType::kInt32, {300, -1}), DataType::kUint8).as<uint8_t>(),
              testing::ElementsAre(44, 255));
}

TEST(CastTest, RoundsToSixteenBitsToNearestEven) {
  AttrMap attrs;
  attrs.Set("DstT", DataType::kBfloat16);
  const Tensor x = TensorOf(DataType::kFloat, {1.00390625, 1.01171875, 1e-40, kInf, kNan});
  const Tensor y = EvaluateOnThreads({"Cast", attrs, {x}});
  const auto* bits = static_cast<const uint16_t*>(y.data());
  EXPECT_EQ(bits[0], 0x3f80);
  EXPECT_EQ(bits[1], 0x3f82);
  EXPECT_EQ(bits[2], 0x0001);
  EXPECT_EQ(bits[3], 0x7f80);
  EXPECT_TRUE(std::isnan(y.DoubleAt(4)));
}

// TensorFlow has none.
TEST(CastTest, MakesNoNumbersOf8BitsOfIntegers) {
  for (const DataType to : {DataType::kFloat8E5M2, DataType::kFloat8E4M3fn}) {
    for (const DataType from : {DataType::kInt8, DataType::kInt16, DataType::kInt32, DataType::kInt64, DataType::kUint8, DataType::kUint16,
                                DataType::kUint32, DataType::kUint64, DataType::kBool}) {
      EXPECT_FALSE(ConversionOf(from, to).covered()) << DataTypeName(from);
    }
    for (const DataType from : {DataType::kFloat, DataType::kDouble, DataType::kHalf, DataType::kBfloat16, DataType::kFloat8E5M2}) {
      EXPECT_TRUE(ConversionOf(from, to).covered()) << DataTypeName(from);
    }
  }
}

TEST(AddNTest, AddsEveryInputForEveryType) {
  for (DataType dtype : {DataType::kFloat, DataType::kDouble, DataType::kInt32, DataType::kInt8, DataType::kHalf}) {
    for (int inputs : {1, 2, 3, 9}) {
      std::vector<Tensor> x;
      std::vector<double> expected(1501);
      for (int k = 0; k < inputs; ++k) {
        x.push_back(TestValues(DataType::kFloat, Shape({1501}), k));
        AttrMap attrs;
        attrs.Set("DstT", dtype);
        x.back() = EvaluateOnThreads({"Cast", attrs, {x.back()}});
        for (size_t i = 0; i < expected.size(); ++i) expected[i] += x.back().DoubleAt(i);
      }
      ExpectClose(EvaluateOnThreads({"AddN", {}, x}), expected, Tolerance(dtype));
    }
  }
}

TEST(BiasAddTest, AddsBiasToTheChannelsOfEitherLayout) {
  const Tensor bias = TestValues(DataType::kFloat, {3}, 2);
  for (const Shape& shape : {Shape({2, 3}), Shape({2, 4, 3}), Shape({2, 4, 5, 3}), Shape({2, 2, 2, 2, 3})}) {
    CheckBinary("BiasAdd", TestValues(DataType::kFloat, shape, 1), bias, std::plus<double>(), 0);
  }
  AttrMap nchw;
  nchw.Set("data_format", std::string("NCHW"));
  const Tensor value = TestValues(DataType::kFloat, {2, 3, 4, 5}, 1);
  const Tensor got = EvaluateOnThreads({"BiasAdd", nchw, {value, bias}});
  std::vector<double> expected;
  for (int64_t i = 0; i < value.num_elements(); ++i) expected.push_back(value.DoubleAt(i) + bias.DoubleAt(i / 20 % 3));
  ExpectClose(got, expected, 0);
  const auto wrong = Evaluate({"BiasAdd", {}, {value, bias}});
  EXPECT_THAT(wrong.status().message(), testing::HasSubstr("5 channels"));
}

TEST(FillTest, ZerosAndOnesOfEveryType) {
  for (DataType dtype : kNumberTypes) {
    const Tensor x = NumbersOf(dtype, Shape({3, 7}), 1);
    ExpectClose(EvaluateOnThreads({"ZerosLike", {}, {x}}), std::vector<double>(21, 0), 0);
    ExpectClose(EvaluateOnThreads({"OnesLike", {}, {x}}), std::vector<double>(21, 1), 0);
  }
}

TEST(ActivationGradientTest, AgreesWithTheDerivative) {
  const Tensor g = NumbersOf(DataType::kFloat, Shape({3001}), 6), x = NumbersOf(DataType::kFloat, Shape({3001}), 7);
  const auto check = [&](const char* op, const Tensor& first, const Tensor& second, const Binary& expected) {
    CheckBinary(op, first, second, expected, 2e-6);
  };
  check("ReluGrad", g, x, [](double dy, double v) { return v > 0 ? dy : 0; });
  check("Relu6Grad", g, x, [](double dy, double v) { return v > 0 && v < 6 ? dy : 0; });
  check("SoftplusGrad", g, x, [](double dy, double v) { return dy * Sigmoid(v); });
  check("SoftsignGrad", g, x, [](double dy, double v) { return dy / std::pow(1 + std::fabs(v), 2); });
  check("EluGrad", g, x, [](double dy, double y) { return y < 0 ? dy * (y + 1) : dy; });
  check("SeluGrad", g, x,
        [](double dy, double y) { return y < 0 ? dy * (y + 1.7580993408473768) : dy * 1.0507009873554805; });
  check("TanhGrad", x, g, [](double y, double dy) { return dy * (1 - y * y); });
  check("SigmoidGrad", x, g, [](double y, double dy) { return dy * y * (1 - y); });
  check("ReciprocalGrad", x, g, [](double y, double dy) { return -dy * y * y; });
  check("RsqrtGrad", x, g, [](double y, double dy) { return -0.5 * dy * y * y * y; });
  const Tensor y = EvaluateOnThreads({"Exp", {}, {x}});
  check("SqrtGrad", y, g, [](double v, double dy) { return 0.5 * dy / v; });
}

TEST(ActivationGradientTest, WhereTheIncomingOneIsZeroSoAreThoseOfRootsAndReciprocals) {
  for (DataType dtype : {DataType::kFloat, DataType::kDouble, DataType::kHalf, DataType::kBfloat16}) {
    const Tensor y = TensorOf(dtype, {0, -0.0, kInf, -kInf, kNan, 2}), dy = TensorOf(dtype, {0, -0.0, 0, -0.0, 0, 0});
    for (const char* op : {"SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "InvGrad"}) {
      ExpectClose(EvaluateOnThreads({op, {}, {y, dy}}), std::vector<double>(6, 0), 0);
    }
  }
}

// The processor has no quotient of the least integer and -1: TensorFlow ends with it.
TEST(SparseDenseTest, IntegersWrapAround) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::lowest();
  const int64_t places[] = {0, 1, 2};
  const Tensor indices = Tensor::Vector<int64_t>(places).Reshaped(Shape({3, 1})), shape = Tensor::Vector<int64_t>({3});
  const auto mixed = [&](const char* op, const Tensor& values, const Tensor& dense) {
    return EvaluateOnThreads({op, {}, {indices, values, shape, dense}});
  };
  const Tensor values = Tensor::Vector<int64_t>({kLeast, 7, -7}), dense = Tensor::Vector<int64_t>({-1, -2, 2});
  EXPECT_THAT(mixed("SparseDenseCwiseDiv", values, dense).as<int64_t>(), testing::ElementsAre(kLeast, -3, -3));
  EXPECT_THAT(mixed("SparseDenseCwiseMul", values, dense).as<int64_t>(), testing::ElementsAre(kLeast, -14, -14));
  EXPECT_THAT(mixed("SparseDenseCwiseAdd", values, dense).as<int64_t>(), testing::ElementsAre(std::numeric_limits<int64_t>::max(), 5, -5));
  const Tensor narrow = Tensor::Vector<int8_t>({-128, 100, -3}), by = Tensor::Vector<int8_t>({-1, 2, -1});
  EXPECT_THAT(mixed("SparseDenseCwiseDiv", narrow, by).as<int8_t>(), testing::ElementsAre(-128, 50, 3));
  const Tensor floats = TensorOf(DataType::kFloat, {0, kInf, 3}), others = TensorOf(DataType::kFloat, {-1, -1, -2});
  const Tensor quotients = mixed("SparseDenseCwiseDiv", floats, others);
  EXPECT_THAT(quotients.as<float>(), testing::ElementsAre(0, -kInf, -1.5f));
  EXPECT_TRUE(std::signbit(quotients.as<float>()[0]));
}

// The cube alone would be no number of the type.
TEST(ActivationGradientTest, OfReciprocalRootsFarFromOneAreThere) {
  const Tensor y = TensorOf(DataType::kFloat, {1e13, 1e-14}), dy = TensorOf(DataType::kFloat, {1e-30, 1e30});
  const Tensor got = EvaluateOnThreads({"RsqrtGrad", {}, {y, dy}});
  EXPECT_NEAR(got.DoubleAt(0), -5e8, 5e2);
  EXPECT_NEAR(got.DoubleAt(1), -5e-13, 5e-19);
}

TEST(ActivationGradientTest, ReluGradientOfNanIsTimesZero) {
  const Tensor g = TensorOf(DataType::kFloat, {kNan, kNan, -1}), x = TensorOf(DataType::kFloat, {1, -1, kNan});
  const Tensor got = EvaluateOnThreads({"ReluGrad", {}, {g, x}});
  EXPECT_TRUE(std::isnan(got.DoubleAt(0)));
  EXPECT_TRUE(std::isnan(got.DoubleAt(1)));
  EXPECT_EQ(got.DoubleAt(2), 0);
}

TEST(ActivationGradientTest, LeakyReluUsesItsAlpha) {
  AttrMap attrs;
  attrs.Set("alpha", 0.25f);
  const Tensor x = TensorOf(DataType::kFloat, {-4, 0, 2}), g = TensorOf(DataType::kFloat, {8, 8, 8});
  EXPECT_THAT(EvaluateOnThreads({"LeakyRelu", attrs, {x}}).as<float>(), testing::ElementsAre(-1, 0, 2));
  EXPECT_THAT(EvaluateOnThreads({"LeakyReluGrad", attrs, {g, x}}).as<float>(), testing::ElementsAre(2, 2, 8));
}

}  // namespace
}  // namespace millrace::cpu
