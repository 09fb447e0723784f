// Weigh: which values to compute again, which to move, which to keep, decided together.
//
// A gap has three fates. Kept, it costs room; moved, seconds of the link; computed again, seconds of its chain
// (recompute.h). A *price* says what a second of the link is worth in seconds of compute: nothing where all copies hide, up
// to two where both directions are waited for. The cheapest values, those that cost less again than moved at the price, are
// candidates; a gap then costs what the cheaper way costs, select_gaps keeps those that save most for the room they take,
// and of the others the candidates are computed again. A trial on the graph as it is (a gap that is computed again needs no
// copy, the operation after it takes longer) tells the step. Where all copies hide, fewer candidates do: a few trials tell
// how many.
//
// Where variables fill the memory, those that are swapped are spread over the step in these trials, and where none gains, the
// candidates do whose bound (CutBound) is below what it was: how such copies queue is then settled by the plan, not by a trial.
#ifndef MILLRACE_PASSES_WEIGH_RECOMPUTE_H_
#define MILLRACE_PASSES_WEIGH_RECOMPUTE_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "millrace/options.h"
#include "passes/access/storage.h"
#include "passes/planner/gaps.h"
#include "passes/recompute.h"

namespace millrace {

struct WeighedRecompute {
  std::vector<FarUses> again;  // the cheapest first; none where moving is as fast at all prices
  double step_seconds = 0;     // as the trial has it
  size_t price = 0;            // at which: an index
  int64_t work = 0;            // units of WorkBudget
};

struct WeighLimits {
  int max_depth = 8;           // of chains
  absl::Span<const double> prices;
  size_t first_price = 0;      // the prices from here on are tried in turn, until one gains
  double least_gain = 0.998;   // of the step without computing again, which must be gained; infinite: nothing must
  int64_t most_work = std::numeric_limits<int64_t>::max();  // units of WorkBudget, after which no other price is tried
};

// For an order and its device graph, whose gaps are found and ordered where they have not been.
WeighedRecompute WeighRecompute(const OrderedGraph& ordered, const DeviceGraph& device, const Machine& machine,
                                GapGraph& gaps, int64_t budget_bytes, const WeighLimits& limits);

}  // namespace millrace

#endif  // MILLRACE_PASSES_WEIGH_RECOMPUTE_H_
