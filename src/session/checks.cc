#include "session/checks.h"

#include <cstdint>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/device_spec.h"
#include "millrace/status.h"
#include "passes/strategy.h"
#include "session/signature_key.h"

namespace millrace {
namespace {

absl::Status CheckDevices(const SessionOptions& options) {
  const PlanningOptions& planning = options.planning;
  for (const std::string& name : planning.devices) {
    MR_ASSIGN_OR_RETURN(const DeviceSpec spec, ParseDeviceSpec(name));
    const std::string kind = absl::AsciiStrToLower(spec.type);
    const bool is_cuda = options.device == "cuda" || options.device == "cuda_emulated";
    if (kind == options.device || (kind == "gpu" && is_cuda)) continue;
    // Plans may be for devices of any kind.
    if (options.device == "null" && !spec.type.empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("device '", name, "' is not of the kind '", options.device, "' that this session runs on"));
  }
  const size_t budgets = planning.device_memory_bytes_of.size();
  if (budgets == 0 || static_cast<int32_t>(budgets) == planning.num_devices()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(budgets, " memory budgets for ", planning.num_devices(), " devices, expected one each"));
}

}  // namespace

absl::Status CheckOptions(const SessionOptions& options) {
  MR_RETURN_IF_ERROR(FindStrategy(options.planning.strategy).status());
  if (options.planning.device_memory_bytes < 0 || options.planning.host_memory_bytes < 0) {
    return absl::InvalidArgumentError("a memory budget is negative, expected a size in bytes");
  }
  return CheckDevices(options);
}

absl::Status CheckProfileIsOf(const Graph& graph, const Profile& profile) {
  if (graph.library() != nullptr && !graph.library()->empty()) return absl::OkStatus();
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    const auto it = profile.nodes.find(node.name);
    if (!node.removed && it != profile.nodes.end() && it->second.op == node.op) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the profile is of another graph: none of its ", profile.nodes.size(), " nodes is in this one"));
}

absl::Status CheckPlanFeeds(const ExecutionPlan& plan, const Session::FeedTypes& feeds) {
  std::map<std::string, TensorType> expected;
  for (const auto& [name, type] : feeds) expected.emplace(TensorNameOf(name), type);
  for (const PlanFeed& feed : plan.feeds) {
    const auto found = expected.find(feed.name);
    if (found != expected.end() && found->second == feed.type) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the plan is for a feed ", feed.name, " of type ", feed.type.ToString(),
        found == expected.end() ? ", which is not fed" : absl::StrCat(", fed is ", found->second.ToString())));
  }
  return absl::OkStatus();
}

absl::Status CheckPlanFetches(const ExecutionPlan& plan, const std::vector<std::string>& fetches) {
  std::vector<std::string> planned, asked;
  for (const PlanFetch& fetch : plan.fetches) planned.push_back(fetch.name);
  for (const std::string& fetch : fetches) asked.push_back(TensorNameOf(fetch));
  if (planned == asked) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the plan is for the fetches ", absl::StrJoin(planned, ","),
                                                 ", asked for are ", absl::StrJoin(asked, ",")));
}

absl::Status CheckPlanVariables(const ExecutionPlan& plan, const std::map<std::string, TensorType>& existing) {
  for (const PlanVariable& variable : plan.variables) {
    const auto found = existing.find(variable.home_name());
    if (found == existing.end() || found->second == variable.home_type()) continue;
    return absl::InvalidArgumentError(absl::StrCat("the plan has variable ", variable.home_name(), " of type ",
                                                   variable.home_type().ToString(), ", here it is ",
                                                   found->second.ToString()));
  }
  return absl::OkStatus();
}

bool CopiesEveryFeed(const ExecutionPlan& plan) {
  std::set<int32_t> copied;
  for (const Lane& lane : plan.lanes) {
    for (const CopyStep& step : lane.copies) {
      if (step.host.kind == HostRef::Kind::kFeed) copied.insert(step.host.index);
    }
  }
  return copied.size() == plan.feeds.size();
}

}  // namespace millrace
