// Swaps of TensorFlow Large Model Support v2 (Le et al., ISMM 2019), and the tuner of its parameters.
//
// A value made at level s is swapped for its consumers at levels above s + swapout_threshold: it leaves after its last
// other consumer and comes back for each group of consumers that lie at most swapin_groupby levels apart, from the
// last operation more than swapin_ahead levels above the group on (looked for over ten levels, as the original does).
// Variables, constants and feeds stay on the device, as do vectors and scalars.
//
//   level      0    1    2    3    4    5    6
//   value      W    R    .    .    .    R    R      threshold 2, ahead 1, groupby 1
//                   out>      in<                   leaves after level 1, may come back once level 3 is done
//
// The tuner replays the operations, counting bytes, and searches as the original does: raises sync_mode until
// threshold 1 fits, then finds the largest threshold, ahead and groupby that fit, by bisection.
//
// Needs: an order by levels (order_levels.h). Establishes: every access of a storage finds it on the device.
#ifndef MILLRACE_PASSES_SWAPS_SWAP_TFLMS_H_
#define MILLRACE_PASSES_SWAPS_SWAP_TFLMS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "passes/access/swap_choice.h"
#include "passes/swaps/swap_request.h"

namespace millrace {

// InvalidArgument for parameters out of range and for what is no slice of levels, whatever the graph. `prefix`: what the names of
// parameters begin with where they were set.
absl::Status CheckTflmsOptions(const TflmsOptions& options, const std::string& prefix = "planning.tflms.");

// What is told of a graph in levels that is run in another order because they do not fit: nodes, edges, parameters and
// the largest operation, `why`, that nothing is copied, and the histogram of distances; a line each. `request` is the graph in levels.
std::vector<std::string> DescribeUnswapped(const SwapRequest& request, const std::string& why);

// ResourceExhausted when no parameters that the tuner may choose fit, saying what threshold 1 needs; InvalidArgument
// for parameters out of range. The choice's notes tell what the original
// prints: the graph, the passing parameter sets, the chosen one, copies, and the histogram of distances.
absl::StatusOr<SwapChoice> SwapTflms(const SwapRequest& request);

}  // namespace millrace

#endif  // MILLRACE_PASSES_SWAPS_SWAP_TFLMS_H_
