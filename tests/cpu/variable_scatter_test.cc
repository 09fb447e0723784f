// Scatter ops and sparse optimizer updates: rows in the order of the indices, equal rows one after another.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>

#include "absl/strings/str_cat.h"
#include "kernel_testing.h"
#include "typed_values.h"
#include "variable_testing.h"

namespace millrace::cpu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Tensor Indices(const std::vector<int32_t>& values) { return Tensor::Vector<int32_t>(values); }

TEST(ScatterTest, EveryOperationJoinsRowsInOrder) {
  const std::vector<std::pair<std::string, std::function<double(double, double)>>> ops = {
      {"Update", [](double, double u) { return u; }},
      {"Add", std::plus<double>()},
      {"Sub", std::minus<double>()},
      {"Mul", std::multiplies<double>()},
      {"Div", [](double v, double u) { return v / u; }},
      {"Max", [](double v, double u) { return std::max(v, u); }},
      {"Min", [](double v, double u) { return std::min(v, u); }}};
  for (DataType dtype : {DataType::kFloat, DataType::kDouble, DataType::kHalf, DataType::kInt64}) {
    for (int64_t width : {1, 3, 700}) {
      const int64_t rows = 120, count = 300;
      const Tensor variable = NumbersOf(dtype, Shape({rows, width}), 1);
      std::vector<int64_t> at(count);
      for (int64_t i = 0; i < count; ++i) at[i] = i * 7 % 50;
      const Tensor indices = Tensor::Vector<int64_t>(at);
      Tensor updates = NumbersOf(dtype, Shape({count, width}), 2);
      updates = EvaluateOnThreads({"Maximum", {}, {updates, TensorOf(dtype, {1}, Shape())}});
      for (const auto& [name, join] : ops) {
        if (name == "Mul" || name == "Div") {
          if (dtype != DataType::kDouble) continue;  // products of so many values leave the other types
        }
        for (const char* prefix : {"Scatter", "ResourceScatter"}) {
          SCOPED_TRACE(absl::StrCat(prefix, name, " ", std::string(DataTypeName(dtype)), " ", width));
          std::vector<double> expected;
          for (int64_t i = 0; i < rows * width; ++i) expected.push_back(variable.DoubleAt(i));
          for (int64_t i = 0; i < count; ++i) {
            for (int64_t k = 0; k < width; ++k) {
              double& value = expected[at[i] * width + k];
              value = join(value, updates.DoubleAt(i * width + k));
            }
          }
          const Tensor got = InputsAfter(prefix + name, {}, {variable, indices, updates})[0];
          ExpectClose(got, expected, dtype == DataType::kHalf ? 2e-2 : 20 * Tolerance(dtype));
        }
      }
    }
  }
}

TEST(ScatterTest, ScalarUpdateGoesIntoEveryRow) {
  const Tensor variable = TensorOf(DataType::kFloat, {1, 2, 3, 4, 5, 6}, Shape({3, 2}));
  const Tensor scalar = TensorOf(DataType::kFloat, {10}, Shape());
  const Tensor added = InputsAfter("ScatterAdd", {}, {variable, Indices({2, 0, 2}), scalar})[0];
  EXPECT_THAT(added.as<float>(), ElementsAre(11, 12, 3, 4, 25, 26));
  const Tensor updated = InputsAfter("ResourceScatterUpdate", {}, {variable, Indices({1}), scalar})[0];
  EXPECT_THAT(updated.as<float>(), ElementsAre(1, 2, 10, 10, 5, 6));
}

TEST(ScatterTest, IndexOutOfRangeIsAnErrorAndChangesNothing) {
  for (const char* op : {"ScatterAdd", "ResourceScatterUpdate", "ScatterSub"}) {
    for (int32_t wrong : {3, -1}) {
      const Tensor variable = TensorOf(DataType::kFloat, {1, 2, 3});
      const auto result = Evaluate({op, {}, {variable, Indices({0, wrong}), TensorOf(DataType::kFloat, {5, 5})}});
      EXPECT_THAT(result.status().message(), HasSubstr(absl::StrCat("indices[1] = ", wrong, " is not in [0, 3)")));
      EXPECT_THAT(variable.as<float>(), ElementsAre(1, 2, 3));
    }
  }
}

TEST(ScatterTest, MisfitsAndDivisionByZeroAreErrors) {
  const Tensor variable = TensorOf(DataType::kInt32, {1, 2, 3, 4}, Shape({2, 2}));
  EXPECT_THAT(
      Evaluate({"ScatterAdd", {}, {variable, Indices({0}), TensorOf(DataType::kInt32, {1, 2, 3}, Shape({1, 3}))}})
          .status()
          .message(),
      HasSubstr("do not fit a variable int32[2,2]"));
  EXPECT_THAT(Evaluate({"ScatterDiv", {}, {variable, Indices({0}), TensorOf(DataType::kInt32, {0}, Shape())}})
                  .status()
                  .message(),
              HasSubstr("division by zero"));
}

TEST(SparseOptimizerTest, EveryRuleUpdatesRowsAsTheDenseOpOnRowsOfTheirOwn) {
  for (const RuleCase& rule : Rules()) {
    const OpDef* def = OpRegistry::Builtin().Find("ResourceSparseApply" + rule.name);
    if (def == nullptr) continue;
    for (DataType dtype : {DataType::kFloat, DataType::kHalf}) {
      for (int64_t width : {1, 5, 900}) {
        SCOPED_TRACE(absl::StrCat(rule.name, " ", rule.attr, " ", std::string(DataTypeName(dtype)), " ", width));
        const int64_t rows = 40;
        const std::vector<int32_t> at = {3, 17, 3, 0, 39, 17, 3};
        const std::vector<Tensor> slots = SlotsOf(rule, dtype, Shape({rows, width}));
        const Tensor gradient = NumbersOf(dtype, Shape({static_cast<int64_t>(at.size()), width}), 9);
        const Tensor indices = Indices(at);
        AttrMap attrs;
        if (!rule.attr.empty()) attrs.Set(rule.attr, rule.value);
        // One dense update after another on a copy of each row.
        std::vector<Tensor> expected = FreshCopies(slots);
        for (size_t i = 0; i < at.size(); ++i) {
          const auto slice = [&](const Tensor& tensor, int64_t row) {
            Tensor copy(dtype, Shape({width}));
            const int64_t bytes = width * DataTypeSize(dtype);
            std::memcpy(copy.mutable_data(), static_cast<const char*>(tensor.data()) + row * bytes, bytes);
            return copy;
          };
          std::vector<Tensor> row;
          for (const Tensor& slot : expected) row.push_back(slice(slot, at[i]));
          const std::vector<Tensor> inputs = UpdateInputs(rule, row, slice(gradient, static_cast<int64_t>(i)), nullptr);
          const std::vector<Tensor> after = InputsAfter("ResourceApply" + rule.name, attrs, inputs);
          const int64_t bytes = width * DataTypeSize(dtype);
          for (int k = 0; k < rule.slots; ++k) {
            std::memcpy(static_cast<char*>(expected[k].mutable_data()) + at[i] * bytes, after[k].data(), bytes);
          }
        }
        for (const char* prefix : {"ResourceSparseApply", "SparseApply"}) {
          if (!rule.reference && prefix[0] == 'S') continue;
          const std::vector<Tensor> after =
              InputsAfter(prefix + rule.name, attrs, UpdateInputs(rule, slots, gradient, &indices));
          for (int k = 0; k < rule.slots; ++k) EXPECT_TRUE(after[k].BitEqual(expected[k])) << "slot " << k;
        }
      }
    }
  }
}

TEST(SparseOptimizerTest, IndexOutOfRangeIsAnErrorAndChangesNothing) {
  const Tensor variable = TensorOf(DataType::kFloat, {1, 2}), accum = TensorOf(DataType::kFloat, {1, 1});
  const Tensor rate = TensorOf(DataType::kFloat, {0.1}, Shape());
  const auto result = Evaluate(
      {"ResourceSparseApplyAdagrad", {}, {variable, accum, rate, TensorOf(DataType::kFloat, {1, 1}), Indices({0, 2})}});
  EXPECT_THAT(result.status().message(), HasSubstr("indices[1] = 2"));
  EXPECT_THAT(variable.as<float>(), ElementsAre(1, 2));
}

}  // namespace
}  // namespace millrace::cpu
