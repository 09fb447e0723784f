// Conditionals and loops that values decide when the graph runs: results are selected.
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model_maker.h"

namespace millrace::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using onnx_proto::TensorProto;

ModelMaker Branch(const std::string& op, const std::string& result) {
  ModelMaker branch;
  branch.Output(result);
  branch.Node(op, {"x"}, {result});
  return branch;
}

// y is what the first branch gives where the sum of x is positive, else what the other one does.
ModelMaker SignOfSum(const ModelMaker& taken, const ModelMaker& other) {
  ModelMaker maker;
  maker.Input("x", {2}).Initializer("zero", {1}, {0}).Output("y");
  maker.Node("ReduceSum", {"x"}, {"sum"});  // one element of rank 1
  maker.Node("Greater", {"sum", "zero"}, {"positive"});
  onnx_proto::NodeProto& node = maker.Node("If", {"positive"}, {"y"});
  SetGraph(node, "then_branch", taken);
  SetGraph(node, "else_branch", other);
  return maker;
}

TEST(OnnxConditions, ThatAreComputedSelect) {
  const absl::StatusOr<std::vector<Arrays>> got = RunWithEach(SignOfSum(Branch("Neg", "a"), Branch("Abs", "b")).bytes(),
                                                              {{{"x", Floats({2}, {3, -1})}}, {{"x", Floats({2}, {1, -3})}}});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT((*got)[0].at("y").as<float>(), ElementsAre(-3, 1));
  EXPECT_THAT((*got)[1].at("y").as<float>(), ElementsAre(1, 3));
}

TEST(OnnxConditions, OfBranchesOfOtherShapesMustBeKnown) {
  const ModelMaker maker = SignOfSum(Branch("Neg", "a"), Branch("ReduceMax", "b"));
  const std::string message(maker.Import().status().message());
  EXPECT_THAT(message, HasSubstr("must be known before the graph runs; it is computed from inputs x"));
  EXPECT_THAT(message, HasSubstr("nor can all branches and steps run and be selected: node 'make_y' (If): a computed condition whose branches give other"));
  const absl::StatusOr<Arrays> got = RunOnce(maker.bytes(), {{"x", Floats({2}, {1, -3})}});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT(got->at("y").as<float>(), ElementsAre(1));
}

void AddNumber(ModelMaker& maker, const std::string& name, float value) {
  onnx_proto::AttributeProto* attribute = maker.Node("Constant", {}, {name}).add_attribute();
  attribute->set_name("value");
  attribute->mutable_t()->set_data_type(TensorProto::FLOAT);
  attribute->mutable_t()->add_float_data(value);
}

// A body of states (count, s): s doubles while count + 1 < `most` and the largest of s is below 10, which is said in numbers, as converters do.
ModelMaker DoublingBelowTen(bool collects = false) {
  ModelMaker body;
  body.Input("i", {}, TensorProto::INT64).Input("going", {}, TensorProto::BOOL).Input("count", {}).Input("s", {2});
  body.Output("still").Output("next").Output("doubled");
  if (collects) body.Output("row");
  body.Node("Add", {"s", "s"}, {"doubled"});
  body.Node("Add", {"count", "one"}, {"next"});
  SetInt(body.Node("ReduceMax", {"doubled"}, {"largest"}), "keepdims", 0);
  body.Node("Less", {"largest", "ten"}, {"below"});
  body.Node("Less", {"next", "most"}, {"more"});
  body.Node("And", {"more", "below"}, {"both"});
  SetInt(body.Node("Cast", {"both"}, {"number"}), "to", TensorProto::INT64);
  body.Node("Add", {"number", "nothing"}, {"assigned"});
  SetInt(body.Node("Cast", {"assigned"}, {"still"}), "to", TensorProto::BOOL);
  body.Node("Neg", {"s"}, {"row"});
  return body;
}

ModelMaker LoopBelowTen(const std::string& count, const std::vector<std::string>& outputs) {
  ModelMaker maker;
  maker.Input("x", {2}).IntInitializer("four", {}, {4}).IntInitializer("single", {}, {1});
  maker.IntInitializer("yes", {}, {1}).IntInitializer("nothing", {}, {0}).IntInitializer("many", {}, {1LL << 60});
  maker.Output("turns").Output("y");
  if (outputs.size() > 2) maker.Output(outputs[2]);
  for (const auto& [name, value] : {std::pair("zero", 0.0f), {"one", 1.0f}, {"ten", 10.0f}, {"most", 6.0f}}) AddNumber(maker, name, value);
  SetGraph(maker.Node("Loop", {count, "yes", "zero", "x"}, outputs), "body", DoublingBelowTen(outputs.size() > 2));
  return maker;
}

TEST(OnnxLoops, ThatValuesEndGiveTheStatesOfTheirLastStep) {
  const std::vector<Arrays> feeds = {{{"x", Floats({2}, {2, 1})}}, {{"x", Floats({2}, {20, 3})}}, {{"x", Floats({2}, {0, -1})}}};
  const absl::StatusOr<std::vector<Arrays>> counted = RunWithEach(LoopBelowTen("four", {"turns", "y"}).bytes(), feeds);
  ASSERT_TRUE(counted.ok()) << counted.status();
  EXPECT_THAT((*counted)[0].at("y").as<float>(), ElementsAre(16, 8));
  EXPECT_THAT((*counted)[0].at("turns").as<float>(), ElementsAre(3));
  EXPECT_THAT((*counted)[1].at("y").as<float>(), ElementsAre(40, 6)) << "the first step always counts";
  EXPECT_THAT((*counted)[2].at("y").as<float>(), ElementsAre(0, -16)) << "the count ends it";
}

TEST(OnnxLoops, EndWhereOneOfTheirConditionsIsKnownNotToHold) {
  for (const char* count : {"", "many"}) {
    const absl::StatusOr<std::vector<Arrays>> got = RunWithEach(LoopBelowTen(count, {"turns", "y"}).bytes(), {{{"x", Floats({2}, {0, -1})}}});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_THAT((*got)[0].at("turns").as<float>(), ElementsAre(6));
    EXPECT_THAT((*got)[0].at("y").as<float>(), ElementsAre(0, -64));
  }
}

TEST(OnnxLoops, CollectWhereTheCountEndsThemBeforeValuesDo) {
  const absl::StatusOr<std::vector<Arrays>> got = RunWithEach(LoopBelowTen("single", {"turns", "y", "rows"}).bytes(), {{{"x", Floats({2}, {2, 1})}}});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT((*got)[0].at("y").as<float>(), ElementsAre(4, 2));
  EXPECT_EQ((*got)[0].at("rows").shape(), Shape({1, 2}));
}

TEST(OnnxLoops, ThatValuesEndCollectNothing) {
  EXPECT_THAT(std::string(LoopBelowTen("four", {"turns", "y", "rows"}).Import().status().message()), HasSubstr("a loop that ends by what it computes"));
}

}  // namespace
}  // namespace millrace::testing
