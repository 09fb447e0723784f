// Example records in JSON, against what TensorFlow 2.21's DecodeJSONExample makes of them.
#include "graph/json_example.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

struct Example {
  const char *json, *bytes;  // in hexadecimal digits; null where TensorFlow refuses it
};

void Check(const std::vector<Example>& examples, const char* before, const char* behind) {
  for (const Example& example : examples) {
    const absl::StatusOr<std::string> bytes = ExampleFromJson(absl::StrCat(before, example.json, behind));
    ASSERT_EQ(bytes.ok(), example.bytes != nullptr) << example.json << " " << bytes.status();
    if (bytes.ok()) {
      EXPECT_EQ(absl::BytesToHexString(*bytes), example.bytes) << example.json;
    } else {
      EXPECT_THAT(bytes.status().ToString(), HasSubstr("INVALID_ARGUMENT: Error while parsing JSON: "));
    }
  }
}

TEST(JsonExample, Floats) {
  Check({{"1.5, 2", "0a130a110a0162120c120a0d0000c03f0d00000040"}, {"null", "0a0e0a0c0a0162120712050d00000000"},
         {R"("1.5")", "0a0e0a0c0a0162120712050d0000c03f"}, {R"(" 1")", "0a0e0a0c0a0162120712050d0000803f"}, {"-0.0", "0a0e0a0c0a0162120712050d00000080"},
         {R"("NaN")", "0a0e0a0c0a0162120712050d0000c07f"}, {R"("-Infinity")", "0a0e0a0c0a0162120712050d000080ff"},
         {R"("inf")", "0a0e0a0c0a0162120712050d0000807f"}, {"1,", "0a0e0a0c0a0162120712050d0000803f"}, {"0.1e-2", "0a0e0a0c0a0162120712050d6f12833a"},
         {"1E5", "0a0e0a0c0a0162120712050d0050c347"}, {"[[1], 2]", "0a130a110a0162120c120a0d0000803f0d00000040"},
         {R"("1e400")", "0a0e0a0c0a0162120712050d0000807f"}, {"1e-50", "0a0e0a0c0a0162120712050d00000000"},
         {"16777217", "0a0e0a0c0a0162120712050d0000804b"}, {"0.1", "0a0e0a0c0a0162120712050dcdcccc3d"}, {"1.", nullptr}, {".5", nullptr},
         {"01", nullptr}, {"+1", nullptr}, {"3.5e38", nullptr}, {"1e400", nullptr}, {"true", nullptr}, {"NaN", nullptr}, {"1 2", nullptr},
         {R"("")", nullptr}, {R"("1.5x")", nullptr}, {"1e", nullptr}, {"-", nullptr}, {R"("3.5e38")", nullptr}, {"1,,2", nullptr}, {"[1", nullptr},
         {"1e+2", "0a0e0a0c0a0162120712050d0000c842"}},
        R"({"features":{"feature":{"b":{"floatList":{"value":[)", "]}}}}}");
}

TEST(JsonExample, WholeNumbers) {
  Check({{R"("3", 4)", "0a0d0a0b0a016212061a0408030804"}, {"1.0", "0a0b0a090a016212041a020801"}, {"-1", "0a140a120a0162120d1a0b08ffffffffffffffffff01"},
         {"1e3", "0a0c0a0a0a016212051a0308e807"}, {"9223372036854775807", "0a130a110a0162120c1a0a08ffffffffffffffff7f"},
         {"-9223372036854775808", "0a140a120a0162120d1a0b0880808080808080808001"}, {R"("+5")", "0a0b0a090a016212041a020805"},
         {R"("1e3")", "0a0c0a0a0a016212051a0308e807"}, {R"("007")", "0a0b0a090a016212041a020807"}, {"50e-1", "0a0b0a090a016212041a020805"},
         {"null", "0a0b0a090a016212041a020800"}, {"9007199254740992.0", "0a120a100a0162120b1a09088080808080808010"},
         {"-0", "0a0b0a090a016212041a020800"}, {"1.5", nullptr}, {"1e18", nullptr}, {"9223372036854775808", nullptr}, {R"(" 5")", nullptr},
         {"true", nullptr}, {R"("")", nullptr}, {"5e-1", nullptr}, {R"("5 ")", nullptr}, {R"("x")", nullptr}},
        R"({"features":{"feature":{"b":{"int64List":{"value":[)", "]}}}}}");
}

TEST(JsonExample, Bytes) {
  Check({{R"("aGk=")", "0a0d0a0b0a016212060a040a026869"}, {R"("aGk")", "0a0d0a0b0a016212060a040a026869"},
         {R"("a-_b")", "0a0e0a0c0a016212070a050a036befdb"}, {R"("a+_b")", "0a0e0a0c0a016212070a050a036befdb"},
         {R"("aa")", "0a0c0a0a0a016212050a030a0169"}, {R"("YR==")", "0a0c0a0a0a016212050a030a0161"}, {"'YQ'", "0a0c0a0a0a016212050a030a0161"},
         {"null", "0a0b0a090a016212040a020a00"}, {R"("")", "0a0b0a090a016212040a020a00"}, {R"("Zm9vYmE")", "0a100a0e0a016212090a070a05666f6f6261"},
         {R"("aGk==",)", nullptr}, {R"("a")", nullptr}, {R"("aG=k")", nullptr}, {R"("YQ=")", nullptr}, {"1", nullptr}, {R"("====")", nullptr},
         {R"("aGl ")", nullptr}},
        R"({"features":{"feature":{"b":{"bytesList":{"value":[)", "]}}}}}");
}

TEST(JsonExample, Features) {
  Check({{R"("z":{"float_list":{"value":[1.5]}},"b":{"int64_list":{"value":3}})", "0a190a0c0a017a120712050d0000c03f0a090a016212041a020803"},
         {R"("a":{},"c":null)", "0a0c0a050a016112000a030a0163"}, {"b:{floatList:null}", "0a070a050a01621200"},
         {"'b':{'floatList':{'value':null}}", "0a090a070a016212021200"},
         {R"("":{},"\u00e9\n\ud83d\ude00":{})", "0a130a040a0012000a0b0a07c3a90af09f98801200"}, {R"("\"\/\\":{})", "0a090a070a03222f5c1200"},
         {R"("b":{"floatList":{},"int64List":null})", "0a090a070a016212021200"}, {R"("a":{},"a":{})", nullptr},
         {R"("b":{"floatList":{},"int64List":{}})", nullptr}, {R"("b":{"kind":1})", nullptr}, {R"("b":1)", nullptr}, {"1:{}", nullptr},
         {R"("\x":{})", nullptr}, {R"("\ud83d":{})", nullptr}, {R"("\udc00":{})", nullptr}, {R"("\u12g4":{})", nullptr},
         {R"("b":{"floatList":{"values":[1]}})", nullptr}, {R"("b":{"floatList":[1]})", nullptr}, {R"("b"{})", nullptr}, {R"("b":{}"c":{})", nullptr},
         {",", nullptr}, {R"("b:{})", nullptr}, {"a$b:{}", nullptr}, {R"('it"s':{})", "0a0a0a080a04697422731200"},
         {R"("it's":{})", "0a0a0a080a04697427731200"}, {R"("\'":{})", "0a070a050a01271200"}, {"$a:{}", nullptr}, {"_a1:{}", "0a090a070a035f61311200"},
         {"a-b:{}", nullptr}},
        R"({"features":{"feature":{)", "}}}");
}

TEST(JsonExample, Records) {
  Check({{"{}", ""}, {" \n{\"features\" : { } } \n", "0a00"}, {R"({"features":null})", ""}, {"{features:{},}", "0a00"},
         {R"({"features":{"feature":null}})", "0a00"}, {R"({"features":{},"features":{}})", "0a000a00"}, {"", nullptr}, {"{", nullptr}, {"[]", nullptr},
         {"null", nullptr}, {"{}{}", nullptr}, {"{} x", nullptr}, {R"({"nope":1})", nullptr}, {R"({"features":1})", nullptr},
         {R"({"features":{"feature":[]}})", nullptr}, {R"({"features":{"f":1}})", nullptr}, {"/**/{}", nullptr}, {"{,}", nullptr},
         {R"({"features":{})", nullptr}, {"\t{}\r", ""}, {R"({"features":nul})", nullptr}, {R"({"features":nullx})", nullptr},
         {R"({"features":{"feature":{}}})", "0a00"}},
        "", "");
}

TEST(JsonExample, MessagesSayWhatAndWhere) {
  const auto message = [](const char* json) { return std::string(ExampleFromJson(json).status().message()); };
  EXPECT_EQ(message("{"), "Error while parsing JSON: unexpected EOF");
  EXPECT_EQ(message(R"({"nope":1})"), "Error while parsing JSON: no such field: 'nope' at offset 8");
  EXPECT_EQ(message("{} x"), "Error while parsing JSON: extraneous characters after end of JSON object");
}

TEST(JsonExample, ListsAreNotTakenApartForEver) {
  const std::string deep(100'000, '[');
  const absl::Status status = ExampleFromJson(absl::StrCat(R"({"features":{"feature":{"b":{"floatList":{"value":)", deep)).status();
  EXPECT_THAT(status.ToString(), HasSubstr("lists are too deep"));
}

}  // namespace
}  // namespace millrace
