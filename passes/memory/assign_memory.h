// Assign memory: an address in the device arena for every residence and every operation's scratch, before
// anything runs.
//
// Two blocks may share bytes when their position ranges do not meet (pack_blocks.h says how they are packed).
//
// Needs: a Schedule. Establishes: addresses; no two live blocks overlap; arena <= budget, or ResourceExhausted.
#ifndef MILLRACE_PASSES_MEMORY_ASSIGN_MEMORY_H_
#define MILLRACE_PASSES_MEMORY_ASSIGN_MEMORY_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "passes/access/does_not_fit.h"
#include "passes/access/schedule.h"
#include "passes/memory/pack_blocks.h"

namespace millrace {

struct MemoryAssignment {
  std::vector<int64_t> residence_offsets;  // per residence
  std::vector<int64_t> scratch_offsets;    // per operation
  int64_t arena_bytes = 0;
  int64_t peak_bytes = 0;
};

// A variable or constant that stays over the step's end but not in the middle of the step: residences that begin and end
// the step, at one address.
struct ReturningStay {
  int32_t first = 0, last = 0;
};
std::vector<ReturningStay> StaysThatReturn(const Schedule& schedule);

// The schedule's residences, then the scratch of the operations that have any; and their addresses as packed.
std::vector<MemoryBlock> BlocksOf(const AccessGraph& graph, const Schedule& schedule);
MemoryAssignment AssignmentOf(const AccessGraph& graph, const Schedule& schedule, Packing packing);

// Addresses for the schedule, whatever they need; stops looking for a smaller heap at `budget_bytes`. Addresses that
// `choice` brings (lru) are kept.
MemoryAssignment PackMemory(const AccessGraph& graph, const Schedule& schedule, const SwapChoice& choice,
                            int64_t budget_bytes);

// PackMemory within the budget (0: none): ResourceExhausted says what is needed and at which operation the peak is, which
// `operation_name` names.
absl::StatusOr<MemoryAssignment> AssignMemory(const AccessGraph& graph, const Schedule& schedule,
                                              const SwapChoice& choice, int64_t budget_bytes, OperationName operation_name);

// Recomputes from scratch that no two blocks live at one position overlap and all lie within the arena.
absl::Status VerifyMemory(const AccessGraph& graph, const Schedule& schedule, const MemoryAssignment& memory);

}  // namespace millrace

#endif  // MILLRACE_PASSES_MEMORY_ASSIGN_MEMORY_H_
