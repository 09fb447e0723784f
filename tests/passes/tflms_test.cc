// The tuner of tflms and its parts, on graphs made for them.
#include "passes/swaps/tflms_tuner.h"

#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "passes/order/order_levels.h"
#include "passes/pipeline.h"
#include "passes/swaps/tflms_values.h"
#include "plan/plan_text.h"
#include "testlib/processor_time.h"
#include "testlib/test_ops.h"

namespace millrace {
namespace {

using testing::ElementsAre;

TEST(ParseLevels, TakesPythonSlices) {
  const auto levels = [](std::vector<std::string> slices) { return ParseLevels(slices, 10).value_or(std::vector<int32_t>{-1}); };
  EXPECT_EQ(levels({"1", "5", "7:9"}), (std::vector<int32_t>{1, 5, 7, 8}));
  EXPECT_EQ(levels({":3", "8:"}), (std::vector<int32_t>{0, 1, 2, 8, 9}));
  EXPECT_EQ(levels({"-1", "-3:-1", "0:10:4"}), (std::vector<int32_t>{0, 4, 7, 8, 9}));
  EXPECT_EQ(levels({"100:", "12"}), (std::vector<int32_t>{}));
  EXPECT_EQ(levels({"5::9223372036854775807"}), (std::vector<int32_t>{5}));  // no overflow in what comes after it
  for (const char* bad : {"", "x", "1:2:3:4", "1:2:0", "3-5"}) EXPECT_FALSE(ParseLevels({bad}, 10).ok()) << bad;
}

// A graph of tensors of 1 KiB that takes the feed x.
class SmallGraph {
 public:
  SmallGraph() { Add("x", "Placeholder", {}); }

  absl::StatusOr<Compiled> Plan(const TflmsOptions& tflms, int64_t budget) {
    const OpRegistry ops = TestOps();
    StubOracle oracle;
    CompileRequest request{graph_, ops, oracle, {}, {}, UnitMachine(), {}};
    request.signature.feeds["x:0"] = {DataType::kFloat, Shape({16, 16})};
    request.signature.targets = targets_;
    request.options.strategy = "tflms";
    request.options.tflms = tflms;
    request.options.device_memory_bytes = budget;
    return Compile(request);
  }

 protected:
  void AddTarget(const std::string& name) { targets_.push_back(name); }
  void Add(const std::string& name, const std::string& op, const std::vector<std::string>& inputs) {
    Node node;
    node.name = name;
    node.op = op;
    for (const std::string& input : inputs) node.inputs.push_back({graph_.Find(input), 0});
    node.attrs.Set("shape", Shape({16, 16}));
    if (op == "Placeholder") node.attrs.Set("dtype", DataType::kFloat);
    EXPECT_TRUE(graph_.AddNode(std::move(node)).ok());
  }

 private:
  Graph graph_;
  std::vector<std::string> targets_;
};

// A chain of `depth` layers and their gradients: layer i is used by gradient i, as in training.
class Chain : public SmallGraph {
 public:
  explicit Chain(int depth) {
    for (int i = 0; i < depth; ++i) Add(absl::StrCat("f", i), "Op", {i == 0 ? "x" : absl::StrCat("f", i - 1)});
    for (int i = depth - 1; i >= 0; --i) {
      Add(absl::StrCat("g", i), "Op", {i == depth - 1 ? absl::StrCat("f", i) : absl::StrCat("g", i + 1), absl::StrCat("f", i)});
    }
    AddTarget("g0");
  }
};

// `count` chains of two nodes beside each other, as initialisers are: one level holds the first node of every chain.
class Bundle : public SmallGraph {
 public:
  explicit Bundle(int count) {
    for (int i = 0; i < count; ++i) {
      Add(absl::StrCat("p", i), "Op", {"x"});
      Add(absl::StrCat("q", i), "Op", {absl::StrCat("p", i)});
      AddTarget(absl::StrCat("q", i));
    }
  }
};

bool HasNote(const ExecutionPlan& plan, const std::string& text) {
  for (const std::string& note : plan.notes) {
    if (absl::StrContains(note, text)) return true;
  }
  return false;
}

TEST(Tflms, SaysThatSwappingIsNotNeeded) {
  const auto compiled = Chain(8).Plan({}, 64 * 1024);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_TRUE(HasNote(compiled->plan, "swapping is not needed"));
  EXPECT_EQ(compiled->plan.counts.swap_outs, 0);
}

TEST(Tflms, TunesUntilItFits) {
  // 32 layers of 1 KiB each are kept for their gradients.
  int64_t swaps_before = 1000;
  for (const int64_t kib : {10, 16, 24, 30}) {
    const auto compiled = Chain(32).Plan({}, kib * 1024);
    ASSERT_TRUE(compiled.ok()) << kib << ": " << compiled.status();
    EXPECT_LE(compiled->plan.devices[0].arena_bytes, kib * 1024);
    EXPECT_GT(compiled->plan.counts.swap_outs, 0);
    EXPECT_LE(compiled->plan.counts.swap_outs, swaps_before) << "the more memory, the less is swapped";
    EXPECT_TRUE(HasNote(compiled->plan, "chosen"));
    EXPECT_TRUE(HasNote(compiled->plan, "uses by distance in levels"));
    swaps_before = compiled->plan.counts.swap_outs;
  }
}

TEST(Tflms, SaysWhatItNeedsWhenNothingFits) {
  TflmsOptions nothing_leaves;
  nothing_leaves.exclude_outputs.scopes = {"f", "g"};
  const auto compiled = Chain(32).Plan(nothing_leaves, 8 * 1024);
  EXPECT_TRUE(absl::IsResourceExhausted(compiled.status())) << compiled.status();
  EXPECT_TRUE(absl::StrContains(compiled.status().message(), "short by")) << compiled.status();
}

TEST(Tflms, FiltersMayNameWhatBodiesOfLoopsHold) {
  auto body = std::make_shared<Graph>();
  Node gate;
  gate.name = "gate";
  gate.op = "Sigmoid";
  ASSERT_TRUE(body->AddNode(gate).ok());
  auto library = std::make_shared<Graph::Library>();
  (*library)["body"].body = body;
  Graph whole;
  whole.set_library(library);
  Node loop;
  loop.name = "lstm/while";
  loop.op = "While";
  loop.attrs.Set("body", FunctionRef{.name = "body"});
  ASSERT_TRUE(whole.AddNode(loop).ok());
  const Graph prepared;  // of an initializer, which needs nothing of it
  const auto check = [&](TflmsOptions::Filter filter) { return CheckTflmsFilters(whole, prepared, {.exclude_outputs = std::move(filter)}); };
  EXPECT_TRUE(check({.types = {"Sigmoid"}}).ok());
  EXPECT_FALSE(check({.types = {"Sigmoids"}}).ok());
  EXPECT_TRUE(check({.scopes = {"lstm/while/turn_0"}}).ok());
  EXPECT_FALSE(check({.scopes = {"lstm/other/turn_0"}}).ok());
}

TEST(Tflms, TellsTheGraphTheSearchAndTheCopies) {
  // f0 to f3 are on the levels 1 to 4, g3 to g0 on 5 to 8. Each is used a level below, f0 to f2 by g0 to g2 as well.
  const auto compiled = Chain(4).Plan({.swapout_threshold = 2, .swapin_ahead = 1, .swapin_groupby = 0, .debug = true}, 0);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_THAT(compiled->plan.notes,
              ElementsAre("9 levels", "level 1: operations 1, cumulative size 2.00 KiB: f0 (Op)", "level 2: operations 1, cumulative size 2.00 KiB: f1 (Op)",
                          "level 3: operations 1, cumulative size 2.00 KiB: f2 (Op)", "level 4: operations 1, cumulative size 2.00 KiB: f3 (Op)",
                          "level 5: operations 1, cumulative size 3.00 KiB: g3 (Op)", "level 6: operations 1, cumulative size 3.00 KiB: g2 (Op)",
                          "level 7: operations 1, cumulative size 3.00 KiB: g1 (Op)", "level 8: operations 1, cumulative size 3.00 KiB: g0 (Op)",
                          "9 nodes, 12 edges, 0.00 MiB of parameters", "largest operation g2 (Op), 2.9e-06 GiB",
                          "given: swapout_threshold 2, swapin_ahead 1, swapin_groupby 0, sync_mode 0",
                          "3 swap-out operations (2.9e-06 GiB) and 3 swap-in operations (2.9e-06 GiB)",
                          "uses by distance in levels: 1: 7, 3-4: 1, 5-8: 2"));
}

TEST(Tflms, TellsEveryPassingSetAndTheLastIsTheChosenOne) {
  const auto compiled = Chain(32).Plan({}, 16 * 1024);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  std::string last_passing, chosen;
  int passing = 0;
  for (const std::string& note : compiled->plan.notes) {
    if (absl::StartsWith(note, "fits: ")) last_passing = note.substr(6), ++passing;
    if (absl::StartsWith(note, "chosen: ")) chosen = note.substr(8);
  }
  EXPECT_GE(passing, 3);
  EXPECT_TRUE(absl::StartsWith(chosen, last_passing)) << chosen;
}

TEST(Tflms, WhatRunsInCreationOrderIsToldWithItsLevels) {
  const TflmsOptions options{.serialization = {"1:2"}, .debug = true};
  const auto in_levels = Bundle(32).Plan(options, 64 * 1024);
  const auto as_created = Bundle(32).Plan({.debug = true}, 16 * 1024);
  ASSERT_TRUE(in_levels.ok()) << in_levels.status();
  ASSERT_TRUE(as_created.ok()) << as_created.status();
  EXPECT_TRUE(HasNote(in_levels->plan, "3 levels, 34 after 1 of them were serialised"));
  for (const char* told : {"3 levels", "level 1: operations 32, cumulative size 64.00 KiB: p0 (Op), p1 (Op)", "65 nodes, 64 edges",
                           "largest operation", "creation order does: swapping is not needed", "0 swap-out operations (0 GiB) and 0 swap-in",
                           "uses by distance in levels: 1: 32"}) {
    EXPECT_TRUE(HasNote(as_created->plan, told)) << told;
  }
  EXPECT_EQ(as_created->plan.counts.swap_outs, 0);
  EXPECT_LE(as_created->plan.devices[0].arena_bytes, 16 * 1024);
  // What fits neither way is refused.
  EXPECT_TRUE(absl::IsResourceExhausted(Bundle(32).Plan({}, 2 * 1024).status()));
}

TEST(Tflms, LevelsThatThereAreNotAreTold) {
  const auto compiled = Chain(4).Plan({.serialization = {"1", "999", "-10", "20:30", "5:"}}, 0);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  for (const char* slice : {"999", "-10", "20:30"}) {
    EXPECT_TRUE(HasNote(compiled->plan, absl::StrCat("--serialization: ", slice, " is none of the 9 levels"))) << slice;
  }
  EXPECT_TRUE(HasNote(compiled->plan, "9 levels, 9 after 5 of them were serialised"));
  for (const char* slice : {"1", "5:"}) EXPECT_FALSE(HasNote(compiled->plan, absl::StrCat("--serialization: ", slice, " is"))) << slice;
}

TEST(Tflms, ExcludedTensorsStay) {
  const TflmsOptions all{.swapout_threshold = 2, .swapin_ahead = 1, .swapin_groupby = 0};
  const auto count = [&](const TflmsOptions& options) {
    const auto compiled = Chain(8).Plan(options, 0);
    EXPECT_TRUE(compiled.ok()) << compiled.status();
    return compiled.ok() ? compiled->plan.counts.swap_outs : -1;
  };
  ASSERT_EQ(count(all), 7);
  TflmsOptions filtered = all;
  filtered.exclude_outputs.scopes = {"f0", "f1"};
  EXPECT_EQ(count(filtered), 5);
  filtered = all;
  filtered.exclude_inputs.types = {"Op"};
  EXPECT_EQ(count(filtered), 0);
  filtered = all;
  filtered.include_outputs.scopes = {"f2", "f3"};
  EXPECT_EQ(count(filtered), 2);
  filtered = all;
  filtered.include_inputs.scopes = {"g4"};
  EXPECT_EQ(count(filtered), 1);
  filtered.include_inputs.scopes = {"nothing"};
  EXPECT_TRUE(absl::IsInvalidArgument(Chain(8).Plan(filtered, 0).status()));
}

TEST(Tflms, RefusesParametersOutOfRange) {
  for (const TflmsOptions& bad : {TflmsOptions{.swapout_threshold = 0}, TflmsOptions{.swapin_ahead = 0},
                                  TflmsOptions{.sync_mode = 4}, TflmsOptions{.memory_ratio = 0}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Chain(4).Plan(bad, 8192).status()));
  }
}

TEST(Tflms, TunesFifteenThousandNodesWithinFiveSeconds) {
  Chain chain(7339);
  const double start = ProcessSeconds();
  const auto compiled = chain.Plan({}, 4 << 20);
  EXPECT_LE(ProcessSeconds() - start, 5 * TimeAllowance());
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_LE(compiled->plan.devices[0].arena_bytes, 4 << 20);
  EXPECT_GT(compiled->plan.counts.swap_outs, 3000);
}

}  // namespace
}  // namespace millrace
