// Placed plans of random graphs, with variables that go home when the next step begins.
#include "passes/planner/carry_homes.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "millrace/types.h"
#include "passes/access/schedule.h"
#include "passes/planner/gaps.h"
#include "passes/planner/replay_packed.h"
#include "passes/planner/select_gaps.h"
#include "passes/planner/trial.h"
#include "testlib/ordered_gaps.h"
#include "testlib/packed_plan.h"
#include "testlib/random_access_graph.h"

namespace millrace {
namespace {

constexpr int32_t kOperations = 60;

// A random graph with variables that are updated once, late in the step.
AccessGraph GraphWithUpdates(uint32_t seed) {
  AccessGraph graph = RandomAccessGraph(seed, kOperations);
  std::mt19937 random(seed);
  std::vector<std::vector<Access>> updates(kOperations);
  for (int v = 0; v < 12; ++v) {
    const auto s = static_cast<int32_t>(graph.storages.size());
    graph.storages.push_back({.kind = StorageKind::kVariable, .size_bytes = 1024});
    updates[kOperations / 2 + Below(random, kOperations / 2)].push_back({s, true, true});
  }
  AccessGraph with = graph;
  with.accesses.clear();
  with.first_access = {0};
  for (int32_t i = 0; i < kOperations; ++i) {
    with.accesses.insert(with.accesses.end(), graph.of(i).begin(), graph.of(i).end());
    with.accesses.insert(with.accesses.end(), updates[i].begin(), updates[i].end());
    with.first_access.push_back(static_cast<int64_t>(with.accesses.size()));
  }
  return with;
}

TEST(CarryHomesTest, StepsBecomeShorterAndStayPlans) {
  int placed = 0, shorter = 0, carried = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const AccessGraph graph = GraphWithUpdates(seed);
    GapGraph gaps = OrderedGaps(graph, 1000);
    const int64_t most = *std::max_element(gaps.full.begin(), gaps.full.end());
    const int64_t budget = AlignUp(std::max(gaps.largest_working_set() + 512, most * 2 / 5));
    const Selection selection = SelectGaps(gaps, {budget, {}, 0}, 1, {});
    const std::vector<SwapDecision> decisions = DecisionsOf(gaps, selection, ChooseAnchors(gaps, budget, selection, 0.1 * gaps.compute_seconds()));
    int64_t work = 0;
    const absl::StatusOr<Placement> before =
        PlaceDecisions(gaps, budget, decisions, PolicyAt(0, gaps.compute_seconds(), budget), std::numeric_limits<double>::infinity(), work);
    if (!before.ok()) continue;
    ++placed;
    const std::optional<Placement> found = CarryHomes(gaps, *before);
    if (!found) continue;
    const Placement& after = *found;
    EXPECT_LT(after.step_seconds, before->step_seconds);
    ++shorter;
    for (const SwapDecision& d : after.choice.decisions) carried += d.leaves_from_last_step() ? 1 : 0;
    EXPECT_DOUBLE_EQ(ReplayPacked(gaps, BuildSchedule(graph, after.choice), after.choice), after.step_seconds);
    ExpectPackedPlan(graph, after.choice, budget);
  }
  EXPECT_GT(placed, 100);
  EXPECT_GT(shorter, 10);
  EXPECT_GE(carried, shorter);
}

}  // namespace
}  // namespace millrace
