// What is made of the bytes and characters of fed strings, against tf.strings.
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

Tensor Words(const std::vector<std::string>& words) {
  Tensor tensor(DataType::kString, Shape({static_cast<int64_t>(words.size())}));
  tensor.mutable_strings() = words;
  return tensor;
}

// There and back through each encoding; lengths in bytes tell what is between.
TEST(StringCodes, TextsGoThroughEncodings) {
  const auto session = SessionOf(R"(
texts = Placeholder() {dtype=string, shape=shape[?]}
wide = UnicodeTranscode(texts) {input_encoding="UTF-8", output_encoding="UTF-16-BE"}
bytes = StringLength(wide)
back = UnicodeTranscode(wide) {input_encoding="UTF-16-BE", output_encoding="UTF-8"}
code = EncodeBase64(back) {pad=true}
digits = StringLength(code)
text = DecodeBase64(code)
same = Equal(text, texts) {T=string}
points = UnicodeDecode(text) {input_encoding="UTF-8"}
again = UnicodeEncode(points:1, points) {output_encoding="UTF-8"}
hash = StringToHashBucketFast(again) {num_buckets=1000}
hash_of_texts = StringToHashBucketFast(texts) {num_buckets=1000}
)");
  std::vector<Tensor> out;
  const absl::Status status = session->Run({{"texts", Words({"Gr\xC3\xBC\xC3\x9F", "", "\xF0\x9F\x98\x80"})}},
                                           {"bytes", "digits", "same", "points:1", "hash", "hash_of_texts"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Ints(out[0]), ElementsAre(8, 0, 4));
  EXPECT_THAT(Ints(out[1]), ElementsAre(8, 0, 8));
  EXPECT_THAT(Ints(out[2]), ElementsAre(1, 1, 1));
  EXPECT_THAT(Ints(out[3]), ElementsAre('G', 'r', 0xFC, 0xDF, 0x1F600));
  EXPECT_EQ(Ints(out[4]), Ints(out[5]));
}

// Also those that are never characters; a surrogate is no text, and becomes one where it is the replacement.
TEST(StringCodes, AnyCodePointIsEncoded) {
  const auto session = SessionOf(R"(
points = Placeholder() {dtype=int32, shape=shape[4]}
rows = Const() {dtype=int64, value=int64[2]{0, 4}}
strict = UnicodeEncode(points, rows) {output_encoding="UTF-8", errors="strict"}
replaced = UnicodeEncode(points, rows) {output_encoding="UTF-8", errors="replace", replacement_char=55296}
wide = UnicodeEncode(points, rows) {output_encoding="UTF-16-BE", errors="replace", replacement_char=55296}
units = DecodeRaw(wide) {out_type=uint8}
read = UnicodeDecode(replaced) {input_encoding="UTF-8"}
length = StringLength(strict)
)");
  std::vector<Tensor> out;
  const auto run = [&](std::vector<int32_t> points, const char* fetch) {
    const Tensor fed = Tensor::Vector<int32_t>({points[0], points[1], points[2], points[3]});
    return session->Run({{"points", fed}}, {fetch}, {}, &out);
  };
  ASSERT_TRUE(run({0xFFFE, 0xFDD0, 0x10FFFF, 0x1FFFE}, "length").ok());
  EXPECT_THAT(Ints(out[0]), ElementsAre(14));
  ASSERT_TRUE(run({0xD800, 0x110000, -1, 0xFFFE}, "read:1").ok());
  EXPECT_THAT(Ints(out[0]), ElementsAre(0xFFFD, 0xFFFD, 0xFFFD, 0xFFFE));
  ASSERT_TRUE(run({0xD800, 65, 65, 65}, "units").ok());
  EXPECT_THAT(Ints(out[0]), ElementsAre(0xD8, 0, 0, 65, 0, 65, 0, 65));
  EXPECT_THAT(run({0xD800, 65, 65, 65}, "length").ToString(), HasSubstr("Code point is out of range for Unicode, or is a surrogate."));
}

TEST(StringCodes, SegmentsAreJoined) {
  const auto session = SessionOf(R"(
texts = Placeholder() {dtype=string, shape=shape[?]}
ids = Const() {dtype=int32, value=int32[4]{2, 0, 2, 0}}
three = Const() {dtype=int32, value=int32[]{3}}
joined = UnsortedSegmentJoin(texts, ids, three) {separator=":", Tindices=int32}
expected = Const() {dtype=string, value=string[3]{"b:d", "", "a:c"}}
same = Equal(joined, expected) {T=string}
)");
  std::vector<Tensor> out;
  const absl::Status status = session->Run({{"texts", Words({"a", "b", "c", "d"})}}, {"same"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Ints(out[0]), ElementsAre(1, 1, 1));
}

TEST(StringCodes, WhatIsWrongIsSaid) {
  const auto of = [](const std::string& op, const std::string& text) {
    const auto session = SessionOf("texts = Placeholder() {dtype=string, shape=shape[1]}\ny = " + op + "\nn = StringLength(y)\n");
    std::vector<Tensor> out;
    return session->Run({{"texts", Words({text})}}, {"n"}, {}, &out).ToString();
  };
  EXPECT_THAT(of("DecodeBase64(texts)", "a+b="), HasSubstr("Invalid character found in base64."));
  for (const char* text : {"YQ=", "=", "=="}) EXPECT_THAT(of("DecodeBase64(texts)", text), HasSubstr("Invalid character found in base64."));
  EXPECT_THAT(of("UnicodeTranscode(texts) {input_encoding=\"KOI8-R\", output_encoding=\"UTF-8\"}", "a"), HasSubstr("KOI8-R; there are UTF-8"));
  EXPECT_THAT(of("UnicodeTranscode(texts) {input_encoding=\"UTF-8\", output_encoding=\"UTF-8\", errors=\"strict\"}", "\xFF"),
              HasSubstr("Invalid formatting on input string"));
  EXPECT_THAT(of("DecodeRaw(texts) {out_type=int16}", "abc"), HasSubstr("not a multiple of 2"));
  const auto large = SessionOf(R"(
texts = Placeholder() {dtype=string, shape=shape[1]}
k = Const() {dtype=int32, value=int32[]{2147483647}}
many = Const() {dtype=int64, value=int64[]{1000000000000}}
ids = Const() {dtype=int32, value=int32[1]{0}}
pair = Const() {dtype=string, value=string[2]{"a", "b"}}
padded = DecodePaddedRaw(pair, k) {out_type=uint8}
joined = UnsortedSegmentJoin(texts, ids, many) {Tindices=int32, Tnumsegments=int64}
n = StringLength(joined)
)");
  for (const char* const fetch : {"padded", "n"}) {
    std::vector<Tensor> out;
    EXPECT_THAT(large->Run({{"texts", Words({"a"})}}, {fetch}, {}, &out).ToString(), HasSubstr("bytes or strings, expected at most"));
  }
}

}  // namespace
}  // namespace millrace
