// The bound under every plan of an order: tight where it is easy to see what must be copied.
#include "gtest/gtest.h"
#include "passes/planner/gaps.h"
#include "passes/planner/timed_cut_bound.h"
#include "passes/planner/transfer_bound.h"
#include "testlib/small_access_graph.h"

namespace millrace {
namespace {

class Builder : public SmallAccessGraph {
 public:
  double Bound(int64_t budget_bytes) { return CutBound(FindGaps(access(), machine_), budget_bytes); }
  double Timed(int64_t budget_bytes) { return TimedCutBound(FindGaps(access(), machine_), budget_bytes); }
  double Transfers(int64_t budget_bytes, double target_seconds) {
    return TransferBound(FindGaps(access(), machine_), budget_bytes, target_seconds);
  }
  Machine& machine() { return machine_; }

 private:
  Machine machine_ = [] {
    Machine machine;
    machine.to_host_bytes_per_second = 1;
    machine.to_device_bytes_per_second = 1;
    return machine;
  }();
};

TEST(CutBound, WhatLeavesBeforeACutComesBackAfterIt) {
  Builder builder;
  const int32_t a = builder.AddStorage(StorageKind::kActivation), b = builder.AddStorage(StorageKind::kActivation);
  builder.AddOperation({Writes(a)}).AddOperation({Writes(b)}).AddOperation({Reads(b)}).AddOperation({Reads(a)});
  EXPECT_EQ(builder.Bound(128), 4);
  EXPECT_EQ(builder.Bound(64), 64 + 64);
}

TEST(CutBound, WhatFillsUpAStorageToAlignmentIsNotCopied) {
  Builder builder;
  const int32_t a = builder.AddStorage(StorageKind::kActivation, 20), b = builder.AddStorage(StorageKind::kActivation, 20);
  builder.AddOperation({Writes(a)}).AddOperation({Writes(b)}).AddOperation({Reads(b)}).AddOperation({Reads(a)});
  EXPECT_EQ(builder.Bound(128), 4);
  EXPECT_EQ(builder.Bound(64), 20 + 20);
}

TEST(CutBound, WhatIsOverwrittenBeforeItIsReadAgainLeavesForNothing) {
  Builder builder;
  const int32_t v = builder.AddStorage(StorageKind::kVariable), b = builder.AddStorage(StorageKind::kActivation);
  builder.AddOperation({Reads(v)}).AddOperation({Writes(b)}).AddOperation({Reads(b)}).AddOperation({Writes(v)});
  // The variable is on the device from operation 3 to operation 0 of the next step.
  EXPECT_EQ(builder.Bound(64), 4);
}

TEST(CutBound, AVariableWithoutRoomComesInBeforeItsUseAndGoesHomeAfterItsUpdate) {
  Builder builder;
  const int32_t a = builder.AddStorage(StorageKind::kVariable), b = builder.AddStorage(StorageKind::kVariable);
  builder.AddOperation({Reads(a)}).AddOperation({Reads(b)}).AddOperation({Updates(b)}).AddOperation({Updates(a)});
  EXPECT_EQ(builder.Bound(128), 4);
  // One of them stays. The other comes in, 64 s, before operation 1 or 2, and goes home, 64 s, after it.
  EXPECT_EQ(builder.Bound(64), 64 + 1 + 64);
  builder.machine().to_device_bytes_per_second = 4;
  EXPECT_EQ(builder.Bound(64), 64 / 4 + 1 + 64);
}

TEST(CutBound, AVariableThatIsNotWrittenNeedNotGoHome) {
  Builder builder;
  const int32_t a = builder.AddStorage(StorageKind::kVariable), b = builder.AddStorage(StorageKind::kVariable);
  builder.AddOperation({Reads(a)}).AddOperation({Reads(b)});
  // What does not stay comes in for operation 1 at the latest.
  EXPECT_EQ(builder.Bound(64), 64 + 1);
}

TEST(CutBound, AVariableThatIsOverwrittenNeedNotComeIn) {
  Builder builder;
  const int32_t a = builder.AddStorage(StorageKind::kVariable), b = builder.AddStorage(StorageKind::kVariable);
  builder.AddOperation({Writes(a)}).AddOperation({Writes(b)});
  EXPECT_EQ(builder.Bound(64), 1 + 64);
}

// x is written after four seconds, leaves for y, and comes back with a second of work to follow.
Builder WrittenLate() {
  Builder builder;
  std::vector<int32_t> brief;
  for (int k = 0; k < 3; ++k) brief.push_back(builder.AddStorage(StorageKind::kActivation));
  const int32_t x = builder.AddStorage(StorageKind::kActivation), y = builder.AddStorage(StorageKind::kActivation);
  for (int32_t s : brief) builder.AddOperation({Writes(s)});
  builder.AddOperation({Writes(x)}).AddOperation({Writes(y)}).AddOperation({Reads(x)});
  return builder;
}

TEST(TimedCutBound, CopiesWaitForTheWriteAndAreFollowedByWhatNeedsThem) {
  Builder builder = WrittenLate();
  EXPECT_EQ(builder.Bound(64), 64 + 64);
  EXPECT_NEAR(builder.Timed(64), 4 + 64 + 64 + 1, 1e-3);
  EXPECT_EQ(builder.Timed(128), 6);
}

TEST(TimedCutBound, CountsTheLatencyOfAsFewCopiesAsCanCarryTheBytes) {
  Builder builder = WrittenLate();
  builder.machine().copy_latency_seconds = 16;
  EXPECT_NEAR(builder.Timed(64), 4 + 80 + 80 + 1, 1e-3);
}

TEST(TimedCutBound, ALatencyMayBeMoreThanAnyNumberOfItsBytes) {
  Builder builder = WrittenLate();
  builder.machine().to_host_bytes_per_second = builder.machine().to_device_bytes_per_second = 1e30;
  builder.machine().copy_latency_seconds = 1e300;
  EXPECT_NEAR(builder.Timed(64) / 2e300, 1, 1e-3);
}

TEST(TimedCutBound, WhatTheHostHasGoesWithoutACopy) {
  Builder builder;
  const int32_t constant = builder.AddStorage(StorageKind::kConstant), y = builder.AddStorage(StorageKind::kActivation);
  builder.AddOperation({Reads(constant)}).AddOperation({Writes(y)}).AddOperation({Reads(constant)});
  // It is left at once, and comes back for the last second.
  EXPECT_NEAR(builder.Timed(64), 1 + 64 + 1, 1e-3);
}

TEST(TimedCutBound, WhatIsUpdatedHasToBeHomeBeforeOthersNeedItsRoom) {
  Builder builder;
  const int32_t a = builder.AddStorage(StorageKind::kVariable), b = builder.AddStorage(StorageKind::kVariable);
  const int32_t y = builder.AddStorage(StorageKind::kActivation), z = builder.AddStorage(StorageKind::kActivation);
  builder.AddOperation({Updates(a)}).AddOperation({Updates(b)}).AddOperation({Writes(y), Writes(z)});
  // Neither stays: a goes home from second 1 on, b from second 2 on, and then there is a second of work.
  EXPECT_NEAR(builder.Timed(128), 1 + 2 * 64 + 1, 1e-3);
}

// Three variables, each used twice, and room for so many of them.
Builder ThreeTwice() {
  Builder builder;
  std::vector<int32_t> variables;
  for (int k = 0; k < 3; ++k) variables.push_back(builder.AddStorage(StorageKind::kVariable));
  for (int k = 0; k < 6; ++k) builder.AddOperation({Reads(variables[k % 3])});
  return builder;
}

TEST(TransferBound, AddsUpWhatComesInAtDifferentTimes) {
  Builder builder = ThreeTwice();
  // One at a time: each comes in for each of its uses. A cut sees two of them.
  EXPECT_NEAR(builder.Transfers(64, 6 * 64), 6 * 64, 3);
  EXPECT_LT(builder.Bound(64), 4 * 64);
  // Two at a time: two of three gaps overlap everywhere, so at least half of them are copied.
  EXPECT_NEAR(builder.Transfers(128, 6 * 64), 3 * 64, 3);
}

TEST(TransferBound, CountsTheLatencyOfCopies) {
  Builder builder = ThreeTwice();
  builder.machine().copy_latency_seconds = 16;
  EXPECT_NEAR(builder.Transfers(64, 6 * 80), 6 * 80, 3);
}

TEST(TransferBound, AddsUpWhatComesInAfterAllElseHasRun) {
  Builder builder;
  builder.machine().to_host_bytes_per_second = 1e6;
  std::vector<int32_t> values;
  for (int k = 0; k < 3; ++k) {
    values.push_back(builder.AddStorage(StorageKind::kActivation));
    builder.AddOperation({Writes(values.back())});
  }
  for (int k = 0; k < 40; ++k) builder.AddOperation({Writes(builder.AddStorage(StorageKind::kActivation))});
  for (int k = 0; k < 6; ++k) builder.AddOperation({Reads(values[k % 3])});
  // 43 s of work with other things in the only place, then six copies. A cut sees three of them at once.
  EXPECT_NEAR(builder.Transfers(64, 43 + 6 * 64), 43 + 6 * 64, 3);
  EXPECT_LE(builder.Transfers(64, 1e4), 43 + 6 * 64 + 1e-3);
  EXPECT_LT(builder.Bound(64), 43 + 4 * 64);
}

TEST(TransferBound, IsNeverAboveTheBestWhateverTheTarget) {
  for (const double target : {1.0, 100.0, 1e4, 1e9}) {
    EXPECT_LE(ThreeTwice().Transfers(64, target), 6 * 64 + 1e-3) << target;
    EXPECT_LE(ThreeTwice().Transfers(128, target), 3 * 64 + 1e-3) << target;
  }
  EXPECT_EQ(ThreeTwice().Transfers(3 * 64, 100), 0);
}

}  // namespace
}  // namespace millrace
