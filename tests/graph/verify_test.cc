#include "graph/verify.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "graph/text.h"

namespace millrace {
namespace {

Graph Parse(const std::string& text) {
  absl::StatusOr<Graph> graph = ParseGraphText(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

std::string ErrorOf(const Graph& graph) { return std::string(VerifyGraph(graph).message()); }

TEST(VerifyGraph, ALoopMayCloseThroughNextIterationOnly) {
  const std::string loop = "enter = Enter()\nmerge = Merge(enter, next)\nbody = Neg(merge)\n";
  EXPECT_TRUE(VerifyGraph(Parse(absl::StrCat(loop, "next = NextIteration(body)\n"))).ok());
  EXPECT_EQ(ErrorOf(Parse(absl::StrCat(loop, "next = Identity(body)\n"))),
            "the graph has a cycle: 'body' -> 'next' -> 'merge' -> 'body'; expected cycles only through "
            "NextIteration of a loop");
}

TEST(VerifyGraph, ControlEdgesCloseCyclesToo) {
  EXPECT_EQ(ErrorOf(Parse("a = NoOp() ^b\nb = NoOp() ^a\n")),
            "the graph has a cycle: 'b' -> 'a' -> 'b'; expected cycles only through NextIteration of a loop");
}

TEST(VerifyGraph, LongCyclesAreAbbreviated) {
  std::string text = "n0 = Neg(n9)\n";
  for (int i = 1; i < 10; ++i) absl::StrAppend(&text, "n", i, " = Neg(n", i - 1, ")\n");
  EXPECT_EQ(ErrorOf(Parse(text)),
            "the graph has a cycle: 'n1' -> 'n2' -> 'n3' -> 'n4' -> 'n5' -> 'n6' -> … (10 nodes) -> 'n1'; expected "
            "cycles only through NextIteration of a loop");
}

TEST(VerifyGraph, OutputsThatAProducerLacksAreNamed) {
  EXPECT_EQ(ErrorOf(Parse("a = A() : float[2]\nb = Neg(a:1)\n")),
            "node 'b' (Neg) takes input 'a:1', but 'a' (A) has 1 output");
  EXPECT_TRUE(VerifyGraph(Parse("a = A()\nb = Neg(a:1)\n")).ok()) << "types are not known yet";
}

TEST(VerifyGraph, EdgesToRemovedNodesAreErrors) {
  Graph graph = Parse("a = A()\nb = Neg(a)\n");
  graph.RemoveNode(NodeId{0});
  EXPECT_EQ(ErrorOf(graph), "node 'b' (Neg) has an input that is not in the graph (id 0)");
  graph.mutable_node(NodeId{1}).inputs.clear();
  EXPECT_TRUE(VerifyGraph(graph).ok());
  graph.mutable_node(NodeId{1}).control_inputs.push_back(NodeId{7});
  EXPECT_EQ(ErrorOf(graph), "node 'b' (Neg) has a control input that is not in the graph (id 7)");
}

TEST(VerifyGraph, NamesAndOpsMustBeThere) {
  Graph graph = Parse("a = A()\nb = B()\n");
  graph.mutable_node(NodeId{1}).name = std::string("a");  // behind the graph's back
  EXPECT_EQ(ErrorOf(graph), "two nodes are named 'a'");
  graph.mutable_node(NodeId{1}).name = std::string("b");
  graph.mutable_node(NodeId{1}).op.clear();
  EXPECT_EQ(ErrorOf(graph), "node 1 'b' has no op");
}

TEST(VerifyGraph, InPlacePairsMustBeInRange) {
  EXPECT_EQ(ErrorOf(Parse("a = A() : float[2]\nb = Neg(a) : float[2] inplace(0<-1)\n")),
            "node 'b' (Neg) has output 0 in place of input 1, which it does not have");
}

}  // namespace
}  // namespace millrace
