// What would fit: searches by planning, for `millrace fit` and for the advice of a run that does not.
#ifndef MILLRACE_SRC_CLI_FIT_SEARCH_H_
#define MILLRACE_SRC_CLI_FIT_SEARCH_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/environment.h"
#include "cli/train.h"
#include "cli/workload.h"

namespace millrace::cli {

// Whether a value fits; an error ends the search.
using FitTest = std::function<absl::StatusOr<bool>(int64_t)>;

// The largest value in [1, most] that fits, when whatever is smaller than a fitting value fits: doubling from `start`,
// then bisection. 0 when not even 1 does.
absl::StatusOr<int64_t> LargestThatFits(int64_t start, int64_t most, const FitTest& fits);

// OK or ResourceExhausted as true or false; other errors as they are.
absl::StatusOr<bool> Fits(const absl::Status& status);

// The first plan that the strategy finds, rather than the fastest: it says whether anything fits.
TrainResult FirstPlan(const Workload& workload, SessionOptions session, const Environment& environment);

struct FoundBudget {
  int64_t bytes = 0;
  bool smallest = false;  // within 1 %; else the search ended before
};
// The smallest device memory for which the strategy makes a plan, within 1 %. `too_small`: one that does not do.
// `likely`: one that may be enough, tried first (0: none is known).
// `plans_left` counts down; at 0 the smallest found by then is returned, or NotFound.
absl::StatusOr<FoundBudget> SmallestBudget(const Workload& workload, SessionOptions session, const Environment& environment,
                                           int64_t too_small, int64_t likely, int64_t& plans_left);

// The largest first dimension of a feed where the graph leaves it open; 1 when it is open nowhere.
int64_t PresentBatch(const Workload& workload);

// Feed types with the first dimension `batch` where the graph leaves it open; empty when it is open nowhere.
Session::FeedTypes WithBatch(const Workload& workload, int64_t batch);

// What to do about a workload that does not fit: smallest budget, strategies that would do, largest batch; a line each. It holds for
// initialisers and the first step, and so for all steps of one signature whose sizes do not follow from what the steps compute.
// `refused` is what planning said of it. The larger the graph, the fewer plans are tried for that: together they are of some
// hundred thousand nodes.
std::vector<std::string> Advise(const Workload& workload, const SessionOptions& session, const absl::Status& refused,
                                const Environment& environment);
// The same where the first steps ran and a later one, which is larger, does not fit: what is known is what that step lacks.
std::vector<std::string> AdviseOnLaterStep(const RunReport& run);
// The status of a run that failed, its advice below the message as lines of hints.
absl::Status WithAdvice(const RunReport& run);

}  // namespace millrace::cli

#endif  // MILLRACE_SRC_CLI_FIT_SEARCH_H_
