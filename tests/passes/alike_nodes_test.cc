// Alike nodes are looked at once, and give what each of them would give alone.
#include "passes/shapes/alike_nodes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "graph/text.h"
#include "passes/access/storage.h"
#include "passes/shapes/infer_shapes.h"
#include "passes/shapes/per_op.h"

namespace millrace {
namespace {

TEST(AlikeNodesTest, OpAttributesTypesAndPlaceAllCount) {
  const TensorType two{DataType::kFloat, Shape({2})}, three{DataType::kFloat, Shape({3})}, ints{DataType::kInt32, Shape({2})};
  const AttrMap attrs({{"T", DataType::kFloat}}), copy = attrs, others({{"T", DataType::kFloat}});
  const std::vector<const TensorType*> types = {&two, &three}, swapped = {&three, &two}, fewer = {&two}, of_ints = {&ints, &three};
  AlikeNodes<int> alike;
  const std::string add = "Add", sub = "Sub";
  EXPECT_EQ(alike.Find({add, attrs, types}), nullptr);
  alike.Add({add, attrs, types}, 7);
  ASSERT_NE(alike.Find({add, copy, types}), nullptr);
  EXPECT_EQ(*alike.Find({add, copy, types}), 7);
  EXPECT_EQ(alike.Find({sub, attrs, types}), nullptr);
  EXPECT_EQ(alike.Find({add, others, types}), nullptr) << "equal attributes that are not shared are another kind";
  EXPECT_EQ(alike.Find({add, AttrMap(), types}), nullptr);
  EXPECT_EQ(alike.Find({add, attrs, swapped}), nullptr);
  EXPECT_EQ(alike.Find({add, attrs, fewer}), nullptr);
  EXPECT_EQ(alike.Find({add, attrs, of_ints}), nullptr);
  EXPECT_EQ(alike.Find({add, attrs, types, 1}), nullptr);
}

TEST(AlikeNodesTest, AChangedCopyOfAttributesIsAnotherKind) {
  const TensorType type{DataType::kFloat, Shape({2})};
  const std::vector<const TensorType*> types = {&type};
  const std::string op = "Cast";
  AlikeNodes<int> alike;
  AttrMap attrs({{"DstT", DataType::kFloat}});
  alike.Add({op, attrs, types}, 1);
  attrs.Set("DstT", DataType::kDouble);
  EXPECT_EQ(alike.Find({op, attrs, types}), nullptr);
}

TEST(AlikeNodesTest, BeyondTheMostKindsNothingIsKeptAndAllThatWasIsFound) {
  const std::string op = "Op";
  AlikeNodes<int> alike;
  const auto find = [&](int i) {
    const TensorType type{DataType::kFloat, Shape({i})};
    const std::vector<const TensorType*> types = {&type};
    const int* found = alike.Find({op, AttrMap(), types});
    if (found == nullptr) alike.Add({op, AttrMap(), types}, i);
    return found == nullptr ? -1 : *found;
  };
  constexpr int kKinds = 5000;
  for (int i = 0; i < kKinds; ++i) EXPECT_EQ(find(i), -1);
  int known = 0;
  for (int i = 0; i < kKinds; ++i) {
    const int found = find(i);
    EXPECT_TRUE(found == i || found == -1) << i;
    known += found == i ? 1 : 0;
  }
  EXPECT_EQ(known, 4096);
}

TEST(PerOpTest, FindsForEachOpWhatIsKnownOfIt) {
  int asked = 0;
  const auto length = [&asked](const std::string& op) {
    ++asked;
    return op.size();
  };
  PerOp<size_t, decltype(length)> length_of(length);
  constexpr int kOps = 2000;  // more than there are slots
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < kOps; ++i) EXPECT_EQ(length_of(std::string(i, 'a')), i);
  }
  asked = 0;
  EXPECT_EQ(length_of("MatMul") + length_of("MatMul") + length_of("Add") + length_of(""), 15);
  EXPECT_LE(asked, 3);
}

class CountingOracle final : public KernelOracle {
 public:
  explicit CountingOracle(bool goes_by_name) : goes_by_name_(goes_by_name) {}
  absl::StatusOr<int64_t> ScratchBytes(const OpInstance& instance) override {
    ++asked_;
    return instance.inputs[0].size_bytes();
  }
  bool GoesByName() const override { return goes_by_name_; }
  absl::StatusOr<std::vector<Tensor>> Evaluate(const OpDef&, const OpInstance&, std::vector<Tensor>) override {
    return absl::UnimplementedError("nothing is folded here");
  }
  int asked() const { return asked_; }

 private:
  const bool goes_by_name_;
  int asked_ = 0;
};

// Of equal ops all nodes share the first one's attributes, as those of an imported graph do.
Graph WithSharedAttributes(const std::string& text) {
  auto graph = ParseGraphText(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  for (int32_t i = 0; i < graph->num_ids(); ++i) {
    for (int32_t j = 0; j < i; ++j) {
      Node& node = graph->mutable_node(NodeId{i});
      if (graph->node(NodeId{j}).op != node.op || node.op == "Const" || node.op == "_Feed") continue;
      node.attrs = graph->node(NodeId{j}).attrs;
      break;
    }
  }
  return *std::move(graph);
}

constexpr char kGraph[] = R"(
x = _Feed() {dtype=float, shape=shape[4,6]}
y = _Feed() {dtype=float, shape=shape[6,8]}
z = _Feed() {dtype=float, shape=shape[6,2]}
tall = Const() {dtype=int32, value=int32[2]{12, 2}}
wide = Const() {dtype=int32, value=int32[2]{2, 12}}
p = MatMul(x, y) {T=float}
q = MatMul(x, y) {T=float}
r = MatMul(x, z) {T=float}
s = MatMul(x, y) {T=float}
t = Reshape(x, tall) {T=float}
u = Reshape(x, wide) {T=float}
)";

TEST(AlikeNodesTest, TypesAreThoseOfEachNodeAlone) {
  Graph graph = WithSharedAttributes(kGraph);
  CountingOracle oracle(false);
  const auto inferred = InferShapesAndFold(graph, OpRegistry::Builtin(), oracle, {});
  ASSERT_TRUE(inferred.ok()) << inferred.status();
  const auto shape = [&](const char* name) { return graph.node(graph.Find(name)).outputs[0].shape; };
  EXPECT_EQ(shape("p"), Shape({4, 8}));
  EXPECT_EQ(shape("q"), Shape({4, 8}));
  EXPECT_EQ(shape("r"), Shape({4, 2}));
  EXPECT_EQ(shape("s"), Shape({4, 8}));
  EXPECT_EQ(shape("t"), Shape({12, 2}));
  EXPECT_EQ(shape("u"), Shape({2, 12})) << "a shape that depends on a value is no other node's";
  EXPECT_EQ(inferred->by_value[graph.Find("u").value], 2u);
}

TEST(AlikeNodesTest, EstimatesAreAskedForOnceAKindUnlessTheyGoByName) {
  for (const bool goes_by_name : {false, true}) {
    Graph graph = WithSharedAttributes(kGraph);
    CountingOracle oracle(goes_by_name);
    auto inferred = InferShapesAndFold(graph, OpRegistry::Builtin(), oracle, {});
    ASSERT_TRUE(inferred.ok()) << inferred.status();
    ASSERT_TRUE(EstimateRuns(graph, OpRegistry::Builtin(), oracle, Machine(), PlanningOptions(), *inferred).ok());
    EXPECT_EQ(oracle.asked(), goes_by_name ? 4 : 2) << "two kinds of products, views take nothing";
    const auto estimate = [&](const char* name) { return inferred->estimates[graph.Find(name).value]; };
    EXPECT_EQ(estimate("s").scratch_bytes, estimate("p").scratch_bytes);
    EXPECT_EQ(estimate("s").seconds, estimate("p").seconds);
    EXPECT_GT(estimate("p").seconds, estimate("r").seconds);
  }
}

class ScratchOracle final : public KernelOracle {
 public:
  explicit ScratchOracle(int64_t bytes) : bytes_(bytes) {}
  absl::StatusOr<int64_t> ScratchBytes(const OpInstance&) override { return bytes_; }
  absl::StatusOr<std::vector<Tensor>> Evaluate(const OpDef&, const OpInstance&, std::vector<Tensor>) override {
    return absl::UnimplementedError("nothing is folded here");
  }

 private:
  const int64_t bytes_;
};

TEST(EstimateRunsTest, ScratchThatNoMachineHasDoesNotFit) {
  for (const int64_t bytes : {int64_t{1} << 60, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()}) {
    Graph graph = WithSharedAttributes("x = _Feed() {dtype=float, shape=shape[4,6]}\ny = Square(x) {T=float}\n");
    ScratchOracle oracle(bytes);
    auto inferred = InferShapesAndFold(graph, OpRegistry::Builtin(), oracle, {});
    ASSERT_TRUE(inferred.ok()) << inferred.status();
    const absl::Status status = EstimateRuns(graph, OpRegistry::Builtin(), oracle, Machine(), PlanningOptions(), *inferred);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_EQ(status.message(), "does not fit: the kernel of node 'y' (Square) needs scratch memory of 64.00 PiB or more");
  }
}

}  // namespace
}  // namespace millrace
