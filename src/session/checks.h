// What is wrong with options, profiles and plans that a session is given. Nothing is changed.
#ifndef MILLRACE_SRC_SESSION_CHECKS_H_
#define MILLRACE_SRC_SESSION_CHECKS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "millrace/graph.h"
#include "millrace/options.h"
#include "millrace/plan.h"
#include "millrace/profile.h"
#include "millrace/session.h"

namespace millrace {

// Every number within its range, a strategy and devices that there are. InvalidArgument names the field.
absl::Status CheckOptions(const SessionOptions& options);

// Whether any of its nodes is in the graph. Bodies of functions have names of their own, so graphs with functions pass.
absl::Status CheckProfileIsOf(const Graph& graph, const Profile& profile);

// Whether a plan that was read is for these feeds, fetches, and for variables as they exist.
absl::Status CheckPlanFeeds(const ExecutionPlan& plan, const Session::FeedTypes& feeds);
absl::Status CheckPlanFetches(const ExecutionPlan& plan, const std::vector<std::string>& fetches);
absl::Status CheckPlanVariables(const ExecutionPlan& plan, const std::map<std::string, TensorType>& existing);

// False where a feed was taken by value when the plan was made.
bool CopiesEveryFeed(const ExecutionPlan& plan);

}  // namespace millrace

#endif  // MILLRACE_SRC_SESSION_CHECKS_H_
