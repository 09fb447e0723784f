// The tuner of tflms and its parts, on graphs made for them.
#include "passes/swaps/tflms_tuner.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "passes/order/order_levels.h"
#include "passes/pipeline.h"
#include "plan/plan_text.h"
#include "testlib/processor_time.h"
#include "testlib/test_ops.h"

namespace millrace {
namespace {

TEST(ParseLevels, TakesPythonSlices) {
  const auto levels = [](std::vector<std::string> slices) { return ParseLevels(slices, 10).value_or(std::vector<int32_t>{-1}); };
  EXPECT_EQ(levels({"1", "5", "7:9"}), (std::vector<int32_t>{1, 5, 7, 8}));
  EXPECT_EQ(levels({":3", "8:"}), (std::vector<int32_t>{0, 1, 2, 8, 9}));
  EXPECT_EQ(levels({"-1", "-3:-1", "0:10:4"}), (std::vector<int32_t>{0, 4, 7, 8, 9}));
  EXPECT_EQ(levels({"100:", "12"}), (std::vector<int32_t>{}));
  EXPECT_EQ(levels({"5::9223372036854775807"}), (std::vector<int32_t>{5}));  // no overflow in what comes after it
  for (const char* bad : {"", "x", "1:2:3:4", "1:2:0", "3-5"}) EXPECT_FALSE(ParseLevels({bad}, 10).ok()) << bad;
}

// A chain of `depth` layers and their gradients: layer i is used by gradient i, as in training.
class Chain {
 public:
  explicit Chain(int depth) {
    Add("x", "Placeholder", {});
    for (int i = 0; i < depth; ++i) Add(absl::StrCat("f", i), "Op", {i == 0 ? "x" : absl::StrCat("f", i - 1)});
    for (int i = depth - 1; i >= 0; --i) {
      Add(absl::StrCat("g", i), "Op", {i == depth - 1 ? absl::StrCat("f", i) : absl::StrCat("g", i + 1), absl::StrCat("f", i)});
    }
  }

  absl::StatusOr<Compiled> Plan(const TflmsOptions& tflms, int64_t budget) {
    const OpRegistry ops = TestOps();
    StubOracle oracle;
    CompileRequest request{graph_, ops, oracle, {}, {}, UnitMachine(), {}};
    request.signature.feeds["x:0"] = {DataType::kFloat, Shape({16, 16})};
    request.signature.targets = {"g0"};
    request.options.strategy = "tflms";
    request.options.tflms = tflms;
    request.options.device_memory_bytes = budget;
    return Compile(request);
  }

 private:
  void Add(const std::string& name, const std::string& op, const std::vector<std::string>& inputs) {
    Node node;
    node.name = name;
    node.op = op;
    for (const std::string& input : inputs) node.inputs.push_back({graph_.Find(input), 0});
    node.attrs.Set("shape", Shape({16, 16}));
    if (op == "Placeholder") node.attrs.Set("dtype", DataType::kFloat);
    EXPECT_TRUE(graph_.AddNode(std::move(node)).ok());
  }

  Graph graph_;
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
