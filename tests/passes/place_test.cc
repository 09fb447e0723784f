// Placing trials, and giving up what is not faster than what is known.
#include "passes/planner/place.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "millrace/types.h"
#include "passes/planner/gaps.h"
#include "passes/planner/lanes_left.h"
#include "passes/planner/select_gaps.h"
#include "passes/planner/trial.h"
#include "passes/planner/trial_settings.h"
#include "testlib/ordered_gaps.h"
#include "testlib/random_access_graph.h"
#include "testlib/small_access_graph.h"

namespace millrace {
namespace {

TEST(Place, GivesUpWhatIsNotFasterAndNothingElse) {
  constexpr double kNotKnown = std::numeric_limits<double>::infinity();
  int placed = 0, at_once = 0, later = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const AccessGraph graph = RandomAccessGraph(seed, 60);
    GapGraph gaps = OrderedGaps(graph, seed % 2 == 0 ? 2000 : 200, 0.01);
    const int64_t most = *std::max_element(gaps.full.begin(), gaps.full.end());
    const int64_t budget = AlignUp(std::max(gaps.largest_working_set() + 512, most / 2));
    const MemoryTarget target{budget, {}, 0};
    const Selection selection = SelectGaps(gaps, target, 1, {});
    const std::vector<SwapDecision> decisions =
        DecisionsOf(gaps, selection, ChooseAnchors(gaps, budget, selection, 0.1 * gaps.compute_seconds()));
    const double least = LanesLeft(gaps, decisions).LeastSeconds();
    EXPECT_LE(least, SimulateTrial(gaps, target, decisions).step_seconds * (1 + 1e-9));
    const auto place = [&](double known_seconds, int64_t& work) {
      return PlaceDecisions(gaps, budget, decisions, {0.1 * gaps.compute_seconds()}, known_seconds, work);
    };
    int64_t all_work = 0, work = 0;
    const absl::StatusOr<Placement> all = place(kNotKnown, all_work);
    if (!all.ok()) continue;
    ++placed;
    EXPECT_LE(least, all->step_seconds * (1 + 1e-9));
    const absl::StatusOr<Placement> faster = place(all->step_seconds * 1.0001, work);
    ASSERT_TRUE(faster.ok()) << faster.status();
    EXPECT_EQ(faster->step_seconds, all->step_seconds);
    EXPECT_EQ(faster->choice.residence_offsets, all->choice.residence_offsets);
    EXPECT_EQ(work, all_work);
    for (const double known : {0.7, 0.9, 0.9999}) {
      const absl::StatusOr<Placement> given_up = place(all->step_seconds * known, work);
      EXPECT_TRUE(absl::IsAborted(given_up.status()) || given_up->step_seconds >= all->step_seconds * known);
      EXPECT_LE(work, all_work);
      (all->step_seconds * known <= least ? at_once : later) += absl::IsAborted(given_up.status()) ? 1 : 0;
    }
  }
  EXPECT_GT(placed, 100);
  EXPECT_GT(at_once, 100);
  EXPECT_GT(later, 100);
}

// Small values that are made while a large one is there and outlive it, the large ones ever larger: what lies where by size.
TEST(Place, BySizeSmallBlocksLeaveLargeOnesTheirRoomInOnePiece) {
  constexpr int64_t kLarge = 1024, kSmallest = 64;
  constexpr int64_t kLargeBytes[] = {256, 512, kLarge, kLarge};
  SmallAccessGraph graph;
  std::vector<int32_t> large, small;
  for (int k = 0; k < 4; ++k) large.push_back(graph.AddStorage(StorageKind::kActivation, kLargeBytes[k]));
  for (int k = 0; k < 4; ++k) small.push_back(graph.AddStorage(StorageKind::kActivation, kSmallest));
  // Each small one is made beside a large one, and all are read at the end.
  for (int k = 0; k < 4; ++k) {
    graph.AddOperation({Writes(large[k])}).AddOperation({Reads(large[k]), Writes(small[k])});
  }
  graph.AddOperation({Reads(small[0]), Reads(small[1]), Reads(small[2]), Reads(small[3])});
  GapGraph gaps = FindGaps(graph.access(), UnitLink());
  OrderGaps(gaps);
  const int64_t budget = kLarge + 4 * kSmallest;  // not a byte more than is live
  const auto place = [&](const PlacementPolicy& policy) {
    int64_t work = 0;
    return PlaceDecisions(gaps, budget, {}, policy, std::numeric_limits<double>::infinity(), work);
  };
  const absl::StatusOr<Placement> by_size = place({.large_bytes = kLargeBytes[0]});
  ASSERT_TRUE(by_size.ok()) << by_size.status();
  EXPECT_EQ(by_size->evictions, 0);
  EXPECT_EQ(by_size->step_seconds, gaps.compute_seconds());
  for (int32_t s : large) EXPECT_EQ(by_size->choice.residence_offsets[s], 0);
  for (int32_t s : small) EXPECT_GE(by_size->choice.residence_offsets[s], kLarge);
  // Where what is large is taken for small, as the other policies do, small ones lie in the way and leave.
  const absl::StatusOr<Placement> all_small = place({.large_bytes = 2 * kLarge});
  ASSERT_TRUE(all_small.ok()) << all_small.status();
  EXPECT_GT(all_small->evictions, 0);
  EXPECT_GT(all_small->step_seconds, by_size->step_seconds);
}

TEST(Place, PoliciesAreNumberedByLifeThenBySize) {
  EXPECT_EQ(PolicyAt(0, 10, 1000).long_lived_seconds, 1);
  EXPECT_EQ(PolicyAt(0, 10, 1000).large_bytes, 0);
  const size_t first = std::size(kLongLived);
  EXPECT_EQ(PolicyAt(first, 10, 1000).large_bytes, 50);
  EXPECT_EQ(PolicyAt(kPolicies - 1, 10, 1000).large_bytes, 200);
}

}  // namespace
}  // namespace millrace
