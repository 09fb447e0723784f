// Attributes of TensorFlow's nodes: those that TensorFlow refuses are refused, by name.
#include "ops/op_attrs.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "import/graph_file.h"
#include "millrace/proto/graph.pb.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

// "OK" or the message for a node in the text form of graphs.
std::string Checked(const std::string& node) {
  const absl::StatusOr<Graph> graph = ParseGraphText(absl::StrCat("n = ", node, "\n"));
  if (!graph.ok()) return std::string(graph.status().message());
  const absl::Status status = CheckAttrs(graph->node(graph->Find("n")));
  return status.ok() ? "OK" : std::string(status.message());
}

TEST(OpAttrs, WrongOnesAreRefusedByName) {
  const struct {
    const char *node, *message;
  } cases[] = {
      {"Relu()", "node 'n' (Relu): attribute 'T' is missing, expected type"},
      {"Relu() {T=\"float\"}", "node 'n' (Relu): attribute 'T' is string \"float\", expected type"},
      {"Relu() {T=string}",
       "node 'n' (Relu): attribute 'T' is type string, expected one of float, double, int32, uint8, int16, int8, int64, qint8, bfloat16, uint16, "
       "half, uint32, uint64"},
      {"MatMul() {T=float, transpose_a=1}", "node 'n' (MatMul): attribute 'transpose_a' is int 1, expected bool"},
      {"Pack() {T=float, N=\"two\"}", "node 'n' (Pack): attribute 'N' is string \"two\", expected int"},
      {"Pack() {T=float, N=0}", "node 'n' (Pack): attribute 'N' is int 0, expected at least 1"},
      {"MaxPool() {ksize=[1, 2], strides=[1, 2, 2, 1], padding=\"SAME\"}",
       "node 'n' (MaxPool): attribute 'ksize' is list(int) [1,2], expected at least 4 elements"},
      {"MaxPool() {ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding=\"SAMEE\"}",
       "node 'n' (MaxPool): attribute 'padding' is string \"SAMEE\", expected one of \"SAME\", \"VALID\", \"EXPLICIT\""},
      {"BiasAdd() {T=float, data_format=\"NWHC\"}",
       "node 'n' (BiasAdd): attribute 'data_format' is string \"NWHC\", expected one of \"NHWC\", \"NCHW\""},
      {"MirrorPad() {T=float, mode=\"WRAP\"}", "node 'n' (MirrorPad): attribute 'mode' is string \"WRAP\", expected one of \"REFLECT\", \"SYMMETRIC\""},
      {"ScatterNd() {T=float, Tindices=int32, bad_indices_policy=\"PANIC\"}",
       "node 'n' (ScatterNd): attribute 'bad_indices_policy' is string \"PANIC\", expected one of \"\", \"DEFAULT\", \"ERROR\", \"IGNORE\""},
      {"ParseExample() {Nsparse=1, Ndense=0, sparse_types=[int32], Tdense=[], dense_shapes=[]}",
       "node 'n' (ParseExample): attribute 'sparse_types' is list(type) [int32], expected each one of float, string, int64"},
  };
  for (const auto& test : cases) EXPECT_EQ(Checked(test.node), test.message);
}

TEST(OpAttrs, NoAttributeIsOfAReferenceOrOfNoType) {
  Node node;
  node.name = "n";
  node.op = "Identity";
  for (const DataType type : {DataType::kInvalid, static_cast<DataType>(kRefTypeOffset + 1)}) {
    node.attrs.Set("T", type);
    EXPECT_THAT(std::string(CheckAttrs(node).message()), HasSubstr("expected a type that is no reference"));
  }
}

TEST(OpAttrs, WhatTensorFlowTakesIsTaken) {
  for (const char* node : {
           "Sum() {T=float}",                                // the others have defaults
           "Relu() {T=float, _note=3, of_a_newer_op=true}",  // notes, and what a newer TensorFlow wrote
           "Relu() {T=$T}",                                  // in a function: the call's
           "Squeeze() {T=float, squeeze_dims=[]}",           // an empty list is one of any kind
           "_Fused() {T=3}", "OfNobody() {T=3}",             // ops that TensorFlow's definitions say nothing of
           "NoOp()",
       }) {
    EXPECT_EQ(Checked(node), "OK") << node;
  }
}

TEST(OpAttrs, AConstantsValueIsATensorOfItsType) {
  EXPECT_EQ(Checked("Const() {dtype=double, value=float[2]{1, 2}}"), "node 'n' (Const): attribute 'value' is float[2], expected double by attribute dtype");
  EXPECT_EQ(Checked("Const() {dtype=float, value=float[2]{1, 2}}"), "OK");
  Node node;
  node.name = "n";
  node.op = "Const";
  node.attrs = {{"dtype", DataType::kFloat}, {"value", Tensor()}};
  EXPECT_EQ(CheckAttrKinds(node).message(), "node 'n' (Const): attribute 'value' is no tensor");
}

TEST(OpAttrs, KindsAloneAreCheckedOfWhatIsThere) {
  Node node;
  node.name = "n";
  node.op = "MaxPool";
  node.attrs = {{"T", DataType::kString}, {"padding", "SAMEE"}, {"of_a_newer_op", 1}};
  EXPECT_TRUE(CheckAttrKinds(node).ok());
  node.attrs.Set("strides", 2);
  EXPECT_EQ(CheckAttrKinds(node).message(), "node 'n' (MaxPool): attribute 'strides' is int 2, expected list(int)");
}

TEST(OpAttrs, AreCheckedInGraphsAndFunctions) {
  const std::string node = "name: 'n' op: 'Relu' attr { key: 'T' value { type: DT_STRING } }";
  EXPECT_THAT(std::string(GraphFromBytes("node { " + node + " }").status().message()), HasSubstr("node 'n' (Relu): attribute 'T'"));
  EXPECT_THAT(std::string(GraphFromBytes("node { name: 'x' op: 'NoOp' } library { function { signature { name: 'f' } node_def { " + node + " } } }").status().message()),
              HasSubstr("function 'f': node 'n' (Relu): attribute 'T'"));
}

// Nodes with the same attributes are read once, of whatever op they are.
TEST(OpAttrs, AreCheckedForEveryNodeThatHasThem) {
  proto::GraphDef graph;
  for (const char* op : {"Identity", "Relu"}) {
    proto::NodeDef* node = graph.add_node();
    node->set_name(op);
    node->set_op(op);
    proto::AttrEntry* attr = node->add_attr();
    attr->set_key("T");
    attr->mutable_value()->set_type(proto::DT_STRING);
  }
  EXPECT_THAT(std::string(GraphFromBytes(graph.SerializeAsString()).status().message()), HasSubstr("node 'Relu' (Relu): attribute 'T' is type string"));
}

TEST(OpAttrs, ProductsOfFactorsWithManyZerosAreOfTheTypesThatTheySay) {
  proto::GraphDef graph;
  for (const char* name : {"a", "b"}) {
    proto::NodeDef* node = graph.add_node();
    node->set_name(name);
    node->set_op("SparseMatMul");
    for (const char* type : {"Ta", "Tb"}) {
      proto::AttrEntry* attr = node->add_attr();
      attr->set_key(type);
      attr->mutable_value()->set_type(proto::DT_BFLOAT16);
    }
  }
  const absl::StatusOr<Graph> read = GraphFromBytes(graph.SerializeAsString());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->node(read->Find("a")).op, "SparseMatMul");
  EXPECT_EQ(read->node(read->Find("b")).op, "SparseMatMul") << "read like the first";
}

TEST(OpAttrs, WhatANewerTensorFlowWroteIsNotKnown) {
  const AttrMap known = KnownAttrs("Relu", {{"T", DataType::kFloat}, {"of_a_newer_op", true}, {"_note", true}});
  EXPECT_TRUE(known.Has("T") && known.Has("_note"));
  EXPECT_FALSE(known.Has("of_a_newer_op"));
  EXPECT_TRUE(KnownAttrs("OnesOwn", {{"anything", 1}}).Has("anything"));
}

}  // namespace
}  // namespace millrace
