#include "passes/memory/assign_memory.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/strings/str_cat.h"
#include "millrace/options.h"
#include "millrace/types.h"
#include "passes/access/radix_sort.h"

namespace millrace {
namespace {

std::vector<Keyed> Sorted(const std::vector<MemoryBlock>& blocks, int64_t MemoryBlock::*position) {
  std::vector<Keyed> order;
  order.reserve(blocks.size());
  for (const MemoryBlock& block : blocks) {
    order.push_back({KeyOf(static_cast<double>(block.*position)), static_cast<int32_t>(order.size())});
  }
  SortByKey(order);
  return order;
}

// " at node 'x'", or at the node before which the copy at this position runs.
std::string NodeWords(const Schedule& schedule, int64_t position, OperationName operation_name) {
  for (; position < static_cast<int64_t>(schedule.items.size()); ++position) {
    const ScheduleItem& item = schedule.items[position];
    if (item.kind == ScheduleItem::Kind::kOperation) return absl::StrCat(" at node '", operation_name(item.index), "'");
  }
  return "";
}

absl::Status DoesNotFit(const AccessGraph& graph, const Schedule& schedule, const MemoryAssignment& memory, int64_t budget,
                        OperationName operation_name) {
  // The position of the peak and the largest storages there.
  std::map<int64_t, int64_t> change;
  for (const MemoryBlock& block : BlocksOf(graph, schedule)) {
    change[block.first] += block.bytes;
    change[block.last + 1] -= block.bytes;
  }
  int64_t live = 0, peak = -1, at = 0;
  for (const auto& [position, bytes] : change) {
    live += bytes;
    if (live > peak) {
      peak = live;
      at = position;
    }
  }
  std::vector<std::pair<int64_t, std::string>> holders;
  for (const Stay& stay : schedule.residences) {
    if (stay.first <= at && at <= stay.last) {
      holders.emplace_back(graph.storages[stay.storage].size_bytes, graph.name_of(stay.storage));
    }
  }
  return DoesNotFitError(memory.arena_bytes, absl::StrCat(
      "does not fit: the plan needs ", memory.arena_bytes, " bytes (", FormatBytes(memory.arena_bytes),
      "; most live at once ", memory.peak_bytes, NodeWords(schedule, at, operation_name), "), ",
      BudgetWords(memory.arena_bytes, budget), "; largest tensors at the peak: ", LargestWords(std::move(holders))));
}

}  // namespace

std::vector<MemoryBlock> BlocksOf(const AccessGraph& graph, const Schedule& schedule) {
  std::vector<MemoryBlock> blocks;
  blocks.reserve(schedule.residences.size());
  for (const Stay& stay : schedule.residences) {
    blocks.push_back({graph.aligned_bytes(stay.storage), stay.first, stay.last});
  }
  for (int32_t i = 0; i < graph.num_operations(); ++i) {
    const int64_t position = schedule.position_of_operation[i];
    if (graph.scratch_bytes[i] > 0) blocks.push_back({graph.aligned_scratch(i), position, position});
  }
  return blocks;
}

MemoryAssignment AssignmentOf(const AccessGraph& graph, const Schedule& schedule, Packing packing) {
  MemoryAssignment memory;
  memory.arena_bytes = packing.heap_bytes;
  memory.peak_bytes = packing.peak_bytes;
  memory.residence_offsets = std::move(packing.offsets);
  memory.scratch_offsets.assign(graph.num_operations(), 0);
  size_t next = schedule.residences.size();
  for (int32_t i = 0; i < graph.num_operations(); ++i) {
    if (graph.scratch_bytes[i] > 0) memory.scratch_offsets[i] = memory.residence_offsets[next++];
  }
  memory.residence_offsets.resize(schedule.residences.size());
  return memory;
}

MemoryAssignment PackMemory(const AccessGraph& graph, const Schedule& schedule, const SwapChoice& choice,
                            int64_t budget_bytes) {
  const std::vector<MemoryBlock> blocks = BlocksOf(graph, schedule);
  Packing packing;
  if (!choice.residence_offsets.empty() && choice.residence_offsets.size() == schedule.residences.size()) {
    packing.offsets = choice.residence_offsets;
    for (int32_t i = 0; i < graph.num_operations(); ++i) {
      if (graph.scratch_bytes[i] > 0) packing.offsets.push_back(choice.scratch_offsets[i]);
    }
    for (size_t b = 0; b < blocks.size(); ++b) {
      packing.heap_bytes = std::max(packing.heap_bytes, packing.offsets[b] + blocks[b].bytes);
    }
    packing.peak_bytes = PeakBytes(blocks);
  } else {
    packing = PackBlocks(blocks, budget_bytes);
  }
  return AssignmentOf(graph, schedule, std::move(packing));
}

absl::StatusOr<MemoryAssignment> AssignMemory(const AccessGraph& graph, const Schedule& schedule,
                                              const SwapChoice& choice, int64_t budget_bytes, OperationName operation_name) {
  MemoryAssignment memory = PackMemory(graph, schedule, choice, budget_bytes);
  if (budget_bytes > 0 && memory.arena_bytes > budget_bytes) {
    return DoesNotFit(graph, schedule, memory, budget_bytes, operation_name);
  }
  return memory;
}

std::vector<ReturningStay> StaysThatReturn(const Schedule& schedule) {
  std::vector<ReturningStay> result;
  const std::vector<Stay>& stays = schedule.residences;
  const int64_t end = static_cast<int64_t>(schedule.items.size()) - 1;
  for (size_t r = 0; r < stays.size(); ++r) {
    if (!stays[r].resident || stays[r].last == end) continue;
    size_t last = r;
    while (last + 1 < stays.size() && stays[last + 1].storage == stays[r].storage) ++last;
    result.push_back({static_cast<int32_t>(r), static_cast<int32_t>(last)});
  }
  return result;
}

absl::Status VerifyMemory(const AccessGraph& graph, const Schedule& schedule, const MemoryAssignment& memory) {
  for (const ReturningStay& stay : StaysThatReturn(schedule)) {
    if (memory.residence_offsets[stay.first] == memory.residence_offsets[stay.last] && stay.first != stay.last) continue;
    return absl::InternalError(absl::StrCat("'", graph.name_of(schedule.residences[stay.first].storage),
                                            "' stays over the step's end, but does not come back to its address"));
  }
  std::vector<MemoryBlock> blocks = BlocksOf(graph, schedule);
  std::vector<int64_t> offsets = memory.residence_offsets;
  for (int32_t i = 0; i < graph.num_operations(); ++i) {
    if (graph.scratch_bytes[i] > 0) offsets.push_back(memory.scratch_offsets[i]);
  }
  const std::vector<Keyed> starts = Sorted(blocks, &MemoryBlock::first), ends = Sorted(blocks, &MemoryBlock::last);
  absl::btree_map<int64_t, int32_t> live;  // by offset
  size_t next_end = 0;
  for (const Keyed& start : starts) {
    const int32_t b = start.index;
    while (next_end < ends.size() && blocks[ends[next_end].index].last < blocks[b].first) {
      live.erase(offsets[ends[next_end++].index]);
    }
    const int64_t end = offsets[b] + blocks[b].bytes;
    auto above = live.lower_bound(offsets[b]);
    const bool hits_above = above != live.end() && above->first < end;
    const bool hits_below =
        above != live.begin() && std::prev(above)->first + blocks[std::prev(above)->second].bytes > offsets[b];
    if (hits_above || hits_below || end > memory.arena_bytes) {
      return absl::InternalError(absl::StrCat("block ", b, " at [", offsets[b], ", ", end,
                                              ") overlaps a live block or the arena's end ", memory.arena_bytes));
    }
    live.emplace(offsets[b], b);
  }
  return absl::OkStatus();
}

}  // namespace millrace
