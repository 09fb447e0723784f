#include "passes/planner/pack_trial.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "millrace/types.h"
#include "passes/access/schedule.h"
#include "passes/memory/assign_memory.h"
#include "passes/memory/pack_in_time.h"
#include "passes/planner/idle_stays.h"
#include "passes/planner/move_anchors.h"
#include "passes/planner/replay_packed.h"

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

// The first position of the storage's next stay; that after the last of all when there is none.
int64_t BackAgain(const Schedule& schedule, int32_t r) {
  const size_t next = static_cast<size_t>(r) + 1;
  const bool again = next < schedule.residences.size() && schedule.residences[next].storage == schedule.residences[r].storage;
  return again ? schedule.residences[next].first : static_cast<int64_t>(schedule.items.size());
}

// Stay r of a storage lasts to the position, unless the storage is there again before that. Whether it is longer then.
bool KeepUntil(int64_t position, Schedule& schedule, int32_t r) {
  const bool again = BackAgain(schedule, r) < static_cast<int64_t>(schedule.items.size());
  if (again || position <= schedule.residences[r].last) return false;
  schedule.residences[r].last = position;
  return true;
}

// What leaves by a copy stays until the trial's lanes are done with it.
void StayUntilGone(const AccessGraph& graph, int64_t budget_bytes, const TrialResult& trial, Schedule& schedule) {
  const std::vector<int64_t> first_positions = FirstPositions(schedule);
  for (const ScheduleItem& item : schedule.items) {
    if (item.kind != ScheduleItem::Kind::kCopyOut) continue;
    Stay& stay = schedule.residences[item.residence];
    stay.last = std::max(stay.last, first_positions[trial.gone_at[item.index]] - 1);
    // What returns to its address may be on its way back before the trial looks whether it has gone.
    if (stay.resident) stay.last = std::min(stay.last, BackAgain(schedule, item.residence) - 1);
  }
  const int64_t last = static_cast<int64_t>(schedule.items.size()) - 1;
  ForEachSmallFetched(graph, budget_bytes, schedule, [&](int32_t r, int32_t) { KeepUntil(last, schedule, r); });
}

constexpr int kFloorOrders = 3;
constexpr int64_t kItemWork = 150;  // units of WorkBudget: of an item of the schedule, to make and to replay

// What stays over the step's end lies at the bottom: what never leaves, then the others, above those that are away for less
// long. Those leave in that order and come back in the opposite one, so that what is free above them is in one piece.
std::vector<PlacedBlock> FloorOf(const std::vector<MemoryBlock>& blocks, const Schedule& schedule,
                                 std::vector<ReturningStay> returning, int order, std::vector<int64_t>& offsets) {
  std::vector<PlacedBlock> floor;
  int64_t top = 0;
  const auto place = [&](int32_t r) {
    offsets[r] = top;
    floor.push_back({blocks[r], top});
  };
  const int64_t end = static_cast<int64_t>(schedule.items.size()) - 1;
  for (size_t r = 0; r < schedule.residences.size(); ++r) {
    if (!schedule.residences[r].resident || schedule.residences[r].last != end) continue;
    place(static_cast<int32_t>(r));
    top += blocks[r].bytes;
  }
  const auto away = [&](const ReturningStay& stay) {
    const int64_t leaves = blocks[stay.first].last, returns = blocks[stay.last].first;
    return order == 0 ? returns - leaves : order == 1 ? returns : -leaves;
  };
  std::stable_sort(returning.begin(), returning.end(),
                   [&](const ReturningStay& a, const ReturningStay& b) { return away(a) < away(b); });
  for (const ReturningStay& stay : returning) {
    place(stay.first);
    place(stay.last);
    top += blocks[stay.first].bytes;
  }
  return floor;
}

// Packs the schedule's blocks; what leaves and returns over the step's end has one address.
Packing PackSchedule(const AccessGraph& graph, const Schedule& schedule, int64_t budget_bytes, SkylineKey& key) {
  const std::vector<MemoryBlock> blocks = BlocksOf(graph, schedule);
  const std::vector<ReturningStay> returning = StaysThatReturn(schedule);
  if (returning.empty()) return PackSkylines(blocks, budget_bytes, key);
  Packing best;
  int64_t work = 0;
  for (int order = 0; order < kFloorOrders; ++order) {
    std::vector<int64_t> offsets(blocks.size(), -1);
    const std::vector<PlacedBlock> floor = FloorOf(blocks, schedule, returning, order, offsets);
    std::vector<MemoryBlock> others;
    for (size_t b = 0; b < blocks.size(); ++b) {
      if (offsets[b] < 0) others.push_back(blocks[b]);
    }
    SkylineKey tried = key;
    Packing packing = PackSkylines(others, budget_bytes, tried, floor);
    work += packing.work;
    if (order > 0 && packing.heap_bytes >= best.heap_bytes) continue;
    size_t next = 0;
    for (int64_t& offset : offsets) {
      if (offset < 0) offset = packing.offsets[next++];
    }
    packing.offsets = std::move(offsets);
    best = std::move(packing);
    if (best.heap_bytes <= budget_bytes || best.peak_bytes > budget_bytes) break;
  }
  best.work = work;
  return best;
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
    const int64_t bytes = memory.residence_offsets[r] + gaps.graph->aligned_bytes(stay.storage) - budget_bytes;
    if (bytes > 0) beyond.push_back({bytes, operation_at(stay.first), operation_at(stay.last)});
  }
  for (int32_t i = 0; i < n; ++i) {
    const int64_t bytes = memory.scratch_offsets[i] + gaps.graph->aligned_scratch(i) - budget_bytes;
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
  explicit SlotsOfPositions(const Schedule& schedule) {
    operations_before_.reserve(schedule.items.size() + 1);
    int32_t operations = 0;
    for (const ScheduleItem& item : schedule.items) {
      operations_before_.push_back(operations);
      operations += item.kind == ScheduleItem::Kind::kOperation ? 1 : 0;
    }
    operations_before_.push_back(operations);
  }
  int32_t AtOrAfter(int64_t position) const { return operations_before_[position]; }
  int32_t AtOrBefore(int64_t position) const { return std::max(0, operations_before_[position + 1] - 1); }

 private:
  std::vector<int32_t> operations_before_;  // per position, and at the end
};

// What stays over the step's end, as FloorOf has it, but from the upper end down; what leaves and returns ends before it is
// there again.
std::vector<PinnedPair> PinnedOf(const Schedule& schedule, std::vector<LateBlock>& blocks) {
  std::vector<PinnedPair> pinned;
  const int64_t end = static_cast<int64_t>(schedule.items.size()) - 1;
  for (size_t r = 0; r < schedule.residences.size(); ++r) {
    if (schedule.residences[r].resident && schedule.residences[r].last == end && schedule.residences[r].first <= 0) {
      pinned.push_back({static_cast<int32_t>(r), static_cast<int32_t>(r)});
    }
  }
  std::vector<ReturningStay> returning = StaysThatReturn(schedule);
  for (const ReturningStay& stay : returning) {
    LateBlock& goes = blocks[stay.first];
    goes.last = std::max(goes.leaves, std::min(goes.last, blocks[stay.last].latest - 1));
    blocks[stay.last].first = std::max(blocks[stay.last].first, goes.last + 1);
  }
  const auto away = [&](const ReturningStay& stay) { return blocks[stay.last].latest - blocks[stay.first].last; };
  std::stable_sort(returning.begin(), returning.end(),
                   [&](const ReturningStay& a, const ReturningStay& b) { return away(a) < away(b); });
  for (const ReturningStay& stay : returning) pinned.push_back({stay.first, stay.last});
  return pinned;
}

// Stays and scratch, in the order of BlocksOf, with operations for slots.
std::vector<LateBlock> LateBlocksOf(const GapGraph& gaps, const Schedule& schedule, const std::vector<SwapDecision>& decisions,
                                    const TrialResult& trial, int64_t budget_bytes) {
  const SlotsOfPositions slots(schedule);
  std::vector<LateBlock> blocks;
  for (const Stay& stay : schedule.residences) {
    LateBlock block{gaps.graph->aligned_bytes(stay.storage), slots.AtOrAfter(stay.first), 0,
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
    if (gaps.graph->scratch_bytes[i] > 0) blocks.push_back({gaps.graph->aligned_scratch(i), i, i, i, i});
  }
  return blocks;
}

// What a step takes with the addresses. Where that is more than the trial took, copies in begin as early as they let them.
void TakeTime(const GapGraph& gaps, const TrialResult& trial, const Schedule& schedule, PackedTrial& packed) {
  packed.step_seconds = ReplayPacked(gaps, schedule, packed.choice);
  if (packed.step_seconds <= trial.step_seconds) return;
  packed.work += kItemWork * static_cast<int64_t>(schedule.items.size());
  if (!MoveAnchorsBack(*gaps.graph, schedule, packed.choice)) return;
  packed.step_seconds = ReplayPacked(gaps, BuildSchedule(*gaps.graph, gaps.lists, packed.choice.decisions), packed.choice);
}

}  // namespace

PackedTrial PackTrialInTime(const GapGraph& gaps, int64_t budget_bytes, const std::vector<SwapDecision>& decisions,
                            const TrialResult& trial, int tries, int64_t most_work, bool may_send_away) {
  PackedTrial packed;
  packed.choice.decisions = decisions;
  Schedule schedule = BuildSchedule(*gaps.graph, gaps.lists, packed.choice.decisions);
  std::vector<LateBlock> blocks = LateBlocksOf(gaps, schedule, decisions, trial, budget_bytes);
  std::vector<PinnedPair> pinned;
  if (!StaysThatReturn(schedule).empty()) pinned = PinnedOf(schedule, blocks);
  const IdleStays idle(gaps, schedule);
  TimePacking packing = PackInTimeBest(blocks, budget_bytes, tries, most_work, pinned, may_send_away ? &idle : nullptr, gaps.graph->alignment);
  packed.work = packing.work + kItemWork * static_cast<int64_t>(schedule.items.size());
  packed.fits = packing.failed.empty();
  if (!packed.fits) {
    packed.excess.assign(gaps.num_operations(), 0);
    for (size_t k = 0; k < packing.failed.size(); ++k) {
      int64_t& excess = packed.excess[packing.failed_at[k]];
      excess = std::max(excess, packing.free_bytes[k]) + blocks[packing.failed[k]].bytes;
    }
    return packed;
  }
  for (size_t r = 0; r < schedule.residences.size(); ++r) {
    if (schedule.residences[r].decision >= 0) packed.choice.decisions[schedule.residences[r].decision].anchor = packing.first[r];
  }
  if (!packing.returns.empty()) AddReturns(gaps, schedule, packing, packed.choice.decisions);
  schedule = BuildSchedule(*gaps.graph, gaps.lists, packed.choice.decisions);
  MemoryAssignment memory = AssignmentOf(*gaps.graph, schedule, {std::move(packing.offsets), packing.heap_bytes, 0});
  packed.choice.residence_offsets = std::move(memory.residence_offsets);
  packed.choice.scratch_offsets = std::move(memory.scratch_offsets);
  TakeTime(gaps, trial, schedule, packed);
  return packed;
}

PackedTrial PackTrial(const GapGraph& gaps, int64_t budget_bytes, const std::vector<SwapDecision>& decisions,
                      const TrialResult& trial, SkylineKey& key) {
  PackedTrial packed;
  packed.choice.decisions = decisions;
  Schedule schedule = BuildSchedule(*gaps.graph, gaps.lists, decisions);
  StayUntilGone(*gaps.graph, budget_bytes, trial, schedule);
  Packing packing = PackSchedule(*gaps.graph, schedule, budget_bytes, key);
  packed.work = packing.work + kItemWork * static_cast<int64_t>(schedule.items.size());
  MemoryAssignment memory = AssignmentOf(*gaps.graph, schedule, std::move(packing));
  packed.fits = memory.arena_bytes <= budget_bytes;
  if (packed.fits) {
    packed.choice.residence_offsets = std::move(memory.residence_offsets);
    packed.choice.scratch_offsets = std::move(memory.scratch_offsets);
    TakeTime(gaps, trial, BuildSchedule(*gaps.graph, gaps.lists, packed.choice.decisions), packed);
  } else {
    packed.excess = ExcessOf(gaps, budget_bytes, schedule, memory);
  }
  return packed;
}

bool StayUntilFetched(const GapGraph& gaps, Schedule& schedule) {
  const AccessGraph& graph = *gaps.graph;
  std::vector<double> starts;
  double end = 0, lane_free_at = 0;
  bool longer = false;
  for (const double seconds : graph.seconds) {
    starts.push_back(end);
    end += seconds;
  }
  for (const int32_t fetch : graph.fetches) {
    for (int64_t k = graph.first_access[fetch]; k < graph.first_access[fetch + 1]; ++k) {
      lane_free_at = std::max(lane_free_at, starts[fetch]) + gaps.out_seconds(graph.accesses[k].storage);
      const auto behind = std::lower_bound(starts.begin() + fetch + 1, starts.end(), lane_free_at);
      longer |= KeepUntil(schedule.position_of_operation[behind - starts.begin() - 1], schedule, schedule.residence_of[k]);
    }
  }
  return longer;
}

}  // namespace millrace
