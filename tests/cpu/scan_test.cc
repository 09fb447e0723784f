// ArgMax, ArgMin, Cumsum, Cumprod, Bucketize.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "kernel_testing.h"
#include "typed_values.h"

namespace millrace::cpu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

NodeRun AlongAxis(const std::string& op, const Tensor& x, int32_t axis, AttrMap attrs = {}) {
  return {op, std::move(attrs), {x, Tensor::Scalar<int32_t>(axis)}, {false, true}};
}

TEST(ArgReductionTest, EveryTypeAndAxisAgrees) {
  for (DataType dtype : kNumberTypes) {
    const Tensor x = NumbersOf(dtype, Shape({6, 70, 50}), 1);
    for (int axis = 0; axis < 3; ++axis) {
      for (const char* op : {"ArgMax", "ArgMin"}) {
        SCOPED_TRACE(absl::StrCat(op, " ", std::string(DataTypeName(dtype)), " axis ", axis));
        const double sign = op[3] == 'M' && op[4] == 'a' ? 1 : -1;
        int64_t outer = 1, inner = 1;
        for (int d = 0; d < 3; ++d) (d < axis ? outer : inner) *= d == axis ? 1 : x.shape().dim(d);
        const int64_t length = x.shape().dim(axis);
        const Tensor got = EvaluateOnThreads(AlongAxis(op, x, axis - 3));
        ASSERT_EQ(got.num_elements(), outer * inner);
        for (int64_t i = 0; i < outer * inner; ++i) {
          int64_t best = 0;
          const auto at = [&](int64_t k) { return sign * x.DoubleAt((i / inner * length + k) * inner + i % inner); };
          for (int64_t k = 1; k < length; ++k) best = at(k) > at(best) ? k : best;
          ASSERT_EQ(got.as<int64_t>()[i], best) << i;
        }
      }
    }
  }
}

TEST(ArgReductionTest, FirstOfEqualsWinsAndNanNever) {
  const Tensor x = TensorOf(DataType::kFloat, {2, 2, 1, kNan, 1, 2}, Shape({2, 3}));
  EXPECT_THAT(EvaluateOnThreads(AlongAxis("ArgMax", x, 1)).as<int64_t>(), ElementsAre(0, 2));
  EXPECT_THAT(EvaluateOnThreads(AlongAxis("ArgMin", x, 1)).as<int64_t>(), ElementsAre(2, 1));
  AttrMap attrs;
  attrs.Set("output_type", DataType::kInt32);
  EXPECT_THAT(EvaluateOnThreads(AlongAxis("ArgMax", x, 1, attrs)).as<int32_t>(), ElementsAre(0, 2));
}

// Rows side by side: in blocks, and fewer behind them. The first of the best is taken, never a NaN, and 0 of NaNs alone.
TEST(ArgReductionTest, ShortRowsAgree) {
  for (DataType dtype : {DataType::kFloat, DataType::kHalf, DataType::kBfloat16, DataType::kInt8}) {
    for (int64_t length : {1, 2, 10, 63}) {
      const Tensor numbers = NumbersOf(dtype, Shape({201, length}), 3);
      std::vector<double> values(numbers.num_elements());
      for (int64_t i = 0; i < numbers.num_elements(); ++i) values[i] = numbers.DoubleAt(i);
      for (int64_t row = 0; row < 201 && !IsInteger(dtype); row += 7) values[row * length] = kNan;
      if (!IsInteger(dtype)) std::fill_n(values.begin() + 3 * length, length, kNan);
      const Tensor x = TensorOf(dtype, values, numbers.shape());
      for (const char* op : {"ArgMax", "ArgMin"}) {
        const bool least = std::string(op) == "ArgMin";
        const Tensor got = EvaluateOnThreads(AlongAxis(op, x, 1));
        for (int64_t row = 0; row < 201; ++row) {
          const double* const of_row = &values[row * length];
          int64_t best = -1;
          for (int64_t k = 0; k < length; ++k) {
            const bool better = best < 0 || (least ? of_row[k] < of_row[best] : of_row[k] > of_row[best]);
            if (!std::isnan(of_row[k]) && better) best = k;
          }
          ASSERT_EQ(got.as<int64_t>()[row], std::max<int64_t>(best, 0)) << op << " of " << x.type().ToString() << ", row " << row;
        }
      }
    }
  }
}

TEST(ArgReductionTest, EmptyAxisIsAnError) {
  const Tensor x(DataType::kFloat, Shape({2, 0}));
  EXPECT_THAT(Evaluate(AlongAxis("ArgMax", x, 1)).status().message(), HasSubstr("axis 1 is empty in shape [2,0]"));
  EXPECT_EQ(EvaluateOnThreads(AlongAxis("ArgMax", x, 0)).num_elements(), 0);
}

TEST(CumulativeTest, EveryAxisAndAttributeAgrees) {
  const Tensor x = NumbersOf(DataType::kFloat, Shape({5, 40, 300}), 1);
  for (int axis = 0; axis < 3; ++axis) {
    for (bool exclusive : {false, true}) {
      for (bool reverse : {false, true}) {
        SCOPED_TRACE(absl::StrCat("axis ", axis, exclusive ? " exclusive" : "", reverse ? " reverse" : ""));
        AttrMap attrs;
        attrs.Set("exclusive", exclusive);
        attrs.Set("reverse", reverse);
        int64_t inner = 1;
        for (int d = axis + 1; d < 3; ++d) inner *= x.shape().dim(d);
        const int64_t length = x.shape().dim(axis);
        std::vector<double> expected(x.num_elements());
        for (int64_t start = 0; start < x.num_elements(); ++start) {
          if (start / inner % length != 0) continue;
          double total = 0;
          for (int64_t k = 0; k < length; ++k) {
            const int64_t i = start + (reverse ? length - 1 - k : k) * inner;
            expected[i] = exclusive ? total : total + x.DoubleAt(i);
            total += x.DoubleAt(i);
          }
        }
        ExpectClose(EvaluateOnThreads(AlongAxis("Cumsum", x, axis, attrs)), expected, 1e-6);
      }
    }
  }
}

TEST(CumulativeTest, EveryTypeAgrees) {
  for (DataType dtype : kNumberTypes) {
    const Tensor x = TensorOf(dtype, {1, 2, 3, 4, 1});
    ExpectClose(EvaluateOnThreads(AlongAxis("Cumsum", x, 0)), {1, 3, 6, 10, 11}, 0);
    ExpectClose(EvaluateOnThreads(AlongAxis("Cumprod", x, 0)), {1, 2, 6, 24, 24}, 0);
    AttrMap attrs;
    attrs.Set("exclusive", true);
    ExpectClose(EvaluateOnThreads(AlongAxis("Cumprod", x, -1, attrs)), {1, 1, 2, 6, 24}, 0);
  }
}

TEST(BucketizeTest, BoundaryBelongsToTheBucketAbove) {
  AttrMap attrs;
  attrs.Set("boundaries", std::vector<float>{1, 2, 3});
  for (DataType dtype : {DataType::kFloat, DataType::kDouble}) {
    const Tensor x = TensorOf(dtype, {-5, 1, 2, 2.5, 10, kNan});
    EXPECT_THAT(EvaluateOnThreads({"Bucketize", attrs, {x}}).as<int32_t>(), ElementsAre(0, 1, 2, 2, 3, 3));
  }
  EXPECT_THAT(EvaluateOnThreads({"Bucketize", attrs, {TensorOf(DataType::kInt64, {0, 3})}}).as<int32_t>(),
              ElementsAre(0, 3));
}

}  // namespace
}  // namespace millrace::cpu
