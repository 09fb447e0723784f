// Which gaps are kept.
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "passes/planner/gaps.h"
#include "passes/planner/select_gaps.h"

namespace millrace {
namespace {

constexpr int32_t kOperations = 10;
constexpr int32_t kSmall = 16;
constexpr int64_t kSmallBytes = 64, kLargeBytes = kSmall * kSmallBytes;

// One large tensor and small ones of as many bytes together, all made by the first operation and used by the last.
AccessGraph OneLargeAndManySmall() {
  AccessGraph graph;
  for (int32_t s = 0; s <= kSmall; ++s) {
    graph.storages.push_back({.name = "s", .kind = StorageKind::kActivation, .size_bytes = s == 0 ? kLargeBytes : kSmallBytes});
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
  Machine machine;
  machine.to_host_bytes_per_second = machine.to_device_bytes_per_second = kLargeBytes;
  machine.copy_latency_seconds = copy_latency_seconds;
  GapGraph gaps = FindGaps(graph, machine);
  OrderGaps(gaps);
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

}  // namespace
}  // namespace millrace
