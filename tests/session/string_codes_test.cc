// What is made of the bytes and characters of fed strings, against tf.strings.
#include <filesystem>
#include <fstream>
#include <map>

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

TEST(StringCodes, RecordsComeInJson) {
  const auto session = SessionOf(R"(
texts = Placeholder() {dtype=string, shape=shape[?]}
records = DecodeJSONExample(texts)
bytes = StringLength(records)
)");
  std::vector<Tensor> out;
  const absl::Status status = session->Run({{"texts", Words({R"({"features":{"feature":{"b":{"floatList":{"value":[1.5]}}}}})", "{}"})}}, {"bytes"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Ints(out[0]), ElementsAre(16, 0));
  EXPECT_THAT(session->Run({{"texts", Words({"{}", "["})}}, {"bytes"}, {}, &out).ToString(), HasSubstr("Error while parsing JSON: expected '{' at offset 0"));
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

// Also of letters that become several; bytes without an encoding are left as they are, and a zero byte is the end.
TEST(StringCodes, LettersHaveAnotherCase) {
  const auto session = SessionOf(R"(
texts = Placeholder() {dtype=string, shape=shape[?]}
low = StringLower(texts) {encoding="utf-8"}
high = StringUpper(texts) {encoding="utf-8"}
plain = StringUpper(texts)
scripts = UnicodeDecode(texts) {input_encoding="UTF-8"}
of_scripts = UnicodeScript(scripts:1)
)");
  const std::vector<std::string> texts = {"Stra\xC3\x9F" "e", "\xCE\xA3\xCE\x91\xCE\xA3", "a\xFF" "B", std::string("aB\0c", 4), ""};
  std::vector<Tensor> out;
  const absl::Status status = session->Run({{"texts", Words(texts)}}, {"low", "high", "plain"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(out[0].strings(), ElementsAre("stra\xC3\x9F" "e", "\xCF\x83\xCE\xB1\xCF\x82", "a\xEF\xBF\xBD" "b", "ab", ""));
  EXPECT_THAT(out[1].strings(), ElementsAre("STRASSE", "\xCE\xA3\xCE\x91\xCE\xA3", "A\xEF\xBF\xBD" "B", "AB", ""));
  EXPECT_THAT(out[2].strings(), ElementsAre("STRA\xC3\x9F" "E", "\xCE\xA3\xCE\x91\xCE\xA3", "A\xFF" "B", std::string("AB\0C", 4), ""));
  ASSERT_TRUE(session->Run({{"texts", Words({"a\xCE\xB1!"})}}, {"of_scripts"}, {}, &out).ok());
  EXPECT_THAT(Ints(out[0]), ElementsAre(25, 14, 0));  // Latin, Greek, any
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

TEST(StringCodes, ColumnsOfRecordsGoOn) {
  const auto session = SessionOf(R"(
records = Placeholder() {dtype=string, shape=shape[?]}
half = Const() {dtype=float, value=float[1]{0.5}}
none = Const() {dtype=string, value=string[1]{"none"}}
required = Const() {dtype=int64, value=int64[0]{}}
columns = DecodeCSV(records, half, none, required) {OUT_TYPE=[float, string, int64]}
twice = AddV2(columns, columns) {T=float}
length = StringLength(columns:1)
count = AddV2(columns:2, columns:2) {T=int64}
)");
  std::vector<Tensor> out;
  const absl::Status status = session->Run({{"records", Words({"1.5,\"a,b\",7", ",,-8", "nan,\"\"\"\",9"})}}, {"twice", "length", "count"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(testing::Numbers(out[0]), ElementsAre(3, 1, ::testing::IsNan()));
  EXPECT_THAT(Ints(out[1]), ElementsAre(3, 4, 1));
  EXPECT_THAT(Ints(out[2]), ElementsAre(14, -16, 18));
  EXPECT_THAT(session->Run({{"records", Words({"1,a,"})}}, {"count"}, {}, &out).ToString(), HasSubstr("Field 2 is required but missing in record 0!"));
}

TEST(StringCodes, TensorsGoThroughMessages) {
  const auto session = SessionOf(R"(
texts = Placeholder() {dtype=string, shape=shape[?]}
numbers = Const() {dtype=int32, value=int32[2,2]{1, -2, 3, 4}}
message = SerializeTensor(numbers) {T=int32}
back = ParseTensor(message) {out_type=int32}
sum = AddV2(back, back) {T=int32}
of_texts = SerializeTensor(texts) {T=string}
again = ParseTensor(of_texts) {out_type=string}
same = Equal(again, texts) {T=string}
wrong = ParseTensor(message) {out_type=float}
)");
  std::vector<Tensor> out;
  const absl::Status status = session->Run({{"texts", Words({"a", "", "b"})}}, {"sum", "same"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Ints(out[0]), ElementsAre(2, -4, 6, 8));
  EXPECT_EQ(out[0].shape(), Shape({2, 2}));
  EXPECT_THAT(Ints(out[1]), ElementsAre(1, 1, 1));
  EXPECT_THAT(session->Run({}, {"wrong"}, {}, &out).ToString(), HasSubstr("Type mismatch between parsed tensor (int32) and dtype (float)"));
}

// Three elements, of which two are given (0.5 and 1).
TEST(StringCodes, NumbersOf8BitsAreReadOneByOne) {
  const auto session = SessionOf(R"(
message = Const() {dtype=string, value=string[]{"\010\030\022\004\022\002\010\003\222\001\002\070\074"}}
numbers = ParseTensor(message) {out_type=float8_e5m2}
wide = Cast(numbers) {SrcT=float8_e5m2, DstT=float}
)");
  std::vector<Tensor> out;
  const absl::Status status = session->Run({}, {"wide"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(testing::Numbers(out[0]), ElementsAre(0.5, 1, 1));
}

TEST(StringCodes, NumbersOfAStepHaveMessages) {
  const auto session = SessionOf(R"(
two = Const() {dtype=int32, value=int32[1]{2}}
y = RandomUniform(two) {dtype=float, T=int32}
message = SerializeTensor(y) {T=float}
length = StringLength(message)
back = ParseTensor(message) {out_type=float}
same = Equal(back, y) {T=float}
)");
  std::vector<Tensor> out;
  const absl::Status status = session->Run({}, {"length", "same"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Ints(out[0]), ElementsAre(18));
  EXPECT_THAT(Ints(out[1]), ElementsAre(1, 1));
}

// As TensorFlow's: sorted over all patterns, hidden files among them, a name without a pattern where it is there.
TEST(StringCodes, FilesAreFound) {
  const std::string folder = ::testing::TempDir() + "millrace_found_files/";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder + "b/c");
  for (const char* name : {"part-1", "part-2", "parts", ".part-0", "b/part-3", "b/c/part-4"}) std::ofstream(folder + name) << name;
  const auto session = SessionOf(R"(
patterns = Placeholder() {dtype=string, shape=shape[?]}
files = MatchingFiles(patterns)
)");
  const auto found = [&](const std::vector<std::string>& patterns) {
    std::vector<std::string> full;
    for (const std::string& pattern : patterns) full.push_back(pattern.empty() ? "" : folder + pattern);
    std::vector<Tensor> out;
    const absl::Status status = session->Run({{"patterns", Words(full)}}, {"files"}, {}, &out);
    EXPECT_TRUE(status.ok()) << status;
    std::vector<std::string> names;
    if (status.ok()) {
      for (const std::string& path : out[0].strings()) names.push_back(path.substr(folder.size()));
    }
    return names;
  };
  EXPECT_THAT(found({"part-?", "*part-0"}), ElementsAre(".part-0", "part-1", "part-2"));
  EXPECT_THAT(found({"*/part-[0-9]", "parts", "part-1", "nowhere"}), ElementsAre("b/part-3", "part-1", "parts"));
  EXPECT_THAT(found({"b/*/part-4", "?"}), ElementsAre("b", "b/c/part-4"));
  EXPECT_THAT(found({"nowhere/*", ""}), ElementsAre());
  std::filesystem::remove_all(folder);
}

TEST(StringCodes, FilesAreRead) {
  const auto session = SessionOf(R"(
name = Placeholder() {dtype=string, shape=shape[]}
bytes = ReadFile(name)
numbers = DecodeRaw(bytes) {out_type=uint8}
)");
  const std::string path = ::testing::TempDir() + "read_by_a_graph";
  std::ofstream(path, std::ios::binary) << std::string("\1\0\7", 3);
  Tensor name(DataType::kString, Shape());
  std::vector<Tensor> out;
  const auto run = [&](const std::string& file) {
    name.mutable_strings()[0] = file;
    return session->Run({{"name", name}}, {"numbers"}, {}, &out);
  };
  const absl::Status status = run(path);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Ints(out[0]), ElementsAre(1, 0, 7));
  EXPECT_THAT(run(path + "_no_more").ToString(), HasSubstr("read_by_a_graph_no_more; No such file or directory"));
  EXPECT_THAT(run(::testing::TempDir()).ToString(), HasSubstr("; Is a directory"));
  std::ofstream(path + "_empty", std::ios::binary).flush();
  ASSERT_TRUE(run(path + "_empty").ok());
  EXPECT_THAT(Ints(out[0]), ElementsAre());
}

// Each against what TensorFlow makes of strings.
TEST(StringCodes, OpsOfElementsTakeStrings) {
  const auto session = SessionOf(R"(
texts = Placeholder() {dtype=string, shape=shape[2,2]}
row = Const() {dtype=string, value=string[2]{"x", "y"}}
one = Const() {dtype=string, value=string[]{"+"}}
zero = Const() {dtype=string, value=string[]{"-"}}
places = Const() {dtype=int32, value=int32[2]{1, 0}}
indices = Const() {dtype=int32, value=int32[3,1]{2, 0, 2}}
size = Const() {dtype=int32, value=int32[1]{3}}
three = Const() {dtype=string, value=string[3]{"p", "q", "r"}}
depth = Const() {dtype=int32, value=int32[]{3}}
lengths = Const() {dtype=int64, value=int64[2]{2, 1}}
perm = Const() {dtype=int32, value=int32[2]{1, 0}}
sum = Add(texts, row) {T=string}
hot = OneHot(places, depth, one, zero) {T=string, TI=int32}
reversed = ReverseSequence(texts, lengths) {T=string, seq_dim=1, batch_dim=0}
turned = ConjugateTranspose(texts, perm) {T=string}
scattered = ScatterNd(indices, three, size) {T=string, Tindices=int32}
empty = Empty(size) {dtype=string}
)");
  const std::map<std::string, std::vector<std::string>> expected = {
      {"sum", {"ax", "by", "x", "dy"}},        {"hot", {"-", "+", "-", "+", "-", "-"}}, {"reversed", {"b", "a", "", "d"}},
      {"turned", {"a", "", "b", "d"}}, {"scattered", {"q", "", "pr"}},          {"empty", {"", "", ""}}};
  for (const auto& [fetch, texts] : expected) {
    std::vector<Tensor> out;
    const absl::Status status = session->Run({{"texts", Words({"a", "b", "", "d"}).Reshaped(Shape({2, 2}))}}, {fetch}, {}, &out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(out[0].strings(), texts) << fetch;
  }
}

TEST(StringCodes, FeaturesAreCrossedAsTexts) {
  const auto session = SessionOf(R"(
texts = Placeholder() {dtype=string, shape=shape[2,2]}
numbers = Const() {dtype=int64, value=int64[2,1]{7, -8}}
separator = Const() {dtype=string, value=string[]{"-"}}
crosses = SparseCrossV2(texts, numbers, separator) {N=0, sparse_types=[], dense_types=[string, int64]}
length = StringLength(crosses:1)
)");
  std::vector<Tensor> out;
  const absl::Status status = session->Run({{"texts", Words({"a", "b", "", "c"}).Reshaped(Shape({2, 2}))}}, {"crosses", "length", "crosses:2"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Ints(out[0]), ElementsAre(0, 0, 0, 1, 1, 0, 1, 1));
  EXPECT_THAT(Ints(out[1]), ElementsAre(3, 3, 3, 4));
  EXPECT_THAT(Ints(out[2]), ElementsAre(2, 2));
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
