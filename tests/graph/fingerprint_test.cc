// Fingerprints: equal for equal graphs, others for others.
#include "graph/fingerprint.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "graph/text.h"
#include "millrace/tensor.h"

namespace millrace {
namespace {

constexpr char kGraph[] = R"(
a = Const() {dtype=float, value=float[2]{1.0, 2.0}}
b = Const() {dtype=float, value=float[2]{3.0, 4.0}}
sum = Add(a, b) {T=float}
both = Mul(sum, a) {T=float}
done = NoOp() ^both
)";

uint64_t OfText(const std::string& text) {
  const auto graph = ParseGraphText(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? Fingerprint(*graph) : 0;
}

TEST(FingerprintTest, EqualGraphsHaveEqualOnes) {
  EXPECT_EQ(OfText(kGraph), OfText(kGraph));
  const auto graph = ParseGraphText(kGraph);
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(Fingerprint(graph->Clone()), OfText(kGraph));
  EXPECT_NE(Fingerprint(Graph()), 0u);
}

TEST(FingerprintTest, NodesThatShareAttributesCountAsThoseThatDoNot) {
  constexpr char kAlike[] = R"(
a = Op() {T=float, n=3, list=[1, 2], shape=shape[2,?], s="x"}
b = Op(a) {T=float, n=3, list=[1, 2], shape=shape[2,?], s="x"}
)";
  auto graph = ParseGraphText(kAlike);
  ASSERT_TRUE(graph.ok()) << graph.status();
  graph->mutable_node(graph->Find("b")).attrs = graph->node(graph->Find("a")).attrs;
  EXPECT_EQ(Fingerprint(*graph), OfText(kAlike));
  EXPECT_EQ(OfText(kAlike), 2323900411953722332u) << "plans that were written before know their graphs by this number";
}

TEST(FingerprintTest, WhyAFileWasNotReadDoesNotCount) {
  EXPECT_EQ(OfText("a = Op() {n=3, _why_unread=\"words.txt: No such file or directory\"}\n"), OfText("a = Op() {n=3}\n"));
}

TEST(FingerprintTest, AssetsCountByTheirNamesWithinTheModel) {
  const auto of_asset = [](const char* path, const char* file) {
    return OfText(absl::StrCat("a = Const() {dtype=string, value=string[]{\"", path, "\"}, _asset_file=\"", file, "\"}\n"));
  };
  EXPECT_EQ(of_asset("/models/m/assets/words.txt", "words.txt"), of_asset("m/assets/words.txt", "words.txt"));
  EXPECT_NE(of_asset("m/assets/words.txt", "words.txt"), of_asset("m/assets/others.txt", "others.txt"));
}

TEST(FingerprintTest, WhatPassesEstablishDoesNotCount) {
  auto graph = ParseGraphText(kGraph);
  ASSERT_TRUE(graph.ok());
  Node& node = graph->mutable_node(graph->Find("sum"));
  node.partition = 3;
  node.outputs = {{DataType::kFloat, Shape({2})}};
  EXPECT_EQ(Fingerprint(*graph), OfText(kGraph));
}

TEST(FingerprintTest, EveryDifferenceCounts) {
  std::set<uint64_t> seen = {OfText(kGraph)};
  for (const auto& change : std::vector<std::pair<std::string, std::string>>{
           {"4.0", "5.0"},             // a constant's value
           {"sum", "total"},           // a name
           {"Add(a", "Sub(a"},         // an op
           {"Add(a, b)", "Add(b, a)"}, // inputs
           {"Mul(sum, a)", "Mul(sum, sum)"},
           {"^both", "^sum"},          // a control input
           {"{T=float}\ndone", "{T=float, keep=true}\ndone"},
       }) {
    EXPECT_TRUE(seen.insert(OfText(absl::StrReplaceAll(kGraph, {{change.first, change.second}}))).second) << change.first;
  }
}

TEST(FingerprintTest, FunctionsCountInAnyOrder) {
  const auto with = [](const std::vector<std::pair<std::string, float>>& functions) {
    Graph graph;
    auto library = std::make_shared<Graph::Library>();
    for (const auto& [name, value] : functions) {
      auto body = std::make_shared<Graph>();
      Tensor tensor(DataType::kFloat, {1});
      tensor.mutable_as<float>()[0] = value;
      EXPECT_TRUE(body->AddNode({.name = "c", .op = "Const", .attrs = {{"value", tensor}}}).ok());
      (*library)[name] = {.name = name, .body = body};
    }
    graph.set_library(library);
    return Fingerprint(graph);
  };
  EXPECT_EQ(with({{"f", 1}, {"g", 2}}), with({{"g", 2}, {"f", 1}}));
  EXPECT_NE(with({{"f", 1}, {"g", 2}}), with({{"f", 2}, {"g", 1}}));
  EXPECT_NE(with({{"f", 1}}), with({}));
}

}  // namespace
}  // namespace millrace
