#include "passes/assign_memory.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "millrace/options.h"
#include "millrace/status.h"
#include "millrace/types.h"
#include "passes/address_allocator.h"

namespace millrace {
namespace {

// Packings other than in order of time are quadratic in blocks alive: they are given up after so many looks at one.
constexpr int64_t kMaxLooks = 20'000'000;
// A heap this close to the peak is not worth another try.
constexpr double kGoodEnough = 1.02;

std::vector<int32_t> Sorted(size_t count, auto less) {
  std::vector<int32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), less);
  return order;
}

int64_t PeakBytes(const std::vector<MemoryBlock>& blocks) {
  std::map<int64_t, int64_t> change;
  for (const MemoryBlock& block : blocks) {
    change[block.first] += block.bytes;
    change[block.last + 1] -= block.bytes;
  }
  int64_t live = 0, peak = 0;
  for (const auto& [position, bytes] : change) {
    live += bytes;
    peak = std::max(peak, live);
  }
  return peak;
}

// In order of time, best fit. Blocks that live longest among those starting together come first.
Packing PackInOrderOfTime(const std::vector<MemoryBlock>& blocks) {
  Packing packing;
  packing.offsets.assign(blocks.size(), 0);
  const std::vector<int32_t> starts = Sorted(blocks.size(), [&](int32_t a, int32_t b) {
    return blocks[a].first != blocks[b].first ? blocks[a].first < blocks[b].first : blocks[a].last > blocks[b].last;
  });
  const std::vector<int32_t> ends =
      Sorted(blocks.size(), [&](int32_t a, int32_t b) { return blocks[a].last < blocks[b].last; });
  AddressAllocator allocator(std::numeric_limits<int64_t>::max() / 2 / kTensorAlignment * kTensorAlignment);
  size_t next_end = 0;
  for (int32_t b : starts) {
    while (next_end < ends.size() && blocks[ends[next_end]].last < blocks[b].first) {
      const int32_t ended = ends[next_end++];
      allocator.Free(packing.offsets[ended], blocks[ended].bytes);
    }
    packing.offsets[b] = allocator.Allocate(blocks[b].bytes);
  }
  packing.heap_bytes = allocator.high_water();
  return packing;
}

// In the given order, each block at the lowest offset that is free over its whole life. A heap of INT64_MAX: given up.
Packing PackInOrder(const std::vector<MemoryBlock>& blocks, const std::vector<int32_t>& order) {
  Packing packing;
  packing.offsets.assign(blocks.size(), 0);
  std::vector<int32_t> placed;  // by offset
  placed.reserve(blocks.size());
  int64_t looks = 0;
  for (int32_t b : order) {
    if (looks > kMaxLooks) {
      packing.heap_bytes = std::numeric_limits<int64_t>::max();
      return packing;
    }
    const MemoryBlock& block = blocks[b];
    int64_t offset = 0;
    for (int32_t other : placed) {
      ++looks;
      if (blocks[other].first > block.last || blocks[other].last < block.first) continue;
      if (packing.offsets[other] >= offset + block.bytes) break;
      offset = std::max(offset, packing.offsets[other] + blocks[other].bytes);
    }
    packing.offsets[b] = offset;
    packing.heap_bytes = std::max(packing.heap_bytes, offset + block.bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), b,
                                   [&](int32_t x, int32_t y) {
                                     return packing.offsets[x] != packing.offsets[y]
                                                ? packing.offsets[x] < packing.offsets[y]
                                                : x < y;
                                   }),
                  b);
  }
  return packing;
}

std::vector<MemoryBlock> Blocks(const AccessGraph& graph, const Schedule& schedule) {
  std::vector<MemoryBlock> blocks;
  for (const Stay& stay : schedule.residences) {
    blocks.push_back({AlignUp(graph.storages[stay.storage].size_bytes), stay.first, stay.last});
  }
  for (int32_t i = 0; i < graph.num_operations(); ++i) {
    const int64_t position = schedule.position_of_operation[i];
    if (graph.scratch_bytes[i] > 0) blocks.push_back({AlignUp(graph.scratch_bytes[i]), position, position});
  }
  return blocks;
}

absl::Status DoesNotFit(const AccessGraph& graph, const Schedule& schedule, const MemoryAssignment& memory, int64_t budget) {
  // The position of the peak and the largest storages there.
  std::map<int64_t, int64_t> change;
  for (const Stay& stay : schedule.residences) {
    change[stay.first] += graph.storages[stay.storage].size_bytes;
    change[stay.last + 1] -= graph.storages[stay.storage].size_bytes;
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
      holders.emplace_back(graph.storages[stay.storage].size_bytes, graph.storages[stay.storage].name);
    }
  }
  std::sort(holders.rbegin(), holders.rend());
  std::string largest;
  for (size_t i = 0; i < std::min<size_t>(5, holders.size()); ++i) {
    absl::StrAppend(&largest, i > 0 ? ", " : "", holders[i].second, " ", FormatBytes(holders[i].first));
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "does not fit: the plan needs ", memory.arena_bytes, " bytes (", FormatBytes(memory.arena_bytes),
      "; most live at once ", memory.peak_bytes, "), the budget is ", budget, " (", FormatBytes(budget),
      "), short by ", memory.arena_bytes - budget, "; largest tensors at the peak: ", largest));
}

}  // namespace

Packing PackBlocks(const std::vector<MemoryBlock>& blocks, int64_t budget_bytes) {
  const int64_t peak = PeakBytes(blocks);
  Packing best = PackInOrderOfTime(blocks);
  const double target = budget_bytes > 0 ? static_cast<double>(budget_bytes) : kGoodEnough * static_cast<double>(peak);
  auto try_order = [&](const std::vector<int32_t>& order) {
    Packing packing = PackInOrder(blocks, order);
    if (packing.heap_bytes < best.heap_bytes) best = std::move(packing);
  };
  auto life = [&](int32_t b) { return blocks[b].last - blocks[b].first; };
  if (best.heap_bytes > target) {
    try_order(Sorted(blocks.size(), [&](int32_t a, int32_t b) { return blocks[a].bytes > blocks[b].bytes; }));
  }
  if (best.heap_bytes > target) {
    try_order(Sorted(blocks.size(), [&](int32_t a, int32_t b) { return life(a) > life(b); }));
  }
  if (best.heap_bytes > target) {
    auto area = [&](int32_t b) { return static_cast<double>(blocks[b].bytes) * static_cast<double>(life(b) + 1); };
    try_order(Sorted(blocks.size(), [&](int32_t a, int32_t b) { return area(a) > area(b); }));
  }
  best.peak_bytes = peak;
  return best;
}

MemoryAssignment PackMemory(const AccessGraph& graph, const Schedule& schedule, const SwapChoice& choice,
                            int64_t budget_bytes) {
  const std::vector<MemoryBlock> blocks = Blocks(graph, schedule);
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
  MemoryAssignment memory;
  memory.arena_bytes = packing.heap_bytes;
  memory.peak_bytes = packing.peak_bytes;
  memory.residence_offsets.assign(packing.offsets.begin(), packing.offsets.begin() + schedule.residences.size());
  memory.scratch_offsets.assign(graph.num_operations(), 0);
  size_t next = schedule.residences.size();
  for (int32_t i = 0; i < graph.num_operations(); ++i) {
    if (graph.scratch_bytes[i] > 0) memory.scratch_offsets[i] = packing.offsets[next++];
  }
  return memory;
}

absl::StatusOr<MemoryAssignment> AssignMemory(const AccessGraph& graph, const Schedule& schedule,
                                              const SwapChoice& choice, int64_t budget_bytes) {
  MemoryAssignment memory = PackMemory(graph, schedule, choice, budget_bytes);
  if (budget_bytes > 0 && memory.arena_bytes > budget_bytes) return DoesNotFit(graph, schedule, memory, budget_bytes);
  return memory;
}

absl::Status VerifyMemory(const AccessGraph& graph, const Schedule& schedule, const MemoryAssignment& memory) {
  std::vector<MemoryBlock> blocks = Blocks(graph, schedule);
  std::vector<int64_t> offsets = memory.residence_offsets;
  for (int32_t i = 0; i < graph.num_operations(); ++i) {
    if (graph.scratch_bytes[i] > 0) offsets.push_back(memory.scratch_offsets[i]);
  }
  const std::vector<int32_t> starts =
      Sorted(blocks.size(), [&](int32_t a, int32_t b) { return blocks[a].first < blocks[b].first; });
  const std::vector<int32_t> ends =
      Sorted(blocks.size(), [&](int32_t a, int32_t b) { return blocks[a].last < blocks[b].last; });
  std::map<int64_t, int32_t> live;  // by offset
  size_t next_end = 0;
  for (int32_t b : starts) {
    while (next_end < ends.size() && blocks[ends[next_end]].last < blocks[b].first) live.erase(offsets[ends[next_end++]]);
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
