#include "import/tensor_proto.h"

#include <google/protobuf/text_format.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <string>

#include "graph/text.h"

namespace millrace {
namespace {

proto::TensorProto FromText(const std::string& text) {
  proto::TensorProto proto;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto)) << text;
  return proto;
}

// The tensor's text form, or the error.
std::string Read(const std::string& text) {
  const absl::StatusOr<Tensor> tensor = TensorFromProto(FromText(text));
  return tensor.ok() ? AttrValueToText(*tensor) : std::string(tensor.status().message());
}

TEST(TensorProto, ContentAndValuesAreTheSameTensor) {
  EXPECT_EQ(Read(R"(dtype: DT_INT32 tensor_shape { dim { size: 2 } } tensor_content: "\1\0\0\0\2\0\0\0")"),
            "int32[2]{1, 2}");
  EXPECT_EQ(Read("dtype: DT_INT32 tensor_shape { dim { size: 2 } } int_val: 1 int_val: 2"), "int32[2]{1, 2}");
  EXPECT_EQ(Read("dtype: DT_INT8 tensor_shape { } int_val: -1"), "int8[]{-1}");
  EXPECT_EQ(Read("dtype: DT_HALF tensor_shape { } half_val: 15360"), "half[]{1.0}");
  EXPECT_EQ(Read("dtype: DT_BFLOAT16 tensor_shape { } half_val: 16256"), "bfloat16[]{1.0}");
  EXPECT_EQ(Read("dtype: DT_COMPLEX64 tensor_shape { } scomplex_val: 1 scomplex_val: 2"), "complex64[]{(1.0, 2.0)}");
  EXPECT_EQ(Read(R"(dtype: DT_STRING tensor_shape { } string_val: "a")"), "string[]{\"a\"}");
  EXPECT_EQ(Read("dtype: DT_QINT8 tensor_shape { dim { size: 2 } } int_val: -128 int_val: 7"), "qint8[2]{-128, 7}");
  EXPECT_EQ(Read(R"(dtype: DT_QUINT16 tensor_shape { } tensor_content: "\377\377")"), "quint16[]{65535}");
}

// As C++ programs and Grappler write several strings: lengths, then bytes.
TEST(TensorProto, StringsMayBePacked) {
  const std::string two = "dtype: DT_STRING tensor_shape { dim { size: 2 } } tensor_content: ";
  EXPECT_EQ(Read(two + R"("\001\002abb")"), "string[2]{\"a\", \"bb\"}");
  EXPECT_EQ(Read(two + R"("\000\000")"), "string[2]{\"\", \"\"}");
  for (const char* bytes : {R"("\001")", R"("\001\002ab")", R"("\001\002abbb")", R"("\377\377")", R"("\001\377\377\377\377\017a")"}) {
    EXPECT_THAT(Read(two + bytes), ::testing::HasSubstr("which are not 2 lengths and as many strings")) << bytes;
  }
}

TEST(TensorProto, TheLastValueIsRepeated) {
  EXPECT_EQ(Read("dtype: DT_FLOAT tensor_shape { dim { size: 4 } } float_val: 1 float_val: 2"),
            "float[4]{1.0, 2.0, 2.0, 2.0}");
  EXPECT_EQ(Read("dtype: DT_DOUBLE tensor_shape { dim { size: 3 } }"), "double[3]{0.0 ...}");
  EXPECT_EQ(Read("dtype: DT_COMPLEX64 tensor_shape { dim { size: 2 } } scomplex_val: 1 scomplex_val: 2"),
            "complex64[2]{(1.0, 2.0), (1.0, 2.0)}");
  EXPECT_EQ(Read(R"(dtype: DT_STRING tensor_shape { dim { size: 3 } } string_val: "a")"), "string[3]{\"a\" ...}");
}

// Text has one NaN only: others are written as bytes.
TEST(TensorProto, NansKeepTheirBitsAsText) {
  const float nan = std::bit_cast<float>(uint32_t{0xFFC00000});
  const double wide = std::bit_cast<double>(uint64_t{0xFFF8000000000001});
  for (const Tensor& tensor : {Tensor::Vector<float>({nan, nan, nan, nan}), Tensor::Vector<double>({wide, wide}), Tensor::Vector<float>({2, 2, 2})}) {
    proto::TensorProto written;
    TensorToProto(tensor, &written);
    std::string text;
    ASSERT_TRUE(google::protobuf::TextFormat::PrintToString(written, &text));
    const auto read = TensorFromProto(FromText(text));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(read->BitEqual(tensor)) << text;
  }
}

// Of 16 bits, which text has as integers.
TEST(TensorProto, ShortNansKeepTheirBitsInTheShortForm) {
  for (const DataType dtype : {DataType::kHalf, DataType::kBfloat16}) {
    Tensor tensor(dtype, Shape({4}));
    for (uint16_t& bits : tensor.mutable_as<uint16_t>()) bits = 0xFFC1;
    proto::TensorProto written;
    TensorToProto(tensor, &written);
    EXPECT_EQ(written.half_val_size(), 1);
    std::string text;
    ASSERT_TRUE(google::protobuf::TextFormat::PrintToString(written, &text));
    const auto read = TensorFromProto(FromText(text));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(read->BitEqual(tensor)) << text;
  }
}

// As TensorFlow writes tf.zeros([0, 3], tf.string), and reads without looking.
TEST(TensorProto, NothingHasNoValuesWhateverTheFileHolds) {
  const std::string none = "tensor_shape { dim { size: 0 } dim { size: 3 } } ";
  EXPECT_EQ(Read("dtype: DT_STRING " + none + R"(string_val: "")"), "string[0,3]{}");
  EXPECT_EQ(Read("dtype: DT_FLOAT " + none + "float_val: 1 float_val: 2"), "float[0,3]{}");
  EXPECT_EQ(Read("dtype: DT_INT32 " + none + R"(tensor_content: "abcd")"), "int32[0,3]{}");
}

TEST(TensorProto, AbsurdSizesAreErrorsWithoutAllocating) {
  EXPECT_EQ(Read("dtype: DT_FLOAT tensor_shape { dim { size: 1152921504606846976 } } float_val: 1"),
            "a tensor float[1152921504606846976] with 1 values in the file, expected all of its 1152921504606846976 "
            "elements");
  EXPECT_EQ(Read("dtype: DT_FLOAT tensor_shape { dim { size: 4294967296 } dim { size: 4294967296 } }"),
            "a tensor float[4294967296,4294967296] with 0 values in the file, expected all of its "
            "9223372036854775807 elements");
  EXPECT_EQ(Read("dtype: DT_STRING tensor_shape { dim { size: 1073741824 } }"),
            "a tensor string[1073741824] with 0 values in the file, expected all of its 1073741824 elements");
  EXPECT_EQ(Read(R"(dtype: DT_INT32 tensor_shape { dim { size: 1152921504606846976 } } tensor_content: "abcd")"),
            "a tensor int32[1152921504606846976] with 4 bytes in the file, expected 4611686018427387904");
}

TEST(TensorProto, WhatDoesNotFitItsShapeIsAnError) {
  EXPECT_EQ(Read(R"(dtype: DT_INT32 tensor_shape { dim { size: 2 } } tensor_content: "abc")"),
            "a tensor int32[2] with 3 bytes in the file, expected 8");
  EXPECT_EQ(Read("dtype: DT_INT32 tensor_shape { dim { size: 1 } } int_val: 1 int_val: 2"),
            "a tensor int32[1] with 2 values in the file, expected all of its 1 elements");
  EXPECT_EQ(Read("dtype: DT_COMPLEX64 tensor_shape { dim { size: 2 } } scomplex_val: 1 scomplex_val: 2 scomplex_val: 3"),
            "a tensor complex64[2] with 1 values in the file, expected all of its 2 elements");
  EXPECT_EQ(Read("dtype: DT_FLOAT tensor_shape { dim { size: -1 } }"), "a tensor float[?], expected a known shape");
  EXPECT_EQ(Read("dtype: DT_FLOAT tensor_shape { dim { size: -7 } }"),
            "a dimension of -7, expected -1 (unknown) or more");
  EXPECT_EQ(Read("dtype: DT_INT4 tensor_shape { }"),
            "a tensor of element type 29 (TensorFlow's DataType), expected a number, bool or string type");
  EXPECT_EQ(Read("dtype: DT_FLOAT8_E5M2 tensor_shape { dim { size: 1 } } float8_val: \"ab\""),
            "a tensor float8_e5m2[1] with 2 values in the file, expected all of its 1 elements");
  EXPECT_EQ(Read("tensor_shape { }"),
            "a tensor of element type 0 (TensorFlow's DataType), expected a number, bool or string type");
  proto::TensorProto deep = FromText("dtype: DT_FLOAT");
  for (int i = 0; i < 255; ++i) deep.mutable_tensor_shape()->add_dim()->set_size(1);
  EXPECT_EQ(std::string(TensorFromProto(deep).status().message()), "a shape of rank 255, expected at most 254");
}

TEST(TensorProto, BoolsAreZeroOrOneWhateverTheFileHolds) {
  const absl::StatusOr<Tensor> tensor =
      TensorFromProto(FromText(R"(dtype: DT_BOOL tensor_shape { dim { size: 3 } } tensor_content: "\0\1\7")"));
  ASSERT_TRUE(tensor.ok());
  const unsigned char* bytes = static_cast<const unsigned char*>(tensor->data());
  EXPECT_THAT(std::vector<int>(bytes, bytes + 3), ::testing::ElementsAre(0, 1, 1));
}

TEST(TensorProto, EqualElementsAreWrittenOnce) {
  for (const char* text : {"float[100000]{0.5 ...}", "bfloat16[100000]{-2.0 ...}", "int8[100000]{-1 ...}",
                           "int64[100000]{-1 ...}", "bool[100000]{true ...}", "uint16[100000]{65535 ...}"}) {
    const absl::StatusOr<Graph> graph = ParseGraphText(std::string("a = Const() {value=") + text + "}\n");
    ASSERT_TRUE(graph.ok());
    proto::TensorProto proto;
    TensorToProto(graph->node(NodeId{0}).attrs.GetOr<Tensor>("value", Tensor()), &proto);
    EXPECT_LT(proto.ByteSizeLong(), 32) << text;
    EXPECT_EQ(AttrValueToText(*TensorFromProto(proto)), text);
  }
}

TEST(AttrProto, ListsOfSeveralKindsAreErrors) {
  proto::AttrValue proto;
  proto.mutable_list()->add_i(1);
  proto.mutable_list()->add_f(1);
  EXPECT_EQ(std::string(AttrFromProto(proto).status().message()),
            "a list with elements of several kinds, expected one kind");
}

TEST(AttrProto, ErrorsNameTheAttribute) {
  google::protobuf::RepeatedPtrField<proto::AttrEntry> entries;
  proto::AttrEntry* entry = entries.Add();
  entry->set_key("shape");
  entry->mutable_value()->mutable_shape()->add_dim()->set_size(-2);
  EXPECT_EQ(std::string(AttrMapFromProto(entries).status().message()),
            "attribute 'shape': a dimension of -2, expected -1 (unknown) or more");
}

TEST(AttrProto, NotesOfShapesMayNumberUnknownDimensions) {
  google::protobuf::RepeatedPtrField<proto::AttrEntry> entries;
  proto::AttrEntry* entry = entries.Add();
  entry->set_key("_input_shapes");
  proto::TensorShapeProto* shape = entry->mutable_value()->mutable_list()->add_shape();
  for (const int size : {-13, 4, -1}) shape->add_dim()->set_size(size);
  const absl::StatusOr<AttrMap> attrs = AttrMapFromProto(entries);
  ASSERT_TRUE(attrs.ok()) << attrs.status();
  EXPECT_EQ(attrs->GetOr<std::vector<Shape>>("_input_shapes", {}), std::vector<Shape>{Shape({-1, 4, -1})});
}

}  // namespace
}  // namespace millrace
