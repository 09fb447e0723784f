#include "cli/workload.h"

#include <algorithm>
#include <utility>

#include "cli/exit_status.h"
#include "cli/feeds.h"
#include "millrace/status.h"

namespace millrace::cli {

absl::StatusOr<Workload> LoadWorkload(const InputOptions& options, FeedValues values, const Environment& environment) {
  if (options.graph.empty()) return UsageError("no graph: give --graph=FILE.pb or .pbtxt");
  if (options.fetches.empty() && options.targets.empty()) {
    return UsageError("nothing to run: give --fetches=NAME:0,... or --targets=NAME,...");
  }
  if (options.steps < 0) return UsageError("--steps: expected 0 or more");
  MR_ASSIGN_OR_RETURN(const auto shapes, ParseFeedShapes(options.feed_shapes));
  if (!shapes.empty() && !options.synthetic_feeds) {
    return UsageError("--feed_shapes gives shapes to --synthetic_feeds, which is not given");
  }

  Workload workload;
  MR_ASSIGN_OR_RETURN(workload.graph, environment.load_graph(options.graph));
  workload.fetches = options.fetches;
  workload.targets = options.targets;
  workload.init_targets = options.init_targets;
  workload.steps = options.steps;
  if (!options.feeds.empty()) {
    MR_ASSIGN_OR_RETURN(workload.feeds, environment.load_arrays(options.feeds));
    workload.feed_types = TypesOf(workload.feeds);
  }
  if (options.synthetic_feeds) {
    MR_ASSIGN_OR_RETURN(Session::FeedTypes types,
                        SyntheticFeedTypes(workload.graph, options.fetches, options.targets, shapes, workload.feed_types));
    if (values == FeedValues::kMade) {
      MR_ASSIGN_OR_RETURN(Session::Feeds feeds, SyntheticFeeds(types, options.seed));
      workload.feeds.merge(feeds);
    }
    workload.feed_types.merge(types);
  }
  return workload;
}

absl::StatusOr<int64_t> ResolveBudget(const Budget& budget, const Workload& workload, SessionOptions options,
                                      const Environment& environment) {
  if (!budget.given()) return options.machine.device_memory_bytes;
  if (budget.percent == 0) return budget.bytes;
  options.planning = PlanningOptions{.strategy = "baseline"};
  MR_ASSIGN_OR_RETURN(const auto session, environment.create_session(workload.graph.Clone(), options));
  MR_RETURN_IF_ERROR(session->Plan(workload.feed_types, workload.fetches, workload.targets).status());
  const auto peak = static_cast<double>(session->last_run().predicted_peak_device_bytes);
  return std::max<int64_t>(1, static_cast<int64_t>(peak * budget.percent / 100));
}

}  // namespace millrace::cli
