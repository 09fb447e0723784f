// Copies in of packed plans that begin as soon as their addresses are free.
#include "passes/planner/move_anchors.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "millrace/types.h"
#include "passes/planner/gaps.h"
#include "passes/planner/replay_packed.h"
#include "passes/planner/select_gaps.h"
#include "passes/planner/trial.h"
#include "testlib/ordered_gaps.h"
#include "testlib/packed_plan.h"
#include "testlib/random_access_graph.h"
#include "testlib/small_access_graph.h"

namespace millrace {
namespace {

// a and b are written by 0 and 1, c and d by 2 and 3; 4 reads a and c, 5 reads b and d.
class TwoSwaps : public testing::Test {
 protected:
  void SetUp() override {
    for (int32_t* s : {&a_, &b_, &c_, &d_}) *s = graph_.AddStorage(StorageKind::kActivation);
    graph_.AddOperation({Writes(a_)}).AddOperation({Writes(b_)}).AddOperation({Writes(c_)}).AddOperation({Writes(d_)});
    graph_.AddOperation({Reads(a_), Reads(c_)}).AddOperation({Reads(b_), Reads(d_)});
  }
  // Stays: a before, a after, b before, b after, c, d.
  SwapChoice Choice(int32_t anchor_of_a, int32_t anchor_of_b, const std::vector<int64_t>& offsets) const {
    SwapChoice choice;
    choice.decisions = {{.storage = a_, .after = 0, .before = 4, .anchor = anchor_of_a, .copy_in = true, .copy_out = true, .out_after = 0},
                        {.storage = b_, .after = 1, .before = 5, .anchor = anchor_of_b, .copy_in = true, .copy_out = true, .out_after = 1}};
    choice.residence_offsets = offsets;
    choice.scratch_offsets.assign(6, 0);
    return choice;
  }
  bool Move(SwapChoice& choice) { return MoveAnchorsBack(graph_.access(), BuildSchedule(graph_.access(), choice), choice); }
  SmallAccessGraph graph_;
  int32_t a_ = 0, b_ = 0, c_ = 0, d_ = 0;
};

TEST_F(TwoSwaps, BytesThatNobodyHasAreFreeWhenTheGapBegins) {
  SwapChoice choice = Choice(4, 5, {0, 64, 128, 192, 256, 320});
  EXPECT_TRUE(Move(choice));
  EXPECT_EQ(choice.decisions[0].anchor, 1);
  EXPECT_EQ(choice.decisions[1].anchor, 2);
}

TEST_F(TwoSwaps, WhatHadTheBytesIsGoneBefore) {
  // a comes back to where b was, whose copy out begins after 1; b to where c is until 4.
  SwapChoice choice = Choice(4, 5, {0, 64, 64, 128, 128, 192});
  EXPECT_TRUE(Move(choice));
  EXPECT_EQ(choice.decisions[0].anchor, 2);
  EXPECT_EQ(choice.decisions[1].anchor, 5);
  EXPECT_FALSE(Move(choice));
}

TEST_F(TwoSwaps, TheLaneKeepsItsOrder) {
  // b is first in the lane, and leaves later than a.
  SwapChoice choice = Choice(4, 4, {0, 64, 128, 192, 256, 320});
  choice.decisions[0].order = 1;
  EXPECT_TRUE(Move(choice));
  EXPECT_EQ(choice.decisions[1].anchor, 2);
  EXPECT_EQ(choice.decisions[0].anchor, 2);
  EXPECT_LT(choice.decisions[1].order, choice.decisions[0].order);
}

TEST_F(TwoSwaps, ScratchIsNotFreeBeforeItsOperationIsDone) {
  graph_.access().scratch_bytes[2] = 64;
  SwapChoice choice = Choice(4, 5, {0, 64, 128, 192, 256, 320});
  choice.scratch_offsets[2] = 64;
  EXPECT_TRUE(Move(choice));
  EXPECT_EQ(choice.decisions[0].anchor, 3);
  EXPECT_EQ(choice.decisions[1].anchor, 3);
}

// Before that, copies behind it in the lane would wait with it.
TEST(MoveAnchorsBackTest, WhatAnotherDeviceSendsIsNotAskedForBefore) {
  SmallAccessGraph graph;
  const int32_t own = graph.AddStorage(StorageKind::kFeed), sent = graph.AddStorage(StorageKind::kFeed), made = graph.AddStorage(StorageKind::kActivation);
  graph.access().storages[sent].available_from = 2;
  graph.AddOperation({Writes(made)}).AddOperation({Reads(made)}).AddOperation({Reads(made)}).AddOperation({Reads(own)}).AddOperation({Reads(sent)});
  SwapChoice choice;
  choice.decisions = {{.storage = own, .after = SwapDecision::kFromHost, .before = 3, .anchor = 3, .copy_in = true},
                      {.storage = sent, .after = SwapDecision::kFromHost, .before = 4, .anchor = 4, .copy_in = true}};
  choice.residence_offsets = {0, 64, 128};
  choice.scratch_offsets.assign(5, 0);
  EXPECT_TRUE(MoveAnchorsBack(graph.access(), BuildSchedule(graph.access(), choice), choice));
  EXPECT_EQ(choice.decisions[0].anchor, 0);
  EXPECT_EQ(choice.decisions[1].anchor, 2);
  EXPECT_FALSE(MoveAnchorsBack(graph.access(), BuildSchedule(graph.access(), choice), choice));
}

// Anchored as late as can be, then moved back: still a plan, and never a longer one.
TEST(MoveAnchorsBackTest, RandomPlansHoldAndGetShorter) {
  int moved = 0, shorter = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const AccessGraph graph = RandomAccessGraph(seed, 60);
    GapGraph gaps = OrderedGaps(graph, 2000);
    const int64_t most = *std::max_element(gaps.full.begin(), gaps.full.end());
    const int64_t budget = AlignUp(std::max(gaps.largest_working_set() + 512, most * 3 / 5));
    SwapChoice choice;
    choice.decisions = DecisionsOf(gaps, SelectGaps(gaps, {budget, {}, 0}, 1, {}));
    for (SwapDecision& d : choice.decisions) {
      if (d.before != SwapDecision::kToHost) d.anchor = d.before;
    }
    const Schedule schedule = BuildSchedule(graph, choice);
    MemoryAssignment memory = PackMemory(graph, schedule, choice, budget);
    choice.residence_offsets = memory.residence_offsets;
    choice.scratch_offsets = memory.scratch_offsets;
    const double before = ReplayPacked(gaps, schedule, choice);
    if (!MoveAnchorsBack(graph, schedule, choice)) continue;
    ++moved;
    ExpectPackedPlan(graph, choice, memory.arena_bytes);
    const double after = ReplayPacked(gaps, BuildSchedule(graph, choice), choice);
    EXPECT_LE(after, before * (1 + 1e-9));
    shorter += after < before * (1 - 1e-3) ? 1 : 0;
  }
  EXPECT_GT(moved, 30);
  EXPECT_GT(shorter, 15);
}

}  // namespace
}  // namespace millrace
