// What is to be run: a graph, feeds, fetches and targets. The same for every strategy of a command.
#ifndef MILLRACE_SRC_CLI_WORKLOAD_H_
#define MILLRACE_SRC_CLI_WORKLOAD_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/environment.h"
#include "cli/options.h"
#include "cli/settings.h"

namespace millrace::cli {

struct Workload {
  Graph graph;
  Session::FeedTypes feed_types;
  Session::Feeds feeds;  // empty when only planning
  std::vector<std::string> fetches;
  std::vector<std::string> targets;
  std::vector<std::string> init_targets;
  int64_t steps = 1;
};

enum class FeedValues { kMade, kTypesOnly };

// Loads graph and feeds. Requires --graph, and --fetches or --targets; their absence is wrong usage.
absl::StatusOr<Workload> LoadWorkload(const InputOptions& options, FeedValues values, const Environment& environment);

// The budget in bytes (0: none): as given, or of the machine when none was given. A percentage is of the predicted
// peak of strategy `baseline` without a budget, which is planned for it.
absl::StatusOr<int64_t> ResolveBudget(const Budget& budget, const Workload& workload, SessionOptions options,
                                      const Environment& environment);

}  // namespace millrace::cli

#endif  // MILLRACE_SRC_CLI_WORKLOAD_H_
