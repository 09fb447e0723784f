// Operators on strings. The values are onnxruntime's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "model_maker.h"

namespace millrace::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using onnx_proto::AttributeProto;
using onnx_proto::TensorProto;

Tensor Texts(Shape shape, std::vector<std::string> texts) {
  Tensor tensor(DataType::kString, std::move(shape));
  std::copy(texts.begin(), texts.end(), tensor.mutable_strings().begin());
  return tensor;
}

AttributeProto& AddTo(onnx_proto::NodeProto& node, const std::string& name, AttributeProto::AttributeType type) {
  AttributeProto* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(type);
  return *attribute;
}

void SetOption(onnx_proto::NodeProto& node, const std::string& name, const std::string& value) {
  AddTo(node, name, AttributeProto::STRING).set_s(value);
}

onnx_proto::NodeProto& Reader(ModelMaker& maker, const std::string& op, std::vector<int64_t> dims, int type = TensorProto::STRING) {
  return maker.Input("x", std::move(dims), type).Output("y").Node(op, {"x"}, {"y"});
}

TEST(OnnxStrings, AreJoinedAndMatched) {
  ModelMaker join(20);
  join.Input("x", {2, 1}, TensorProto::STRING).Input("z", {2}, TensorProto::STRING).Output("y").Node("StringConcat", {"x", "z"}, {"y"});
  absl::StatusOr<Arrays> result = RunOnce(join.bytes(), {{"x", Texts({2, 1}, {"a", "b"})}, {"z", Texts({2}, {"c", ""})}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("y").strings(), ElementsAre("ac", "a", "bc", "b"));

  ModelMaker match(20);
  SetOption(Reader(match, "RegexFullMatch", {3}), "pattern", "a+b?");
  result = RunOnce(match.bytes(), {{"x", Texts({3}, {"aab", "abc", "a"})}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("y").as<bool>(), ElementsAre(true, false, true));
}

TEST(OnnxStrings, PatternsAreNeeded) {
  ModelMaker maker(20);
  Reader(maker, "RegexFullMatch", {3});
  EXPECT_THAT(maker.Import().status().message(), HasSubstr("pattern is missing"));
}

// What operators on strings make of constants is known ahead, too.
TEST(OnnxStrings, GoThroughSeveralOperators) {
  ModelMaker maker(20);
  maker.Input("x", {2}, TensorProto::STRING).Input("z", {2}, TensorProto::STRING);
  maker.Output("y").Output("match").Node("StringConcat", {"x", "z"}, {"xz"});
  maker.Node("Concat", {"xz", "x"}, {"all"});
  SetInt(*maker.graph().mutable_node(1), "axis", 0);
  SetOption(maker.Node("RegexFullMatch", {"xz"}, {"match"}), "pattern", "a.");
  SetOption(maker.Node("StringNormalizer", {"all"}, {"y"}), "case_change_action", "UPPER");
  const absl::StatusOr<Arrays> result = RunOnce(maker.bytes(), {{"x", Texts({2}, {"a", "b"})}, {"z", Texts({2}, {"c", "c"})}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("match").as<bool>(), ElementsAre(true, false));
  EXPECT_THAT(result->at("y").strings(), ElementsAre("AC", "BC", "A", "B"));
}

// Each of these doubles the text: what is long is not computed ahead.
TEST(OnnxStrings, LongOnesAreNotComputedAhead) {
  ModelMaker maker(20);
  maker.Output("y");
  TensorProto& text = *maker.graph().add_initializer();
  text.set_name("s0");
  text.set_data_type(TensorProto::STRING);
  text.add_dims(1);
  text.add_string_data("0123456789");
  for (int i = 0; i < 40; ++i) {
    const std::string from = "s" + std::to_string(i);
    maker.Node("StringConcat", {from, from}, {"s" + std::to_string(i + 1)});
  }
  maker.Node("StringNormalizer", {"s40"}, {"y"});
  EXPECT_THAT(maker.Import().status().message(), HasSubstr("whose results exceed 64 KiB, which are not computed ahead"));
}

TEST(OnnxStrings, ChangeCasePastZeroBytes) {
  ModelMaker maker(20);
  SetOption(Reader(maker, "StringNormalizer", {2}), "case_change_action", "UPPER");
  const std::string zero(1, '\0');
  const absl::StatusOr<Arrays> result = RunOnce(maker.bytes(), {{"x", Texts({2}, {"a" + zero + "b" + zero, ""})}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("y").strings(), ElementsAre("A" + zero + "B" + zero, ""));
}

TEST(OnnxStrings, LoseWordsThatStop) {
  const auto normalizer = [](bool case_sensitive) {
    ModelMaker maker(20);
    onnx_proto::NodeProto& node = Reader(maker, "StringNormalizer", {1, 3});
    SetOption(node, "case_change_action", "UPPER");
    SetInt(node, "is_case_sensitive", case_sensitive ? 1 : 0);
    AddTo(node, "stopwords", AttributeProto::STRINGS).add_strings("monday");
    return maker.bytes();
  };
  const Arrays feeds = {{"x", Texts({1, 3}, {"Monday", "\u00e4pfel", "monday"})}};
  absl::StatusOr<Arrays> result = RunOnce(normalizer(true), feeds);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("y").strings(), ElementsAre("MONDAY", "\u00c4PFEL"));
  result = RunOnce(normalizer(false), feeds);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->at("y").shape(), Shape({1, 1}));
  EXPECT_THAT(result->at("y").strings(), ElementsAre("\u00c4PFEL"));
  result = RunOnce(normalizer(false), {{"x", Texts({1, 3}, {"monday", "Monday", "MONDAY"})}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("y").strings(), ElementsAre("")) << "where none are left there is an empty one";
}

TEST(OnnxStrings, AreSplit) {
  const auto splitter = [](const std::string& delimiter, int64_t most) {
    ModelMaker maker(20);
    onnx_proto::NodeProto& node = Reader(maker, "StringSplit", {3});
    maker.Output("n");
    node.add_output("n");
    SetOption(node, "delimiter", delimiter);
    if (most >= 0) SetInt(node, "maxsplit", most);
    return maker.bytes();
  };
  absl::StatusOr<Arrays> result = RunOnce(splitter(",", -1), {{"x", Texts({3}, {"a,,b", "", ","})}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("y").strings(), ElementsAre("a", "", "b", "", "", "", "", "", ""));
  EXPECT_THAT(result->at("n").as<int64_t>(), ElementsAre(3, 0, 2));
  result = RunOnce(splitter("", 1), {{"x", Texts({3}, {" a  b c ", "", "d"})}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("y").strings(), ElementsAre("a", "b c", "", "", "d", ""));
  EXPECT_THAT(result->at("n").as<int64_t>(), ElementsAre(2, 0, 1));
}

TEST(OnnxStrings, PartsThatNoMemoryHoldsAreRefused) {
  ModelMaker maker(20);
  SetOption(Reader(maker, "StringSplit", {6000}), "delimiter", ",");
  std::vector<std::string> texts(6000);
  texts[1] = std::string(6000, ',');
  EXPECT_THAT(RunOnce(maker.bytes(), {{"x", Texts({6000}, texts)}}).status().message(), HasSubstr("6000 strings of up to 6001 parts"));
}

onnx_proto::NodeProto& Counter(ModelMaker& maker, const std::string& mode, std::vector<int64_t> columns = {0, 2, 1}) {
  onnx_proto::NodeProto& node = Reader(maker, "TfIdfVectorizer", {2, 5}, TensorProto::INT64);
  SetOption(node, "mode", mode);
  SetInt(node, "min_gram_length", 1);
  SetInt(node, "max_gram_length", 2);
  SetInt(node, "max_skip_count", 1);
  SetInts(node, "ngram_counts", {0, 2});
  SetInts(node, "ngram_indexes", std::move(columns));
  SetInts(node, "pool_int64s", {1, 2, 1, 1});  // 1; 2; 1 and 1
  AttributeProto& weights = AddTo(node, "weights", AttributeProto::FLOATS);
  for (float weight : {0.5f, 2.0f, 3.0f}) weights.add_floats(weight);
  return node;
}

TEST(OnnxStrings, RunsOfElementsAreCounted) {
  const std::map<std::string, std::vector<float>> expected = {
      {"TF", {3, 2, 1, 0, 0, 1}}, {"IDF", {0.5f, 3, 2, 0, 0, 2}}, {"TFIDF", {1.5f, 6, 2, 0, 0, 2}}};
  for (const auto& [mode, values] : expected) {
    ModelMaker maker;
    Counter(maker, mode);
    const absl::StatusOr<Arrays> result = RunOnce(maker.bytes(), {{"x", Ints({2, 5}, {1, 1, 2, 1, 5, 0, 2, 0, 0, 0})}});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_THAT(result->at("y").as<float>(), ::testing::ElementsAreArray(values)) << mode;
  }
}

TEST(OnnxStrings, PoolsOfOtherSizesAreRefused) {
  ModelMaker maker;
  Counter(maker, "TF", {0, 1});
  const absl::Status status = RunOnce(maker.bytes(), {{"x", Ints({2, 5}, {1, 1, 2, 1, 5, 0, 2, 0, 0, 0})}}).status();
  EXPECT_THAT(status.message(), HasSubstr("ngram_indexes has 2 numbers, there are 3 grams"));
}

std::string CountingError(const ModelMaker& maker) {
  return std::string(RunOnce(maker.bytes(), {{"x", Ints({2, 5}, {1, 1, 2, 1, 5, 0, 2, 0, 0, 0})}}).status().message());
}

TEST(OnnxStrings, LengthsOfGramsAreThePools) {
  const auto refused = [](int attribute, int64_t value) {
    ModelMaker maker;
    Counter(maker, "TF").mutable_attribute(attribute)->set_i(value);
    return CountingError(maker);
  };
  EXPECT_THAT(refused(1, 0), HasSubstr("grams of 0 to 2 elements"));
  EXPECT_THAT(refused(1, 3), HasSubstr("grams of 3 to 2 elements"));
  EXPECT_THAT(refused(2, 3), HasSubstr("expected lengths of 1 to 2 in order"));
  EXPECT_THAT(refused(2, int64_t{1} << 62), HasSubstr("expected lengths of 1 to 2 in order"));
  EXPECT_THAT(refused(3, -1), HasSubstr("with up to -1 between two"));
}

TEST(OnnxStrings, AsManyElementsAreSkippedAsThereAre) {
  for (int64_t skips : {int64_t{4}, int64_t{1} << 40, std::numeric_limits<int64_t>::max()}) {
    ModelMaker maker;
    Counter(maker, "TF").mutable_attribute(3)->set_i(skips);
    const absl::StatusOr<Arrays> result = RunOnce(maker.bytes(), {{"x", Ints({2, 5}, {1, 1, 2, 1, 5, 0, 2, 0, 0, 0})}});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_THAT(result->at("y").as<float>(), ElementsAre(3, 3, 1, 0, 0, 1));
  }
}

TEST(OnnxStrings, ColumnsThatNoMemoryHoldsAreRefused) {
  for (int64_t last : {int64_t{1} << 33, std::numeric_limits<int64_t>::max()}) {
    ModelMaker maker;
    Counter(maker, "TF", {0, last, 1});
    EXPECT_THAT(CountingError(maker), HasSubstr("ngram_indexes has " + std::to_string(last)));
  }
  ModelMaker wide;
  Counter(wide, "TF", {0, (int64_t{1} << 28) - 1, 1});
  EXPECT_THAT(CountingError(wide), HasSubstr("2 rows of 268435456 numbers"));
}

TEST(OnnxStrings, PoolsOfTheOtherTypeAreRefused) {
  ModelMaker maker;
  onnx_proto::NodeProto& node = Counter(maker, "TF");
  for (AttributeProto& attribute : *node.mutable_attribute()) {
    if (attribute.name() == "pool_int64s") attribute.set_name("other");
  }
  AttributeProto& pool = AddTo(node, "pool_strings", AttributeProto::STRINGS);
  for (const char* text : {"1", "2", "1", "1"}) pool.add_strings(text);
  EXPECT_THAT(CountingError(maker), HasSubstr("the pool is not of the input's type"));
}

}  // namespace
}  // namespace millrace::testing
