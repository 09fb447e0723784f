// Plan found: of the orders that the search found, the one whose plan is fastest, and that plan's swaps.
//
// Each order gets a first plan, what looked fastest first. Then they are improved, a small piece of work at a time: the next
// pieces go to the two orders whose steps are shortest, where what has been spent on an order counts as if its step were longer. The
// two run beside each other, on two threads, and cost what the dearer does.
// Where all searches end before the work has: orders that looked too slow but whose bound is below the best plan get theirs, and the best order is
// planned for a little less memory, which is a plan for more, too; for at most a quarter of what the graph is worth, and not of large graphs.
// Pieces are parts of all the work that the graph is worth, not of what is left. So less work means fewer pieces, and no
// other ones: the plan of less work is on the way to that of more.
//
// Needs: orders of one device, as they were looked at. Establishes: DevicePlan::choice of those that have a plan.
#ifndef MILLRACE_PASSES_PLAN_FOUND_H_
#define MILLRACE_PASSES_PLAN_FOUND_H_

#include <cstdint>
#include <vector>

#include "passes/access/swap_choice.h"
#include "passes/plan_search.h"

namespace millrace {

// Indices of `found`, those whose plans are fastest first; what cannot be faster than another is left out. `limits.work` pays; the search ends when
// no more than `end` units of it are left. `worth`: units that pieces of work are parts of.
std::vector<size_t> PlanFound(int64_t budget_bytes, const PlanLimits& limits, int64_t worth, int64_t end,
                              std::vector<FoundOrder>& found);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PLAN_FOUND_H_
