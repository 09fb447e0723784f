// Records that exported models are fed: features of strings go on to tables and hashes, and what is wrong is said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/session.h"
#include "text_session.h"

namespace millrace {
namespace {

using testing::Ints;
using testing::SessionOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A field of a message: its number, that bytes follow, how many, the bytes (fewer than 128).
std::string Field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}

std::string Texts(const std::vector<std::string>& texts) {
  std::string list;
  for (const std::string& text : texts) list += Field(1, text);
  return Field(1, list);
}

std::string Integers(const std::string& small) { return Field(3, Field(1, small)); }
// A field per number, as old writers have it.
std::string UnpackedIntegers(const std::string& small) {
  std::string list;
  for (char number : small) list += std::string{1 << 3, number};
  return Field(3, list);
}

std::string Example(const std::vector<std::pair<std::string, std::string>>& features) {
  std::string entries;
  for (const auto& [key, feature] : features) entries += Field(1, Field(1, key) + Field(2, feature));
  return Field(1, entries);
}

Tensor Records(const std::vector<std::string>& records) {
  Tensor tensor(DataType::kString, Shape({static_cast<int64_t>(records.size())}));
  tensor.mutable_strings() = records;
  return tensor;
}

const char kTown[] = R"(
records = Placeholder() {dtype=string, shape=shape[?]}
none = Const() {dtype=string, value=string[0]{}}
s = Const() {dtype=string, value=string[1]{"words"}}
d = Const() {dtype=string, value=string[2]{"town", "sizes"}}
n0 = Const() {dtype=string, value=string[1]{"nowhere"}}
n1 = Const() {dtype=int64, value=int64[0]{}}
parsed = ParseExampleV2(records, none, s, d, none, n0, n1) {Tdense=[string, int64], num_sparse=1, sparse_types=[string], dense_shapes=[shape[1], shape[2]]}
length = StringLength(parsed:3)
hash = StringToHashBucketFast(parsed:1) {num_buckets=1000}
plain = Const() {dtype=string, value=string[3]{"a", "b", "c"}}
hash_of_plain = StringToHashBucketFast(plain) {num_buckets=1000}
twice = AddV2(parsed:4, parsed:4) {T=int64}
)";

TEST(ExampleRecords, FeaturesGoOnAsStringsAndNumbers) {
  const auto session = SessionOf(kTown);
  std::vector<Tensor> out;
  const Tensor records = Records({Example({{"town", Texts({"Ulm"})}, {"sizes", Integers("\3\4")}, {"words", Texts({"a", "b"})}}),
                                  Example({{"sizes", UnpackedIntegers("\5\6")}, {"words", Texts({"c"})}})});
  const absl::Status status = session->Run({{"records", records}}, {"length", "hash", "hash_of_plain", "twice", "parsed:0", "parsed:2"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Ints(out[0]), ElementsAre(3, 7));
  EXPECT_EQ(Ints(out[1]), Ints(out[2]));
  EXPECT_THAT(Ints(out[3]), ElementsAre(6, 8, 10, 12));
  EXPECT_THAT(Ints(out[4]), ElementsAre(0, 0, 0, 1, 1, 0));
  EXPECT_THAT(Ints(out[5]), ElementsAre(2, 2));
}

TEST(ExampleRecords, WhatIsWrongIsSaid) {
  const auto session = SessionOf(kTown);
  const auto of = [&](const Tensor& records) {
    std::vector<Tensor> out;
    return session->Run({{"records", records}}, {"twice"}, {}, &out).ToString();
  };
  EXPECT_THAT(of(Records({Example({})})), HasSubstr("Feature: sizes (data type: int64) is required but could not be found."));
  EXPECT_THAT(of(Records({Example({{"sizes", Texts({"3", "4"})}})})), HasSubstr("Data type: string but expected type: int64"));
  EXPECT_THAT(of(Records({Field(1, "\x0a\x7f")})), HasSubstr("Could not parse example input"));
  Tensor matrix(DataType::kString, Shape({1, 1}));
  EXPECT_THAT(of(matrix), HasSubstr("has type string[1,1], expected string[?]"));
}

// A list of features: a feature's bytes per step.
std::string List(const std::string& key, const std::vector<std::string>& steps) {
  std::string list;
  for (const std::string& step : steps) list += Field(1, step);
  return Field(1, Field(1, key) + Field(2, list));
}

TEST(ExampleRecords, ListsOfStepsGoOn) {
  const auto session = SessionOf(R"(
records = Placeholder() {dtype=string, shape=shape[?]}
none = Const() {dtype=string, value=string[0]{}}
no_size = Const() {dtype=int64, value=int64[0]{}}
parsed = ParseSequenceExample(records, none, no_size) {)"
                                 "Ncontext_dense=1, Tcontext_dense=[int64], context_dense_keys=[\"size\"], context_dense_shapes=[shape[1]], "
                                 "Nfeature_list_sparse=1, feature_list_sparse_keys=[\"words\"], feature_list_sparse_types=[string], "
                                 "Nfeature_list_dense=1, feature_list_dense_keys=[\"steps\"], feature_list_dense_types=[int64], "
                                 "feature_list_dense_shapes=[shape[2]], feature_list_dense_missing_assumed_empty=[\"steps\"]}" R"(
steps = AddV2(parsed:4, parsed:4) {T=int64}
length = StringLength(parsed:2)
)");
  const std::string first = Field(1, Field(1, Field(1, "size") + Field(2, Integers("\5")))) +
                            Field(2, List("steps", {Integers("\1\2"), Integers("\3\4")}) + List("words", {Texts({"ab"}), Texts({}), Texts({"c", ""})}));
  const std::string second = Field(1, Field(1, Field(1, "size") + Field(2, Integers("\6"))));
  std::vector<Tensor> out;
  const absl::Status status = session->Run({{"records", Records({first, second})}}, {"steps", "length", "parsed:5", "parsed:1", "parsed:0"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(out[0].shape(), Shape({2, 2, 2}));
  EXPECT_THAT(Ints(out[0]), ElementsAre(2, 4, 6, 8, 0, 0, 0, 0));
  EXPECT_THAT(Ints(out[1]), ElementsAre(2, 1, 0));
  EXPECT_THAT(Ints(out[2]), ElementsAre(2, 0));
}

}  // namespace
}  // namespace millrace
