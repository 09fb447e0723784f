// Less memory: a plan that is made for less memory than there is, where that is faster.
//
// A plan for less memory is one for more, and a search that begins elsewhere may end at a better plan. Graphs of few nodes are planned in
// milliseconds, so they are planned for smaller budgets as well; larger ones, up to a size, for few, and only where the plan is far above its bound.
// The budgets are the same whatever the whole one is, so that a larger one has the plans of a smaller one to choose from. Over several devices those of
// all of them shrink together, each to such budgets of its own, so a larger one has those plans to choose from where they are larger in the same ratio.
// What needs all that it has keeps that, or the last that did, while the others shrink on.
#ifndef MILLRACE_PASSES_LESS_MEMORY_H_
#define MILLRACE_PASSES_LESS_MEMORY_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "passes/access/deadline.h"
#include "passes/access/swap_choice.h"
#include "passes/pipeline.h"
#include "passes/prepare.h"

namespace millrace {

// `limits.work` pays for the search. Aborted where no plan is faster than what is known.
using CompileForLess = std::function<absl::StatusOr<Compiled>(CompileRequest request, const PlanLimits& limits)>;

// `best`, the plan for all of the memory, which took so many seconds to make, or a faster one. Where the deadline
// does not leave time for another plan and the verification, a note says so. `prepared_nodes`: of the graph as prepared.
absl::StatusOr<Compiled> FindPlanForLess(const CompileRequest& request, int32_t prepared_nodes, Compiled best, double best_took_seconds,
                                         const Deadline& deadline, const CompileForLess& compile);

}  // namespace millrace

#endif  // MILLRACE_PASSES_LESS_MEMORY_H_
