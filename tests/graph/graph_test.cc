#include "millrace/graph.h"

#include <map>
#include <random>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

Node Named(const std::string& name) {
  Node node;
  node.name = name;
  node.op = "NoOp";
  return node;
}

TEST(Graph, NamesAreUnique) {
  Graph graph;
  ASSERT_TRUE(graph.AddNode(Named("a")).ok());
  EXPECT_EQ(graph.AddNode(Named("a")).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(graph.AddNode(Named("")).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(graph.num_nodes(), 1);
  EXPECT_EQ(graph.node(graph.AddUnique(Named("a"))).name, "a_1");
  EXPECT_EQ(graph.node(graph.AddUnique(Named("a"))).name, "a_2");
}

TEST(AttrMap, CopiesDifferAfterAChangeOfEither) {
  AttrMap first = {{"N", int64_t{2}}, {"name", std::string("x")}};
  AttrMap second = first;
  second.Set("N", int64_t{3});
  EXPECT_EQ(first.GetOr("N", int64_t{0}), 2);
  EXPECT_EQ(second.GetOr("N", int64_t{0}), 3);
  AttrMap third = second;
  second.Erase("name");
  EXPECT_TRUE(third.Has("name"));
  EXPECT_FALSE(second.Has("name"));
  third = std::move(second);
  EXPECT_EQ(third.size(), 1);
  EXPECT_TRUE(second.empty());
  second.Set("N", int64_t{4});
  EXPECT_EQ(third.GetOr("N", int64_t{0}), 3);
}

TEST(Graph, FindsByNameAfterAnyAddRemoveRenameAndCompact) {
  std::mt19937 random(7);
  Graph graph;
  std::map<std::string, std::string> expected;  // name -> op, which names the node for good
  for (int step = 0; step < 20000; ++step) {
    const std::string name = absl::StrCat("n", random() % 500);
    const NodeId found = graph.Find(name);
    ASSERT_EQ(found.valid(), expected.count(name) == 1) << step;
    if (found.valid()) {
      ASSERT_EQ(graph.node(found).op, expected[name]);
    }
    const int action = random() % 100;
    if (!found.valid()) {
      Node node = Named(name);
      node.op = absl::StrCat("op", step);
      expected[name] = node.op;
      ASSERT_TRUE(graph.AddNode(std::move(node)).ok());
    } else if (action < 50) {
      graph.RemoveNode(found);
      expected.erase(name);
    } else if (action < 98) {
      const std::string to = absl::StrCat(name, "x", step);
      graph.Rename(found, to);
      expected[to] = expected[name];
      expected.erase(name);
      graph.RemoveNode(graph.Find(to));
      expected.erase(to);
    } else {
      graph.Compact();
      ASSERT_EQ(graph.num_ids(), graph.num_nodes());
    }
    ASSERT_EQ(graph.num_nodes(), static_cast<int32_t>(expected.size()));
  }
  const Graph copy = graph.Clone();
  for (const auto& [name, op] : expected) EXPECT_EQ(copy.node(copy.Find(name)).op, op);
}

}  // namespace
}  // namespace millrace
