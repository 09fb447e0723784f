// Random graphs under every strategy and many budgets: a plan is made and passes the independent verifier (which
// Compile runs), or the budget is refused; never anything else. Plans that fit stay within the budget.
#include <random>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "passes/pipeline.h"
#include "passes/strategy.h"
#include "plan/disk_layout.h"
#include "plan/plan_verifier.h"
#include "testlib/test_ops.h"

namespace millrace {
namespace {

class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed) : random_(seed) {
    const int variables = Below(4), nodes = 5 + Below(40);
    tensors_.push_back({Add("Placeholder", {}), 0});
    graph_.mutable_node(tensors_[0].node).attrs.Set("dtype", DataType::kFloat);
    for (int v = 0; v < variables; ++v) variables_.push_back(Add("Var", {}));
    for (int i = 0; i < nodes; ++i) AddRandomNode();
  }

  Graph& graph() { return graph_; }
  const std::vector<std::string>& targets() const { return targets_; }
  int Below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random_); }

 private:
  NodeId Add(const std::string& op, std::vector<OutputRef> inputs) {
    Node node;
    node.name = absl::StrCat("n", graph_.num_ids());
    node.op = op;
    node.inputs.assign(inputs.begin(), inputs.end());
    node.attrs.Set("shape", Shape({4 * (1 + Below(40))}));
    if (Below(5) == 0) node.attrs.Set("scratch", int64_t{64} * Below(30));
    return graph_.AddNode(std::move(node)).value();
  }

  OutputRef Any() {
    // Mostly recent tensors, now and then an old one: long gaps.
    const int size = static_cast<int>(tensors_.size());
    return tensors_[Below(3) == 0 ? Below(size) : size - 1 - Below(std::min(size, 4))];
  }

  void AddRandomNode() {
    const int kind = Below(10);
    if (kind == 0 && !variables_.empty()) {
      tensors_.push_back({Add("Read", {{variables_[Below(static_cast<int>(variables_.size()))], 0}}), 0});
    } else if (kind == 1 && !variables_.empty()) {
      const NodeId variable = variables_[Below(static_cast<int>(variables_.size()))];
      targets_.push_back(graph_.node(Add("Update", {{variable, 0}, Any()})).name);
    } else if (kind == 2) {
      const NodeId node = Add("Two", {Any()});
      tensors_.push_back({node, 0});
      tensors_.push_back({node, 1});
    } else {
      const char* const ops[] = {"Op", "InPlace", "Small"};
      std::vector<OutputRef> inputs = {Any()};
      if (Below(2) == 0) inputs.push_back(Any());
      tensors_.push_back({Add(ops[Below(3)], inputs), 0});
      if (Below(8) == 0) targets_.push_back(graph_.node(tensors_.back().node).name);
    }
  }

  std::mt19937 random_;
  Graph graph_;
  std::vector<OutputRef> tensors_;
  std::vector<NodeId> variables_;
  std::vector<std::string> targets_;
};

// Feeds n0, fetches the last node, runs all targets.
CompileRequest RequestOf(RandomGraph& random, const OpRegistry& ops, KernelOracle& oracle) {
  CompileRequest request{random.graph(), ops, oracle, {}, {}, UnitMachine(), {}};
  request.signature.feeds["n0:0"] = {DataType::kFloat, random.graph().node(NodeId{0}).attrs.GetOr<Shape>("shape", {})};
  request.signature.targets = random.targets();
  request.signature.fetches = {absl::StrCat("n", random.graph().num_ids() - 1, ":0")};
  return request;
}

TEST(RandomPlans, FitTheBudgetOrAreRefused) {
  const OpRegistry ops = TestOps();
  int planned = 0, refused = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    RandomGraph random(seed);
    StubOracle oracle;
    CompileRequest request = RequestOf(random, ops, oracle);
    for (const std::string& strategy : StrategyNames()) {
      request.options.strategy = strategy;
      request.options.partition_size = strategy == "tensorflowmem" ? 1 + random.Below(8) : 0;
      request.options.device_memory_bytes = random.Below(4) == 0 ? 0 : 64 * (8 + random.Below(100));
      SCOPED_TRACE(absl::StrCat("seed ", seed, " strategy ", strategy, " budget ", request.options.device_memory_bytes));
      const absl::StatusOr<Compiled> compiled = Compile(request);
      if (absl::IsResourceExhausted(compiled.status())) {
        ++refused;
        continue;
      }
      ASSERT_TRUE(compiled.ok()) << compiled.status();
      ++planned;
      ASSERT_TRUE(VerifyPlan(compiled->plan).ok());
      if (request.options.device_memory_bytes > 0) {
        EXPECT_LE(compiled->plan.devices[0].arena_bytes, request.options.device_memory_bytes);
      }
    }
  }
  EXPECT_GT(planned, 500);
  EXPECT_GT(refused, 50);
}

// Values here are smaller than a page, so a pool of n pages holds n of them.
TEST(RandomPlans, WithADiskAPoolOfAPageOrMoreIsEnough) {
  const OpRegistry ops = TestOps();
  int tiered = 0, moved = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    RandomGraph random(seed);
    StubOracle oracle;
    CompileRequest request = RequestOf(random, ops, oracle);
    request.disk_tier = true;
    for (const char* strategy : {"tensorflowmem", "lru", "planned"}) {
      request.options.strategy = strategy;
      request.options.partition_size = 1 + random.Below(8);  // one order, whatever the disk costs
      request.options.device_memory_bytes = 64 * (40 + random.Below(60));
      request.options.host_memory_bytes = 0;
      const absl::StatusOr<Compiled> free = Compile(request);
      if (!free.ok()) continue;
      int64_t fixed = kDiskBounceBytes + kStateReserveBytes;
      for (const PlanConstant& constant : free->plan.constants) fixed += AlignUp(constant.value.size_bytes());
      request.options.host_memory_bytes = fixed + kDiskPageBytes * (1 + random.Below(6));
      SCOPED_TRACE(absl::StrCat("seed ", seed, " strategy ", strategy, " host ", request.options.host_memory_bytes));
      const absl::StatusOr<Compiled> compiled = Compile(request);
      ASSERT_TRUE(compiled.ok()) << compiled.status();
      ASSERT_TRUE(VerifyPlan(compiled->plan).ok());
      EXPECT_LE(compiled->plan.host_bytes, request.options.host_memory_bytes);
      // The device side is what it was.
      EXPECT_EQ(compiled->plan.bytes_to_device, free->plan.bytes_to_device);
      EXPECT_EQ(compiled->plan.devices[0].arena_bytes, free->plan.devices[0].arena_bytes);
      ++tiered;
      if (compiled->plan.bytes_to_disk > 0) ++moved;
    }
  }
  EXPECT_GT(tiered, 200);
  EXPECT_GT(moved, 50);
}

}  // namespace
}  // namespace millrace
