// Every fate of a tensor has its words.
#include "report/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "passes/pipeline.h"
#include "testlib/plan_builder.h"
#include "testlib/test_ops.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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
  EXPECT_THAT(text, HasSubstr("  on the device from position 1 to "));
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

// Nodes f, g and h of 1 s, 2 s and 4 s in partitions of their own; those of `users` take w, which is on the device for good.
ExecutionPlan Resident(const std::string& users, bool read_before_write = true) {
  testing::PlanBuilder b(256);
  const int32_t w = b.Variable("w\n", 4, 64);
  b.plan().variables[w].read_before_write = read_before_write;
  double seconds = 1;
  for (const char node : std::string("fgh")) {
    const bool uses = users.find(node) != std::string::npos;
    ComputeStep& step = b.Compute({node}, "Mix", uses ? std::vector<testing::At>{{64, 4}} : std::vector<testing::At>{}, {}, {}, seconds);
    step.partition = static_cast<int32_t>(node - 'f');
    seconds *= 2;
  }
  ExecutionPlan plan = b.Build();
  plan.strategy = "baseline";
  plan.devices[0].num_partitions = 3;
  plan.residences = {{.tensor = "w\n", .kind = Residence::Kind::kVariable, .bytes = 16, .offset = 64, .first = 0, .last = 2, .reason = "stays on the device"}};
  return plan;
}

TEST(ExplainTest, AResidentVariableWaitsOverTheStepsEnd) {
  const auto words = [](const ExecutionPlan& plan) { return Explain(plan, {.strategy = "baseline"}, UnitMachine(), "w\n").value_or(""); };
  EXPECT_THAT(words(Resident("f")), HasSubstr("kept: it stays for the next step; its longest wait is 6.000 s of compute"));
  EXPECT_THAT(words(Resident("f")), HasSubstr("from f over the step's end to f, 3 partitions"));
  EXPECT_THAT(words(Resident("fg")), HasSubstr("its longest wait is 4.000 s of compute from g over the step's end to f, 2 partitions"));
  EXPECT_THAT(words(Resident("fh")), HasSubstr("its longest wait is 2.000 s of compute from f to h, 2 partitions"));
  // What it held is not needed again.
  EXPECT_THAT(words(Resident("f", false)), HasSubstr("kept: it stays for the next step\n"));
}

TEST(ExplainTest, NamesAreOnOneLine) {
  const ExecutionPlan plan = Resident("f");
  EXPECT_THAT(Explain(plan, {.strategy = "baseline"}, UnitMachine(), "w\n").value_or(""), ::testing::StartsWith("w\\x0a, 16 B:\n"));
  EXPECT_THAT(std::string(Explain(plan, {.strategy = "baseline"}, UnitMachine(), "w").status().message()), HasSubstr("there are w\\x0a"));
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
