// What every choice with addresses must be, for tests of what makes them.
#ifndef MILLRACE_TESTLIB_PACKED_PLAN_H_
#define MILLRACE_TESTLIB_PACKED_PLAN_H_

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "passes/access/schedule.h"
#include "passes/access/swap_choice.h"
#include "passes/memory/assign_memory.h"
#include "passes/swaps/choose_swaps.h"

namespace millrace {

// Decisions that hold together, within the budget, at the choice's own addresses, no two of which meet.
inline void ExpectPackedPlan(const AccessGraph& graph, const SwapChoice& choice, int64_t budget_bytes) {
  EXPECT_TRUE(VerifySwaps(graph, choice).ok()) << VerifySwaps(graph, choice);
  const Schedule schedule = BuildSchedule(graph, choice);
  const auto memory = AssignMemory(graph, schedule, choice, budget_bytes, [](int32_t i) { return absl::StrCat(i); });
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->residence_offsets, choice.residence_offsets);
  const absl::Status apart = VerifyMemory(graph, schedule, *memory);
  EXPECT_TRUE(apart.ok()) << apart;
}

}  // namespace millrace

#endif  // MILLRACE_TESTLIB_PACKED_PLAN_H_
