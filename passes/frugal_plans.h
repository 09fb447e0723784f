// Frugal plans: where host memory is too small for the plan that the search found, or a disk below it too slow, others, of which fewer bytes leave
// the devices.
#ifndef MILLRACE_PASSES_FRUGAL_PLANS_H_
#define MILLRACE_PASSES_FRUGAL_PLANS_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millrace/plan.h"
#include "passes/pipeline.h"
#include "passes/prepare.h"

namespace millrace {

// kFirst: no search, as when the time for planning is over before it.
enum class Wanted { kFastest, kFirst };

using CompileFunction = std::function<absl::StatusOr<Compiled>(CompileRequest request, Wanted wanted)>;

// A search that takes copies for dear keeps more on the devices and computes more again; of a plan made without a search fewer bytes
// may leave them, too. With plan_seconds those come first; where none of them fits, the others are made without it. Where nothing fits, the
// refusal is of what needed least host memory; `missing` is that of the search's plan. `prepared_nodes`: of the graph as prepared.
absl::StatusOr<Compiled> FindFrugalPlan(const CompileRequest& request, int32_t prepared_nodes, const absl::Status& missing,
                                        const CompileFunction& compile);

// What leaves the devices keeps the disk busy, too. Where the step waits for it, the fastest of `best` and plans for which copies are taken for dear.
absl::StatusOr<Compiled> FindPlanBesideDisk(const CompileRequest& request, int32_t prepared_nodes, Compiled best, const CompileFunction& compile);

// Whether it is one for which host memory was too small, as its notes have it: several were made then.
bool IsFrugal(const ExecutionPlan& plan);

}  // namespace millrace

#endif  // MILLRACE_PASSES_FRUGAL_PLANS_H_
