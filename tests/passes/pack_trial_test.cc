// Packed trials of random graphs: what may be sent away where room is in pieces.
#include "passes/planner/pack_trial.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "millrace/types.h"
#include "passes/planner/gaps.h"
#include "passes/planner/select_gaps.h"
#include "passes/planner/trial.h"
#include "testlib/ordered_gaps.h"
#include "testlib/packed_plan.h"
#include "testlib/random_access_graph.h"

namespace millrace {
namespace {

struct Counts {
  int fit = 0, sent_away = 0;
};

// Plans for all of the budget, so that room is in pieces; what packs must be a plan.
Counts PackRandom(bool may_send_away) {
  Counts counts;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const AccessGraph graph = RandomAccessGraph(seed, 60);
    GapGraph gaps = OrderedGaps(graph, 2000);
    const int64_t most = *std::max_element(gaps.full.begin(), gaps.full.end());
    const int64_t budget = AlignUp(std::max(gaps.largest_working_set() + 512, most * 2 / 5));
    const MemoryTarget target{budget, {}, 0};
    const Selection selection = SelectGaps(gaps, target, 1, {});
    const std::vector<SwapDecision> decisions =
        DecisionsOf(gaps, selection, ChooseAnchors(gaps, budget, selection, 0.1 * gaps.compute_seconds()));
    const TrialResult trial = SimulateTrial(gaps, target, decisions);
    const PackedTrial packed = PackTrialInTime(gaps, budget, decisions, trial, 0, 1'000'000'000, may_send_away);
    if (!packed.fits) continue;
    ++counts.fit;
    counts.sent_away += static_cast<int>(packed.choice.decisions.size() - decisions.size());
    ExpectPackedPlan(graph, packed.choice, budget);
    EXPECT_GE(packed.step_seconds, gaps.compute_seconds() * (1 - 1e-9));
  }
  return counts;
}

TEST(PackTrialInTimeTest, WhatIsSentAwayMakesPlansOfTrialsThatDoNotPackOtherwise) {
  const Counts without = PackRandom(false), with = PackRandom(true);
  EXPECT_EQ(without.sent_away, 0);
  EXPECT_LT(without.fit, 150);
  EXPECT_GT(with.fit, without.fit + 20);
  EXPECT_GT(with.sent_away, with.fit - without.fit);
}

}  // namespace
}  // namespace millrace
