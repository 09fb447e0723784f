// Neighbours of the weights that a plan was made with, for a search by trial: at random, but the same on every machine.
#ifndef MILLRACE_PASSES_PLANNER_VARY_WEIGHTS_H_
#define MILLRACE_PASSES_PLANNER_VARY_WEIGHTS_H_

#include <cstdint>
#include <random>
#include <vector>

#include "passes/access/access_graph.h"
#include "passes/planner/gaps.h"
#include "passes/planner/select_gaps.h"

namespace millrace {

// Other prices of transfers in a part of the step: times a factor, in a window around any time. Where lanes stand still transfers
// should be cheap, where operations wait for them dear; what the trials say of that (CriticalWeights) is only a beginning, since
// placing puts copies elsewhere.
TransferWeights Reprice(const GapGraph& gaps, TransferWeights weights, std::mt19937& random);

// A variable that stays and one that is fetched exchanged, one more that stays, or one more that is fetched, of those of at least
// `least_bytes`: which of many equal ones go decides when the lanes have something to do, and how blocks pack. `decisions` of
// the plan at hand.
TransferWeights ExchangeHomes(const GapGraph& gaps, int64_t least_bytes, const std::vector<SwapDecision>& decisions,
                              TransferWeights weights, std::mt19937& random);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PLANNER_VARY_WEIGHTS_H_
