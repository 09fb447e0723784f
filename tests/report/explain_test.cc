// Every fate of a tensor has its words.
#include "report/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "passes/pipeline.h"
#include "testlib/test_ops.h"

namespace millrace {
namespace {

using testing::HasSubstr;
using testing::Not;

// x -> a -> … -> g, and ga of g and a: a waits long.
ExecutionPlan LongWait(const PlanningOptions& options) {
  Graph graph;
  const char* const nodes[] = {"x", "a", "b", "c", "d", "e", "g"};
  for (const char* name : nodes) {
    Node node;
    node.name = name;
    node.op = "Op";
    node.attrs.Set("shape", Shape({2, 2}));
    if (graph.num_ids() > 0) node.inputs.push_back({NodeId{graph.num_ids() - 1}, 0});
    EXPECT_TRUE(graph.AddNode(std::move(node)).ok());
  }
  Node last;
  last.name = "ga";
  last.op = "Op";
  last.inputs.push_back({graph.Find("g"), 0});
  last.inputs.push_back({graph.Find("a"), 0});
  EXPECT_TRUE(graph.AddNode(std::move(last)).ok());
  const OpRegistry ops = TestOps();
  StubOracle oracle;
  CompileRequest request{graph, ops, oracle, {}, options, UnitMachine(), {}};
  request.signature.targets = {"ga"};
  absl::StatusOr<Compiled> compiled = Compile(request);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return std::move(compiled->plan);
}

std::string Words(const PlanningOptions& options, const std::string& name) {
  const auto text = Explain(LongWait(options), options, UnitMachine(), name);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.value_or("");
}

TEST(ExplainTest, SaysWhyATensorLeavesAndWhatForItComesBack) {
  const PlanningOptions options{.strategy = "tensorflowmem", .partition_size = 1};
  const std::string text = Words(options, "a:0");
  EXPECT_THAT(text, HasSubstr("copied to pool"));
  EXPECT_THAT(text, HasSubstr("next used 6 partitions later"));
  EXPECT_THAT(text, HasSubstr("read by ga"));
}

TEST(ExplainTest, SaysWhyATensorIsKept) {
  EXPECT_THAT(Words({.strategy = "baseline"}, "a:0"), HasSubstr("baseline moves nothing"));
  EXPECT_THAT(Words({.strategy = "tensorflowmem", .partition_size = 1, .swap_distance = 9}, "a:0"),
              HasSubstr("more than 9 partitions later"));
  TflmsOptions tflms{.swapout_threshold = 9, .swapin_ahead = 1, .swapin_groupby = 0};
  EXPECT_THAT(Words({.strategy = "tflms", .tflms = tflms}, "a:0"), HasSubstr("levels"));
  EXPECT_THAT(Words({.strategy = "tensorflowmem", .partition_size = 1, .swap_activations = false}, "a:0"), HasSubstr("--parts leaves such values"));
  EXPECT_THAT(Words({.strategy = "planned"}, "a:0"), HasSubstr("Everything fits"));
}

TEST(ExplainTest, SaysWhereANodeRunsAndWhyItIsCutThere) {
  const std::string text = Words({.strategy = "tensorflowmem", .partition_size = 4}, "c");
  EXPECT_THAT(text, HasSubstr("c (Op) runs at position"));
  EXPECT_THAT(text, HasSubstr("last of its partition: a partition ends when a device holds 4 nodes"));
}

TEST(ExplainTest, NamesWhatIsLikeAnUnknownName) {
  const PlanningOptions options{.strategy = "baseline"};
  const auto text = Explain(LongWait(options), options, UnitMachine(), "g");
  EXPECT_TRUE(text.ok());
  const auto unknown = Explain(LongWait(options), options, UnitMachine(), ":0");
  EXPECT_TRUE(absl::IsNotFound(unknown.status()));
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("there are"));
}

// a takes little to make from x; a and x wait for ga, while e, g and h need the room.
ExecutionPlan MadeAgain(const PlanningOptions& options) {
  struct Line {
    const char* name;
    const char* op;
    std::vector<const char*> inputs;
  };
  const Line lines[] = {{"x", "Op", {}}, {"a", "Small", {"x"}}, {"b", "Op", {"a"}}, {"c", "Op", {"b"}}, {"d", "Op", {"c"}},
                        {"e", "Op", {"d", "c"}}, {"g", "Op", {"e", "d"}}, {"h", "Op", {"g", "e", "d"}}, {"ga", "Op", {"h", "a", "x"}}};
  Graph graph;
  for (const Line& line : lines) {
    Node node;
    node.name = line.name;
    node.op = line.op;
    node.attrs.Set("shape", Shape({2, 2}));
    for (const char* input : line.inputs) node.inputs.push_back({graph.Find(input), 0});
    EXPECT_TRUE(graph.AddNode(std::move(node)).ok());
  }
  const OpRegistry ops = TestOps();
  StubOracle oracle;
  CompileRequest request{graph, ops, oracle, {}, options, UnitMachine(), {}};
  request.signature.targets = {"ga"};
  absl::StatusOr<Compiled> compiled = Compile(request);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return std::move(compiled->plan);
}

TEST(ExplainTest, SaysThatAValueIsComputedAgainAndWhy) {
  PlanningOptions options{.strategy = "planned"};
  options.recompute = Recompute::kOn;
  options.device_memory_bytes = 256;
  const ExecutionPlan plan = MadeAgain(options);
  const std::string first = Explain(plan, options, UnitMachine(), "a:0").value_or("");
  EXPECT_THAT(first, HasSubstr("computed again at 10 by a/recompute: computed again for 'ga' instead of moving 16 B"));
  EXPECT_THAT(first, Not(HasSubstr("kept")));
  const std::string again = Explain(plan, options, UnitMachine(), "a/recompute").value_or("");
  EXPECT_THAT(again, HasSubstr("computed again for 'ga' instead of moving 16 B"));
  EXPECT_THAT(again, HasSubstr("It is the first and last of its partition: partition 7 makes"));
}

}  // namespace
}  // namespace millrace
