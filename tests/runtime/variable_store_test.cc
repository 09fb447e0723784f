#include "runtime/variable_store.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace {
namespace {

using ::testing::HasSubstr;

TEST(VariableStoreTest, DeclaringAgainWithAnotherTypeNamesBoth) {
  HostMemory memory;
  VariableStore store(&memory);
  ASSERT_TRUE(store.Declare("w", {DataType::kFloat, Shape({2, 3})}).ok());
  EXPECT_TRUE(store.Declare("w", {DataType::kFloat, Shape({2, 3})}).ok());
  EXPECT_THAT(store.Declare("w", {DataType::kFloat, Shape({6})}).status().ToString(),
              HasSubstr("variable 'w' is float[2,3]; this graph declares it as float[6]"));
  EXPECT_THAT(store.Set("w", Tensor::Scalar<float>(1)).ToString(), HasSubstr("the value given is float[]"));
  EXPECT_FALSE(store.Declare("s", {DataType::kString, Shape({})}).ok());
  EXPECT_FALSE(store.Declare("u", {DataType::kFloat, Shape({-1})}).ok());
}

TEST(VariableStoreTest, AValueOfAnyTypeIsTakenUntilAProgramUsesTheVariable) {
  HostMemory memory;
  VariableStore store(&memory);
  ASSERT_TRUE(store.Set("w", Tensor::Vector<double>({1, 2, 3})).ok());
  ASSERT_TRUE(store.Set("w", Tensor::Vector<float>({4, 5})).ok());
  EXPECT_EQ(store.Read()->at("w").as<float>()[1], 5);
  ASSERT_TRUE(store.Declare("w", {DataType::kFloat, Shape({2})}).ok());
  EXPECT_FALSE(store.Set("w", Tensor::Vector<double>({1, 2, 3})).ok());
  EXPECT_EQ(store.Read()->at("w").as<float>()[1], 5);
}

TEST(VariableStoreTest, ValuesOfOtherTypesTakeTheHomeThatIsThere) {
  HostMemory memory;
  VariableStore store(&memory);
  ASSERT_TRUE(store.Set("w", Tensor(DataType::kFloat, Shape({1000}))).ok());
  const int64_t bytes = memory.home_bytes();
  const void* const home = store.Find("w")->home;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(store.Set("w", Tensor::Vector<double>({1, 2, 3})).ok());
    EXPECT_EQ(store.Read()->at("w").as<double>()[2], 3);
    ASSERT_TRUE(store.Set("w", Tensor(DataType::kFloat, Shape({1000}))).ok());
    EXPECT_EQ(store.Find("w")->home, home);
  }
  EXPECT_EQ(memory.home_bytes(), bytes);
  Tensor words(DataType::kString, Shape({1}));
  EXPECT_FALSE(store.Set("w", words).ok());
  EXPECT_EQ(store.Read()->at("w").num_elements(), 1000);
}

TEST(VariableStoreTest, MoreThanAnyMachineHasIsRefused) {
  HostMemory memory;
  VariableStore store(&memory);
  EXPECT_TRUE(absl::IsResourceExhausted(store.StateBlock("random", std::numeric_limits<int64_t>::max()).status()));
  EXPECT_TRUE(store.StateBlock("random", 8).ok());
}

TEST(VariableStoreTest, ReadGivesCopiesOfInitialisedVariablesOnly) {
  HostMemory memory;
  VariableStore store(&memory);
  ASSERT_TRUE(store.Declare("unset", {DataType::kFloat, Shape({2})}).ok());
  ASSERT_TRUE(store.Set("w", Tensor::Vector<float>({1, 2})).ok());
  auto values = store.Read();
  ASSERT_TRUE(values.ok());
  ASSERT_EQ(values->size(), 1u);
  values->at("w").mutable_as<float>()[0] = 7;
  EXPECT_EQ(store.Read()->at("w").as<float>()[0], 1);
}

TEST(VariableStoreTest, StateBlocksAreZeroAtFirstAndBelongToTheirNode) {
  HostMemory memory;
  VariableStore store(&memory);
  auto block = store.StateBlock("random", 16);
  ASSERT_TRUE(block.ok());
  EXPECT_EQ(static_cast<int64_t*>(*block)[1], 0);
  static_cast<int64_t*>(*block)[1] = 5;
  EXPECT_EQ(*store.StateBlock("random", 16), *block);
  EXPECT_NE(*store.StateBlock("other", 16), *block);
  EXPECT_FALSE(store.StateBlock("random", 8).ok());
}

TEST(VariableStoreTest, AStateThatWasSetWrongMaySetAgainUntilAPlanHasIt) {
  HostMemory memory;
  VariableStore store(&memory);
  const auto state = [](int64_t bytes) { return Tensor(DataType::kUint8, Shape({bytes})); };
  ASSERT_TRUE(store.SetState("random", state(3)).ok());
  EXPECT_FALSE(store.StateBlock("random", 8).ok());
  ASSERT_TRUE(store.SetState("random", state(8)).ok());
  EXPECT_TRUE(store.StateBlock("random", 8).ok());
  EXPECT_THAT(store.SetState("random", state(3)).ToString(), HasSubstr("node 'random' keeps 8 bytes of state, given are 3"));
  EXPECT_EQ(store.ReadStates().at("random").size_bytes(), 8);
}

TEST(VariableStoreTest, EmptyVariablesWork) {
  HostMemory memory;
  VariableStore store(&memory);
  ASSERT_TRUE(store.Set("empty", Tensor(DataType::kFloat, Shape({0, 4}))).ok());
  EXPECT_EQ(store.Read()->at("empty").num_elements(), 0);
}

}  // namespace
}  // namespace millrace
