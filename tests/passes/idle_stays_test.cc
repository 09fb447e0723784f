// What a packing may send away, and the decisions that follow.
#include "passes/planner/idle_stays.h"

#include <vector>

#include "gtest/gtest.h"
#include "testlib/small_access_graph.h"

namespace millrace {
namespace {

constexpr int32_t kOperations = 100;

// A hundred operations of a second each. `a` is written by 0, read by 40, overwritten by 60 and read by 90; `v` is a
// variable that 0 and 90 read; `p` is as `a`, but pinned; `f` is a feed that 0 and 90 read; operation 50 has scratch.
class IdleStaysTest : public testing::Test {
 protected:
  void SetUp() override {
    a_ = graph_.AddStorage(StorageKind::kActivation);
    v_ = graph_.AddStorage(StorageKind::kVariable);
    p_ = graph_.AddStorage(StorageKind::kActivation);
    f_ = graph_.AddStorage(StorageKind::kFeed);
    graph_.access().storages[p_].pinned = true;
    for (int32_t i = 0; i < kOperations; ++i) {
      std::vector<Access> accesses;
      if (i == 0) accesses = {Writes(a_), Reads(v_), Writes(p_), Reads(f_)};
      if (i == 40) accesses = {Reads(a_)};
      if (i == 60) accesses = {Writes(a_)};
      if (i == 90) accesses = {Reads(a_), Reads(v_), Reads(p_), Reads(f_)};
      graph_.AddOperation(accesses, 1, i == 50 ? 64 : 0);
    }
    gaps_ = GapsWith(UnitLink());
    choice_.decisions = {{.storage = f_, .before = 0, .anchor = 0}};
    schedule_ = BuildSchedule(graph_.access(), choice_);
  }
  GapGraph GapsWith(const Machine& machine) {
    GapGraph gaps = FindGaps(graph_.access(), machine);
    OrderGaps(gaps);
    return gaps;
  }
  int32_t BlockOf(int32_t storage) const {
    for (size_t r = 0; r < schedule_.residences.size(); ++r) {
      if (schedule_.residences[r].storage == storage) return static_cast<int32_t>(r);
    }
    return -1;
  }
  bool MayLeave(int32_t block, int32_t slot) const {
    IdleTime time;
    return IdleStays(gaps_, schedule_).Find(block, slot, time);
  }
  SmallAccessGraph graph_;
  GapGraph gaps_;
  SwapChoice choice_;
  Schedule schedule_;
  int32_t a_ = 0, v_ = 0, p_ = 0, f_ = 0;
};

TEST_F(IdleStaysTest, FindsTheGapAndWhatItsCopiesCost) {
  const IdleStays idle(gaps_, schedule_);
  IdleTime time;
  ASSERT_TRUE(idle.Find(BlockOf(a_), 20, time));
  EXPECT_EQ(time.after, 0);
  EXPECT_EQ(time.before, 40);
  // The link takes a second; and two hundredths of the step earlier than that.
  EXPECT_EQ(time.returns, 40 - 1 - 2);
  EXPECT_EQ(time.cost, 1 + 1);
  ASSERT_TRUE(idle.Find(BlockOf(a_), 75, time));
  EXPECT_EQ(time.after, 60);
  EXPECT_EQ(time.before, 90);
  EXPECT_DOUBLE_EQ(idle.most_cost(), 5) << "a twentieth of the step";
}

TEST_F(IdleStaysTest, WhatHasNoTimeForItsCopiesCostsTheWait) {
  // Copies of 12 seconds.
  Machine slow = UnitLink();
  slow.to_host_bytes_per_second = slow.to_device_bytes_per_second = 64.0 / 12;
  const GapGraph gaps = GapsWith(slow);
  const IdleStays idle(gaps, schedule_);
  IdleTime time;
  ASSERT_TRUE(idle.Find(BlockOf(a_), 20, time));
  EXPECT_DOUBLE_EQ(time.cost, 24);
  ASSERT_TRUE(idle.Find(BlockOf(a_), 5, time));  // four operations since the write: eight seconds of the copy out are left
  EXPECT_DOUBLE_EQ(time.cost, 24 + 8);
  ASSERT_TRUE(idle.Find(BlockOf(a_), 34, time));  // five until the use
  EXPECT_DOUBLE_EQ(time.cost, 24 + 7);
}

TEST_F(IdleStaysTest, WhatComesBackNeverDoesBeforeTheStep) {
  Machine slow = UnitLink();
  slow.to_device_bytes_per_second = 64.0 / 60;
  const GapGraph gaps = GapsWith(slow);
  IdleTime time;
  ASSERT_TRUE(IdleStays(gaps, schedule_).Find(BlockOf(a_), 20, time));
  EXPECT_EQ(time.returns, 0);
}

TEST_F(IdleStaysTest, WhatIsUsedStays) {
  for (const int32_t slot : {0, 40, 60, 90}) EXPECT_FALSE(MayLeave(BlockOf(a_), slot)) << "used by " << slot;
  for (const int32_t slot : {91, 99}) EXPECT_FALSE(MayLeave(BlockOf(a_), slot)) << "not used again";
  for (const int32_t slot : {1, 39, 61, 89}) EXPECT_TRUE(MayLeave(BlockOf(a_), slot)) << slot;
}

TEST_F(IdleStaysTest, WhatIsOverwrittenVariablesFeedsPinnedOnesAndScratchStay) {
  EXPECT_FALSE(MayLeave(BlockOf(a_), 50)) << "60 replaces every byte: there is nothing to bring back";
  EXPECT_FALSE(MayLeave(BlockOf(v_), 50));
  EXPECT_FALSE(MayLeave(BlockOf(f_), 50));
  EXPECT_FALSE(MayLeave(BlockOf(p_), 50));
  EXPECT_FALSE(MayLeave(static_cast<int32_t>(schedule_.residences.size()), 50)) << "scratch comes after the stays";
}

// x is written by 0 and read by 2, 4, 6 and 8; y by 1, 5 and 9; z by 0, 3 and 9.
class AddReturnsTest : public testing::Test {
 protected:
  void SetUp() override {
    for (int32_t* s : {&x_, &y_, &z_}) *s = graph_.AddStorage(StorageKind::kActivation);
    for (int32_t i = 0; i < 10; ++i) {
      std::vector<Access> accesses;
      if (i % 2 == 0) accesses.push_back(i == 0 ? Writes(x_) : Reads(x_));
      if (i % 4 == 1) accesses.push_back(i == 1 ? Writes(y_) : Reads(y_));
      if (i == 0 || i == 3 || i == 9) accesses.push_back(i == 0 ? Writes(z_) : Reads(z_));
      graph_.AddOperation(accesses);
    }
    gaps_ = FindGaps(graph_.access(), UnitLink());
  }
  // What leaves, over the schedule of `decisions`.
  void Add(const std::vector<TimePacking::Return>& returns, const std::vector<int64_t>& offsets) {
    const Schedule schedule = BuildSchedule(graph_.access(), {.decisions = decisions_});
    packing_.offsets = offsets;
    packing_.returns = returns;
    AddReturns(gaps_, schedule, packing_, decisions_);
  }
  SmallAccessGraph graph_;
  GapGraph gaps_;
  std::vector<SwapDecision> decisions_;
  TimePacking packing_;
  int32_t x_ = 0, y_ = 0, z_ = 0;
};

TEST_F(AddReturnsTest, AStayBecomesTwoWithACopyBetween) {
  // Three stays and one block of scratch.
  Add({{.block = 1, .after = 5, .before = 9, .first = 7, .offset = 640}}, {0, 64, 128, 1024});
  ASSERT_EQ(decisions_.size(), 1);
  EXPECT_EQ(decisions_[0].storage, y_);
  EXPECT_EQ(decisions_[0].after, 5);
  EXPECT_EQ(decisions_[0].before, 9);
  EXPECT_EQ(decisions_[0].anchor, 7);
  EXPECT_TRUE(decisions_[0].copy_in && decisions_[0].copy_out);
  EXPECT_EQ(decisions_[0].out_after, 1) << "the last write";
  EXPECT_EQ(packing_.offsets, (std::vector<int64_t>{0, 64, 640, 128, 1024}));
}

TEST_F(AddReturnsTest, OffsetsAreThoseOfTheStaysOfTheNewDecisions) {
  // In the order in which they left, which is not that of storages.
  Add({{.block = 2, .after = 3, .before = 9, .first = 8, .offset = 300},
       {.block = 0, .after = 6, .before = 8, .first = 7, .offset = 400},
       {.block = 0, .after = 2, .before = 4, .first = 3, .offset = 500}},
      {0, 64, 128});
  EXPECT_EQ(packing_.offsets, (std::vector<int64_t>{0, 500, 400, 64, 128, 300}));
  const Schedule schedule = BuildSchedule(graph_.access(), {.decisions = decisions_});
  ASSERT_EQ(schedule.residences.size(), packing_.offsets.size());
  const std::vector<int32_t> storages = {x_, x_, x_, y_, z_, z_};
  for (size_t r = 0; r < storages.size(); ++r) EXPECT_EQ(schedule.residences[r].storage, storages[r]) << "stay " << r;
}

TEST_F(AddReturnsTest, OfAValueTheFirstGapAloneTakesTheCopyOut) {
  // x leaves from 4 to 6 by a trial's decision, with the copy out; now it leaves before that, from 2 to 4, as well.
  decisions_ = {{.storage = x_, .after = 4, .before = 6, .anchor = 6, .copy_in = true, .copy_out = true, .out_after = 0}};
  Add({{.block = 0, .after = 2, .before = 4, .first = 4, .offset = 500}}, {0, 64, 128, 192});
  ASSERT_EQ(decisions_.size(), 2);
  EXPECT_EQ(decisions_[0].after, 2);
  EXPECT_TRUE(decisions_[0].copy_out);
  EXPECT_EQ(decisions_[1].after, 4);
  EXPECT_FALSE(decisions_[1].copy_out) << "the host has it";
  EXPECT_TRUE(decisions_[1].copy_in);
  EXPECT_EQ(packing_.offsets, (std::vector<int64_t>{0, 500, 64, 128, 192}));
  // After it, the decision keeps its copy out.
  decisions_ = {{.storage = x_, .after = 4, .before = 6, .anchor = 6, .copy_in = true, .copy_out = true, .out_after = 0}};
  Add({{.block = 1, .after = 6, .before = 8, .first = 8, .offset = 500}}, {0, 64, 128, 192});
  ASSERT_EQ(decisions_.size(), 2);
  EXPECT_TRUE(decisions_[0].copy_out);
  EXPECT_FALSE(decisions_[1].copy_out);
}

TEST_F(AddReturnsTest, DecisionsOfOtherStoragesAreLeftAlone) {
  // y's says that another device has its bytes: not what AddReturns would choose.
  SwapDecision sent{.storage = y_, .after = 1, .before = 5, .anchor = 4, .copy_in = true, .copy_out = false, .reason = "sent"};
  decisions_ = {sent};
  Add({{.block = 3, .after = 3, .before = 9, .first = 9, .offset = 500}}, {0, 64, 128, 192});
  ASSERT_EQ(decisions_.size(), 2);
  EXPECT_EQ(decisions_[0].storage, y_);
  EXPECT_FALSE(decisions_[0].copy_out);
  EXPECT_EQ(decisions_[0].anchor, 4);
  EXPECT_EQ(decisions_[0].reason, "sent");
  EXPECT_EQ(decisions_[1].storage, z_);
}

}  // namespace
}  // namespace millrace
