#include "cli/feed_types.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/float16.h"
#include "graph/text.h"
#include "testlib/logged.h"

namespace millrace::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A placeholder "x" of the type.
Graph GraphOf(DataType dtype, const char* op = "Placeholder") {
  Graph graph;
  Node node;
  node.name = "x";
  node.op = op;
  node.attrs.Set("dtype", dtype);
  CHECK(graph.AddNode(std::move(node)).ok());
  return graph;
}

template <typename T>
Tensor TensorOf(DataType dtype, const std::vector<T>& values) {
  Tensor tensor(dtype, Shape({static_cast<int64_t>(values.size())}));
  std::copy(values.begin(), values.end(), static_cast<T*>(tensor.mutable_data()));
  return tensor;
}

absl::StatusOr<Tensor> Converted(DataType dtype, Tensor value, const char* name = "x") {
  Session::Feeds feeds = {{name, std::move(value)}};
  if (absl::Status status = ConvertFeeds(GraphOf(dtype), feeds); !status.ok()) return status;
  return feeds.begin()->second;
}

TEST(FeedTypesTest, FloatingTypesTakeAnyNumberRounded) {
  Logged warnings(google::GLOG_WARNING);
  const auto floats = Converted(DataType::kFloat, TensorOf<double>(DataType::kDouble, {0.1, -2, 1e300}), "x:0");
  ASSERT_TRUE(floats.ok()) << floats.status();
  EXPECT_EQ(floats->dtype(), DataType::kFloat);
  EXPECT_THAT(floats->as<float>(), ElementsAre(0.1f, -2.0f, std::numeric_limits<float>::infinity()));
  EXPECT_THAT(warnings.lines, ElementsAre(HasSubstr("feed x:0 is double[3] in the file, and is converted to float, 1 of its numbers become infinite")));
  const auto of_integers = Converted(DataType::kDouble, TensorOf<int64_t>(DataType::kInt64, {-3, int64_t{1} << 53}));
  ASSERT_TRUE(of_integers.ok());
  EXPECT_THAT(of_integers->as<double>(), ElementsAre(-3.0, 0x1p53));
  const auto halves = Converted(DataType::kHalf, TensorOf<float>(DataType::kFloat, {1.5f}));
  ASSERT_TRUE(halves.ok());
  EXPECT_EQ(*static_cast<const uint16_t*>(halves->data()), FloatToHalf(1.5f));
}

TEST(FeedTypesTest, DoublesAreRoundedToHalfOnce) {
  const auto bits = [](DataType dtype, const std::vector<double>& values) {
    const auto converted = Converted(dtype, TensorOf<double>(DataType::kDouble, values));
    EXPECT_TRUE(converted.ok()) << converted.status();
    const auto* data = static_cast<const uint16_t*>(converted->data());
    return std::vector<int>(data, data + converted->num_elements());
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT(bits(DataType::kHalf, {1 + 0x1p-11 + 0x1p-30, 1 + 0x1p-11, 65519.999999, 65520, -65519.999999, -1e-300, kInfinity, -1e300}),
              ElementsAre(15361, 15360, 31743, 31744, 64511, 32768, 31744, 64512));
  EXPECT_THAT(bits(DataType::kBfloat16, {1 + 0x1p-8 + 0x1p-30}), ElementsAre(0x3F80));  // as ml_dtypes: through float
}

TEST(FeedTypesTest, WhatIsInfiniteIsNotCountedAsTooLarge) {
  Logged warnings(google::GLOG_WARNING);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  ASSERT_TRUE(Converted(DataType::kHalf, TensorOf<double>(DataType::kDouble, {kInfinity, 1})).ok());
  ASSERT_TRUE(Converted(DataType::kHalf, TensorOf<double>(DataType::kDouble, {kInfinity, 65520, -1e300})).ok());
  EXPECT_THAT(warnings.lines, ElementsAre(testing::Not(HasSubstr("infinite")), HasSubstr(", 2 of its numbers become infinite")));
}

TEST(FeedTypesTest, IntegersTakeWhatTheyHold) {
  const auto labels = Converted(DataType::kInt32, TensorOf<int64_t>(DataType::kInt64, {7, -2147483648LL}));
  ASSERT_TRUE(labels.ok()) << labels.status();
  EXPECT_THAT(labels->as<int32_t>(), ElementsAre(7, std::numeric_limits<int32_t>::min()));
  const auto wide = Converted(DataType::kUint64, TensorOf<int64_t>(DataType::kInt64, {std::numeric_limits<int64_t>::max()}));
  ASSERT_TRUE(wide.ok());
  EXPECT_EQ(*static_cast<const uint64_t*>(wide->data()), uint64_t{0x7FFFFFFFFFFFFFFF});
  const auto mask = Converted(DataType::kBool, TensorOf<float>(DataType::kFloat, {0, 1}));
  ASSERT_TRUE(mask.ok());
  EXPECT_THAT(mask->as<bool>(), ElementsAre(false, true));
}

TEST(FeedTypesTest, WhatDoesNotFitIsNamed) {
  EXPECT_THAT(Converted(DataType::kInt32, TensorOf<double>(DataType::kDouble, {1, 1.5})).status().message(),
              HasSubstr("feed x is double[2] in the file, expected int32[2]: element 1 is 1.5, which int32 does not hold"));
  EXPECT_FALSE(Converted(DataType::kInt32, TensorOf<int64_t>(DataType::kInt64, {int64_t{1} << 31})).ok());
  EXPECT_FALSE(Converted(DataType::kUint8, TensorOf<int32_t>(DataType::kInt32, {-1})).ok());
  EXPECT_FALSE(Converted(DataType::kBool, TensorOf<int32_t>(DataType::kInt32, {2})).ok());
  EXPECT_FALSE(Converted(DataType::kInt64, TensorOf<float>(DataType::kFloat, {std::numeric_limits<float>::quiet_NaN()})).ok());
  EXPECT_FALSE(Converted(DataType::kInt64, TensorOf<float>(DataType::kFloat, {0x1p63f})).ok());
}

TEST(FeedTypesTest, OtherFeedsStay) {
  Logged warnings(google::GLOG_WARNING);
  const Tensor numbers = TensorOf<float>(DataType::kFloat, {1});
  EXPECT_EQ(Converted(DataType::kFloat, numbers)->data(), numbers.data());
  EXPECT_EQ(Converted(DataType::kComplex64, numbers)->dtype(), DataType::kFloat);
  EXPECT_EQ(Converted(DataType::kDouble, numbers, "no_such_node")->dtype(), DataType::kFloat);
  Session::Feeds feeds = {{"x", numbers}};
  ASSERT_TRUE(ConvertFeeds(GraphOf(DataType::kDouble, "Relu"), feeds).ok());
  EXPECT_EQ(feeds["x"].dtype(), DataType::kFloat);
  ASSERT_TRUE(ConvertFeeds(GraphOf(DataType::kDouble, "PlaceholderWithDefault"), feeds).ok());
  EXPECT_EQ(feeds["x"].dtype(), DataType::kDouble);
  EXPECT_EQ(warnings.lines.size(), 1u);
  feeds["x"] = numbers;
  ASSERT_TRUE(ConvertFeeds(GraphOf(DataType::kDouble, "PlaceholderV2"), feeds).ok());
  EXPECT_EQ(feeds["x"].dtype(), DataType::kDouble);
}

// Bytes and where their strings begin, for a placeholder "x".
absl::StatusOr<Session::Feeds> Joined(DataType dtype, const Shape& shape, const std::vector<int64_t>& splits, const char* op = "Placeholder") {
  Graph graph = GraphOf(dtype, op);
  graph.mutable_node(graph.Find("x")).attrs.Set("shape", shape);
  Session::Feeds feeds = {{"x", TensorOf<uint8_t>(DataType::kUint8, {'a', 0, 'b', 0, 0})}, {"x/row_splits", TensorOf<int64_t>(DataType::kInt64, splits)}};
  if (absl::Status status = JoinByteStrings(graph, feeds); !status.ok()) return status;
  return feeds;
}

TEST(FeedTypesTest, BytesWithRowSplitsAreStringsAndKeepTheirNuls) {
  const auto feeds = Joined(DataType::kString, Shape({-1}), {0, 2, 2, 5});
  ASSERT_TRUE(feeds.ok()) << feeds.status();
  ASSERT_EQ(feeds->size(), 1);
  EXPECT_THAT(feeds->at("x").strings(), ElementsAre(std::string("a\0", 2), "", std::string("b\0\0", 3)));
  const auto square = Joined(DataType::kString, Shape({2, 1}), {0, 2, 5});
  ASSERT_TRUE(square.ok()) << square.status();
  EXPECT_EQ(square->at("x").shape(), Shape({2, 1}));
  EXPECT_EQ(Joined(DataType::kUint8, Shape({5}), {0, 2, 5})->size(), 2) << "numbers are fed as they are";
}

TEST(FeedTypesTest, StringsOfBytesHaveTheDeclaredShape) {
  const auto shape = [](const Shape& declared, const std::vector<int64_t>& splits, const char* op = "Placeholder") {
    const auto feeds = Joined(DataType::kString, declared, splits, op);
    return feeds.ok() ? feeds->at("x").type().ToString() : std::string(feeds.status().message());
  };
  EXPECT_EQ(shape(Shape(), {0, 5}), "string[]");
  EXPECT_EQ(shape(Shape(), {0, 2, 5}), "string[2]") << "what old producers leave for unknown";
  EXPECT_EQ(shape(Shape::UnknownRank(), {0, 5}), "string[1]");
  EXPECT_EQ(shape(Shape({-1, 2}), {0, 1, 2, 3, 5}), "string[2,2]");
  EXPECT_EQ(shape(Shape({2, -1, 1}), {0, 2, 5}), "string[2,1,1]");
  EXPECT_EQ(shape(Shape({-1, -1}), {0, 2, 5}), "string[2]");
  EXPECT_EQ(shape(Shape({2, 1}), {0, 2, 5}, "PlaceholderWithDefault"), "string[2,1]");
  EXPECT_EQ(shape(Shape({2, 1}), {0, 2, 5}, "PlaceholderV2"), "string[2,1]");
}

TEST(FeedTypesTest, RowSplitsThatAreAnInputStayOne) {
  Graph graph = GraphOf(DataType::kString);
  Node splits;
  splits.name = "x/row_splits";
  splits.op = "Placeholder";
  splits.attrs.Set("dtype", DataType::kInt64);
  ASSERT_TRUE(graph.AddNode(std::move(splits)).ok());
  Session::Feeds feeds = {{"x", TensorOf<uint8_t>(DataType::kUint8, {'a', 'b'})}, {"x/row_splits", TensorOf<int64_t>(DataType::kInt64, {0, 2})}};
  ASSERT_TRUE(JoinByteStrings(graph, feeds).ok());
  ASSERT_EQ(feeds.size(), 2);
  EXPECT_THAT(feeds["x"].strings(), ElementsAre("ab"));
  EXPECT_EQ(feeds["x/row_splits"].num_elements(), 2);
}

TEST(FeedTypesTest, RowSplitsThatAreNoneOfTheBytesAreRefused) {
  const auto refusal = [](const Shape& shape, const std::vector<int64_t>& splits) {
    return std::string(Joined(DataType::kString, shape, splits).status().message());
  };
  EXPECT_THAT(refusal(Shape({-1}), {0, 3}), HasSubstr("feed x/row_splits is int64[2], expected numbers from 0 up to 5"));
  EXPECT_THAT(refusal(Shape({-1}), {0, 9, 5}), HasSubstr("number 1 is 9"));
  EXPECT_THAT(refusal(Shape({-1}), {0, 3, 2, 5}), HasSubstr("number 2 is 2"));
  EXPECT_THAT(refusal(Shape({-1}), {1, 5}), HasSubstr("number 0 is 1"));
  EXPECT_THAT(refusal(Shape({-1}), {}), HasSubstr("one more than strings"));
  EXPECT_THAT(refusal(Shape({3}), {0, 2, 5}), HasSubstr("4 numbers for string[3]"));
  EXPECT_THAT(refusal(Shape({-1, 2}), {0, 1, 2, 5}), HasSubstr("one number more than strings, which fill whole rows, for string[?,2]"));
  EXPECT_THAT(refusal(Shape({-1, 0}), {0, 5}), HasSubstr("for string[?,0]"));
}

}  // namespace
}  // namespace millrace::cli
