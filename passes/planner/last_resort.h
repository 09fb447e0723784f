// What is planned where nothing else finds room.
#ifndef MILLRACE_PASSES_PLANNER_LAST_RESORT_H_
#define MILLRACE_PASSES_PLANNER_LAST_RESORT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "passes/access/swap_choice.h"
#include "passes/planner/gaps.h"

namespace millrace {

// lru's choice, as slow as if no copy ran beside anything. ResourceExhausted where not even that fits.
absl::StatusOr<SwapChoice> LastResort(const GapGraph& gaps, int64_t budget_bytes);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PLANNER_LAST_RESORT_H_
