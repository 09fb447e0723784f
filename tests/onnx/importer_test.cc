// What the ONNX importer makes of good models and says of bad ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "model_maker.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using onnx_proto::TensorProto;

ModelMaker Linear() {
  ModelMaker maker;
  maker.Input("x", {2, 3}).Initializer("fc.weight", {3, 2}, {1, 2, 3, 4, 5, 6}).Output("y");
  maker.Node("MatMul", {"x", "fc.weight"}, {"y"});
  return maker;
}

void ExpectRefused(const ModelMaker& maker, const ::testing::Matcher<std::string>& message, const OnnxOptions& options = {}) {
  const absl::Status status = maker.Import(options).status();
  EXPECT_THAT(std::string(status.message()), message);
}

TEST(OnnxImport, NamesAreKept) {
  const absl::StatusOr<OnnxModel> model = Linear().Import();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->inputs.at("x"), "x");
  EXPECT_EQ(model->tensors.at("y"), "y:0");
  EXPECT_THAT(model->outputs, ElementsAre("y"));
  ASSERT_EQ(model->variables.count("fc.weight"), 1);
  EXPECT_EQ(model->variables.at("fc.weight").as<float>()[5], 6);
  for (int32_t i = 0; i < model->graph.num_ids(); ++i) {
    EXPECT_NE(model->graph.node(NodeId{i}).op, "Const") << "weights are not in the graph";
  }
}

TEST(OnnxImport, NamesThatTensorFlowWouldRefuseStayTheVariables) {
  ModelMaker maker;
  maker.Input("in:put", {1, 2}).Initializer("onnx::MatMul_7", {2, 1}, {1, 1}).Output("/head/out");
  maker.Node("MatMul", {"in:put", "onnx::MatMul_7"}, {"/head/out"});
  const absl::StatusOr<OnnxModel> model = maker.Import();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->inputs.at("in:put"), "in_put");
  EXPECT_EQ(model->tensors.at("/head/out"), "head/out:0");
  const absl::StatusOr<Arrays> result = RunOnce(maker.bytes(), {{"in:put", Floats({1, 2}, {3, 4})}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->at("/head/out").as<float>()[0], 7);
}

TEST(OnnxImport, OpenDimensionsAreResolvedByFeedsAndByTheirNames) {
  ModelMaker maker;
  maker.Input("a", {-1, 2}, TensorProto::FLOAT, "N").Input("b", {-1, 2}, TensorProto::FLOAT, "N").Output("y");
  maker.Node("Add", {"a", "b"}, {"y"});
  ExpectRefused(maker, AllOf(HasSubstr("without a known shape"), HasSubstr("a float[?,2]"), HasSubstr("--feed_shapes")));
  const absl::StatusOr<OnnxModel> model = maker.Import({.input_shapes = {{"a", {5, 2}}}});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->graph.type({model->graph.Find("b"), 0}).shape, Shape({5, 2}));
  ExpectRefused(maker, AllOf(HasSubstr("'a' is [?,2]"), HasSubstr("[5,3]")), {.input_shapes = {{"a", {5, 3}}}});
  // Names such as "None" stand for any size in some exporters' files: it matters where one would have to follow.
  EXPECT_TRUE(maker.Import({.input_shapes = {{"a", {3, 2}}, {"b", {1, 2}}}}).ok());
  maker.Input("c", {-1, 2}, TensorProto::FLOAT, "N").Output("z").Node("Relu", {"c"}, {"z"});
  ExpectRefused(maker, HasSubstr("dimension 'N' of input 'c' is 3 in input 'a' and 1 in input 'b'"), {.input_shapes = {{"a", {3, 2}}, {"b", {1, 2}}}});
}

TEST(OnnxImport, ShapesAreOfInputs) {
  ModelMaker maker;
  maker.Input("a", {-1, 2}).Input("b:0", {-1, 2}).Output("y");
  maker.Node("Add", {"a", "b:0"}, {"y"});
  ExpectRefused(maker, HasSubstr("a shape is given for 'zzz', but the model has no such input, only a, b:0"), {.input_shapes = {{"a", {5, 2}}, {"zzz", {5, 2}}}});
  // TensorFlow's names end with a number.
  EXPECT_TRUE(maker.Import({.input_shapes = {{"a:0", {5, 2}}, {"a", {5, 2}}, {"b", {5, 2}}, {"b:0", {5, 2}}}}).ok());
}

TEST(OnnxImport, ShapesAreOfTargetsInEitherForm) {
  ModelMaker maker;
  maker.Input("a", {2, 3}).Initializer("w", {3}, {1, 2, 3}).Output("y");
  maker.Node("Mul", {"a", "w"}, {"y"});
  const OnnxTraining training{.loss = "mse:y:target"};
  const auto model = maker.Import({.input_shapes = {{"target", {2, 3}}, {"target:0", {2, 3}}}, .training = training});
  EXPECT_TRUE(model.ok()) << model.status();
}

TEST(OnnxImport, NegativeDimensionsOfInputsAreOpen) {
  ModelMaker maker;
  maker.Input("a", {3, 2}).Output("y");
  maker.Node("Relu", {"a"}, {"y"});
  maker.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_value(-1);
  const absl::StatusOr<Arrays> result = RunOnce(maker.bytes(), {{"a", Floats({1, 2}, {-3, 4})}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("y").as<float>(), ElementsAre(0, 4));
  ExpectRefused(maker, HasSubstr("a float[?,2]; feed them"));
}

TEST(OnnxImport, ShapeArithmeticIsComputedWhileTheModelIsRead) {
  ModelMaker maker;
  maker.Input("x", {2, 3, 4}).IntInitializer("zero", {}, {0}).IntInitializer("rest", {1}, {-1}).Output("y");
  maker.Node("Shape", {"x"}, {"shape"});
  SetInt(maker.Node("Gather", {"shape", "zero"}, {"batch"}), "axis", 0);
  maker.Node("Unsqueeze", {"batch", "axes"}, {"batch_1d"});
  maker.IntInitializer("axes", {1}, {0});
  SetInt(maker.Node("Concat", {"batch_1d", "rest"}, {"wanted"}), "axis", 0);
  maker.Node("Reshape", {"x", "wanted"}, {"y"});
  const absl::StatusOr<OnnxModel> model = maker.Import();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->graph.type({model->graph.Find("y"), 0}).shape, Shape({2, 12}));
}

TEST(OnnxImport, InputsWhoseValuesDecideShapesBecomeConstants) {
  ModelMaker maker;
  maker.Input("x", {6}).Input("shape", {2}, TensorProto::INT64).Output("y");
  maker.Node("Reshape", {"x", "shape"}, {"y"});
  ExpectRefused(maker, AllOf(HasSubstr("make_y"), HasSubstr("from inputs shape"), HasSubstr("values are needed")));
  const Arrays feeds = {{"x", Floats({6}, {1, 2, 3, 4, 5, 6})}, {"shape", Ints({2}, {3, 2})}};
  const absl::StatusOr<OnnxModel> model = maker.Import({.input_values = feeds});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->inputs.count("shape"), 0);
  EXPECT_EQ(model->inputs.count("x"), 1);
  EXPECT_EQ(RunOnce(maker.bytes(), feeds)->at("y").shape(), Shape({3, 2}));
}

TEST(OnnxImport, FunctionsOfTheModelAreInlinedWithTheirAttributes) {
  ModelMaker maker;
  maker.Input("x", {2}).Output("y");
  onnx_proto::FunctionProto* function = maker.proto().add_functions();
  function->set_domain("mine");
  function->set_name("Leak");
  function->add_input("a");
  function->add_output("b");
  function->add_attribute("slope");
  onnx_proto::NodeProto* body = function->add_node();
  body->set_op_type("LeakyRelu");
  body->add_input("a");
  body->add_output("b");
  onnx_proto::AttributeProto* alpha = body->add_attribute();
  alpha->set_name("alpha");
  alpha->set_ref_attr_name("slope");
  onnx_proto::NodeProto& call = maker.Node("Leak", {"x"}, {"y"});
  call.set_domain("mine");
  onnx_proto::AttributeProto* slope = call.add_attribute();
  slope->set_name("slope");
  slope->set_f(0.5f);
  const absl::StatusOr<Arrays> result = RunOnce(maker.bytes(), {{"x", Floats({2}, {-4, 4})}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->at("y").as<float>()[0], -2);
  body->set_op_type("Leak");
  body->set_domain("mine");
  ExpectRefused(maker, HasSubstr("without end"));
}

TEST(OnnxImport, NestedGraphsOfFunctionsHaveTheCallsAttributesAndInputs) {
  ModelMaker branch, body, maker;
  onnx_proto::AttributeProto* alpha = branch.Node("LeakyRelu", {"a"}, {"leaky"}).add_attribute();
  alpha->set_name("alpha");
  alpha->set_ref_attr_name("slope");
  branch.Node("Clip", {"leaky", "low"}, {"clipped"});
  branch.Output("clipped");
  SetGraph(body.Node("If", {"always"}, {"b"}), "then_branch", branch);
  maker.Function("Leak", {"a", "always", "low"}, {"b"}, body).add_attribute("slope");
  maker.Input("x", {2}).IntInitializer("yes", {}, {1}).Output("y");
  onnx_proto::AttributeProto* slope = maker.Call("Leak", {"x", "yes"}, {"y"}).add_attribute();
  slope->set_name("slope");
  slope->set_f(0.5f);
  const absl::StatusOr<Arrays> result = RunOnce(maker.bytes(), {{"x", Floats({2}, {-4, 4})}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("y").as<float>(), ElementsAre(-2, 4));
}

TEST(OnnxImport, FunctionsOfOneNameAreToldByTheirOverload) {
  ModelMaker plain, other, maker;
  plain.Node("Relu", {"a"}, {"b"});
  other.Node("Neg", {"a"}, {"b"});
  maker.Function("F", {"a"}, {"b"}, plain);
  maker.Function("F", {"a"}, {"b"}, other).set_overload("negative");
  maker.Input("x", {2}).Output("y").Output("z");
  maker.Call("F", {"x"}, {"y"});
  maker.Call("F", {"x"}, {"z"}).set_overload("negative");
  const absl::StatusOr<Arrays> result = RunOnce(maker.bytes(), {{"x", Floats({2}, {-4, 4})}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("y").as<float>(), ElementsAre(0, 4));
  EXPECT_THAT(result->at("z").as<float>(), ElementsAre(4, -4));
}

TEST(OnnxImport, FunctionsThatNothingCallsMayHaveAnyOperators) {
  ModelMaker strange, maker = Linear();
  strange.Node("Frobnicate", {"a"}, {"b"});
  maker.Function("Strange", {"a"}, {"b"}, strange);
  const absl::Status status = maker.Import().status();
  EXPECT_TRUE(status.ok()) << status;
  ModelMaker between;
  between.Call("Strange", {"a"}, {"b"});
  maker.Function("Between", {"a"}, {"b"}, between);
  maker.Call("Between", {"x"}, {"z"});
  ExpectRefused(maker, HasSubstr("Frobnicate (1x)"));
}

// If of a condition that holds.
void AddIf(ModelMaker& maker, const std::string& output, const ModelMaker& branch) {
  SetGraph(maker.Node("If", {"yes"}, {output}), "then_branch", branch);
}

TEST(OnnxImport, InitialisersOfOneNameInSiblingsAreTwo) {
  ModelMaker left, right, maker;
  left.Initializer("W", {1}, {1}).Output("left");
  left.Node("Add", {"x", "W"}, {"left"});
  right.Initializer("W", {2}, {10, 20}).Output("right");
  right.Node("Add", {"x", "W"}, {"right"});
  maker.Input("x", {2}).IntInitializer("yes", {}, {1}).Output("y");
  AddIf(maker, "a", left);
  AddIf(maker, "b", right);
  maker.Node("Add", {"a", "b"}, {"y"});
  const absl::StatusOr<OnnxModel> model = maker.Import();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->variables.at("W").shape(), Shape({1}));
  EXPECT_EQ(model->variables.at("W_1").shape(), Shape({2}));
  const absl::StatusOr<Arrays> result = RunOnce(maker.bytes(), {{"x", Floats({2}, {3, 4})}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("y").as<float>(), ElementsAre(2 * 3 + 11, 2 * 4 + 21));
}

// "z" and "k" mean something inside and something else outside, and so does "x" in the loop.
TEST(OnnxImport, NamesOfNestedGraphsAreTheirOwn) {
  ModelMaker branch, body, maker;
  branch.Node("Neg", {"x"}, {"z"});
  branch.Node("Relu", {"z"}, {"y"});
  branch.Output("y");
  body.Input("i", {}, TensorProto::INT64).Input("going", {}, TensorProto::BOOL).Input("k", {2}).Input("x", {2});
  body.Output("still").Output("k2").Output("x2");
  body.Node("Identity", {"going"}, {"still"});
  body.Node("Add", {"k", "x"}, {"k2"});
  body.Node("Neg", {"x"}, {"x2"});
  maker.Input("x", {2}).IntInitializer("yes", {}, {1}).IntInitializer("three", {}, {3}).Output("y").Output("k").Output("end");
  AddIf(maker, "y", branch);
  maker.Node("Add", {"x", "y"}, {"z"});
  SetGraph(maker.Node("Loop", {"three", "", "x", "z"}, {"k", "last"}), "body", body);
  maker.Node("Add", {"k", "x"}, {"end"});
  const absl::StatusOr<Arrays> result = RunOnce(maker.bytes(), {{"x", Floats({2}, {-1, 2})}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("y").as<float>(), ElementsAre(1, 0));
  EXPECT_THAT(result->at("k").as<float>(), ElementsAre(-1 + 0, 2 + 2));  // x + z - z + z
  EXPECT_THAT(result->at("end").as<float>(), ElementsAre(-2, 6));
}

TEST(OnnxImport, OperatorsThatAreNotSupportedAreListedAllAtOnce) {
  ModelMaker maker = Linear();
  maker.Node("ImageDecoder", {"x"}, {"a"});
  maker.Node("ImageDecoder", {"x"}, {"b"});
  maker.Node("Frobnicate", {"x"}, {"c"}).set_domain("com.example");
  ExpectRefused(maker, AllOf(HasSubstr("ImageDecoder (2x)"), HasSubstr("com.example.Frobnicate (1x)")));
  EXPECT_EQ(maker.Import().status().code(), absl::StatusCode::kUnimplemented);
}

TEST(OnnxImport, WhatIsMissingIsNamed) {
  ModelMaker maker = Linear();
  maker.graph().clear_initializer();
  ExpectRefused(maker, AllOf(HasSubstr("'make_y' (MatMul)"), HasSubstr("'fc.weight'"), HasSubstr("initialiser")));
  ModelMaker no_output = Linear();
  no_output.Output("gone");
  ExpectRefused(no_output, AllOf(HasSubstr("output 'gone'"), HasSubstr("not computed")));
  ModelMaker no_shape = Linear();
  no_shape.Node("Reshape", {"x"}, {"z"});
  ExpectRefused(no_shape, AllOf(HasSubstr("'make_z' (Reshape)"), HasSubstr("input 1 is missing")));
}

TEST(OnnxImport, CyclesAndSecondProducersAreErrors) {
  ModelMaker cycle;
  cycle.Input("x", {2}).Output("y");
  cycle.Node("Add", {"x", "b"}, {"a"});
  cycle.Node("Relu", {"a"}, {"b"});
  cycle.Node("Relu", {"b"}, {"y"});
  ExpectRefused(cycle, AllOf(HasSubstr("cycle"), HasSubstr("make_a")));
  ModelMaker twice = Linear();
  twice.Node("Relu", {"x"}, {"y"});
  ExpectRefused(twice, HasSubstr("give 'y'"));
}

TEST(OnnxImport, EinsumOfThreeInputsIsAChainOfPairs) {
  ModelMaker maker;
  maker.Input("a", {1, 2}).Input("b", {2, 2}).Input("c", {2}).Output("y");
  auto* equation = maker.Node("Einsum", {"a", "b", "c"}, {"y"}).add_attribute();
  equation->set_name("equation");
  equation->set_s("ij, jk, k -> i");
  const absl::StatusOr<Arrays> result =
      RunOnce(maker.bytes(), {{"a", Floats({1, 2}, {1, 2})}, {"b", Floats({2, 2}, {1, 2, 3, 4})}, {"c", Floats({2}, {5, 6})}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->at("y").shape(), Shape({1}));
  EXPECT_EQ(result->at("y").as<float>()[0], 17 + 2 * 39);
}

// Weights of 0 and a bias on the gate that is added alone: the state is tanh(tanh(1) / 2) / 2 each way.
TEST(OnnxImport, BothDirectionsOfALstmHaveTheDefaultActivations) {
  ModelMaker maker;
  maker.Input("x", {1, 1, 1}).Initializer("w", {2, 4, 1}, std::vector<float>(8, 0));
  maker.Initializer("r", {2, 4, 1}, std::vector<float>(8, 0));
  maker.Initializer("b", {2, 8}, {0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}).Output("y");
  onnx_proto::NodeProto& node = maker.Node("LSTM", {"x", "w", "r", "b"}, {"y"});
  SetInt(node, "hidden_size", 1);
  onnx_proto::AttributeProto& direction = *node.add_attribute();
  direction.set_name("direction");
  direction.set_type(onnx_proto::AttributeProto::STRING);
  direction.set_s("bidirectional");
  const absl::StatusOr<Arrays> result = RunOnce(maker.bytes(), {{"x", Floats({1, 1, 1}, {3})}});
  ASSERT_TRUE(result.ok()) << result.status();
  const float expected = std::tanh(std::tanh(1.0f) / 2) / 2;
  for (int i : {0, 1}) EXPECT_NEAR(result->at("y").as<float>()[i], expected, 1e-6);
}

// One node of each operator whose result follows from values: inputs that are fed become constants.
TEST(OnnxImport, ResultsAsLongAsTheValuesSayAreComputedWhileTheModelIsRead) {
  ModelMaker maker;
  maker.Input("x", {5}).Output("places").Output("values").Output("counts");
  maker.Node("NonZero", {"x"}, {"places"});
  maker.Node("Unique", {"x"}, {"values", "", "", "counts"});
  const absl::StatusOr<Arrays> result = RunOnce(maker.bytes(), {{"x", Floats({5}, {2, 0, 1, 0, 2})}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("places").as<int64_t>(), ElementsAre(0, 2, 4));
  EXPECT_THAT(result->at("values").as<float>(), ElementsAre(0, 1, 2));
  EXPECT_THAT(result->at("counts").as<int64_t>(), ElementsAre(2, 1, 2));
}

TEST(OnnxImport, NodesMayComeInAnyOrder) {
  ModelMaker maker;
  maker.Input("x", {2}).Output("y");
  maker.Node("Neg", {"a"}, {"y"});
  maker.Node("Relu", {"x"}, {"a"});
  EXPECT_EQ(RunOnce(maker.bytes(), {{"x", Floats({2}, {3, -3})}})->at("y").as<float>()[0], -3);
}

TEST(OnnxImport, TypesAndShapesThatDoNotAgreeAreNamed) {
  ModelMaker types;
  types.Input("x", {2}).Input("i", {2}, TensorProto::INT64).Output("y");
  types.Node("Add", {"x", "i"}, {"y"});
  ExpectRefused(types, AllOf(HasSubstr("'make_y' (Add)"), HasSubstr("float[2]"), HasSubstr("int64[2]")));
  ModelMaker shapes;
  shapes.Input("x", {2, 3}).Initializer("w", {4, 5}, std::vector<float>(20)).Output("y");
  shapes.Node("MatMul", {"x", "w"}, {"y"});
  ExpectRefused(shapes, AllOf(HasSubstr("'make_y' (MatMul)"), HasSubstr("float[2,3]"), HasSubstr("float[4,5]")));
  ModelMaker axis = Linear();
  SetInt(axis.Node("Softmax", {"x"}, {"z"}), "axis", 5);
  ExpectRefused(axis, AllOf(HasSubstr("'make_z' (Softmax)"), HasSubstr("axis 5")));
}

TEST(OnnxImport, InitialisersThatLieAboutTheirSizeAreRefused) {
  ModelMaker few;
  few.Input("x", {2, 3}).Initializer("w", {3, 2}, {1, 2}).Output("y");
  few.Node("MatMul", {"x", "w"}, {"y"});
  ExpectRefused(few, AllOf(HasSubstr("'w'"), HasSubstr("float[3,2]"), HasSubstr("2 elements")));
  ModelMaker huge = Linear();
  huge.graph().mutable_initializer(0)->set_dims(0, int64_t{1} << 50);
  ExpectRefused(huge, HasSubstr("fc.weight"));
}

TEST(OnnxImport, FilesThatAreNoModel) {
  const std::string path = ::testing::TempDir() + "/truncated.onnx";
  const std::string whole = Linear().bytes();
  for (size_t size : {size_t{0}, size_t{1}, whole.size() / 2, whole.size() - 1}) {
    std::ofstream(path, std::ios::binary) << whole.substr(0, size);
    const absl::Status status = LoadOnnx(path).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr("truncated.onnx")) << size;
  }
  EXPECT_THAT(std::string(LoadOnnx("/no/such/model.onnx").status().message()), HasSubstr("/no/such/model.onnx"));
}

class ExternalData : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / "external" / "model";
    std::filesystem::create_directories(folder_);
    const float values[] = {9, 1, 2, 3, 4, 5, 6};
    for (const auto& path : {folder_ / "weights.bin", folder_.parent_path() / "secret.bin"}) {
      std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(values), sizeof(values));
    }
    std::error_code ignored;
    std::filesystem::remove(folder_ / "link.bin", ignored);
    std::filesystem::create_symlink("../secret.bin", folder_ / "link.bin");
  }

  void SetExternal(TensorProto& tensor, const std::string& location, const std::string& offset, const std::string& length) {
    tensor.set_data_location(TensorProto::EXTERNAL);
    for (const auto& [key, value] : {std::pair("location", location), std::pair("offset", offset), std::pair("length", length)}) {
      auto* entry = tensor.add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
  }

  absl::StatusOr<OnnxModel> Load(const ModelMaker& maker) {
    std::ofstream(folder_ / "model.onnx", std::ios::binary) << maker.bytes();
    return LoadOnnx((folder_ / "model.onnx").string());
  }

  absl::StatusOr<OnnxModel> Load(const std::string& location, const std::string& offset, const std::string& length) {
    ModelMaker maker = Linear();
    maker.graph().mutable_initializer(0)->clear_float_data();
    SetExternal(*maker.graph().mutable_initializer(0), location, offset, length);
    return Load(maker);
  }

  std::filesystem::path folder_;
};

TEST_F(ExternalData, IsReadFromTheModelsFolder) {
  const absl::StatusOr<OnnxModel> model = Load("weights.bin", "4", "24");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->variables.at("fc.weight").as<float>()[0], 1);
  EXPECT_EQ(model->external_files, std::vector<std::string>{std::filesystem::canonical(folder_ / "weights.bin").string()});
}

// The constant is [2, 3], which the result's shape becomes.
TEST_F(ExternalData, OfAttributesIsReadToo) {
  ModelMaker maker;
  maker.Input("x", {6}).IntInitializer("six", {1}, {6}).Output("y");
  const auto value = [&](onnx_proto::NodeProto& node, int64_t size, const char* offset, const char* length) {
    onnx_proto::AttributeProto* attribute = node.add_attribute();
    attribute->set_name("value");
    attribute->mutable_t()->set_data_type(TensorProto::FLOAT);
    attribute->mutable_t()->add_dims(size);
    SetExternal(*attribute->mutable_t(), "weights.bin", offset, length);
  };
  value(maker.Node("Constant", {}, {"floats"}), 2, "8", "8");
  SetInt(maker.Node("Cast", {"floats"}, {"shape"}), "to", TensorProto::INT64);
  value(maker.Node("ConstantOfShape", {"six"}, {"ones"}), 1, "4", "4");
  maker.Node("Add", {"x", "ones"}, {"sum"});
  maker.Node("Reshape", {"sum", "shape"}, {"y"});
  const absl::StatusOr<OnnxModel> model = Load(maker);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->graph.type({model->graph.Find("y"), 0}).shape, Shape({2, 3}));
  EXPECT_EQ(model->external_files.size(), 1u);
}

TEST_F(ExternalData, IsNeverReadFromOutside) {
  const std::string absolute = (folder_.parent_path() / "secret.bin").string();
  for (const std::string& location : {std::string("../secret.bin"), absolute, std::string("link.bin"), std::string("")}) {
    EXPECT_THAT(std::string(Load(location, "4", "24").status().message()),
                AllOf(HasSubstr("fc.weight"), HasSubstr("model's folder")));
  }
}

TEST_F(ExternalData, ThatIsTooShortOrMissingIsNamed) {
  EXPECT_THAT(std::string(Load("weights.bin", "8", "24").status().message()), AllOf(HasSubstr("weights.bin"), HasSubstr("28")));
  EXPECT_THAT(std::string(Load("weights.bin", "4", "20").status().message()), HasSubstr("20 bytes"));
  EXPECT_THAT(std::string(Load("weights.bin", "-4", "24").status().message()), HasSubstr("offset"));
  EXPECT_THAT(std::string(Load("gone.bin", "0", "24").status().message()), HasSubstr("gone.bin"));
}

}  // namespace
}  // namespace millrace::testing
