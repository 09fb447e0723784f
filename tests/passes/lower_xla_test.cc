#include "passes/rewrite/lower_xla.h"

#include <algorithm>
#include <array>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "graph/pool_geometry.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "passes/control_flow/xla_ops.h"
#include "passes/shapes/infer_shapes.h"
#include "testlib/golden.h"
#include "testlib/test_ops.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string LowerXlaOf(const GoldenCase& golden) {
  absl::StatusOr<Graph> graph = ParseGraphText(golden.input);
  if (!graph.ok()) return absl::StrCat(graph.status().message(), "\n");
  const OpRegistry& ops = OpRegistry::Builtin();
  StubOracle oracle;
  const auto inferred = InferShapesAndFold(*graph, WithXlaOps(ops), oracle, {});
  if (!inferred.ok()) return absl::StrCat(inferred.status().message(), "\n");
  const auto now = LowerXla(*graph, ops);
  if (!now.ok()) return absl::StrCat(now.status().message(), "\n");
  EXPECT_TRUE(VerifyGraph(*graph).ok()) << VerifyGraph(*graph);
  const auto again = InferShapesAndFold(*graph, ops, oracle, {});
  if (!again.ok()) return absl::StrCat(again.status().message(), "\n");
  std::string text = now->empty() ? "unchanged\n" : "";
  for (int32_t i = 0; i < graph->num_ids(); ++i) {
    const Node& node = graph->node(NodeId{i});
    const char* pools = node.attrs.GetOr(kPoolsAsXla, false) ? " as XLA" : "";
    if (node.op != "Const") absl::StrAppend(&text, NodeToText(*graph, NodeId{i}, {.attrs = false}), pools, "\n");
  }
  return text;
}

class XlaGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(XlaGolden, TextIsAsExpected) { CheckGolden(GetParam(), LowerXlaOf); }

INSTANTIATE_TEST_SUITE_P(Xla, XlaGolden, ::testing::ValuesIn(GoldenFiles("xla")), [](const ::testing::TestParamInfo<std::string>& info) {
  const std::string name = info.param.substr(info.param.rfind('/') + 1);
  return name.substr(0, name.find('.'));
});

TEST(LowerXla, OpsOfAProgramStay) {
  absl::StatusOr<Graph> graph = ParseGraphText("x = Placeholder() {dtype=float, shape=shape[2]}\ny = XlaSort(x) {T=float}\n");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto now = LowerXla(*graph, WithXlaOps(OpRegistry::Builtin()));
  ASSERT_TRUE(now.ok()) << now.status();
  EXPECT_THAT(*now, IsEmpty());
}

// Nodes as a damaged or hostile graph may hold them. The same ones on every run.
class AbsurdXlaNode {
 public:
  explicit AbsurdXlaNode(uint64_t seed) : state_(seed) {}

  // A graph of one node of `op` behind placeholders and constants.
  Graph Make(const std::string& op) {
    static const std::map<std::string, int> kInputs = {{"XlaDot", 2},       {"XlaConvV2", 7},           {"XlaPad", 5},
                                                       {"XlaGather", 3},    {"XlaScatter", 3},          {"XlaReduceWindow", 7},
                                                       {"XlaSort", 1},      {"XlaSelectAndScatter", 6}, {"XlaVariadicSort", 2},
                                                       {"XlaReduce", 2},    {"XlaReducePrecision", 1}};
    Graph graph;
    const int rank = Pick(5);
    Node node;
    node.name = "y";
    node.op = op;
    node.attrs = AttrMap{{"T", DataType::kFloat}, {"dimension_numbers", Numbers(rank)}, {"computation", FunctionRef{"add", nullptr}}};
    for (const char* name : {"update_computation", "reducer", "scatter"}) node.attrs.Set(name, FunctionRef{"add", nullptr});
    node.attrs.Set("select", FunctionRef{"at_least", nullptr});
    node.attrs.Set("comparator", FunctionRef{"less", nullptr});
    node.attrs.Set("dimensions_to_reduce", std::vector<int64_t>{Pick(5) - 1});
    node.attrs.Set("batch_group_count", int64_t{Pick(4)});
    for (int i = 0; i < kInputs.at(op); ++i) node.inputs.push_back({Input(graph, rank), 0});
    CHECK(graph.AddNode(std::move(node)).ok());
    return graph;
  }

 private:
  NodeId Input(Graph& graph, int rank) {
    Node input;
    if (Pick(2) == 0) {
      const int count = std::array{rank, 2 * rank, 1, rank - 2, 2 * rank - 4}[Pick(5)];
      Tensor value(DataType::kInt32, count == 1 && Pick(2) == 0 ? Shape() : Shape({std::max(count, 0)}));
      for (int64_t i = 0; i < value.num_elements(); ++i) value.mutable_as<int32_t>()[i] = Pick(8) == 0 ? -1 : Pick(3);
      input.op = "Const";
      input.attrs = AttrMap{{"dtype", DataType::kInt32}, {"value", value}};
    } else {
      std::vector<int64_t> dims(Pick(4) == 0 ? Pick(5) : rank);
      for (int64_t& dim : dims) dim = Pick(4);
      input.op = "Placeholder";
      input.attrs = AttrMap{{"dtype", Pick(6) == 0 ? DataType::kInt32 : DataType::kFloat}, {"shape", Shape(absl::MakeConstSpan(dims))}};
    }
    input.name = "x";
    return graph.AddUnique(std::move(input));
  }
  // Fields with some dimensions each.
  std::string Numbers(int rank) {
    std::string bytes;
    for (char field = 1; field <= 12; ++field) {
      for (int i = Pick(3); i > 0; --i) {
        bytes.push_back(static_cast<char>(field << 3));
        bytes.push_back(static_cast<char>(Pick(rank + 2)));
      }
    }
    return bytes;
  }
  int Pick(int count) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int>((state_ >> 33) % static_cast<uint64_t>(std::max(count, 1)));
  }

  uint64_t state_;
};

TEST(LowerXla, AbsurdNodesAreRefusedOrLowered) {
  absl::StatusOr<Graph> functions = ParseGraphText(R"(
function add
  a = _Arg() {T=float, index=0}
  b = _Arg() {T=float, index=1}
  c = AddV2(a, b) {T=float}
  r = _Retval(c) {T=float, index=0}
end
function at_least
  a = _Arg() {T=float, index=0}
  b = _Arg() {T=float, index=1}
  c = GreaterEqual(a, b) {T=float}
  r = _Retval(c) {T=bool, index=0}
end
function less
  a = _Arg() {T=float, index=0}
  b = _Arg() {T=float, index=1}
  c = Less(a, b) {T=float}
  r = _Retval(c) {T=bool, index=0}
end
)");
  ASSERT_TRUE(functions.ok()) << functions.status();
  const OpRegistry& ops = OpRegistry::Builtin();
  const OpRegistry with_xla = WithXlaOps(ops);
  StubOracle oracle;
  std::map<std::string, int> lowered;
  for (const char* op : {"XlaDot", "XlaConvV2", "XlaPad", "XlaGather", "XlaScatter", "XlaReduceWindow", "XlaSort", "XlaSelectAndScatter", "XlaVariadicSort",
                         "XlaReduce", "XlaReducePrecision"}) {
    for (uint64_t seed = 0; seed < 300; ++seed) {
      Graph graph = AbsurdXlaNode(seed).Make(op);
      graph.set_library(functions->library());
      if (!InferShapesAndFold(graph, with_xla, oracle, {}).ok()) continue;
      const TensorType type = graph.node(graph.Find("y")).outputs[0];
      if (!LowerXla(graph, ops).ok()) continue;
      const auto again = InferShapesAndFold(graph, ops, oracle, {});
      if (!again.ok()) continue;  // of types that the new ops do not take
      EXPECT_EQ(graph.node(graph.Find("y")).outputs[0].ToString(), type.ToString()) << op << " of seed " << seed;
      ++lowered[op];
    }
  }
  EXPECT_GE(lowered.size(), 4);
}

TEST(XlaNumbers, MayBePackedOrNot) {
  const auto packed = ReadXlaDotNumbers(std::string("\n\2\1\2\22\1\0", 7)), apart = ReadXlaDotNumbers(std::string("\10\1\10\2\20\0", 6));
  ASSERT_TRUE(packed.ok() && apart.ok());
  EXPECT_THAT(packed->lhs_contracting, ElementsAre(1, 2));
  EXPECT_THAT(packed->rhs_contracting, ElementsAre(0));
  EXPECT_EQ(apart->lhs_contracting, packed->lhs_contracting);
  EXPECT_EQ(apart->rhs_contracting, packed->rhs_contracting);
  EXPECT_FALSE(ReadXlaDotNumbers("\n\5\1").ok());
}

}  // namespace
}  // namespace millrace
