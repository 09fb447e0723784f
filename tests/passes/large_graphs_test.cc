// Rewrites of graphs of many nodes: none may take time that grows with the square of what they look at, or a stack as deep as the graph.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/text.h"
#include "millrace/graph.h"
#include "millrace/op.h"
#include "passes/rewrite/accumulate_reductions.h"
#include "passes/rewrite/bypass_unused.h"
#include "passes/rewrite/fuse_elementwise.h"
#include "passes/rewrite/order_variable_accesses.h"
#include "passes/rewrite/pack_rows.h"
#include "testlib/processor_time.h"

namespace millrace {
namespace {

Graph Parse(const std::string& text) {
  absl::StatusOr<Graph> graph = ParseGraphText(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

int64_t NumEdges(const Graph& graph) {
  int64_t edges = 0;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    if (graph.alive(NodeId{i})) edges += static_cast<int64_t>(graph.node(NodeId{i}).inputs.size() + graph.node(NodeId{i}).control_inputs.size());
  }
  return edges;
}

constexpr double kSeconds = 5;  // the quadratic ways took ten and more

// A decay whose value every turn uses: each of its ops may be computed where it is read.
TEST(LargeGraphs, ALongRowOfOpsThatMayBeRepeated) {
  std::string text = "x = Placeholder() {dtype=float, shape=shape[128]} : float[128]\ns = Placeholder() {dtype=float, shape=shape[]} : float[]\n";
  absl::StrAppend(&text, "d0 = Exp(x) {T=float} : float[128]\n");
  for (int i = 1; i < 50000; ++i) {
    absl::StrAppend(&text, "d", i, " = Mul(d", i - 1, ", s) {T=float} : float[128]\ne", i, " = Abs(d", i, ") {T=float} : float[128]\n");
  }
  Graph graph = Parse(text);
  std::vector<uint64_t> by_value(graph.num_ids(), 0);
  const double start = ProcessSeconds();
  const absl::StatusOr<int64_t> gone = FuseElementwise(graph, by_value);
  EXPECT_TRUE(gone.ok()) << gone.status();
  EXPECT_LT(ProcessSeconds() - start, kSeconds);
}

// A running sum that nobody takes, and every turn waits for it.
TEST(LargeGraphs, AChainThatIsOnlyWaitedFor) {
  std::string text = "x = Placeholder() {dtype=float, shape=shape[2]} : float[2]\nc0 = Neg(x) {T=float} : float[2]\nw0 = Tanh(x) {T=float} : float[2]\n";
  constexpr int kTurns = 20000;
  for (int i = 1; i <= kTurns; ++i) {
    absl::StrAppend(&text, "x", i, " = Exp(w", i - 1, ") {T=float} : float[2]\nc", i, " = AddV2(c", i - 1, ", x", i, ") {T=float} : float[2]\nw", i,
                    " = Tanh(x", i, ") ^c", i, " {T=float} : float[2]\n");
  }
  Graph graph = Parse(text);
  const double start = ProcessSeconds();
  const absl::StatusOr<int64_t> gone = BypassUnused(graph, OpRegistry::Builtin(), {});
  ASSERT_TRUE(gone.ok()) << gone.status();
  EXPECT_EQ(*gone, kTurns + 1);
  EXPECT_LT(NumEdges(graph), 20 * kTurns);
  EXPECT_LT(ProcessSeconds() - start, kSeconds);
}

TEST(LargeGraphs, ASumOverAllThatOneNodeMakes) {
  constexpr int kParts = 20000;
  std::string text = absl::StrCat("x = Placeholder() {dtype=float, shape=shape[", kParts, ",4]} : float[", kParts, ",4]\nu = Unpack(x) {T=float, num=", kParts,
                                  ", axis=0} : ");
  for (int i = 0; i < kParts; ++i) absl::StrAppend(&text, i > 0 ? ", " : "", "float[4]");
  absl::StrAppend(&text, "\nall = Const() {dtype=int32, value=int32[1]{0}} : int32[1]\n");
  std::string terms;
  for (int i = 0; i < kParts; ++i) {
    absl::StrAppend(&text, "s", i, " = Sum(u:", i, ", all) {T=float, Tidx=int32, keep_dims=false} : float[]\n");
    absl::StrAppend(&terms, i > 0 ? ", " : "", "s", i);
  }
  Graph graph = Parse(absl::StrCat(text, "y = AddN(", terms, ") {N=", kParts, ", T=float} : float[]\n"));
  std::vector<uint64_t> by_value(graph.num_ids(), 0);
  const double start = ProcessSeconds();
  const absl::StatusOr<int64_t> gone = AccumulateReductions(graph, OpRegistry::Builtin(), by_value);
  ASSERT_TRUE(gone.ok()) << gone.status();
  EXPECT_GT(*gone, kParts / 2);
  EXPECT_LT(ProcessSeconds() - start, kSeconds);
}

// Turns that write a reference variable, and take what was read of it before.
TEST(LargeGraphs, ManyWritesOfAReferenceVariable) {
  constexpr int kTurns = 20000;
  std::string text = "v = VariableV2() {dtype=float, shape=shape[3]} : float[3]\nx = Placeholder() {dtype=float, shape=shape[3]} : float[3]\n";
  absl::StrAppend(&text, "r = Identity(v) {T=float} : float[3]\nt0 = Exp(x) {T=float} : float[3]\n");
  for (int i = 1; i <= kTurns; ++i) {
    absl::StrAppend(&text, "a", i, " = AssignAdd(v, x) ^t", i - 1, " {T=float} : float[3]\nt", i, " = AddV2(t", i - 1, ", r) ^a", i, " {T=float} : float[3]\n");
  }
  Graph graph = Parse(text);
  const double start = ProcessSeconds();
  ASSERT_TRUE(OrderVariableAccesses(graph, OpRegistry::Builtin()).ok());
  // Each takes the memory as it is behind its own write.
  EXPECT_EQ(graph.node(graph.Find(absl::StrCat("t", kTurns))).inputs[1].node, graph.Find("r"));
  EXPECT_LT(ProcessSeconds() - start, kSeconds);
}

// The nodes that a pack needs move all others in memory, at one time or another.
TEST(LargeGraphs, PacksOfRowsInGraphsOfAnySize) {
  for (int more = 0; more < 40; ++more) {
    std::string text = "w = Placeholder() {dtype=float, shape=shape[16,16]} : float[16,16]\nall = Const() {dtype=int32, value=int32[2]{0,1}} : int32[2]\n";
    for (int i = 0; i < 4; ++i) {
      absl::StrAppend(&text, "x", i, " = Placeholder() {dtype=float, shape=shape[4,16]} : float[4,16]\nm", i, " = MatMul(x", i,
                      ", w) {T=float} : float[4,16]\ns", i, " = Sum(m", i, ", all) {T=float, Tidx=int32, keep_dims=false} : float[]\n");
    }
    absl::StrAppend(&text, "z0 = AddN(s0, s1, s2, s3) {N=4, T=float} : float[]\n");
    for (int i = 1; i <= more; ++i) absl::StrAppend(&text, "z", i, " = Sin(z", i - 1, ") {T=float} : float[]\n");
    Graph graph = Parse(text);
    std::vector<uint64_t> by_value(graph.num_ids(), 0);
    const absl::StatusOr<int64_t> packed = PackRows(graph, OpRegistry::Builtin(), {}, by_value);
    ASSERT_TRUE(packed.ok()) << packed.status();
    EXPECT_EQ(*packed, 4);
    for (int i = 0; i < 4; ++i) {
      const OutputRef part = graph.node(graph.Find(absl::StrCat("s", i))).inputs[0];
      EXPECT_EQ(graph.node(part.node).op, "Split");
      EXPECT_EQ(part.index, i);
    }
  }
}

}  // namespace
}  // namespace millrace
