#include "passes/swaps/swap_tflms.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/parameters.h"
#include "graph/with_message.h"
#include "millrace/options.h"
#include "millrace/status.h"
#include "passes/access/does_not_fit.h"
#include "passes/access/schedule.h"
#include "passes/memory/assign_memory.h"
#include "passes/order/order_levels.h"
#include "passes/swaps/choose_swaps.h"
#include "passes/swaps/tflms_tuner.h"

namespace millrace {
namespace {

// When the addresses of a tuned set do not fit, the tuner is given less: what its users are told to do by hand.
constexpr double kRatioStep = 0.05;
constexpr double kLeastRatio = 0.3;

std::string GiB(int64_t bytes) {
  const double gib = static_cast<double>(bytes) / (int64_t{1} << 30);
  return gib < 0.1 ? absl::StrFormat("%.2g GiB", gib) : absl::StrFormat("%.2f GiB", gib);
}

// Vertices, edges, parameters and the largest operation.
std::vector<std::string> DescribeGraph(const SwapRequest& request) {
  std::vector<std::string> notes;
  int64_t edges = 0;
  for (int32_t i = 0; i < request.nodes.num_ids(); ++i) edges += static_cast<int64_t>(request.nodes.node(NodeId{i}).inputs.size());
  const double parameters = static_cast<double>(ParametersOf(request.nodes).bytes) / (1 << 20);
  notes.push_back(absl::StrFormat("%d nodes, %d edges, %.2f MiB of parameters", request.nodes.num_nodes(), edges, parameters));
  int32_t largest = -1;
  int64_t largest_bytes = 0;
  for (int32_t i = 0; i < request.graph.num_operations(); ++i) {
    int64_t bytes = request.graph.scratch_bytes[i];
    for (const Access& access : request.graph.of(i)) bytes += request.graph.storages[access.storage].size_bytes;
    if (bytes <= largest_bytes) continue;
    largest = i;
    largest_bytes = bytes;
  }
  if (largest < 0) return notes;
  const Node& node = request.nodes.node(request.device.operations[largest].node());
  notes.push_back(absl::StrCat("largest operation ", node.name, " (", node.op, "), ", GiB(largest_bytes)));
  return notes;
}

// How many uses lie how far below their producer, in powers of two: "1: 120, 2: 30, 3-4: 12".
std::string Histogram(const TflmsGraph& graph) {
  std::map<int32_t, int64_t> counts;  // by the highest distance of the bin
  for (const TflmsValue& value : graph.values) {
    for (const TflmsUse& use : value.uses) {
      const int32_t distance = graph.level(use.operation) - graph.level(value.made_at);
      int32_t highest = distance < 1 ? 0 : 1;
      while (highest < distance) highest *= 2;
      ++counts[highest];
    }
  }
  std::string text = "uses by distance in levels:";
  const char* separator = " ";
  for (const auto& [highest, count] : counts) {
    const int32_t lowest = highest / 2 + (highest > 0 ? 1 : 0);
    absl::StrAppend(&text, separator, lowest < highest ? absl::StrCat(lowest, "-") : "", highest, ": ", count);
    separator = ", ";
  }
  return text;
}

// The feeds' decisions and the parameters' swaps, by storage, then by time.
SwapChoice Decide(const SwapRequest& request, const TflmsGraph& graph, const TflmsParameters& parameters) {
  SwapChoice choice = KeepEverything(request.graph);
  ForEachTflmsSwap(graph, parameters, [&](const SwapDecision& d) { choice.decisions.push_back(d); });
  std::stable_sort(choice.decisions.begin(), choice.decisions.end(),
                   [](const SwapDecision& a, const SwapDecision& b) { return a.storage < b.storage; });
  return choice;
}

void DescribeSwaps(const SwapRequest& request, const SwapChoice& choice, std::vector<std::string>& notes) {
  int64_t outs = 0, ins = 0, out_bytes = 0, in_bytes = 0;
  for (const SwapDecision& d : choice.decisions) {
    const StorageInfo& storage = request.graph.storages[d.storage];
    if (storage.kind == StorageKind::kFeed) continue;
    outs += d.copy_out ? 1 : 0;
    ins += d.copy_in ? 1 : 0;
    out_bytes += d.copy_out ? storage.size_bytes : 0;
    in_bytes += d.copy_in ? storage.size_bytes : 0;
  }
  notes.push_back(absl::StrCat(outs, " swap-out operations (", GiB(out_bytes), ") and ", ins, " swap-in operations (",
                               GiB(in_bytes), ")"));
}

// Addresses within the budget, in `choice` then.
bool Pack(const SwapRequest& request, SwapChoice& choice) {
  const int64_t budget = request.options.device_memory_bytes;
  if (budget == 0) return true;
  MemoryAssignment memory = PackMemory(request.graph, BuildSchedule(request.graph, choice), choice, budget);
  if (memory.arena_bytes > budget) return false;
  choice.residence_offsets = std::move(memory.residence_offsets);
  choice.scratch_offsets = std::move(memory.scratch_offsets);
  return true;
}

absl::Status NothingFits(const SwapRequest& request, const TflmsGraph& graph) {
  const TflmsOptions& options = request.options.tflms;
  const int64_t budget = request.options.device_memory_bytes;
  const int64_t threshold = std::max<int64_t>(options.swapout_threshold, 1);
  const TflmsPeakAt peak = TflmsPeak(graph, {.threshold = threshold, .ahead = 1, .groupby = 0, .sync_mode = 3});
  const int64_t least = graph.resident_bytes + peak.bytes;
  const std::string swapped =
      threshold > 1 ? absl::StrCat("what a swapout_threshold of ", threshold, " allows") : "everything swapped that it may swap";
  const std::string node = request.graph.num_operations() == 0 ? "" : absl::StrCat(" at node '", request.NameOf(peak.operation), "'");
  return DoesNotFitError(least, absl::StrCat(
      "does not fit: tflms keeps variables and constants (", graph.resident_bytes, " bytes, ",
      FormatBytes(graph.resident_bytes), ") on the device and needs ", least, " bytes (", FormatBytes(least),
      ")", node, " with ", swapped, ", the budget is ", budget, " (", FormatBytes(budget), ")",
      least > budget ? absl::StrCat(", short by ", least - budget) : ", and addresses cost the rest"));
}

}  // namespace

absl::Status CheckTflmsOptions(const TflmsOptions& options, const std::string& prefix) {
  const auto bad = [&](const char* name, auto value, const char* expected) {
    return absl::InvalidArgumentError(absl::StrCat(prefix, name, " is ", value, ", expected ", expected));
  };
  constexpr char kPositive[] = "1 or more levels, or -1 (tuned)";
  if (options.swapout_threshold == 0 || options.swapout_threshold < -1) return bad("swapout_threshold", options.swapout_threshold, kPositive);
  if (options.swapin_ahead == 0 || options.swapin_ahead < -1) return bad("swapin_ahead", options.swapin_ahead, kPositive);
  if (options.swapin_groupby < -1) return bad("swapin_groupby", options.swapin_groupby, "0 or more levels, or -1 (tuned)");
  if (options.sync_mode < 0 || options.sync_mode > 3) return bad("sync_mode", options.sync_mode, "0 (none), 1 (swap-out), 2 (swap-in) or 3 (both)");
  if (!(options.memory_ratio > 0) || options.memory_ratio > 1) return bad("memory_ratio", options.memory_ratio, "more than 0 and at most 1");
  return WithPrefix(ParseLevels(options.serialization, 0).status(), prefix + "serialization");
}

std::vector<std::string> DescribeUnswapped(const SwapRequest& request, const std::string& why) {
  std::vector<std::string> notes = DescribeGraph(request);
  notes.push_back(why);
  DescribeSwaps(request, KeepEverything(request.graph), notes);
  notes.push_back(Histogram(FindTflmsValues(request)));
  return notes;
}

absl::StatusOr<SwapChoice> SwapTflms(const SwapRequest& request) {
  const TflmsOptions& options = request.options.tflms;
  const int64_t budget = request.options.device_memory_bytes;
  MR_RETURN_IF_ERROR(CheckTflmsOptions(options));
  const TflmsGraph graph = FindTflmsValues(request);
  std::vector<std::string> notes = DescribeGraph(request);

  const auto finish = [&](SwapChoice choice) {
    DescribeSwaps(request, choice, notes);
    notes.push_back(Histogram(graph));
    choice.notes = std::move(notes);
    return choice;
  };
  const bool copies_early = (options.sync_mode & 2) == 0;
  const bool all_given = options.swapout_threshold > 0 &&
                         (!copies_early || (options.swapin_ahead > 0 && options.swapin_groupby >= 0));
  if (all_given) {
    const TflmsParameters given{options.swapout_threshold, std::max<int64_t>(options.swapin_ahead, 1),
                                std::max<int64_t>(options.swapin_groupby, 0), options.sync_mode};
    notes.push_back(absl::StrCat("given: ", given.ToString()));
    return finish(Decide(request, graph, given));
  }
  const bool none_given = options.swapout_threshold < 0 && options.swapin_ahead < 0 && options.swapin_groupby < 0;
  SwapChoice keep = KeepEverything(request.graph);
  if ((budget == 0 || none_given) && Pack(request, keep)) {
    notes.push_back("swapping is not needed");
    return finish(std::move(keep));
  }
  for (double ratio = options.memory_ratio; ratio >= kLeastRatio - 1e-9; ratio -= kRatioStep) {
    const auto available = static_cast<int64_t>(static_cast<double>(budget - graph.resident_bytes) * ratio);
    TflmsTuning tuning = TuneTflms(graph, options, available);
    if (!tuning.found) break;
    SwapChoice choice = Decide(request, graph, tuning.parameters);
    notes.insert(notes.end(), tuning.notes.begin(), tuning.notes.end());
    if (!Pack(request, choice)) {
      notes.push_back(absl::StrFormat("at memory ratio %.2f no addresses within the budget: %s", ratio, tuning.parameters.ToString()));
      continue;
    }
    notes.push_back(absl::StrFormat("chosen: %s; memory ratio %.2f of %s", tuning.parameters.ToString(), ratio,
                                    FormatBytes(budget - graph.resident_bytes)));
    return finish(std::move(choice));
  }
  // The simulation counts copies that are not done yet: addresses may fit where it says that nothing does.
  for (int32_t sync_mode = options.sync_mode; sync_mode <= 3; ++sync_mode) {
    const TflmsParameters most{std::max<int64_t>(options.swapout_threshold, 1), std::max<int64_t>(options.swapin_ahead, 1),
                               std::max<int64_t>(options.swapin_groupby, 0), sync_mode};
    SwapChoice choice = Decide(request, graph, most);
    if (!Pack(request, choice)) continue;
    notes.push_back(absl::StrCat("chosen, the most that can be swapped: ", most.ToString()));
    return finish(std::move(choice));
  }
  return NothingFits(request, graph);
}

}  // namespace millrace
