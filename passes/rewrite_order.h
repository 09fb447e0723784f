// Rewrite order: an order with values computed again, for as long as that makes its step shorter.
//
// Prices of the link rise (weigh_recompute.h): short chains first, since what is computed again decides what else can be. Then the same for
// less memory, where blocks pack badly. What is rewritten is looked at (look.h), and taken if it is faster.
#ifndef MILLRACE_PASSES_REWRITE_ORDER_H_
#define MILLRACE_PASSES_REWRITE_ORDER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "passes/access/swap_choice.h"
#include "passes/look.h"
#include "passes/prepare.h"
#include "passes/strategy.h"

namespace millrace {

// Former rewritings that are remembered.
inline constexpr size_t kFormer = 3;

struct RewriteLimits {
  PlanLimits plan;            // whose work pays
  int64_t leaves = 0;         // units of it, to full plans
  int looks = 0;              // at most, three at least
  bool few_looks = false;     // the graph is worth few: fewer prices, each for more
  const std::atomic<bool>* not_needed = nullptr;  // ends when it is set: the result is not looked at then
};

struct RewrittenOrder {
  Looked best;
  std::optional<Looked> as_it_is;  // what `best` was before anything was computed again, if anything is
  std::vector<Looked> former;      // what it was before it was rewritten again, the last few
};

// Uses the graph of `order` alone while it runs.
RewrittenOrder RewriteOrder(const CompileRequest& request, const Strategy& strategy, const RewriteLimits& limits, Looked order);

// `order`, on one device, with what else would be computed again if there were only this part of the budget; none where that is nothing, or where no
// plan of it is found. `leaves`: as above.
std::optional<Looked> RewriteForLess(const CompileRequest& request, const Strategy& strategy, const PlanLimits& limits, int64_t leaves, double part,
                                     Looked& order);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_ORDER_H_
