// What is computed again in vain is taken away: by name, and where the step gets shorter.
#include "passes/spare_recompute.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "graph/fused_norm.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "passes/access/deadline.h"
#include "passes/access/work_budget.h"
#include "passes/kernel_oracle.h"
#include "passes/look.h"
#include "passes/order/partition.h"
#include "passes/pass_clock.h"
#include "passes/plan_search.h"
#include "passes/recompute.h"
#include "passes/rewrite_order.h"
#include "passes/strategy.h"
#include "testlib/random_graph.h"
#include "testlib/random_request.h"
#include "testlib/test_ops.h"

namespace millrace {
namespace {

constexpr int kLooks = 64;

// Forward a, b, c; backward takes c, b and a twice.
constexpr const char* kText =
    "x = Op()\na = Op(x)\nb = Op(a)\nc = Op(b)\nd = Op(c)\n"
    "gc = Op(d, c)\ngb = Op(gc, b)\nga = Op(gb, a)\ngx = Op(ga, a)\nend = Op(gx, x)\n";

// c is used far from where it is made, a farther.
constexpr const char* kRoundsText =
    "x = Op()\na = Op(x)\nb = Op(a)\nc = Op(b)\nd = Op(c)\ne = Op(d)\nfar = Op(e, c)\nga = Op(far, a)\nend = Op(ga, x)\n";

class CancelledOracle final : public KernelOracle {
 public:
  absl::StatusOr<int64_t> ScratchBytes(const OpInstance&) override { return 0; }
  absl::StatusOr<std::vector<Tensor>> Evaluate(const OpDef&, const OpInstance&, std::vector<Tensor>) override { return absl::UnimplementedError(""); }
  absl::Status MayGoOn() override { return absl::CancelledError("enough"); }
};

class SpareRecomputeTest : public testing::Test {
 protected:
  SpareRecomputeTest() {
    request_.signature.targets = {"end"};
    request_.options.device_memory_bytes = 64 * 20;
    limits_.work = &work_;
  }

  Looked Order() { return Order(request_); }

  // Creation order, where all fits.
  Looked Order(const CompileRequest& request) {
    absl::StatusOr<Prepared> prepared = Prepare(request);
    EXPECT_TRUE(prepared.ok()) << prepared.status();
    OrderedGraph ordered;
    ordered.graph = std::make_shared<Graph>(std::move(prepared->graph));
    ordered.inferred = std::make_shared<const InferenceResult>(std::move(prepared->inferred));
    ordered.partitioning = *KeepCreationOrder(*ordered.graph);
    return LookAt(std::move(ordered));
  }

  Looked LookAt(OrderedGraph ordered) {
    absl::StatusOr<Looked> looked = Look(request_, **FindStrategy("planned"), limits_, std::move(ordered));
    EXPECT_TRUE(looked.ok()) << looked.status();
    return *std::move(looked);
  }

  // With what `made` made computed again for `consumer` and what comes after it.
  Looked Again(const Looked& looked, const std::string& made, const std::string& consumer, int output = 0) {
    const Graph& graph = *looked.ordered.graph;
    const DeviceGraph& device = looked.devices[0].device;
    FarUses far{device.storage({graph.Find(made), output}), 0};
    while (device.operations[far.before].node() != graph.Find(consumer)) ++far.before;
    return LookAt(ComputeAgain(looked.ordered, device, {far}, 8));
  }

  static std::string InputOf(const OrderedGraph& ordered, const std::string& node, int input) {
    return ordered.graph->node(ordered.graph->node(ordered.graph->Find(node)).inputs[input].node).name;
  }

  const OpRegistry ops_ = TestOps();
  StubOracle oracle_;
  const Graph graph_ = *ParseGraphText(kText);
  CompileRequest request_{graph_, ops_, oracle_, {}, {}, UnitMachine(), {}};
  WorkBudget work_{std::numeric_limits<int64_t>::max() / 4};
  PlanLimits limits_;
};

TEST_F(SpareRecomputeTest, WithoutCopiesTheGraphIsWhatItWas) {
  const Looked as_it_is = Order();
  const Looked again = Again(Again(as_it_is, "b", "gb"), "a", "ga");
  ASSERT_EQ(again.ordered.recomputed_nodes, 2);
  std::vector<NodeId> copies;
  for (const auto& [copy, of] : again.ordered.copies) copies.push_back(copy);
  const std::optional<OrderedGraph> without = WithoutCopies(again.ordered, copies);
  ASSERT_TRUE(without);
  EXPECT_EQ(GraphToText(*without->graph), GraphToText(*as_it_is.ordered.graph));
  EXPECT_EQ(without->partitioning.order, as_it_is.ordered.partitioning.order);
  EXPECT_EQ(without->recomputed_nodes, 0);
  EXPECT_TRUE(without->copies.empty());
}

TEST_F(SpareRecomputeTest, TheLastThatIsThereBeforeIsTaken) {
  const Looked once = Again(Order(), "a", "ga");
  const Looked twice = Again(once, "a/recompute", "gx");
  ASSERT_EQ(twice.ordered.copies.size(), 2u);
  const auto [first, second] = std::pair(twice.ordered.copies[0].first, twice.ordered.copies[1].first);
  const std::optional<OrderedGraph> without_second = WithoutCopies(twice.ordered, {second});
  ASSERT_TRUE(without_second);
  EXPECT_EQ(InputOf(*without_second, "gx", 1), "a/recompute");
  EXPECT_EQ(InputOf(*without_second, "ga", 1), "a/recompute");
  const std::optional<OrderedGraph> without_first = WithoutCopies(twice.ordered, {first});
  ASSERT_TRUE(without_first);
  EXPECT_EQ(InputOf(*without_first, "ga", 1), "a");
  EXPECT_EQ(InputOf(*without_first, "gx", 1), InputOf(twice.ordered, "gx", 1));
  EXPECT_EQ(without_first->recomputed_nodes, 1);
  const std::optional<OrderedGraph> without_both = WithoutCopies(*without_first, {second});
  ASSERT_TRUE(without_both);
  EXPECT_EQ(InputOf(*without_both, "gx", 1), "a");
}

TEST_F(SpareRecomputeTest, WhatOnlyACopyNeededGoesWithIt) {
  // b's copy needs a's: a is gone by then.
  const Graph graph = *ParseGraphText("x = Op()\na = Op(x)\nb = Op(a)\nc = Op(b)\nd = Op(c)\ne = Op(d)\nfar = Op(e, b, x)\n");
  CompileRequest request{graph, ops_, oracle_, {}, request_.options, UnitMachine(), {}};
  request.signature.targets = {"far"};
  const Looked again = Again(Order(request), "b", "far");
  ASSERT_EQ(again.ordered.recomputed_nodes, 2);
  const std::optional<OrderedGraph> without = WithoutCopies(again.ordered, {again.ordered.graph->Find("b/recompute")});
  ASSERT_TRUE(without);
  EXPECT_EQ(without->recomputed_nodes, 0);
  EXPECT_EQ(InputOf(*without, "far", 1), "b");
}

TEST_F(SpareRecomputeTest, WhatOnlyACopyOfAFormerRoundNeededGoesWithIt) {
  const Graph graph = *ParseGraphText(kRoundsText);
  CompileRequest request{graph, ops_, oracle_, {}, request_.options, UnitMachine(), {}};
  request.signature.targets = {"end"};
  // c's copy needs one of b, and the next round's of a comes before that; then only b's copy takes it.
  const Looked again = Again(Again(Again(Order(request), "c", "far"), "a", "b/recompute"), "a/recompute", "ga");
  ASSERT_EQ(again.ordered.recomputed_nodes, 4);
  ASSERT_EQ(InputOf(again.ordered, "b/recompute", 0), "a/recompute");
  const std::optional<OrderedGraph> without = WithoutCopies(again.ordered, {again.ordered.graph->Find("c/recompute")});
  ASSERT_TRUE(without);
  EXPECT_EQ(without->recomputed_nodes, 1);
  EXPECT_EQ(without->copies.size(), 1u);
  EXPECT_FALSE(without->graph->Find("a/recompute").valid());
  EXPECT_EQ(InputOf(*without, "far", 1), "c");
}

TEST_F(SpareRecomputeTest, ACopyThatStaysNamesWhatTakesIt) {
  const Graph graph = *ParseGraphText(kRoundsText);
  CompileRequest request{graph, ops_, oracle_, {}, request_.options, UnitMachine(), {}};
  request.signature.targets = {"end"};
  const Looked again = Again(Again(Order(request), "c", "far"), "a", "b/recompute");
  const auto reason = [](const OrderedGraph& ordered) { return ordered.graph->node(ordered.graph->Find("a/recompute")).reason; };
  ASSERT_THAT(reason(again.ordered), testing::HasSubstr("for 'b/recompute'"));
  const std::optional<OrderedGraph> without = WithoutCopies(again.ordered, {again.ordered.graph->Find("c/recompute")});
  ASSERT_TRUE(without);
  EXPECT_EQ(reason(*without), "computed again for 'ga'");
}

TEST_F(SpareRecomputeTest, WhatWasGivenItsStatisticsMakesNoOthers) {
  const Graph graph = *ParseGraphText(
      "x = Op()\ntwo = Two(x)\nd = Op(two:1)\ne = Op(d)\nfar = Op(e, two:1)\nfarther = Op(far, two:1)\nend = Op(farther, x)\n");
  CompileRequest request{graph, ops_, oracle_, {}, request_.options, UnitMachine(), {}};
  request.signature.targets = {"end"};
  const Looked again = Again(Again(Order(request), "two", "far", 1), "two/recompute", "farther", 1);
  ASSERT_EQ(again.ordered.copies.size(), 2u);
  const auto [first, second] = std::pair(again.ordered.copies[0].first, again.ordered.copies[1].first);
  EXPECT_TRUE(WithoutCopies(again.ordered, {second}));
  again.ordered.graph->mutable_node(first).attrs.Set(kGivenStatistics, true);
  EXPECT_FALSE(WithoutCopies(again.ordered, {second}));
}

TEST_F(SpareRecomputeTest, NothingIsComputedAgainWhereAllFits) {
  PassClock clock({});
  request_.clock = &clock;
  const Looked as_it_is = Order();
  const Looked again = Again(Again(as_it_is, "b", "gb"), "a", "ga");
  EXPECT_GT(again.step_seconds, as_it_is.step_seconds);
  const std::optional<Looked> spared = SpareRecompute(request_, **FindStrategy("planned"), limits_, 0, kLooks, again);
  ASSERT_TRUE(spared);
  EXPECT_EQ(spared->ordered.recomputed_nodes, 0);
  EXPECT_EQ(spared->step_seconds, as_it_is.step_seconds);
  const auto runs = std::find_if(clock.passes().begin(), clock.passes().end(), [](const PassTime& pass) { return pass.name == "spare recompute"; });
  ASSERT_NE(runs, clock.passes().end());
  EXPECT_EQ(runs->runs, 2) << "one for each try: looks have passes of their own";
}

TEST_F(SpareRecomputeTest, ForLessMemoryMoreIsComputedAgain) {
  request_.machine.to_host_bytes_per_second = request_.machine.to_device_bytes_per_second = 1;
  Looked as_it_is = Order();
  const std::optional<Looked> more = RewriteForLess(request_, **FindStrategy("planned"), limits_, 0, 0.25, as_it_is);
  ASSERT_TRUE(more);
  EXPECT_GT(more->ordered.recomputed_nodes, 0);
  EXPECT_GT(more->step_seconds, as_it_is.step_seconds) << "for all of the memory it need not be";
  EXPECT_FALSE(RewriteForLess(request_, **FindStrategy("planned"), limits_, 0, 1, as_it_is));
}

TEST_F(SpareRecomputeTest, NothingIsTriedWithoutLooksOrWorkOrTime) {
  const Looked again = Again(Order(), "a", "ga");
  EXPECT_FALSE(SpareRecompute(request_, **FindStrategy("planned"), limits_, 0, 0, again));
  EXPECT_FALSE(SpareRecompute(request_, **FindStrategy("planned"), limits_, work_.left(), kLooks, again));
  EXPECT_FALSE(SpareRecompute(request_, **FindStrategy("planned"), limits_, work_.left() - 1, kLooks, again)) << "not enough for one try";
  EXPECT_TRUE(SpareRecompute(request_, **FindStrategy("planned"), limits_, 0, kLooks, again));
  limits_.deadline = Deadline([] { return 2.0; }, 1);
  EXPECT_FALSE(SpareRecompute(request_, **FindStrategy("planned"), limits_, 0, kLooks, again));
}

TEST_F(SpareRecomputeTest, EndsWherePlanningIsToEnd) {
  const Looked again = Again(Order(), "a", "ga");
  CancelledOracle cancelled;
  const CompileRequest request{graph_, ops_, cancelled, request_.signature, request_.options, UnitMachine(), {}};
  const int64_t left = work_.left();
  EXPECT_FALSE(SpareRecompute(request, **FindStrategy("planned"), limits_, 0, kLooks, again));
  EXPECT_EQ(work_.left(), left);
}

// The search of a random graph of 29 nodes, whose copies hide in so much memory, but not in less.
class SpareInSearchTest : public testing::Test {
 protected:
  SpareInSearchTest() {
    request_.options.device_memory_bytes = 64 * 60;
    request_.clock = &clock_;
  }

  std::vector<FoundOrder> Search() {
    absl::StatusOr<Prepared> prepared = Prepare(request_);
    EXPECT_TRUE(prepared.ok()) << prepared.status();
    WorkBudget work(std::numeric_limits<int64_t>::max() / 4);
    PlanLimits limits;
    limits.work = &work;
    absl::StatusOr<std::vector<FoundOrder>> found = SearchOrders(request_, *prepared, **FindStrategy("planned"), limits);
    EXPECT_TRUE(found.ok()) << found.status();
    return *std::move(found);
  }

  bool Spared() const {
    return std::any_of(clock_.passes().begin(), clock_.passes().end(), [](const PassTime& pass) { return pass.name == "spare recompute"; });
  }

  static double ComputeSeconds(const FoundOrder& found) {
    const std::vector<double>& seconds = found.looked[0].device.access.seconds;
    return std::accumulate(seconds.begin(), seconds.end(), 0.0);
  }

  const OpRegistry ops_ = TestOps();
  StubOracle oracle_;
  RandomGraph random_{2, 0, true};
  PassClock clock_{{}};
  CompileRequest request_ = RequestOf(random_, ops_, oracle_);
};

TEST_F(SpareInSearchTest, WhereCopiesHideTheBestComputesLessAgainAndIsPlannedBesideWhatItWas) {
  const std::vector<FoundOrder> found = Search();
  EXPECT_TRUE(Spared());
  ASSERT_GE(found.size(), 2u);
  EXPECT_LT(found[0].ordered.looked_seconds, found[1].ordered.looked_seconds);
  EXPECT_LT(found[0].ordered.recomputed_nodes, found[1].ordered.recomputed_nodes);
}

TEST_F(SpareInSearchTest, NotWhereCopiesDoNotHide) {
  request_.options.device_memory_bytes = 64 * 50;
  const std::vector<FoundOrder> found = Search();
  ASSERT_GT(found[0].ordered.recomputed_nodes, 0);
  ASSERT_GT(found[0].ordered.looked_seconds, 2 * ComputeSeconds(found[0]));
  EXPECT_FALSE(Spared());
}

TEST_F(SpareInSearchTest, NotWhatWasAskedFor) {
  request_.options.recompute = Recompute::kOn;
  EXPECT_GT(Search()[0].ordered.recomputed_nodes, 0);
  EXPECT_FALSE(Spared());
}

TEST_F(SpareInSearchTest, NotBesideADiskTier) {
  request_.disk_tier = true;
  EXPECT_GT(Search()[0].ordered.recomputed_nodes, 0);
  EXPECT_FALSE(Spared());
}

TEST_F(SpareInSearchTest, NotOverSeveralDevices) {
  request_.options.devices = {"gpu:0", "gpu:1"};
  EXPECT_GT(Search()[0].ordered.recomputed_nodes, 0);
  EXPECT_FALSE(Spared());
}

}  // namespace
}  // namespace millrace
