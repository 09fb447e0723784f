#include "passes/planner/pack_trial.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "millrace/types.h"
#include "passes/assign_memory.h"
#include "passes/pack_in_time.h"
#include "passes/planner/replay_packed.h"
#include "passes/schedule.h"

namespace millrace {
namespace {

// The position after all copies in that begin before operation i, for i in [0, n]: what ends there is gone at i.
std::vector<int64_t> FirstPositions(const Schedule& schedule) {
  std::vector<int64_t> first;
  int64_t begin = 0;
  for (size_t p = 0; p < schedule.items.size(); ++p) {
    const ScheduleItem::Kind kind = schedule.items[p].kind;
    if (kind == ScheduleItem::Kind::kCopyOut) begin = static_cast<int64_t>(p) + 1;
    if (kind != ScheduleItem::Kind::kOperation) continue;
    first.push_back(begin);
    begin = static_cast<int64_t>(p) + 1;
  }
  first.push_back(begin);
  return first;
}

// The copy of a fetched value waits for the lane, too: a small one keeps its place to the end, which costs nothing.
constexpr int64_t kSmallParts = 4096;  // of the budget
template <typename Visit>  // (stay, fetch)
void ForEachSmallFetched(const AccessGraph& graph, int64_t budget_bytes, const Schedule& schedule, Visit&& visit) {
  for (int32_t fetch : graph.fetches) {
    for (int64_t k = graph.first_access[fetch]; k < graph.first_access[fetch + 1]; ++k) {
      if (graph.storages[graph.accesses[k].storage].size_bytes <= budget_bytes / kSmallParts) {
        visit(schedule.residence_of[k], fetch);
      }
    }
  }
}

// Stay r of a storage lasts to the position, unless the storage is there again before that.
void KeepUntil(int64_t position, Schedule& schedule, int32_t r) {
  const size_t next = static_cast<size_t>(r) + 1;
  const bool again = next < schedule.residences.size() && schedule.residences[next].storage == schedule.residences[r].storage;
  if (!again) schedule.residences[r].last = std::max(schedule.residences[r].last, position);
}

// What leaves by a copy stays until the trial's lanes are done with it.
void StayUntilGone(const AccessGraph& graph, int64_t budget_bytes, const TrialResult& trial, Schedule& schedule) {
  const std::vector<int64_t> first_positions = FirstPositions(schedule);
  for (const ScheduleItem& item : schedule.items) {
    if (item.kind != ScheduleItem::Kind::kCopyOut) continue;
    Stay& stay = schedule.residences[item.residence];
    stay.last = std::max(stay.last, first_positions[trial.gone_at[item.index]] - 1);
  }
  const int64_t last = static_cast<int64_t>(schedule.items.size()) - 1;
  ForEachSmallFetched(graph, budget_bytes, schedule, [&](int32_t r, int32_t) { KeepUntil(last, schedule, r); });
}

// Per operation the highest end of what is placed beyond the budget, less the budget.
std::vector<int64_t> ExcessOf(const GapGraph& gaps, int64_t budget_bytes, const Schedule& schedule,
                              const MemoryAssignment& memory) {
  const int32_t n = gaps.num_operations();
  struct Beyond {
    int64_t bytes = 0;
    int32_t first = 0, last = 0;
  };
  std::vector<Beyond> beyond;
  const auto operation_at = [&](int64_t position) {
    const auto& positions = schedule.position_of_operation;
    const auto at = std::lower_bound(positions.begin(), positions.end(), position) - positions.begin();
    return std::min(static_cast<int32_t>(at), n - 1);
  };
  for (size_t r = 0; r < schedule.residences.size(); ++r) {
    const Stay& stay = schedule.residences[r];
    const int64_t bytes = memory.residence_offsets[r] + AlignUp(gaps.graph->storages[stay.storage].size_bytes) - budget_bytes;
    if (bytes > 0) beyond.push_back({bytes, operation_at(stay.first), operation_at(stay.last)});
  }
  for (int32_t i = 0; i < n; ++i) {
    const int64_t bytes = memory.scratch_offsets[i] + AlignUp(gaps.graph->scratch_bytes[i]) - budget_bytes;
    if (gaps.graph->scratch_bytes[i] > 0 && bytes > 0) beyond.push_back({bytes, i, i});
  }
  // The highest first: what it covers is settled.
  std::stable_sort(beyond.begin(), beyond.end(), [](const Beyond& a, const Beyond& b) { return a.bytes > b.bytes; });
  std::vector<int64_t> excess(n, 0);
  std::vector<int32_t> open(n + 1);  // the first operation from here on that is not settled, or a step towards it
  std::iota(open.begin(), open.end(), 0);
  const auto next_open = [&](int32_t i) {
    while (open[i] != i) i = open[i] = open[open[i]];
    return i;
  };
  for (const Beyond& block : beyond) {
    for (int32_t i = next_open(block.first); i <= block.last; i = next_open(i)) {
      excess[i] = block.bytes;
      open[i] = i + 1;
    }
  }
  return excess;
}

// Per position the operation that runs then or next, and per position the one that runs then or ran last.
class SlotsOfPositions {
 public:
  explicit SlotsOfPositions(const Schedule& schedule) : positions_(schedule.position_of_operation) {}
  int32_t AtOrAfter(int64_t position) const {
    return static_cast<int32_t>(std::lower_bound(positions_.begin(), positions_.end(), position) - positions_.begin());
  }
  int32_t AtOrBefore(int64_t position) const {
    const auto after = std::upper_bound(positions_.begin(), positions_.end(), position);
    return static_cast<int32_t>(std::max<int64_t>(0, after - positions_.begin() - 1));
  }

 private:
  const std::vector<int64_t>& positions_;
};

// Stays and scratch, in the order of BlocksOf, with operations for slots.
std::vector<LateBlock> LateBlocksOf(const GapGraph& gaps, const Schedule& schedule, const std::vector<SwapDecision>& decisions,
                                    const TrialResult& trial, int64_t budget_bytes) {
  const SlotsOfPositions slots(schedule);
  std::vector<LateBlock> blocks;
  for (const Stay& stay : schedule.residences) {
    LateBlock block{AlignUp(gaps.graph->storages[stay.storage].size_bytes), slots.AtOrAfter(stay.first), 0,
                    slots.AtOrBefore(stay.last)};
    block.latest = block.first;
    block.leaves = block.last;
    if (stay.decision >= 0) block.latest = std::max(block.first, decisions[stay.decision].before);
    blocks.push_back(block);
  }
  for (size_t p = 0; p < schedule.items.size(); ++p) {
    const ScheduleItem& item = schedule.items[p];
    if (item.kind != ScheduleItem::Kind::kCopyOut) continue;
    blocks[item.residence].last = std::max(blocks[item.residence].last, trial.gone_at[item.index] - 1);
    blocks[item.residence].copy = static_cast<int64_t>(p);
  }
  ForEachSmallFetched(*gaps.graph, budget_bytes, schedule, [&](int32_t r, int32_t fetch) {
    blocks[r].last = gaps.num_operations() - 1;
    blocks[r].copy = std::max(blocks[r].copy, schedule.position_of_operation[fetch]);
  });
  for (int32_t i = 0; i < gaps.num_operations(); ++i) {
    if (gaps.graph->scratch_bytes[i] > 0) blocks.push_back({AlignUp(gaps.graph->scratch_bytes[i]), i, i, i, i});
  }
  return blocks;
}

}  // namespace

PackedTrial PackTrialInTime(const GapGraph& gaps, int64_t budget_bytes, const std::vector<SwapDecision>& decisions,
                            const TrialResult& trial, int tries) {
  PackedTrial packed;
  packed.choice.decisions = decisions;
  const Schedule schedule = BuildSchedule(*gaps.graph, gaps.lists, packed.choice.decisions);
  const std::vector<LateBlock> blocks = LateBlocksOf(gaps, schedule, decisions, trial, budget_bytes);
  TimePacking packing = PackInTimeBest(blocks, budget_bytes, tries);
  packed.fits = packing.failed.empty();
  if (!packed.fits) {
    packed.excess.assign(gaps.num_operations(), 0);
    for (size_t k = 0; k < packing.failed.size(); ++k) {
      int64_t& excess = packed.excess[packing.first[packing.failed[k]]];
      excess = std::max(excess, packing.free_bytes[k]) + blocks[packing.failed[k]].bytes;
    }
    return packed;
  }
  for (size_t r = 0; r < schedule.residences.size(); ++r) {
    if (schedule.residences[r].decision >= 0) packed.choice.decisions[schedule.residences[r].decision].anchor = packing.first[r];
  }
  MemoryAssignment memory = AssignmentOf(*gaps.graph, schedule, {std::move(packing.offsets), packing.heap_bytes, 0});
  packed.choice.residence_offsets = std::move(memory.residence_offsets);
  packed.choice.scratch_offsets = std::move(memory.scratch_offsets);
  packed.step_seconds = ReplayPacked(gaps, BuildSchedule(*gaps.graph, gaps.lists, packed.choice.decisions), packed.choice);
  return packed;
}

PackedTrial PackTrial(const GapGraph& gaps, int64_t budget_bytes, const std::vector<SwapDecision>& decisions,
                      const TrialResult& trial, SkylineKey& key) {
  PackedTrial packed;
  packed.choice.decisions = decisions;
  Schedule schedule = BuildSchedule(*gaps.graph, gaps.lists, decisions);
  StayUntilGone(*gaps.graph, budget_bytes, trial, schedule);
  MemoryAssignment memory = AssignmentOf(
      *gaps.graph, schedule, PackSkylines(BlocksOf(*gaps.graph, schedule), budget_bytes, key));
  packed.fits = memory.arena_bytes <= budget_bytes;
  if (packed.fits) {
    packed.choice.residence_offsets = std::move(memory.residence_offsets);
    packed.choice.scratch_offsets = std::move(memory.scratch_offsets);
    packed.step_seconds = ReplayPacked(gaps, BuildSchedule(*gaps.graph, gaps.lists, packed.choice.decisions), packed.choice);
  } else {
    packed.excess = ExcessOf(gaps, budget_bytes, schedule, memory);
  }
  return packed;
}

}  // namespace millrace
