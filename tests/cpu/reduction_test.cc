// Reductions against a direct loop in double: every pattern of axes, every type, on several threads.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernel_testing.h"
#include "typed_values.h"

namespace millrace::cpu {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

NodeRun ReductionOf(const std::string& op, const Tensor& x, const std::vector<int32_t>& axes, bool keep_dims = false) {
  AttrMap attrs;
  attrs.Set("keep_dims", keep_dims);
  return {op, attrs, {x, Tensor::Vector<int32_t>(axes)}, {false, true}};
}

struct Fold {
  double start;
  std::function<double(double, double)> take;
  std::function<double(double, double)> finish = [](double value, double) { return value; };
};

std::vector<double> Expected(const Tensor& x, const std::vector<int32_t>& axes, const Fold& fold) {
  const Shape& shape = x.shape();
  std::vector<bool> reduced(shape.rank());
  for (int32_t axis : axes) reduced[axis < 0 ? axis + shape.rank() : axis] = true;
  int64_t outputs = 1, count = 1;
  for (int d = 0; d < shape.rank(); ++d) (reduced[d] ? count : outputs) *= shape.dim(d);
  std::vector<double> result(outputs, fold.start);
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    int64_t rest = i, at = 0, stride = 1;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      if (!reduced[d]) {
        at += rest % shape.dim(d) * stride;
        stride *= shape.dim(d);
      }
      rest /= shape.dim(d);
    }
    result[at] = fold.take(result[at], x.DoubleAt(i));
  }
  for (double& value : result) value = fold.finish(value, static_cast<double>(count));
  return result;
}

Fold FoldOf(const std::string& op, DataType dtype) {
  const bool truncates = IsInteger(dtype);
  if (op == "Sum") return {0, [](double a, double x) { return a + x; }};
  if (op == "Mean") {
    return {0, [](double a, double x) { return a + x; },
            [=](double a, double n) { return truncates ? std::trunc(a / n) : a / n; }};
  }
  if (op == "Prod") return {1, [](double a, double x) { return a * x; }};
  if (op == "Max") return {-kInf, [](double a, double x) { return std::max(a, x); }};
  if (op == "Min") return {kInf, [](double a, double x) { return std::min(a, x); }};
  return {0, [](double a, double x) { return a + x * x; }, [](double a, double) { return std::sqrt(a); }};
}

void CheckReduction(const std::string& op, const Tensor& x, const std::vector<int32_t>& axes) {
  SCOPED_TRACE(absl::StrCat(op, " of ", x.type().ToString(), " over ", absl::StrJoin(axes, ",")));
  const Tensor got = EvaluateOnThreads(ReductionOf(op, x, axes));
  ExpectClose(got, Expected(x, axes, FoldOf(op, x.dtype())), Tolerance(x.dtype()));
}

TEST(ReductionTest, EveryPatternOfAxesAgrees) {
  const std::vector<std::pair<Shape, std::vector<std::vector<int32_t>>>> cases = {
      {{}, {{}}},
      {{7}, {{0}, {-1}, {}}},
      {{1, 1}, {{0}, {0, 1}, {}}},
      {{5, 3}, {{0}, {1}, {0, 1}, {-2}, {}}},
      {{4, 5, 6}, {{0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}}},
      {{3, 1, 70, 2}, {{0, 2}, {1, 2}, {2}, {3}, {0, 3}, {1}}},
      {{2, 3, 2, 3, 2, 3, 2, 3}, {{0, 2, 4, 6}, {1, 3, 5, 7}, {0, 1, 6, 7}, {3, 4}, {0, 1, 2, 3, 4, 5, 6, 7}}},
      {{200000}, {{0}}},
      {{300, 700}, {{0}, {1}, {0, 1}}},
      {{70000, 3}, {{0}, {1}}},
      {{3, 70000}, {{0}, {1}}},
      {{8, 50, 60, 16}, {{0, 1, 2}, {1, 2}, {3}, {0, 2}}},
      {{8, 16, 50, 60}, {{0, 2, 3}, {2, 3}, {1}}},
      {{20, 1300, 5}, {{1}, {0, 2}, {0}}},
      // Small blocks of rows by columns.
      {{600, 2, 16}, {{1}}},
      {{601, 4, 3}, {{1}}},
      {{300, 8, 33}, {{1}}},
      {{70, 40, 257}, {{1}}},
      {{3, 100, 300}, {{1}, {2}}},
      // Rows that repeat along another reduced dimension.
      {{9, 12, 6, 7}, {{1, 3}, {0, 3}, {0, 1, 3}}},
      {{3, 4, 70, 8}, {{1, 3}}},
      {{5, 30, 200, 3}, {{1, 3}}},
      {{4, 9, 2, 300}, {{1, 3}}},
  };
  for (const auto& [shape, all_axes] : cases) {
    for (const std::vector<int32_t>& axes : all_axes) {
      CheckReduction("Sum", NumbersOf(DataType::kFloat, shape, 1), axes);
      CheckReduction("Max", NumbersOf(DataType::kFloat, shape, 2), axes);
    }
  }
}

TEST(ReductionTest, EveryTypeAgrees) {
  for (DataType dtype : kNumberTypes) {
    // Few enough values that no sum leaves the type.
    const bool narrow = DataTypeSize(dtype) == 1 || dtype == DataType::kHalf || dtype == DataType::kBfloat16;
    for (int64_t outer : {6, 12}) {
      std::vector<double> values(outer * 35 * 4);
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(narrow ? i % 3 : i * 37 % 101);
      const Tensor x = TensorOf(dtype, values, Shape({outer, 35, 4}));
      for (const std::vector<int32_t>& axes : {std::vector<int32_t>{1}, {0, 2}, {0}, {2}}) {
        for (const char* op : {"Sum", "Mean", "Max", "Min"}) CheckReduction(op, x, axes);
      }
    }
    CheckReduction("Prod", TensorOf(dtype, {1, 2, 3, 1, 1, 4}, Shape({2, 3})), {1});
  }
  for (DataType dtype : {DataType::kFloat, DataType::kDouble}) {
    CheckReduction("EuclideanNorm", NumbersOf(dtype, Shape({40, 50}), 1), {1});
    CheckReduction("Prod", TensorOf(dtype, std::vector<double>(600, 1.01), Shape({2, 300})), {1});
  }
}

TEST(ReductionTest, RowsAndColumnsOfBytesAgree) {
  for (DataType dtype : {DataType::kInt8, DataType::kUint8}) {
    for (int64_t count : {1, 15, 16, 17, 40, 63, 64, 65, 130, 200}) {
      std::vector<double> values(5 * count), few(5 * count);
      for (int64_t i = 0; i < 5 * count; ++i) {
        values[i] = static_cast<double>(i * 37 % 251 - (dtype == DataType::kInt8 ? 125 : 0));
        few[i] = static_cast<double>(i * 7 % 11 == 3);
      }
      for (int32_t axis : {0, 1}) {
        CheckReduction("Max", TensorOf(dtype, values, Shape({5, count})), {axis});
        CheckReduction("Min", TensorOf(dtype, values, Shape({5, count})), {axis});
        CheckReduction("Sum", TensorOf(dtype, few, Shape({5, count})), {axis});
      }
    }
  }
}

TEST(ReductionTest, SumsOfRowsAndColumnsOfBytesWrapAround) {
  for (DataType dtype : {DataType::kInt8, DataType::kUint8}) {
    for (int64_t count : {17, 64, 200}) {
      const Tensor x = NumbersOf(dtype, Shape({count, count}), 1);
      for (int32_t axis : {0, 1}) {
        SCOPED_TRACE(absl::StrCat(x.type().ToString(), " over ", axis));
        std::vector<double> sums = Expected(x, {axis}, FoldOf("Sum", dtype));
        for (double& sum : sums) sum = Wrapped(dtype, sum);
        ExpectClose(EvaluateOnThreads(ReductionOf("Sum", x, {axis})), sums, 0);
      }
    }
  }
}

// Rows that repeat along another reduced dimension: lines of them in chunks, and in segments.
TEST(ReductionTest, RowsAsColumnsOfEveryTypeAgree) {
  for (const Shape& shape : {Shape({12, 200, 3}), Shape({1100, 32, 2})}) {
    for (DataType dtype : kNumberTypes) {
      const bool narrow = DataTypeSize(dtype) <= 2;
      std::vector<double> values(shape.num_elements());
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(narrow ? i * 7 % 23 == 3 : i * 37 % 101);
      CheckReduction("Sum", TensorOf(dtype, values, shape), {0, 2});
    }
  }
}

template <typename T>
void CheckComplexSums(DataType dtype, DataType part_dtype, const Shape& shape, const std::vector<int32_t>& axes) {
  SCOPED_TRACE(absl::StrCat(shape.ToString(), " over ", absl::StrJoin(axes, ",")));
  Tensor x(dtype, shape);
  const Tensor parts[2] = {NumbersOf(part_dtype, shape, 1), NumbersOf(part_dtype, shape, 2)};
  for (int64_t i = 0; i < 2 * shape.num_elements(); ++i) static_cast<T*>(x.mutable_data())[i] = parts[i % 2].as<T>()[i / 2];
  for (const char* op : {"Sum", "Mean"}) {
    const Tensor got = EvaluateOnThreads(ReductionOf(op, x, axes));
    for (int part : {0, 1}) {
      Tensor of_part(part_dtype, got.shape());
      for (int64_t i = 0; i < got.num_elements(); ++i) of_part.mutable_as<T>()[i] = static_cast<const T*>(got.data())[2 * i + part];
      ExpectClose(of_part, Expected(parts[part], axes, FoldOf(op, part_dtype)), Tolerance(part_dtype));
    }
  }
}

TEST(ReductionTest, ComplexSumsAreThoseOfTheirParts) {
  const std::pair<Shape, std::vector<int32_t>> cases[] = {
      {{7}, {0}}, {{30, 130}, {1}}, {{30, 130}, {0}}, {{5, 1000}, {-1}}, {{4, 9, 6, 5}, {1, 3}}, {{300, 300}, {0, 1}}, {{6, 3}, {}}};
  for (const auto& [shape, axes] : cases) {
    CheckComplexSums<float>(DataType::kComplex64, DataType::kFloat, shape, axes);
    CheckComplexSums<double>(DataType::kComplex128, DataType::kDouble, shape, axes);
  }
}

// Several short rows are taken at once: each has the bits that it has as the only one.
TEST(ReductionTest, ShortRowsHaveTheBitsOfEachOnItsOwn) {
  for (int64_t count : {1, 3, 8, 15, 16, 21, 40, 63, 64, 100, 255, 256, 700}) {
    Tensor all(DataType::kFloat, Shape({37, count}));
    uint32_t state = 7;
    for (float& value : all.mutable_as<float>()) {
      state = state * 1664525u + 1013904223u;
      value = static_cast<float>(state >> 8) / (1 << 22) - 2.0f;
    }
    for (const char* op : {"Sum", "Mean", "Max", "EuclideanNorm"}) {
      const Tensor got = EvaluateOnThreads(ReductionOf(op, all, {1}));
      for (int64_t row = 0; row < 37; ++row) {
        Tensor one(DataType::kFloat, Shape({1, count}));
        for (int64_t i = 0; i < count; ++i) one.mutable_as<float>()[i] = all.as<float>()[row * count + i];
        const Tensor alone = EvaluateOnThreads(ReductionOf(op, one, {1}));
        EXPECT_EQ(got.as<float>()[row], alone.as<float>()[0]) << op << " of " << count << ", row " << row;
      }
    }
  }
}

TEST(ReductionTest, SumOfManyElementsIsCloseToTheExactOne) {
  const Tensor x = TensorOf(DataType::kFloat, std::vector<double>(3000000, 0.1f));
  const double exact = 3000000 * static_cast<double>(0.1f);
  const Tensor got = EvaluateOnThreads(ReductionOf("Sum", x, {0}));
  EXPECT_NEAR(got.DoubleAt(0), exact, exact * 1e-6);
}

TEST(ReductionTest, IntegerSumWrapsAroundAndMeanDoesNot) {
  const Tensor x = TensorOf(DataType::kInt8, {100, 100, 100});
  EXPECT_EQ(EvaluateOnThreads(ReductionOf("Sum", x, {0})).IntAt(0), 44);
  EXPECT_EQ(EvaluateOnThreads(ReductionOf("Mean", x, {0})).IntAt(0), 100);
  const Tensor large = TensorOf(DataType::kInt32, std::vector<double>(60, 2e9), Shape({2, 30}));
  EXPECT_THAT(EvaluateOnThreads(ReductionOf("Sum", large, {1})).as<int32_t>(), testing::Each(-129542144));
  EXPECT_THAT(EvaluateOnThreads(ReductionOf("Mean", large, {1})).as<int32_t>(), testing::Each(2000000000));
  EXPECT_THAT(EvaluateOnThreads(ReductionOf("Sum", large, {0})).as<int32_t>(), testing::Each(-294967296));
  const Tensor negative = TensorOf(DataType::kInt32, {-7, -8, 2});
  EXPECT_EQ(EvaluateOnThreads(ReductionOf("Mean", negative, {0})).IntAt(0), -4);
}

TEST(ReductionTest, NothingReducedGivesTheNeutralElement) {
  const auto over_nothing = [](const char* op, DataType dtype) {
    return EvaluateOnThreads(ReductionOf(op, Tensor(dtype, Shape({0, 2})), {0}));
  };
  EXPECT_THAT(over_nothing("Sum", DataType::kFloat).as<float>(), testing::Each(0));
  EXPECT_THAT(over_nothing("Prod", DataType::kInt32).as<int32_t>(), testing::Each(1));
  EXPECT_THAT(over_nothing("Max", DataType::kFloat).as<float>(), testing::Each(-kInf));
  EXPECT_THAT(over_nothing("Min", DataType::kFloat).as<float>(), testing::Each(kInf));
  EXPECT_THAT(over_nothing("Max", DataType::kInt32).as<int32_t>(), testing::Each(INT32_MIN));
  EXPECT_THAT(over_nothing("Min", DataType::kInt16).as<int16_t>(), testing::Each(INT16_MAX));
  EXPECT_THAT(over_nothing("Max", DataType::kUint8).as<uint8_t>(), testing::Each(0));
  EXPECT_THAT(over_nothing("Max", DataType::kInt8).as<int8_t>(), testing::Each(INT8_MIN));
  EXPECT_THAT(over_nothing("Min", DataType::kUint8).as<uint8_t>(), testing::Each(UINT8_MAX));
  EXPECT_THAT(over_nothing("Min", DataType::kInt64).as<int64_t>(), testing::Each(INT64_MAX));
  EXPECT_THAT(over_nothing("All", DataType::kBool).as<bool>(), testing::Each(true));
  EXPECT_THAT(over_nothing("Any", DataType::kBool).as<bool>(), testing::Each(false));
  EXPECT_TRUE(std::isnan(over_nothing("Mean", DataType::kFloat).DoubleAt(0)));
  const Tensor none = EvaluateOnThreads(ReductionOf("Sum", Tensor(DataType::kFloat, Shape({2, 0})), {0}));
  EXPECT_EQ(none.shape(), Shape({0}));
}

TEST(ReductionTest, NanReachesMaximumAndMinimumWhereverItStands) {
  for (int64_t at : {0, 1, 63, 64, 200, 299}) {
    Tensor x(DataType::kFloat, Shape({300}));
    x.mutable_as<float>()[at] = kNan;
    for (const char* op : {"Max", "Min"}) {
      EXPECT_TRUE(std::isnan(EvaluateOnThreads(ReductionOf(op, x, {0})).DoubleAt(0))) << op << at;
      const Tensor column = x.Reshaped(Shape({300, 1}));
      EXPECT_TRUE(std::isnan(EvaluateOnThreads(ReductionOf(op, column, {0})).DoubleAt(0))) << op << at;
    }
  }
}

TEST(ReductionTest, AllAndAnyAgree) {
  Tensor x(DataType::kBool, Shape({3, 1000}));
  for (int64_t i = 0; i < 1000; ++i) x.mutable_as<bool>()[i] = true;
  x.mutable_as<bool>()[2500] = true;
  EXPECT_THAT(EvaluateOnThreads(ReductionOf("All", x, {1})).as<bool>(), testing::ElementsAre(true, false, false));
  EXPECT_THAT(EvaluateOnThreads(ReductionOf("Any", x, {1})).as<bool>(), testing::ElementsAre(true, false, true));
  const auto result_of = [](const char* op, const Tensor& of, const std::vector<int32_t>& axes) { return (*Evaluate(ReductionOf(op, of, axes)))[0]; };
  for (int64_t count : {9, 30, 70, 200}) {
    for (int64_t at = 0; at < count; ++at) {  // one that differs, wherever it stands
      Tensor alone(DataType::kBool, Shape({2, count}));
      for (int64_t i = 0; i < count; ++i) alone.mutable_as<bool>()[i] = i != at;
      alone.mutable_as<bool>()[count + at] = true;
      ASSERT_THAT(result_of("All", alone, {1}).as<bool>(), testing::Each(false)) << at << " of " << count;
      ASSERT_THAT(result_of("Any", alone, {1}).as<bool>(), testing::Each(true)) << at << " of " << count;
      ASSERT_EQ(result_of("Any", alone, {0}).as<bool>()[at], true);
      ASSERT_EQ(result_of("All", alone, {0}).as<bool>()[at], false);
    }
  }
}

TEST(ReductionTest, KeptDimensionsAreOne) {
  const Tensor x = NumbersOf(DataType::kFloat, Shape({2, 3, 4}), 1);
  EXPECT_EQ(EvaluateOnThreads(ReductionOf("Sum", x, {-2}, true)).shape(), Shape({2, 1, 4}));
  EXPECT_EQ(EvaluateOnThreads(ReductionOf("Sum", x, {-2})).shape(), Shape({2, 4}));
}

TEST(ReductionTest, WrongAxesAreErrors) {
  const Tensor x = NumbersOf(DataType::kFloat, Shape({2, 3}), 1);
  EXPECT_THAT(Evaluate(ReductionOf("Sum", x, {2})).status().message(), testing::HasSubstr("axis 2 is out of range"));
  EXPECT_THAT(Evaluate(ReductionOf("Sum", x, {1, -1})).status().message(), testing::HasSubstr("twice"));
  NodeRun unknown = ReductionOf("Sum", x, {0});
  unknown.known = {};
  EXPECT_THAT(Evaluate(unknown).status().message(), testing::HasSubstr("must be known when the graph is planned"));
}

// 256 rows are 0 as a byte: TensorFlow divides by it and ends.
TEST(SegmentMeanTest, RefusesRowsThatTheElementsDoNotCount) {
  for (const int64_t rows : {255, 256, 257}) {
    const Tensor x = NumbersOf(DataType::kUint8, Shape({rows, 2}), 1), ids = Tensor::Vector<int32_t>(std::vector<int32_t>(rows, 0));
    const auto mean = Evaluate({"SegmentMean", {}, {x, ids}, {false, true}});
    if (rows != 256) {
      EXPECT_TRUE(mean.ok()) << mean.status();
    } else {
      EXPECT_THAT(mean.status().message(), testing::HasSubstr("segment 0 has 256 rows"));
    }
  }
}

// TensorFlow counts in memory that is not the histogram's.
TEST(HistogramTest, RefusesRangesWithoutAPlaceForAValue) {
  const auto counted = [](float value, float low, float high) {
    return Evaluate({"HistogramFixedWidth", {}, {Tensor::Vector<float>({value}), Tensor::Vector<float>({low, high}), Tensor::Scalar<int32_t>(3)},
                     {false, false, true}}).status();
  };
  constexpr float kEnd = std::numeric_limits<float>::infinity();
  EXPECT_THAT(counted(1, -kEnd, 5).message(), testing::HasSubstr("value_range should be finite, but got '[-inf, 5]' for the value 1"));
  EXPECT_THAT(counted(kEnd, 0, kEnd).message(), testing::HasSubstr("value_range should be finite"));
  EXPECT_THAT(counted(kNan, 0, 5).message(), testing::HasSubstr("must not contain NaN"));
  EXPECT_TRUE(counted(kEnd, 0, 5).ok());
  EXPECT_TRUE(counted(1, 0, kEnd).ok());
}

TEST(L2LossTest, IsHalfTheSumOfSquares) {
  const Tensor x = NumbersOf(DataType::kFloat, Shape({50, 4000}), 1);
  double squares = 0;
  for (int64_t i = 0; i < x.num_elements(); ++i) squares += x.DoubleAt(i) * x.DoubleAt(i);
  ExpectClose(EvaluateOnThreads({"L2Loss", {}, {x}}), {squares / 2}, 1e-6);
}

TEST(BiasAddGradTest, SumsOverAllButTheChannels) {
  const Tensor x = NumbersOf(DataType::kFloat, Shape({4, 30, 20, 6}), 1);
  ExpectClose(EvaluateOnThreads({"BiasAddGrad", {}, {x}}), Expected(x, {0, 1, 2}, FoldOf("Sum", x.dtype())), 1e-6);
  AttrMap nchw;
  nchw.Set("data_format", std::string("NCHW"));
  ExpectClose(EvaluateOnThreads({"BiasAddGrad", nchw, {x}}), Expected(x, {0, 2, 3}, FoldOf("Sum", x.dtype())), 1e-6);
}

}  // namespace
}  // namespace millrace::cpu
