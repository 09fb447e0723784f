// What a packed plan's step takes, by the waits that its addresses make.
#include "passes/planner/replay_packed.h"

#include <vector>

#include "gtest/gtest.h"
#include "testlib/small_access_graph.h"

namespace millrace {
namespace {

double Replay(SmallAccessGraph& graph, const SwapChoice& choice, const Machine& machine = UnitLink()) {
  const GapGraph gaps = FindGaps(graph.access(), machine);
  return ReplayPacked(gaps, BuildSchedule(graph.access(), choice), choice);
}

TEST(ReplayPacked, WithoutCopiesComputeIsAll) {
  SmallAccessGraph graph;
  const int32_t a = graph.AddStorage(StorageKind::kActivation), b = graph.AddStorage(StorageKind::kActivation);
  graph.AddOperation({Writes(a)}, 1).AddOperation({Reads(a), Writes(b)}, 2).AddOperation({Reads(b)}, 4);
  // Bytes that pass from one operation to the next cost no wait: one lane runs both.
  EXPECT_EQ(Replay(graph, {.residence_offsets = {0, 64}, .scratch_offsets = {0, 0, 0}}), 7);
}

// a is written by 0 and used by 3; b and c are written by 1 and 2.
//
//   time     0    1    2    3    4
//   compute  | 0  | 1  | 2  | 3  |
//   out           | a> |
//   in                 | a< |
class OneSwap : public testing::Test {
 protected:
  void SetUp() override {
    a_ = graph_.AddStorage(StorageKind::kActivation);
    b_ = graph_.AddStorage(StorageKind::kActivation);
    c_ = graph_.AddStorage(StorageKind::kActivation);
    graph_.AddOperation({Writes(a_)}).AddOperation({Writes(b_)}).AddOperation({Reads(b_), Writes(c_)}).AddOperation({Reads(a_), Reads(c_)});
  }
  // a leaves after 0 and is back for 3, from `anchor` on. Stays: a before, a after, b, c.
  SwapChoice Choice(int32_t anchor, const std::vector<int64_t>& offsets) const {
    SwapChoice choice;
    choice.decisions = {{.storage = a_, .after = 0, .before = 3, .anchor = anchor, .copy_in = true, .copy_out = true, .out_after = 0}};
    choice.residence_offsets = offsets;
    choice.scratch_offsets = {0, 0, 0, 0};
    return choice;
  }
  SmallAccessGraph graph_;
  int32_t a_ = 0, b_ = 0, c_ = 0;
};

TEST_F(OneSwap, CopiesThatHideCostNothing) {
  // Out from 1 to 2, in from 2 to 3, each at addresses that nobody else has.
  EXPECT_EQ(Replay(graph_, Choice(2, {0, 64, 128, 192})), 4);
}

TEST_F(OneSwap, WhoTakesTheBytesWaitsForTheCopyOut) {
  // b lies where a was: operation 1 begins at 2, when a is out.
  EXPECT_EQ(Replay(graph_, Choice(2, {0, 64, 0, 192})), 5);
  // c lies there: operation 2 begins at 2 anyway.
  EXPECT_EQ(Replay(graph_, Choice(2, {0, 64, 128, 0})), 4);
  // Half of the bytes are enough to wait for.
  EXPECT_EQ(Replay(graph_, Choice(2, {64, 192, 32, 128})), 5);
}

TEST_F(OneSwap, ACopyInWaitsForItsCopyOutAndItsBytes) {
  Machine slow = UnitLink();
  slow.to_host_bytes_per_second = 16;  // out from 1 to 5, in until 6
  EXPECT_EQ(Replay(graph_, Choice(2, {0, 64, 128, 192}), slow), 7);
  // a comes back to b's bytes, which operation 2 has until 3: it is there at 4.
  EXPECT_EQ(Replay(graph_, Choice(3, {0, 128, 128, 192})), 5);
}

TEST_F(OneSwap, ACopyInWaitsForTheOperationsBeforeItsAnchor) {
  // Nobody else has its bytes, and it is on the host from 2 on: but anchored at 3, it begins when operation 2 is done.
  EXPECT_EQ(Replay(graph_, Choice(3, {0, 64, 128, 192})), 5);
  // Anchored at 1, it waits for its copy out.
  EXPECT_EQ(Replay(graph_, Choice(1, {0, 64, 128, 192})), 4);
}

TEST_F(OneSwap, LatencyIsPartOfEveryCopy) {
  Machine late = UnitLink();
  late.copy_latency_seconds = 0.5;  // out from 1 to 2.5, in until 4
  EXPECT_EQ(Replay(graph_, Choice(2, {0, 64, 128, 192}), late), 5);
}

TEST_F(OneSwap, EveryCopyCostsComputeWhatTheMachineSays) {
  Machine launching = UnitLink();
  launching.copy_launch_seconds = 0.25;
  EXPECT_EQ(Replay(graph_, Choice(2, {0, 64, 128, 192}), launching), 4.5);
}

TEST_F(OneSwap, ScratchWaitsForItsBytesAndOthersForScratch) {
  graph_.access().scratch_bytes[1] = 64;
  SwapChoice choice = Choice(2, {0, 64, 128, 192});
  choice.scratch_offsets[1] = 0;  // where a was: as b there
  EXPECT_EQ(Replay(graph_, choice), 5);
  choice.scratch_offsets[1] = 256;
  EXPECT_EQ(Replay(graph_, choice), 4);
  // a comes back to bytes that were scratch of operation 2 until 3.
  graph_.access().scratch_bytes[2] = 64;
  choice = Choice(3, {0, 64, 128, 192});
  choice.scratch_offsets = {0, 256, 64, 0};
  EXPECT_EQ(Replay(graph_, choice), 5);
}

TEST(ReplayPacked, WhoOverwritesWaitsForTheCopyThatReads) {
  SmallAccessGraph graph;
  const int32_t v = graph.AddStorage(StorageKind::kVariable, 256), a = graph.AddStorage(StorageKind::kActivation);
  graph.AddOperation({Writes(a)}).AddOperation({Updates(v)}).AddOperation({Reads(a), Reads(v)});
  // v comes in until 4, operation 1 writes it until 5, 2 reads it until 6 while it goes home, until 9.
  SwapChoice choice;
  choice.decisions = {{.storage = v, .before = 1, .anchor = 0}, {.storage = v, .after = 2, .copy_in = false, .copy_out = true, .out_after = 1}};
  choice.residence_offsets = {0, 256};
  choice.scratch_offsets = {0, 0, 0};
  EXPECT_EQ(Replay(graph, choice), 9);
  // Written by 2, too, it is not before what 1 wrote is home.
  SmallAccessGraph again;
  again.AddStorage(StorageKind::kVariable, 256);
  again.AddOperation({Reads(v)}).AddOperation({Updates(v)}).AddOperation({Updates(v)});
  SwapChoice stays;
  stays.decisions = {{.storage = v, .before = 0, .anchor = 0}, {.storage = v, .after = 2, .copy_in = false, .copy_out = true, .out_after = 1}};
  stays.residence_offsets = {0};
  stays.scratch_offsets = {0, 0, 0};
  EXPECT_EQ(Replay(again, stays), 4 + 2 + 4 + 1);
}

TEST(ReplayPacked, AFetchTakesTheLaneOfCopiesOutAndHoldsComputeUpOnlyByItsBytes) {
  SmallAccessGraph graph;
  const int32_t a = graph.AddStorage(StorageKind::kActivation, 256), b = graph.AddStorage(StorageKind::kActivation, 256);
  graph.AddOperation({Writes(a)}).AddOperation({Reads(a)}, 0).AddOperation({Writes(b)}).AddOperation({Reads(b)});
  graph.access().fetches = {1};
  SwapChoice choice{.residence_offsets = {0, 256}, .scratch_offsets = {0, 0, 0, 0}};
  EXPECT_EQ(Replay(graph, choice), 5);  // the fetch from 1 to 5, compute until 3
  choice.residence_offsets = {0, 0};
  EXPECT_EQ(Replay(graph, choice), 7);  // b's operations begin when the fetch is done
}

TEST(LeastPackedSeconds, AFetchWaitsForItsWriterAlone) {
  SmallAccessGraph graph;
  const int32_t a = graph.AddStorage(StorageKind::kActivation, 256), b = graph.AddStorage(StorageKind::kActivation, 256);
  graph.AddOperation({Writes(a)}).AddOperation({Writes(b)}, 2).AddOperation({Reads(a)}, 0);
  graph.access().fetches = {2};
  const GapGraph gaps = FindGaps(graph.access(), UnitLink());
  const SwapChoice choice{.residence_offsets = {0, 256}, .scratch_offsets = {0, 0, 0}};
  const Schedule schedule = BuildSchedule(graph.access(), choice);
  EXPECT_EQ(ReplayPacked(gaps, schedule, choice), 7);  // from 3, when both have run
  const MemoryAssignment memory{.residence_offsets = {0, 256}, .scratch_offsets = {0, 0, 0}};
  EXPECT_EQ(LeastPackedSeconds(gaps, schedule, choice, memory), 5);  // from 1
}

}  // namespace
}  // namespace millrace
