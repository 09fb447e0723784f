#include "cli/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "fake_session.h"
#include "graph/text.h"
#include "logged.h"

namespace millrace::cli {
namespace {

using testing::HasSubstr;

class WorkloadTest : public testing::Test {
 protected:
  WorkloadTest() {
    options_.input.graph = "graph.pb";
    options_.input.targets = {"train"};
    options_.input.init_targets = {"init"};
  }

  void UseGraph(const std::string& text) {
    world_.environment.load_graph = [text](const std::string&) { return ParseGraphText(text); };
  }

  Options options_;
  FakeWorld world_;
};

TEST_F(WorkloadTest, CheckpointsNameVariablesWithoutTheirContainers) {
  world_.environment.load_graph = [](const std::string&) {
    return ParseGraphText(R"(
a = VariableV2() {dtype=float, shape=shape[], container="c"}
b = VariableV2() {dtype=float, shape=shape[], container="c"}
d = VarHandleOp() {dtype=float, shape=shape[], shared_name="b"}
e = VarHandleOp() {dtype=float, shape=shape[], shared_name="f", container="c"}
)");
  };
  const Tensor value = Tensor::Scalar(1.0f);
  world_.saved["checkpoint"] = {{"a", value}, {"b", value}, {"c:b", value}, {"f", value}};
  options_.input.checkpoint_in = "checkpoint";
  const absl::StatusOr<Workload> workload = LoadWorkload(options_.input, FeedValues::kTypesOnly, world_.environment);
  ASSERT_TRUE(workload.ok()) << workload.status();
  EXPECT_THAT(workload->initial_values, testing::ElementsAre(testing::Key("b"), testing::Key("c:a"), testing::Key("c:b"), testing::Key("c:f")));
  EXPECT_THAT(workload->checkpoint_keys, testing::ElementsAre(testing::Pair("c:a", "a"), testing::Pair("c:f", "f")));
}

// Those of a SavedModel are all there.
TEST_F(WorkloadTest, WhatACheckpointHasNoValueOfIsWarnedOfInContainersToo) {
  UseGraph(R"(
a = VariableV2() {dtype=float, shape=shape[], container="c"}
b = VariableV2() {dtype=float, shape=shape[], container="c"}
)");
  world_.saved["checkpoint"] = {{"b", Tensor::Scalar(1.0f)}};
  options_.input.checkpoint_in = "checkpoint";
  Logged told(google::GLOG_WARNING);
  const absl::StatusOr<Workload> workload = LoadWorkload(options_.input, FeedValues::kTypesOnly, world_.environment);
  ASSERT_TRUE(workload.ok()) << workload.status();
  EXPECT_THAT(workload->initial_values, testing::ElementsAre(testing::Key("c:b")));
  EXPECT_THAT(told.lines, testing::Contains("checkpoint: no value of c:a, which start as the init_targets leave them"));
  options_.input = {.saved_model = "folder", .checkpoint_in = "checkpoint"};
  EXPECT_EQ(LoadWorkload(options_.input, FeedValues::kTypesOnly, world_.environment).status().message(),
            "checkpoint: no layer/w/VALUE, the value of variable w");
}

// The graph does not tell the shape of v.
TEST_F(WorkloadTest, ValuesAreOfTheTypesThatTheGraphDeclares) {
  UseGraph(R"(
w = VarHandleOp() {dtype=float, shape=shape[3]}
v = VariableV2() {dtype=float, shape=shape[?]}
)");
  options_.input.checkpoint_in = "checkpoint";
  options_.input.init_targets = {};
  const auto initialise = [&](const Tensor& value, const char* name) {
    world_.saved["checkpoint"] = {{name, value}};
    const absl::StatusOr<Workload> workload = LoadWorkload(options_.input, FeedValues::kTypesOnly, world_.environment);
    EXPECT_TRUE(workload.ok()) << workload.status();
    FakeSession session({}, world_.engine);
    return std::string(Initialise(*workload, session, [] { return false; }).message());
  };
  EXPECT_EQ(initialise(Tensor::Vector<float>({1, 2, 3}), "w"), "");
  EXPECT_EQ(initialise(Tensor::Vector<float>({1, 2}), "w"),
            "--checkpoint_in=checkpoint: variable 'w' is float[2], the graph declares float[3]");
  EXPECT_THAT(initialise(Tensor::Vector<int32_t>({1, 2, 3}), "w"), testing::EndsWith("'w' is int32[3], the graph declares float[3]"));
  EXPECT_THAT(initialise(Tensor::Vector<float>({1, 2}), "v"), HasSubstr("no variable v")) << "which is the fake session's answer";
}

TEST_F(WorkloadTest, WhatResourcesKeepIsNoStranger) {
  UseGraph(R"(
table = MutableHashTableV2() {key_dtype=int64, value_dtype=float, shared_name="counts"}
sums = ConditionalAccumulator() {dtype=float, shape=shape[]}
)");
  const Tensor bytes = Tensor::Vector<uint8_t>({0});
  world_.saved["checkpoint"] = {{"counts/table", bytes}, {"sums/accumulator", bytes}, {"table/table", bytes}};
  options_.input.checkpoint_in = "checkpoint";
  Logged told(google::GLOG_WARNING);
  ASSERT_TRUE(LoadWorkload(options_.input, FeedValues::kTypesOnly, world_.environment).ok());
  EXPECT_THAT(told.lines, testing::ElementsAre("checkpoint: the graph has no variable table/table of the checkpoint"));
}

TEST_F(WorkloadTest, ReadingValuesCanBeInterrupted) {
  Workload workload;
  int read = 0;
  for (const char* name : {"w", "x"}) workload.initial_values[name] = [&read] { return Tensor::Scalar(static_cast<float>(++read)); };
  FakeSession session({}, world_.engine);
  EXPECT_TRUE(absl::IsCancelled(Initialise(workload, session, [&read] { return read == 1; })));
  EXPECT_EQ(read, 1);
}

TEST_F(WorkloadTest, WhatInitTargetsRestoreIsFedToThem) {
  std::string names = R"(string[3]{"w", "unused", "e"})";
  world_.environment.load_graph = [&](const std::string&) {
    return ParseGraphText(absl::StrCat(R"(
default = Const() {dtype=string, value=string[]{"checkpoint"}}
prefix = PlaceholderWithDefault(default) {dtype=string, shape=shape[]}
names = Const() {dtype=string, value=)", names, R"(}
slices = Const() {dtype=string, value=string[3]{"", "", "3 1,2"}}
r = RestoreV2(prefix, names, slices) {dtypes=[float, float, float]}
w = VariableV2() {dtype=float, shape=shape[2]}
e/part_0 = VariableV2() {dtype=float, shape=shape[2]}
a = Assign(w, r:0) {T=float}
b = Assign(e/part_0, r:2) {T=float}
init = NoOp() ^a ^b
other = RestoreV2(prefix, names, slices) {dtypes=[float, float, float]}
)"));
  };
  world_.saved["checkpoint"] = {{"e", Tensor::Vector<float>({1, 2, 3})}, {"w", Tensor::Vector<float>({4, 5})}};
  absl::StatusOr<Workload> workload = LoadWorkload(options_.input, FeedValues::kTypesOnly, world_.environment);
  ASSERT_TRUE(workload.ok()) << workload.status();
  EXPECT_THAT(workload->init_feed_types, testing::ElementsAre(testing::Key("r:0"), testing::Key("r:2")));
  const absl::StatusOr<Session::Feeds> feeds = workload->init_feeds();
  ASSERT_TRUE(feeds.ok()) << feeds.status();
  EXPECT_EQ(feeds->at("r:0").DoubleAt(1), 5);
  EXPECT_EQ(feeds->at("r:2").DoubleAt(1), 3);

  names = R"(string[2]{"w", "unused"})";
  workload = LoadWorkload(options_.input, FeedValues::kTypesOnly, world_.environment);
  EXPECT_THAT(std::string(workload.status().message()), HasSubstr("node 'r' (RestoreV2): prefix, names and slices must be constants"));
}

}  // namespace
}  // namespace millrace::cli
