// Spare: what need not be computed again after all.
//
// Values to compute again are chosen round by round, for higher and higher prices of the link (rewrite_order.h), and what a later round frees may
// make one of an earlier round superfluous. So copies are taken away again where the step gets shorter: what they made is then taken from where it was
// made before, by the node itself or by an earlier copy, and stays, or is moved, until then. What would be computed again for 0.9 of the budget is
// looked at, too.
#ifndef MILLRACE_PASSES_SPARE_RECOMPUTE_H_
#define MILLRACE_PASSES_SPARE_RECOMPUTE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "passes/access/swap_choice.h"
#include "passes/look.h"
#include "passes/prepare.h"
#include "passes/recompute.h"
#include "passes/strategy.h"

namespace millrace {

// The order without these copies, and those that only they needed. None where what is there before has not all that they made.
std::optional<OrderedGraph> WithoutCopies(const OrderedGraph& ordered, const std::vector<NodeId>& copies);

// A faster order of one device with fewer copies than `order`, if at most so many looks, and the work of `limits` down to `leaves`, find one.
std::optional<Looked> SpareRecompute(const CompileRequest& request, const Strategy& strategy, const PlanLimits& limits, int64_t leaves, int looks,
                                     const Looked& order);

}  // namespace millrace

#endif  // MILLRACE_PASSES_SPARE_RECOMPUTE_H_
