// Between phases: each kind of violation is named, and what passes make is none.
#include "passes/verify_graph.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "graph/text.h"
#include "passes/prepare.h"
#include "passes/rewrite/order_variable_accesses.h"
#include "testlib/random_request.h"
#include "testlib/test_ops.h"

namespace millrace {
namespace {

absl::Status Verify(const std::string& text, GraphPhase phase, int32_t num_devices = 1) {
  const absl::StatusOr<Graph> graph = ParseGraphText(text);
  if (!graph.ok()) return graph.status();
  static const OpRegistry& ops = *new OpRegistry(TestOps());
  return VerifyPhase(*graph, ops, phase, "a pass", num_devices);
}

struct Violation {
  const char* name;
  GraphPhase phase;
  const char* graph;
  const char* message;
};

class Violations : public ::testing::TestWithParam<Violation> {};

TEST_P(Violations, AreNamed) {
  const auto& [name, phase, graph, message] = GetParam();
  const absl::Status status = Verify(graph, phase);
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_EQ(std::string(status.message()), absl::StrCat("after 'a pass': ", message));
}

constexpr Violation kViolations[] = {
    {"Call", GraphPhase::kTyped, "c = PartitionedCall() : float[4]\n", "'c' (PartitionedCall) is still there, expected other ops in its place"},
    {"Loop", GraphPhase::kTyped, "x = Op() : float[4]\nw = While(x) : float[4]\n", "'w' (While) is still there, expected other ops in its place"},
    {"LoopOfVersion1", GraphPhase::kTyped, "x = Op() : float[4]\ne = Enter(x) : float[4]\n",
     "'e' (Enter) is still there, expected other ops in its place"},
    {"Conditional", GraphPhase::kTyped, "x = Op() : float[4]\nm = Merge(x, x) : float[4], int32[]\n",
     "'m' (Merge) is still there, expected other ops in its place"},
    {"List", GraphPhase::kTyped, "l = EmptyTensorList() : float[4]\n", "'l' (EmptyTensorList) is still there, expected other ops in its place"},
    {"UnknownOp", GraphPhase::kTyped, "x = Nonesuch() : float[4]\n", "'x' (Nonesuch) is of an op that is not known"},
    {"UnknownShape", GraphPhase::kTyped, "x = Op() : float[?]\n", "'x' (Op) has output 0 of type float[?], expected one of known size or bound"},
    {"Untyped", GraphPhase::kTyped, "x = Op()\ny = Op(x) : float[4]\n", "'y' (Op) takes output 0 of 'x' (Op), which has 0"},
    {"TwoFetches", GraphPhase::kTyped, "x = Op() : float[4]\nf = _Fetch(x, x)\n", "'f' (_Fetch) has 2 inputs, expected one"},
    {"Cycle", GraphPhase::kTyped, "x = Op() ^y : float[4]\ny = Op(x) : float[4]\n",
     "the graph has a cycle: 'y' -> 'x' -> 'y'; expected cycles only through NextIteration of a loop"},
    {"InPlace", GraphPhase::kTyped, "x = Op() : float[4]\ny = Op(x) : float[4] inplace(0<-1)\n",
     "node 'y' (Op) has output 0 in place of input 1, which it does not have"},
    {"WritesInAnyOrder", GraphPhase::kOrdered, "w = Var() : float[4]\nx = Op() : float[4]\nu = Update(w, x) : float[4]\nv = Update(w, x) : float[4]\n",
     "no edges order 'u' (Update) and 'v' (Update), which access variable 'w'"},
    {"ReadAndWriteInAnyOrder", GraphPhase::kOrdered,
     "w = Var() : float[4]\nr = Read(w) : float[4]\nx = Op() : float[4]\na = Op(r) : float[4]\nu = Update(w, x) ^r : float[4]\n",
     "no edges order 'a' (Op) and 'u' (Update), which access variable 'w'"},
    {"ReadOfAnotherNodeOfTheVariable", GraphPhase::kOrdered,
     "w = VariableV2() {shared_name=\"s\"} : float[4]\nw2 = VariableV2() {shared_name=\"s\"} : float[4]\nu = Update(w) : float[4]\n"
     "r = Read(w2) : float[4]\n",
     "no edges order 'u' (Update) and 'r' (Read), which access variable 's'"},
    {"ReadIsOver", GraphPhase::kOrdered,
     "w = Var() : float[4]\nr = Read(w) : float[4]\nu = Update(w, r) : float[4]\na = Op(r) ^u : float[4]\n",
     "'a' (Op) takes what was read of variable 'w' before 'u' (Update) wrote it"},
    {"VariableOnADevice", GraphPhase::kPlaced, "w = Var() : float[4]\n", "'w' (Var) is on device 0, expected host memory, -1"},
    {"NoSuchDevice", GraphPhase::kPlaced, "x = Op() : float[4] @d1\n", "'x' (Op) is on device 1, expected one of 1"},
    {"RunsInHostMemory", GraphPhase::kPlaced, "x = Op() : float[4] @host\n", "'x' (Op) is on device -1, expected one of 1"},
};

INSTANTIATE_TEST_SUITE_P(All, Violations, ::testing::ValuesIn(kViolations),
                         [](const ::testing::TestParamInfo<Violation>& info) { return info.param.name; });

// Rewrites make some of what was taken apart.
TEST(VerifyGraph, WhatFusingMakesIsThereAgain) {
  const absl::StatusOr<Graph> graph = ParseGraphText("x = Op() : float[4]\ny = _FusedConv2D(x, x, x) : float[4]\n");
  ASSERT_TRUE(graph.ok()) << graph.status();
  OpRegistry ops = TestOps();
  EXPECT_FALSE(VerifyPhase(*graph, ops, GraphPhase::kTyped, "a pass").ok());
  OpDef fused = *ops.Find("Op");
  fused.name = "_FusedConv2D";
  ASSERT_TRUE(ops.Register(std::move(fused)).ok());
  const absl::Status status = VerifyPhase(*graph, ops, GraphPhase::kPlaced, "a pass");
  EXPECT_TRUE(status.ok()) << status;
}

TEST(VerifyGraph, PhasesAskForNoMoreThanTheyEstablish) {
  const std::string unordered = "w = Var() : float[4]\nu = Update(w) : float[4]\nv = Update(w) : float[4]\n";
  EXPECT_TRUE(Verify(unordered, GraphPhase::kTyped).ok());
  const std::string unplaced = "w = Var() : float[4]\nu = Update(w) : float[4]\n";
  EXPECT_TRUE(Verify(unplaced, GraphPhase::kOrdered).ok());
  const std::string placed = "w = Var() : float[4] @host\nu = Update(w) : float[4] @d1\n";
  EXPECT_TRUE(Verify(placed, GraphPhase::kPlaced, 2).ok()) << Verify(placed, GraphPhase::kPlaced, 2);
}

// By way of nodes between them, of which one comes before the first.
TEST(VerifyGraph, AccessesMayBeOrderedByLongPaths) {
  const std::string graph =
      "w = Var() : float[4]\nx = Op() : float[4]\nr = Read(w) : float[4]\na = Op(r, x) : float[4]\nb = Op(a) : float[4]\nc = Op(b, x) : float[4]\n"
      "d = Op(r) ^c : float[4]\nu = Update(w, x) ^d : float[4]\n";
  EXPECT_TRUE(Verify(graph, GraphPhase::kOrdered).ok()) << Verify(graph, GraphPhase::kOrdered);
}

// What is read of a reference is its memory: whoever takes it finds what was written last.
TEST(VerifyGraph, ReadsOfReferencesGoOn) {
  const std::string graph =
      "w = VariableV2() {dtype=float, shape=shape[4]} : float[4]\nr = Identity(w) : float[4]\nx = Op() : float[4]\n"
      "u = Update(w, x) : float[4]\na = Op(r) ^u : float[4]\n";
  EXPECT_TRUE(Verify(graph, GraphPhase::kOrdered).ok()) << Verify(graph, GraphPhase::kOrdered);
}

TEST(VerifyGraph, WhatIsPreparedOfRandomGraphsIsPlaced) {
  const OpRegistry ops = TestOps();
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    RandomGraph random(seed);
    StubOracle oracle;
    const int devices = static_cast<int>(seed % 3);
    const absl::StatusOr<Prepared> prepared = Prepare(RequestOf(random, ops, oracle, devices));
    ASSERT_TRUE(prepared.ok()) << prepared.status();
    const absl::Status status = VerifyPhase(prepared->graph, ops, GraphPhase::kPlaced, "place devices", std::max(devices, 1));
    ASSERT_TRUE(status.ok()) << status;
  }
}

}  // namespace
}  // namespace millrace
