// Sequences of tensors: what is taken from them, what is put in, where they go in loops, how they are fed and fetched;
// loops that count their turns in floats.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model_maker.h"

namespace millrace::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using onnx_proto::AttributeProto;
using onnx_proto::TensorProto;

// [a, b] with c in front; then the last, how many there are, and all behind each other.
TEST(OnnxSequences, AreTakenApartByPlaces) {
  ModelMaker maker;
  maker.Input("a", {2}).Input("b", {1}).Input("c", {3}).IntInitializer("first", {}, {0}).IntInitializer("last", {}, {-1});
  maker.Output("tail").Output("count").Output("joined");
  maker.Node("SequenceConstruct", {"a", "b"}, {"two"});
  maker.Node("SequenceInsert", {"two", "c", "first"}, {"three"});
  maker.Node("SequenceAt", {"three", "last"}, {"tail"});
  maker.Node("SequenceLength", {"three"}, {"count"});
  SetInt(maker.Node("ConcatFromSequence", {"three"}, {"joined"}), "axis", 0);
  const absl::StatusOr<Arrays> got =
      RunOnce(maker.bytes(), {{"a", Floats({2}, {1, 2})}, {"b", Floats({1}, {3})}, {"c", Floats({3}, {4, 5, 6})}});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT(got->at("tail").as<float>(), ElementsAre(3));
  EXPECT_EQ(got->at("count").IntAt(0), 3);
  EXPECT_THAT(got->at("joined").as<float>(), ElementsAre(4, 5, 6, 1, 2, 3));
}

// y = y + [x_i squared] for every row.
TEST(OnnxSequences, GrowInLoops) {
  ModelMaker maker;
  maker.Input("x", {3}).IntInitializer("three", {}, {3}).Output("y");
  maker.Node("SequenceEmpty", {}, {"none"});
  onnx_proto::NodeProto& loop = maker.Node("Loop", {"three", "", "none"}, {"rows"});
  AttributeProto* attribute = loop.add_attribute();
  attribute->set_name("body");
  attribute->set_type(AttributeProto::GRAPH);
  ModelMaker body;
  body.Input("i", {}, TensorProto::INT64).Input("going", {}, TensorProto::BOOL).Input("before", {}).Output("still").Output("after");
  body.Node("Identity", {"going"}, {"still"});
  body.Node("Gather", {"x", "i"}, {"row"});
  body.Node("Mul", {"row", "row"}, {"square"});
  body.Node("SequenceInsert", {"before", "square"}, {"after"});
  *attribute->mutable_g() = body.graph();
  onnx_proto::NodeProto& joined = maker.Node("ConcatFromSequence", {"rows"}, {"y"});
  SetInt(joined, "axis", 0);
  SetInt(joined, "new_axis", 1);
  const absl::StatusOr<Arrays> got = RunOnce(maker.bytes(), {{"x", Floats({3}, {1, 2, 3})}});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT(got->at("y").as<float>(), ElementsAre(1, 4, 9));
}

// Numbers of turns that are compared as floats: small initialisers that decide them are constants, others train.
TEST(OnnxLoops, MayCountTheirTurnsInFloats) {
  ModelMaker maker;
  maker.Initializer("zero", {}, {0}).Initializer("one", {}, {1}).Initializer("three", {}, {3}).Initializer("w", {2}, {1, 2}).Output("y");
  maker.Node("Less", {"zero", "three"}, {"start"});
  onnx_proto::NodeProto& loop = maker.Node("Loop", {"", "start", "zero", "w"}, {"end", "y"});
  AttributeProto* attribute = loop.add_attribute();
  attribute->set_name("body");
  attribute->set_type(AttributeProto::GRAPH);
  ModelMaker body;
  body.Input("i", {}, TensorProto::INT64).Input("going", {}, TensorProto::BOOL).Input("count", {}).Input("h", {2});
  body.Output("still").Output("next").Output("doubled");
  body.Node("Add", {"count", "one"}, {"next"});
  body.Node("Less", {"next", "three"}, {"still"});
  body.Node("Add", {"h", "h"}, {"doubled"});
  *attribute->mutable_g() = body.graph();
  const absl::StatusOr<Arrays> got = RunOnce(maker.bytes(), {});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT(got->at("y").as<float>(), ElementsAre(8, 16));
  const absl::StatusOr<OnnxModel> model = maker.Import();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->variables.count("w"), 1);
  EXPECT_EQ(model->variables.count("three"), 0);
}

// A body of a state `s` that doubles; the condition it gives is a constant.
ModelMaker Doubling(bool going) {
  ModelMaker body;
  body.Input("i", {}, TensorProto::INT64).Input("going", {}, TensorProto::BOOL).Input("s", {2}).Output("still").Output("s2").Output("row");
  AttributeProto* still = body.Node("Constant", {}, {"still"}).add_attribute();
  still->set_name("value");
  still->mutable_t()->set_data_type(TensorProto::BOOL);
  still->mutable_t()->add_int32_data(going ? 1 : 0);
  body.Node("Add", {"s", "s"}, {"s2"});
  body.Node("Neg", {"s"}, {"row"});
  return body;
}

TEST(OnnxLoops, WithoutAConditionGoByTheirCount) {
  ModelMaker maker;
  maker.Input("x", {2}).IntInitializer("three", {}, {3}).IntInitializer("yes", {}, {1}).Output("y").Output("once");
  SetGraph(maker.Node("Loop", {"three", "", "x"}, {"y"}), "body", Doubling(false));
  SetGraph(maker.Node("Loop", {"three", "yes", "x"}, {"once"}), "body", Doubling(false));
  const absl::StatusOr<Arrays> got = RunOnce(maker.bytes(), {{"x", Floats({2}, {1, 2})}});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT(got->at("y").as<float>(), ElementsAre(8, 16));
  EXPECT_THAT(got->at("once").as<float>(), ElementsAre(2, 4));
  ModelMaker endless;
  endless.Input("x", {2}).Output("y");
  SetGraph(endless.Node("Loop", {"", "", "x"}, {"y"}), "body", Doubling(false));
  EXPECT_THAT(std::string(endless.Import().status().message()), HasSubstr("a loop without an end"));
}

TEST(OnnxLoops, OfNoStepsCollectNoRows) {
  ModelMaker maker, sums;
  maker.Input("x", {2}).Input("none_of_three", {3, 0}).IntInitializer("none", {}, {0}).Output("y").Output("rows").Output("sum").Output("columns");
  SetGraph(maker.Node("Loop", {"none", "", "x"}, {"y", "rows"}), "body", Doubling(true));
  sums.Input("before", {}).Input("column", {3}).Output("after").Output("twice");
  SetInt(sums.Node("ReduceSum", {"column"}, {"sum"}), "keepdims", 0);
  sums.Node("Add", {"before", "sum"}, {"after"});
  sums.Node("Add", {"column", "column"}, {"twice"});
  maker.Initializer("start", {}, {5});
  onnx_proto::NodeProto& scan = maker.Node("Scan", {"start", "none_of_three"}, {"sum", "columns"});
  SetGraph(scan, "body", sums);
  SetInt(scan, "num_scan_inputs", 1);
  SetInts(scan, "scan_input_axes", {1});
  SetInts(scan, "scan_output_axes", {-1});
  const absl::StatusOr<Arrays> got = RunOnce(maker.bytes(), {{"x", Floats({2}, {1, 2})}, {"none_of_three", Floats({3, 0}, {})}});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT(got->at("y").as<float>(), ElementsAre(1, 2));
  EXPECT_EQ(got->at("rows").shape(), Shape({0, 2}));
  EXPECT_THAT(got->at("sum").as<float>(), ElementsAre(5));
  EXPECT_EQ(got->at("columns").shape(), Shape({3, 0}));
}

TEST(OnnxLoops, OfOpset8ScanEveryElementOfABatch) {
  ModelMaker sums(8);
  sums.Input("before", {}).Input("element", {}).Output("after").Output("so_far");
  sums.Node("Add", {"before", "element"}, {"after"});
  sums.Node("Identity", {"after"}, {"so_far"});
  const auto scanned = [&](const char* lengths, bool reverse, int64_t batch = 2) -> absl::StatusOr<Arrays> {
    ModelMaker maker(8);
    maker.Input("start", {batch}).Input("x", {batch, 3}).IntInitializer("lengths", {2}, {3, 2}).Output("sum").Output("sums");
    onnx_proto::NodeProto& scan = maker.Node("Scan", {lengths, "start", "x"}, {"sum", "sums"});
    SetGraph(scan, "body", sums);
    SetInt(scan, "num_scan_inputs", 1);
    if (reverse) SetInts(scan, "directions", {1});
    std::vector<float> start = {0, 5}, x = {1, 2, 3, 10, 20, 30};
    start.resize(batch);
    x.resize(3 * batch);
    return RunOnce(maker.bytes(), {{"start", Floats({batch}, start)}, {"x", Floats({batch, 3}, x)}});
  };
  const absl::StatusOr<Arrays> forward = scanned("", false), backward = scanned("", true);
  ASSERT_TRUE(forward.ok()) << forward.status();
  EXPECT_THAT(forward->at("sum").as<float>(), ElementsAre(6, 65));
  EXPECT_EQ(forward->at("sums").shape(), Shape({2, 3}));
  EXPECT_THAT(forward->at("sums").as<float>(), ElementsAre(1, 3, 6, 15, 35, 65));
  ASSERT_TRUE(backward.ok()) << backward.status();
  EXPECT_THAT(backward->at("sums").as<float>(), ElementsAre(3, 5, 6, 35, 55, 65));
  EXPECT_THAT(std::string(scanned("lengths", false).status().message()), HasSubstr("sequence_lens"));
  EXPECT_THAT(std::string(scanned("", false, 0).status().message()), HasSubstr("Scan of an empty batch (opset 8)"));
}

TEST(OnnxLoops, HaveConstantsOnceNotAtEveryStep) {
  ModelMaker body, maker;
  body.Input("i", {}, TensorProto::INT64).Input("going", {}, TensorProto::BOOL).Input("s", {300}).Output("still").Output("s3");
  body.IntInitializer("ints", {300}, std::vector<int64_t>(300, 7));
  AttributeProto* value = body.Node("Constant", {}, {"floats"}).add_attribute();
  value->set_name("value_floats");
  for (int i = 0; i < 300; ++i) value->add_floats(5);
  SetInt(body.Node("Cast", {"ints"}, {"cast"}), "to", TensorProto::FLOAT);
  body.Node("Identity", {"going"}, {"still"});
  body.Node("Add", {"s", "floats"}, {"s2"});
  body.Node("Add", {"s2", "cast"}, {"s3"});
  maker.Input("x", {300}).IntInitializer("four", {}, {4}).Output("y");
  SetGraph(maker.Node("Loop", {"four", "", "x"}, {"y"}), "body", body);
  const absl::StatusOr<OnnxModel> model = maker.Import();
  ASSERT_TRUE(model.ok()) << model.status();
  int constants = 0;
  for (int32_t i = 0; i < model->graph.num_ids(); ++i) {
    constants += model->graph.node(NodeId{i}).op == "Const" && model->graph.type({NodeId{i}, 0}).shape == Shape({300}) ? 1 : 0;
  }
  EXPECT_EQ(constants, 2);
}

TEST(OnnxSequences, AreFedAndFetchedTensorByTensor) {
  ModelMaker maker;
  maker.graph().add_input()->set_name("s");
  maker.graph().mutable_input(0)->mutable_type()->mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type()->set_elem_type(TensorProto::FLOAT);
  maker.Node("SequenceErase", {"s"}, {"t"});
  maker.Output("t");
  const absl::StatusOr<Arrays> got =
      RunOnce(maker.bytes(), {{"s/0", Floats({1}, {1})}, {"s/1", Floats({2}, {2, 3})}, {"s/2", Floats({1}, {4})}});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->size(), 2);
  EXPECT_THAT(got->at("t/1").as<float>(), ElementsAre(2, 3));
}

// The loss is of two of three parts, so the third part of w's gradient is 0.
TEST(OnnxSequences, PassGradientsOn) {
  ModelMaker maker;
  maker.Initializer("w", {3}, {1, 2, 3}).IntInitializer("at", {}, {1}).IntInitializer("first", {}, {0}).Output("y");
  maker.Node("SplitToSequence", {"w"}, {"parts"});
  maker.Node("SequenceAt", {"parts", "at"}, {"b"});
  maker.Node("SequenceAt", {"parts", "first"}, {"a"});
  maker.Node("Mul", {"a", "b"}, {"product"});
  maker.Node("ReduceSum", {"product"}, {"y"});
  OnnxOptions options;
  options.training.emplace();
  options.training->loss = "y";
  options.training->optimizer = "sgd";
  options.training->learning_rate = 1;
  absl::StatusOr<OnnxModel> model = maker.Import(options);
  ASSERT_TRUE(model.ok()) << model.status();
  std::unique_ptr<Session> session;
  const absl::StatusOr<std::vector<float>> losses = TrainFor(*std::move(model), {}, 2, &session);
  ASSERT_TRUE(losses.ok()) << losses.status();
  EXPECT_THAT(*losses, ElementsAre(2, -1));  // 1 * 2, then (1 - 2) * (2 - 1)
}

TEST(OnnxSequences, ErrorsSayWhatIsWrong) {
  const auto error = [](const char* op, std::vector<std::string> inputs) {
    ModelMaker maker;
    maker.Input("x", {2}).IntInitializer("nine", {}, {9}).Output("y");
    maker.Node("SequenceConstruct", {"x"}, {"s"});
    maker.Node(op, std::move(inputs), {"y"});
    return std::string(RunOnce(maker.bytes(), {{"x", Floats({2}, {1, 2})}}).status().message());
  };
  EXPECT_THAT(error("SequenceAt", {"s", "nine"}), HasSubstr("place 9 in a sequence of 1"));
  EXPECT_THAT(error("SequenceLength", {"x"}), HasSubstr("input 0 is a tensor, expected a sequence of tensors"));
  EXPECT_THAT(error("Relu", {"s"}), HasSubstr("'s' is a sequence of tensors, expected a tensor"));
}

}  // namespace
}  // namespace millrace::testing
