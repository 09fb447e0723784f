#include "passes/planner/pack_trial.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "millrace/types.h"
#include "passes/assign_memory.h"
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

// What leaves by a copy stays until the trial's lanes are done with it.
void StayUntilGone(const TrialResult& trial, Schedule& schedule) {
  const std::vector<int64_t> first_positions = FirstPositions(schedule);
  for (const ScheduleItem& item : schedule.items) {
    if (item.kind != ScheduleItem::Kind::kCopyOut) continue;
    Stay& stay = schedule.residences[item.residence];
    stay.last = std::max(stay.last, first_positions[trial.gone_at[item.index]] - 1);
  }
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

}  // namespace

PackedTrial PackTrial(const GapGraph& gaps, int64_t budget_bytes, const std::vector<SwapDecision>& decisions,
                      const TrialResult& trial, SkylineKey& key) {
  PackedTrial packed;
  packed.choice.decisions = decisions;
  Schedule schedule = BuildSchedule(*gaps.graph, gaps.lists, decisions);
  StayUntilGone(trial, schedule);
  MemoryAssignment memory = AssignmentOf(
      *gaps.graph, schedule, PackSkylines(BlocksOf(*gaps.graph, schedule), budget_bytes, key));
  packed.fits = memory.arena_bytes <= budget_bytes;
  if (packed.fits) {
    packed.choice.residence_offsets = std::move(memory.residence_offsets);
    packed.choice.scratch_offsets = std::move(memory.scratch_offsets);
  } else {
    packed.excess = ExcessOf(gaps, budget_bytes, schedule, memory);
  }
  return packed;
}

}  // namespace millrace
