// Which gaps are kept.
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "millrace/types.h"
#include "passes/planner/gaps.h"
#include "passes/planner/select_gaps.h"
#include "testlib/ordered_gaps.h"
#include "testlib/random_access_graph.h"

namespace millrace {
namespace {

constexpr int32_t kOperations = 10;
constexpr int32_t kSmall = 16;
constexpr int64_t kSmallBytes = 64, kLargeBytes = kSmall * kSmallBytes;

// One large tensor and small ones of as many bytes together, all made by the first operation and used by the last.
AccessGraph OneLargeAndManySmall() {
  AccessGraph graph;
  for (int32_t s = 0; s <= kSmall; ++s) {
    graph.storages.push_back({.kind = StorageKind::kActivation, .size_bytes = s == 0 ? kLargeBytes : kSmallBytes});
  }
  graph.seconds.assign(kOperations, 1);
  graph.scratch_bytes.assign(kOperations, 0);
  graph.partition.assign(kOperations, 0);
  graph.first_access.push_back(0);
  for (int32_t i = 0; i < kOperations; ++i) {
    for (int32_t s = 0; s <= kSmall; ++s) {
      if (i == 0) graph.accesses.push_back({s, false, true});
      if (i == kOperations - 1) graph.accesses.push_back({s, true, false});
    }
    graph.first_access.push_back(static_cast<int64_t>(graph.accesses.size()));
  }
  // Something in the middle needs the room of half of them.
  graph.scratch_bytes[kOperations / 2] = kLargeBytes;
  return graph;
}

// Bytes of gaps that are kept, of the large tensor and of the small ones.
struct Kept {
  int64_t large = 0, small = 0;
};

Kept KeptWith(double copy_latency_seconds) {
  const AccessGraph graph = OneLargeAndManySmall();
  GapGraph gaps = OrderedGaps(graph, kLargeBytes, copy_latency_seconds);
  const Selection selection = SelectGaps(gaps, {2 * kLargeBytes, {}, 0}, 0, {});
  Kept kept;
  for (size_t k = 0; k < gaps.gaps.size(); ++k) {
    if (!selection.kept[k]) continue;
    (gaps.gaps[k].storage == 0 ? kept.large : kept.small) += gaps.gaps[k].bytes;
  }
  return kept;
}

TEST(SelectGaps, OneLargeCopyIsCheaperThanManySmallOnesOfAsManyBytes) {
  const Kept alike = KeptWith(0);
  EXPECT_EQ(alike.large, kLargeBytes);
  EXPECT_EQ(alike.small, 0);
  const Kept kept = KeptWith(0.01);
  EXPECT_EQ(kept.large, 0);
  EXPECT_EQ(kept.small, kLargeBytes);
}

// A variable that is read, then overwritten, and an activation from the first operation to the last. The one in the middle has room for the variable
// alone beside its scratch, or, with a larger budget, for both.
TEST(SelectGaps, AVariableThatIsOverwrittenStaysWhereItWouldBeCopiedOut) {
  AccessGraph graph;
  graph.storages.push_back({.kind = StorageKind::kVariable, .size_bytes = kLargeBytes});
  graph.storages.push_back({.kind = StorageKind::kActivation, .size_bytes = 2 * kLargeBytes});
  graph.seconds.assign(kOperations, 1);
  graph.scratch_bytes.assign(kOperations, 0);
  graph.scratch_bytes[kOperations / 2] = 3 * kLargeBytes;
  graph.partition.assign(kOperations, 0);
  graph.first_access.push_back(0);
  for (int32_t i = 0; i < kOperations; ++i) {
    if (i == 1 || i == kOperations - 2) graph.accesses.push_back({0, i == 1, i != 1});
    if (i == 0 || i == kOperations - 1) graph.accesses.push_back({1, i != 0, i == 0});
    graph.first_access.push_back(static_cast<int64_t>(graph.accesses.size()));
  }
  const GapGraph gaps = OrderedGaps(graph, kLargeBytes);
  for (const int64_t budget : {4 * kLargeBytes, 6 * kLargeBytes}) {
    const Selection selection = SelectGaps(gaps, {budget, {}, 0}, 0, {}, {.allowed = true});
    for (int64_t k = gaps.first_gap[0]; k < gaps.first_gap[1]; ++k) EXPECT_TRUE(selection.kept[k]) << "gap " << k << ", budget " << budget;
  }
}

TEST(SelectGaps, WhatSelectionsShareChangesNone) {
  int shared = 0;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const AccessGraph graph = RandomAccessGraph(seed, 60);
    GapGraph gaps = OrderedGaps(graph, 2000);
    const int64_t least = gaps.largest_working_set();
    std::mt19937 random(seed);
    SelectionStarts starts;
    for (int k = 0; k < 40; ++k) {
      TransferWeights weights;
      for (int32_t i = 0; i < gaps.num_operations(); ++i) weights.in.push_back(1 + static_cast<double>(random() % 4));
      MemoryTarget target{AlignUp(least + static_cast<int64_t>(random() % 3) * 1024), {}, 0};
      if (random() % 4 == 0) target.set_aside.assign(gaps.num_operations(), 0);
      const double window = static_cast<double>(random() % 3);
      const Carrying carrying{random() % 2 == 0};
      const Selection alone = SelectGaps(gaps, target, window, weights, carrying);
      const Selection together = SelectGaps(gaps, target, window, weights, carrying, &starts);
      EXPECT_EQ(together.kept, alone.kept);
      EXPECT_EQ(together.profile, alone.profile);
      EXPECT_LE(together.work, alone.work);
      shared += together.work < alone.work ? 1 : 0;
    }
  }
  EXPECT_GT(shared, 100);
}

}  // namespace
}  // namespace millrace
