// Variables and optimizer updates against their formulas in double.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernel_testing.h"
#include "typed_values.h"
#include "variable_testing.h"

namespace millrace::cpu {
namespace {

TEST(AssignTest, CopiesAddsAndSubtracts) {
  for (DataType dtype : {DataType::kFloat, DataType::kInt64, DataType::kHalf, DataType::kBool}) {
    const Tensor variable = TensorOf(dtype, {0, 1, 1, 0}), value = TensorOf(dtype, {1, 0, 1, 0});
    for (const char* op : {"Assign", "AssignVariableOp"}) {
      EXPECT_TRUE(InputsAfter(op, {}, {variable, value})[0].BitEqual(value)) << op;
    }
  }
  const Tensor variable = NumbersOf(DataType::kFloat, Shape({70001}), 1);
  const Tensor value = NumbersOf(DataType::kFloat, Shape({70001}), 2);
  for (const char* op : {"AssignAdd", "AssignAddVariableOp"}) {
    EXPECT_EQ(InputsAfter(op, {}, {variable, value})[0].DoubleAt(70000),
              variable.DoubleAt(70000) + value.DoubleAt(70000));
  }
  for (const char* op : {"AssignSub", "AssignSubVariableOp"}) {
    EXPECT_EQ(InputsAfter(op, {}, {variable, value})[0].DoubleAt(70000),
              variable.DoubleAt(70000) - value.DoubleAt(70000));
  }
}

TEST(AssignTest, ReferenceFormsReturnTheVariable) {
  std::vector<Tensor> inputs = {TensorOf(DataType::kFloat, {1, 2}), TensorOf(DataType::kFloat, {3, 4})};
  const auto outputs = Evaluate({"AssignAdd", {}, inputs});
  ASSERT_TRUE(outputs.ok());
  EXPECT_EQ((*outputs)[0].data(), inputs[0].data());
}

TEST(AssignTest, ValueThatDoesNotFitIsAnError) {
  for (const char* op : {"Assign", "AssignVariableOp", "AssignSub"}) {
    const auto result = Evaluate({op, {}, {TensorOf(DataType::kFloat, {1, 2}), TensorOf(DataType::kFloat, {3})}});
    EXPECT_THAT(result.status().message(), testing::HasSubstr("assigns float[1] to a variable of float[2]")) << op;
  }
}

TEST(VariableTest, DeclarationSaysItsType) {
  AttrMap attrs;
  attrs.Set("dtype", DataType::kFloat);
  attrs.Set("shape", Shape({2, 3}));
  for (const char* op : {"VariableV2", "VarHandleOp", "Variable"}) {
    const auto instance = Infer({op, attrs, {}});
    ASSERT_TRUE(instance.ok()) << instance.status();
    EXPECT_EQ(instance->outputs[0].ToString(), "float[2,3]");
  }
}

TEST(VariableTest, PresenceAndShapeAreAnswered) {
  const Tensor variable = NumbersOf(DataType::kFloat, Shape({2, 3}), 1);
  EXPECT_TRUE(EvaluateOnThreads({"VarIsInitializedOp", {}, {variable}}).as<bool>()[0]);
  EXPECT_TRUE(EvaluateOnThreads({"IsVariableInitialized", {}, {variable}}).as<bool>()[0]);
  EXPECT_THAT(EvaluateOnThreads({"VariableShape", {}, {variable}}).as<int32_t>(), testing::ElementsAre(2, 3));
}

TEST(OptimizerTest, EveryRuleAgreesWithItsFormula) {
  for (const RuleCase& rule : Rules()) {
    for (DataType dtype : {DataType::kFloat, DataType::kDouble, DataType::kHalf}) {
      SCOPED_TRACE(absl::StrCat(rule.name, " ", rule.attr, " ", std::string(DataTypeName(dtype))));
      const Shape shape({3, 6007});
      const Tensor gradient = NumbersOf(dtype, shape, 1);
      const std::vector<Tensor> inputs = UpdateInputs(rule, SlotsOf(rule, dtype, shape), gradient, nullptr);
      AttrMap attrs;
      if (!rule.attr.empty()) attrs.Set(rule.attr, rule.value);
      std::vector<std::vector<double>> expected(rule.slots);
      for (int64_t i = 0; i < gradient.num_elements(); ++i) {
        std::vector<double> s, c;
        for (int k = 0; k < rule.slots; ++k) s.push_back(inputs[k].DoubleAt(i));
        for (size_t k = rule.slots; k < inputs.size(); ++k) {
          if (static_cast<int>(k) != rule.gradient) c.push_back(inputs[k].DoubleAt(0));
        }
        rule.step(s, gradient.DoubleAt(i), c);
        for (int k = 0; k < rule.slots; ++k) expected[k].push_back(s[k]);
      }
      for (const char* prefix : {"ResourceApply", "Apply"}) {
        if (!rule.reference && prefix[0] == 'A') continue;
        const std::vector<Tensor> after = InputsAfter(absl::StrCat(prefix, rule.name), attrs, inputs);
        for (int k = 0; k < rule.slots; ++k) ExpectClose(after[k], expected[k], 4 * Tolerance(dtype));
      }
    }
  }
}

// Elements [begin, end) of a vector.
Tensor PartOf(const Tensor& vector, int64_t begin, int64_t end) {
  Tensor part(vector.dtype(), Shape({end - begin}));
  std::memcpy(part.mutable_data(), static_cast<const char*>(vector.data()) + begin * DataTypeSize(vector.dtype()), part.size_bytes());
  return part;
}

// What a pass relies on that updates a variable part by part.
TEST(OptimizerTest, PartsGetTheBitsOfTheWhole) {
  for (const RuleCase& rule : Rules()) {
    for (DataType dtype : {DataType::kFloat, DataType::kDouble, DataType::kHalf, DataType::kBfloat16}) {
      SCOPED_TRACE(absl::StrCat(rule.name, " ", std::string(DataTypeName(dtype))));
      constexpr int64_t kElements = 5003, kCut = 1024;
      const Shape shape({kElements});
      const std::vector<Tensor> inputs =
          UpdateInputs(rule, SlotsOf(rule, dtype, shape), NumbersOf(dtype, shape, 1), nullptr);
      AttrMap attrs;
      if (!rule.attr.empty()) attrs.Set(rule.attr, rule.value);
      const std::string op = absl::StrCat("ResourceApply", rule.name);
      const std::vector<Tensor> whole = InputsAfter(op, attrs, inputs);
      for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, kCut}, {kCut, kElements}}) {
        std::vector<Tensor> parts;
        for (const Tensor& input : inputs) {
          parts.push_back(input.num_elements() == kElements ? PartOf(input, begin, end) : input);
        }
        const std::vector<Tensor> after = InputsAfter(op, attrs, parts);
        for (int k = 0; k < rule.slots; ++k) EXPECT_TRUE(after[k].BitEqual(PartOf(whole[k], begin, end))) << k;
      }
    }
  }
}

TEST(OptimizerTest, AStepTowardsAValueHasTheBitsOfItsOps) {
  const Tensor rate = TensorOf(DataType::kFloat, {0.01}, Shape()), wide_rate = TensorOf(DataType::kDouble, {0.01}, Shape());
  for (DataType dtype : {DataType::kFloat, DataType::kDouble}) {
    const Shape shape({5003});
    const Tensor variable = NumbersOf(dtype, shape, 1), value = NumbersOf(dtype, shape, 2);
    const Tensor& part = dtype == DataType::kFloat ? rate : wide_rate;
    const Tensor difference = Evaluate({"Sub", {}, {variable, value}}).value()[0];
    const Tensor step = Evaluate({"Mul", {}, {difference, part}}).value()[0];
    const std::vector<Tensor> apart = InputsAfter("AssignSubVariableOp", {}, {variable, step});
    const std::vector<Tensor> at_once = InputsAfter("_AssignMovingAverage", {}, {variable, part, value});
    EXPECT_FALSE(at_once[0].BitEqual(variable));
    EXPECT_TRUE(at_once[0].BitEqual(apart[0])) << DataTypeName(dtype);
  }
}

TEST(OptimizerTest, WrongShapesAreErrors) {
  const Tensor two = TensorOf(DataType::kFloat, {1, 2}), three = TensorOf(DataType::kFloat, {1, 2, 3});
  const Tensor rate = TensorOf(DataType::kFloat, {0.1}, Shape());
  EXPECT_THAT(Evaluate({"ApplyGradientDescent", {}, {two, rate, three}}).status().message(),
              testing::HasSubstr("input 2 is float[3], expected the shape of the variable, float[2]"));
  EXPECT_THAT(Evaluate({"ApplyGradientDescent", {}, {two, two, two}}).status().message(),
              testing::HasSubstr("expected a scalar"));
}

}  // namespace
}  // namespace millrace::cpu
