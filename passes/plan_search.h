// Plan search: the order of the graph, and the values computed again in it, with which the policy runs fastest.
//
// Orders: creation; creation with what only serves updates moved up to its inputs; depth first; of small graphs creation and
// depth first with what frees memory moved up (order_frees_first.h). Each is planned quickly (look.h); the best of each kind (creation, depth first,
// frees first) are rewritten beside each other while that makes the step shorter (rewrite_order.h), and cut into partitions by bytes and
// time; those that `partition_size` asks for are cut in every order before it is looked at. Over several devices there are
// the first and the third order, what devices wait for each other is in their times (device_timeline.h), and all devices are rewritten at once.
// Looks say less of them there: all orders are for a second search, that of what may be faster than the first one's plan.
//
// Needs: a prepared graph. Establishes: an order; copies of recomputed nodes; partitions.
#ifndef MILLRACE_PASSES_PLAN_SEARCH_H_
#define MILLRACE_PASSES_PLAN_SEARCH_H_

#include <vector>

#include "absl/status/statusor.h"
#include "passes/device_plan.h"
#include "passes/prepare.h"
#include "passes/recompute.h"
#include "passes/strategy.h"

namespace millrace {

struct FoundOrder {
  OrderedGraph ordered;
  std::vector<DevicePlan> looked;  // as it was looked at, for DecideDevices
};

// What is worth a plan in full: the best, and with Recompute::kAuto what it was before values were computed again and the
// best of other kinds, where they come near: quick plans only estimate. What looks fastest comes first; over several devices other
// kinds come last. ResourceExhausted when no order fits.
// `limits.effort` is not looked at; past the deadline the best so far is taken. `orders`: over several devices; with kAll Aborted where none may be
// faster than limits.known_seconds.
// Takes the prepared graph; every graph returned is used by nothing else.
enum class OrdersOfSeveral { kFew, kAll };
absl::StatusOr<std::vector<FoundOrder>> SearchOrders(const CompileRequest& request, Prepared& prepared,
                                                     const Strategy& strategy, const PlanLimits& limits,
                                                     OrdersOfSeveral orders = OrdersOfSeveral::kFew);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PLAN_SEARCH_H_
