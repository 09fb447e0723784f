#include "millrace/graph.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

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

TEST(Graph, CopiesOfSomeNodesAreFoundByName) {
  Graph from;
  std::vector<bool> keep;
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(from.AddNode(Named(absl::StrCat("n", i))).ok());
    keep.push_back(i % 3 != 0);
  }
  from.RemoveNode(NodeId{199});
  keep[199] = false;
  Graph to;
  ASSERT_TRUE(to.AddNode(Named("mine")).ok());
  const absl::StatusOr<std::vector<NodeId>> renamed = to.AddNodesOf(from, keep);
  ASSERT_TRUE(renamed.ok()) << renamed.status();
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(renamed->at(i).valid(), keep[i]);
    EXPECT_EQ(to.Find(absl::StrCat("n", i)), renamed->at(i));
  }
  EXPECT_EQ(to.num_nodes(), 1 + std::count(keep.begin(), keep.end(), true));
  EXPECT_TRUE(to.Find("mine").valid());
  EXPECT_EQ(to.AddNodesOf(from, keep).status().code(), absl::StatusCode::kAlreadyExists);
}

TEST(AttrValue, HoldsWhatItIsMadeOf) {
  EXPECT_EQ(std::get<int64_t>(AttrValue(3)), 3);
  EXPECT_EQ(std::get<std::string>(AttrValue("valid")), "valid");
  EXPECT_TRUE(std::get<bool>(AttrValue(true)));
  EXPECT_EQ(std::get<std::vector<int64_t>>(AttrValue(std::vector<int64_t>{1, 2})), (std::vector<int64_t>{1, 2}));
  EXPECT_TRUE(std::holds_alternative<std::monostate>(AttrValue()));
  static_assert(std::is_constructible_v<AttrValue, long long> && std::is_constructible_v<AttrValue, uint32_t>);
  static_assert(!std::is_constructible_v<AttrValue, double>, "which would be cut to a float");
  static_assert(!std::is_constructible_v<AttrValue, uint64_t>, "which may be no int64");
}

TEST(AttrValue, CopiesAreItsOwn) {
  AttrValue list = std::vector<int64_t>{1, 2};
  const AttrValue copy = list;
  std::get<std::vector<int64_t>>(list).push_back(3);
  EXPECT_EQ(std::get<std::vector<int64_t>>(copy).size(), 2);
  const AttrValue moved = std::move(list);
  EXPECT_EQ(std::get<std::vector<int64_t>>(moved).size(), 3);
  list = copy;
  EXPECT_EQ(AttrToString(list), AttrToString(copy));
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

// The ready node of least priority, then least id, again and again.
std::vector<NodeId> OrderByDefinition(const Graph& graph, const std::vector<int64_t>& priority) {
  std::vector<bool> taken(graph.num_ids(), false);
  const auto ready = [&](const Node& node) {
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](OutputRef input) { return taken[input.node.value]; }) &&
           std::all_of(node.control_inputs.begin(), node.control_inputs.end(), [&](NodeId id) { return taken[id.value]; });
  };
  std::vector<NodeId> order;
  for (int32_t k = 0; k < graph.num_nodes(); ++k) {
    int32_t best = -1;
    for (int32_t i = 0; i < graph.num_ids(); ++i) {
      if (taken[i] || !graph.alive(NodeId{i}) || !ready(graph.node(NodeId{i}))) continue;
      if (best < 0 || priority[i] < priority[best]) best = i;
    }
    taken[best] = true;
    order.push_back(NodeId{best});
  }
  return order;
}

TEST(TopologicalOrder, TakesTheReadyNodeOfLeastPriorityFirst) {
  std::mt19937 random(3);
  for (int round = 0; round < 400; ++round) {
    const bool by_id = round % 4 != 0;  // whether ids are a topological order
    constexpr int32_t kNodes = 24;
    std::vector<int32_t> label(kNodes);
    for (int32_t i = 0; i < kNodes; ++i) label[i] = i;
    if (!by_id) std::shuffle(label.begin(), label.end(), random);
    Graph graph;
    for (int32_t i = 0; i < kNodes; ++i) ASSERT_TRUE(graph.AddNode(Named(absl::StrCat("n", i))).ok());
    std::vector<int64_t> priority(kNodes);
    for (int32_t i = 0; i < kNodes; ++i) {
      Node& node = graph.mutable_node(NodeId{label[i]});
      for (int k = random() % 3; i > 0 && k > 0; --k) node.inputs.push_back({NodeId{label[random() % i]}, 0});
      if (i > 0 && random() % 4 == 0) node.control_inputs.push_back(NodeId{label[random() % i]});
    }
    graph.RemoveNode(NodeId{label[kNodes - 1]});  // nobody takes it
    for (int32_t i = 0; i < kNodes; ++i) {
      const Node& node = graph.node(NodeId{i});
      priority[i] = i;
      const int kind = random() % (round % 3 == 0 ? 4 : 8);
      if (kind == 0 && !node.inputs.empty()) priority[i] = node.inputs[0].node.value;
      if (kind == 1) priority[i] = node.inputs.empty() ? -1 : priority[node.inputs[0].node.value];
      if (kind == 2 && round % 5 == 0) priority[i] = random() % kNodes;
    }
    const absl::StatusOr<std::vector<NodeId>> order = TopologicalOrder(graph, priority);
    ASSERT_TRUE(order.ok()) << order.status();
    EXPECT_EQ(*order, OrderByDefinition(graph, priority)) << round;
    std::vector<int64_t> ids(kNodes);
    for (int32_t i = 0; i < kNodes; ++i) ids[i] = i;
    EXPECT_EQ(*CreationOrder(graph), OrderByDefinition(graph, ids)) << round;
  }
}

TEST(Graph, RenamingNeverLosesANode) {
  Graph graph;
  const NodeId a = *graph.AddNode(Named("a")), b = *graph.AddNode(Named("b"));
  graph.Rename(b, "a");
  EXPECT_EQ(graph.Find("a"), a);
  EXPECT_EQ(graph.Find("a_1"), b);
  EXPECT_EQ(graph.node(b).name, "a_1");
  EXPECT_FALSE(graph.Find("b").valid());
  graph.Rename(a, "a");
  EXPECT_EQ(graph.Find("a"), a);
  graph.Rename(a, "b");
  EXPECT_EQ(graph.Find("b"), a);
}

TEST(Graph, RenamingTakesTheFirstSuffixThatIsFree) {
  Graph graph;
  std::vector<NodeId> added;
  for (int i = 0; i < 4; ++i) added.push_back(graph.AddUnique(Named("a")));
  const NodeId b = *graph.AddNode(Named("b")), c = *graph.AddNode(Named("c")), d = *graph.AddNode(Named("d"));
  graph.RemoveNode(added[1]);
  graph.Rename(b, "a");
  EXPECT_EQ(graph.node(b).name, "a_1");
  graph.Rename(c, "a");
  EXPECT_EQ(graph.node(c).name, "a_4");
  graph.RemoveNode(added[2]);
  graph.Rename(d, "a");
  EXPECT_EQ(graph.node(d).name, "a_2");
  graph.Rename(c, "e");
  EXPECT_EQ(graph.node(graph.AddUnique(Named("a"))).name, "a_4") << "those that are added are counted apart";
}

TEST(Graph, RenamingManyToOneNameIsQuick) {
  constexpr int kNodes = 20000;
  constexpr std::chrono::seconds kMost(5);  // nine times that if every name were looked for from the first suffix on
  Graph graph;
  for (int i = 0; i < kNodes; ++i) ASSERT_TRUE(graph.AddNode(Named(absl::StrCat("b", i))).ok());
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kNodes; ++i) graph.Rename(NodeId{i}, "a");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kMost);
  EXPECT_EQ(graph.Find("a").value, 0);
  EXPECT_EQ(graph.Find(absl::StrCat("a_", kNodes - 1)).value, kNodes - 1);
}

TEST(Graph, AGraphThatIsMovedFromIsEmpty) {
  Graph graph;
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(graph.AddNode(Named(absl::StrCat("n", i))).ok());
  graph.RemoveNode(NodeId{1});
  graph.producer_version = 7;
  const Graph constructed = std::move(graph);
  Graph assigned;
  assigned = constructed.Clone();
  Graph other = std::move(assigned);
  EXPECT_EQ(other.num_nodes(), 39);
  for (Graph* empty : {&graph, &assigned}) {
    EXPECT_EQ(empty->num_nodes(), 0);
    EXPECT_EQ(empty->producer_version, 0);
    ASSERT_TRUE(empty->AddNode(Named("a")).ok());
    EXPECT_FALSE(empty->Find("n1").valid());
    EXPECT_EQ(empty->num_nodes(), 1);
  }
}

TEST(Graph, AUniqueNameIsMadeOfTheOpWhereThereIsNone) {
  Graph graph;
  EXPECT_EQ(graph.node(graph.AddUnique(Named(""))).name, "NoOp");
  EXPECT_EQ(graph.node(graph.AddUnique(Named(""))).name, "NoOp_1");
  EXPECT_EQ(graph.node(graph.AddUnique(Node())).name, "node");
}

TEST(TopologicalOrder, ACycleIsAnErrorThatNamesANode) {
  Graph graph;
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(graph.AddNode(Named(name)).ok());
  graph.mutable_node(NodeId{1}).inputs.push_back({NodeId{2}, 0});
  graph.mutable_node(NodeId{2}).inputs.push_back({NodeId{1}, 0});
  EXPECT_EQ(CreationOrder(graph).status().message(), "the graph has a cycle through node 'b' (NoOp); expected an acyclic graph");
}

}  // namespace
}  // namespace millrace
