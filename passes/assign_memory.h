// Assign memory: an address in the device arena for every residence and every operation's scratch, before
// anything runs.
//
// Two blocks may share bytes when their position ranges do not meet. Several packings are tried, the smallest heap
// wins: in order of time with a best-fit allocator, and (when that costs more than the peak) largest or longest
// first into the lowest place that is free over the block's whole life.
//
// Needs: a Schedule. Establishes: addresses; no two live blocks overlap; arena <= budget, or ResourceExhausted.
#ifndef MILLRACE_PASSES_ASSIGN_MEMORY_H_
#define MILLRACE_PASSES_ASSIGN_MEMORY_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "passes/schedule.h"

namespace millrace {

// Something that needs `bytes` over the positions [first, last].
struct MemoryBlock {
  int64_t bytes = 0;
  int64_t first = 0;
  int64_t last = 0;
};

struct Packing {
  std::vector<int64_t> offsets;  // per block
  int64_t heap_bytes = 0;        // highest end
  int64_t peak_bytes = 0;        // most bytes live at one position: no packing needs less
};

// Packs blocks; stops at the first packing of at most `budget_bytes` (0: tries to come near the peak).
Packing PackBlocks(const std::vector<MemoryBlock>& blocks, int64_t budget_bytes);

struct MemoryAssignment {
  std::vector<int64_t> residence_offsets;  // per residence
  std::vector<int64_t> scratch_offsets;    // per operation
  int64_t arena_bytes = 0;
  int64_t peak_bytes = 0;
};

// Addresses for the schedule, whatever they need; stops looking for a smaller heap at `budget_bytes`. Addresses that
// `choice` brings (lru) are kept.
MemoryAssignment PackMemory(const AccessGraph& graph, const Schedule& schedule, const SwapChoice& choice,
                            int64_t budget_bytes);

// PackMemory within the budget (0: none): ResourceExhausted says what is needed and where the peak is.
absl::StatusOr<MemoryAssignment> AssignMemory(const AccessGraph& graph, const Schedule& schedule,
                                              const SwapChoice& choice, int64_t budget_bytes);

// Recomputes from scratch that no two blocks live at one position overlap and all lie within the arena.
absl::Status VerifyMemory(const AccessGraph& graph, const Schedule& schedule, const MemoryAssignment& memory);

}  // namespace millrace

#endif  // MILLRACE_PASSES_ASSIGN_MEMORY_H_
