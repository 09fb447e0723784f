#include "report/summary.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "report/text_table.h"

namespace millrace {
namespace {

std::string Ratio(double part, double whole) {
  return whole > 0 ? absl::StrFormat(" (%.0f %%)", 100 * part / whole) : "";
}

std::string Outcome(const RunReport& run) {
  if (run.status.ok()) return "";
  return absl::IsResourceExhausted(run.status) ? "does not fit" : absl::IsCancelled(run.status) ? "interrupted" : "failed";
}

std::string BudgetText(int64_t bytes) { return bytes == 0 ? "none" : FormatBytes(bytes); }

// "choose swaps 1.2 s in 12 runs, storage 0.3 s": the longest first, without those that hardly count.
std::string LongestPasses(std::vector<PassTime> passes, double plan_seconds) {
  constexpr double kLeastPart = 0.05;
  std::stable_sort(passes.begin(), passes.end(), [](const PassTime& a, const PassTime& b) { return a.seconds > b.seconds; });
  std::string text;
  for (const PassTime& pass : passes) {
    if (!text.empty() && pass.seconds < kLeastPart * plan_seconds) break;
    absl::StrAppend(&text, text.empty() ? "" : ", ", pass.name, " ", FormatSeconds(pass.seconds));
    if (pass.runs > 1) absl::StrAppend(&text, " in ", pass.runs, " runs");
  }
  return absl::StrCat("slowest passes: ", text, " (sums over threads)");
}

// What tflms took to tune and to rewrite the graph: "rewrite        5.0 ms: tuning and choosing 3.0 ms, copies into the graph 2.0 ms".
std::string RewriteLine(const RunReport& run) {
  double tuning = 0, copies = 0;
  for (const PassTime& pass : run.passes) {
    if (pass.name == "choose swaps") tuning += pass.seconds;
    if (pass.name == "insert swaps") copies += pass.seconds;
  }
  if (run.strategy != "tflms" || tuning + copies == 0) return "";
  return absl::StrCat("rewrite        ", FormatSeconds(tuning + copies), ": tuning and choosing ", FormatSeconds(tuning),
                      ", copies into the graph ", FormatSeconds(copies), "\n");
}

// The first and the last; the report has all.
std::string LossesText(const std::vector<double>& losses) {
  constexpr size_t kAtEachEnd = 10;
  std::string text;
  for (size_t i = 0; i < losses.size(); ++i) {
    if (losses.size() > 2 * kAtEachEnd && i == kAtEachEnd) {
      absl::StrAppend(&text, " … (", FormatCount(static_cast<int64_t>(losses.size() - 2 * kAtEachEnd)), " more)");
      i = losses.size() - kAtEachEnd;
    }
    absl::StrAppend(&text, " ", std::isnan(losses[i]) ? "nan" : absl::StrFormat("%.9g", losses[i]));
  }
  return text;
}

// " at 1.2 GB/s"; nothing for what was not measured.
std::string At(double bytes_per_second) {
  return bytes_per_second > 0 ? absl::StrFormat(" at %.3g GB/s", bytes_per_second / 1e9) : "";
}

// By how much the predicted step is above the bound: "1.3 %". Both are sums of the same times in another order.
std::string AboveBound(const RunReport& run) {
  const double above = run.predicted_step_seconds / run.lower_bound_seconds - 1;
  return absl::StrFormat("%.1f %%", std::abs(above) < 1e-9 ? 0 : 100 * above);
}

}  // namespace

std::string GraphLine(const GraphSummary& graph) {
  std::string line = absl::StrCat(FormatCount(graph.nodes), " nodes, ", FormatCount(graph.edges), " edges, ",
                                  FormatBytes(graph.parameter_bytes), " of parameters");
  if (!graph.largest_node.empty()) {
    absl::StrAppend(&line, "; largest node ", graph.largest_node, ": ", FormatBytes(graph.largest_node_bytes));
  }
  return line;
}

double TypicalStepSeconds(const RunReport& run) {
  if (run.step_seconds.empty()) return run.predicted_step_seconds;
  std::vector<double> sorted = run.step_seconds;
  const auto middle = sorted.begin() + static_cast<int64_t>((sorted.size() - 1) / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

std::string RunSummary(const RunReport& run) {
  const bool measured = !run.step_seconds.empty();
  const double step = TypicalStepSeconds(run);
  std::string text = absl::StrCat(
      "strategy       ", run.strategy, ", partition size ",
      run.partition_size == 0 ? "not fixed" : FormatCount(run.partition_size), ", ", FormatCount(run.partitions),
      " partitions, planned in ", FormatSeconds(run.plan_seconds), "\n",
      "device memory  budget ", BudgetText(run.device_memory_budget_bytes), ", peak predicted ",
      FormatBytes(run.predicted_peak_device_bytes));
  if (measured) absl::StrAppend(&text, ", measured ", FormatBytes(run.peak_device_bytes));
  if (run.device_context_bytes > 0) {
    absl::StrAppend(&text, "; in use beside it ", FormatBytes(run.device_context_bytes), " (context, libraries, other programs)");
  }
  for (const DeviceReport& device : run.devices) {
    if (run.devices.size() < 2) break;
    absl::StrAppend(&text, "\n  ", device.name, std::string(device.name.size() < 13 ? 13 - device.name.size() : 1, ' '), "budget ",
                    BudgetText(device.memory_budget_bytes), ", peak predicted ", FormatBytes(device.predicted_peak_bytes));
    if (measured) absl::StrAppend(&text, ", measured ", FormatBytes(device.peak_bytes));
    if (device.context_bytes > 0) absl::StrAppend(&text, ", beside it ", FormatBytes(device.context_bytes));
    absl::StrAppend(&text, "; ", FormatCount(device.nodes), " kernels, ", FormatCount(device.partitions), " partitions");
  }
  if (!run.passes.empty()) absl::StrAppend(&text, "\nplanning       ", LongestPasses(run.passes, run.plan_seconds));
  absl::StrAppend(&text, "\nhost memory    peak ", FormatBytes(run.peak_host_bytes), "\n", "swaps          ",
                  FormatCount(run.swap_outs), " out, ", FormatCount(run.swap_ins), " in; per step ",
                  FormatBytes(run.bytes_to_host), " to host, ", FormatBytes(run.bytes_to_device), " to device\n");
  if (run.sends > 0) {
    absl::StrAppend(&text, "devices        ", FormatCount(run.sends), " sends, ", FormatCount(run.recvs), " recvs\n");
  }
  for (size_t i = 0; i < run.notes.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "notes          " : "               ", run.notes[i], "\n");
  }
  text += RewriteLine(run);
  if (run.bytes_to_disk + run.bytes_from_disk > 0) {
    absl::StrAppend(&text, "disk           per step ", FormatBytes(run.bytes_to_disk), " to disk", At(run.to_disk_bytes_per_second), ", ",
                    FormatBytes(run.bytes_from_disk), " from disk", At(run.from_disk_bytes_per_second),
                    run.disk_bytes_per_second > 0 ? absl::StrCat("; planned", At(run.disk_bytes_per_second)) : "", "\n");
  }
  if (run.recomputed_nodes > 0) absl::StrAppend(&text, "recomputed     ", FormatCount(run.recomputed_nodes), " nodes\n");
  absl::StrAppend(&text, "step           predicted ", FormatSeconds(run.predicted_step_seconds),
                  run.measured_times ? " from measured times" : "");
  if (measured) {
    absl::StrAppend(&text, ", measured ", FormatSeconds(step), " (median of ", run.step_seconds.size(),
                    "); last step: compute ", FormatSeconds(run.compute_seconds), ", stall ",
                    FormatSeconds(run.stall_seconds), Ratio(run.stall_seconds, run.step_seconds.back()));
  }
  text += "\n";
  if (run.lower_bound_seconds > 0) {
    absl::StrAppend(&text, "lower bound    ", FormatSeconds(run.lower_bound_seconds), ", the predicted step is ", AboveBound(run),
                    " above it\n");
  }
  if (!run.losses.empty()) {
    absl::StrAppend(&text, "losses        ", LossesText(run.losses), "\n");
  }
  if (!run.variables_digest.empty()) {
    absl::StrAppend(&text, "digests        ", run.fetch_digest.empty() ? "" : absl::StrCat("fetches ", run.fetch_digest, ", "),
                    "variables ", run.variables_digest, "\n");
  }
  return text;
}

std::string ComparisonTable(const std::vector<ComparedRun>& runs) {
  std::vector<std::vector<std::string>> rows;
  std::string errors;
  for (const ComparedRun& row : runs) {
    const RunReport& run = *row.run;
    if (!run.status.ok()) {
      absl::StrAppend(&errors, row.name, ": ", run.status.ToString(absl::StatusToStringMode::kWithNoExtraData), "\n");
    }
    if (run.step_seconds.empty() && !run.status.ok()) {
      rows.push_back({row.name, BudgetText(run.device_memory_budget_bytes), "-", "-", "-", "-", "-", "-", "-", "-", "-", "-",
                      Outcome(run)});
      continue;
    }
    const bool measured = !run.step_seconds.empty();
    const auto figure = [&](const std::string& text) { return measured ? text : "-"; };
    rows.push_back({row.name, BudgetText(run.device_memory_budget_bytes), FormatBytes(run.predicted_peak_device_bytes),
                    figure(FormatBytes(run.peak_device_bytes)), figure(FormatSeconds(TypicalStepSeconds(run))),
                    run.lower_bound_seconds > 0 ? AboveBound(run) : "-",
                    figure(FormatSeconds(run.compute_seconds)), figure(FormatSeconds(run.stall_seconds)),
                    FormatBytes(run.bytes_to_host), FormatBytes(run.bytes_to_device),
                    absl::StrCat(run.swap_outs, "/", run.swap_ins), FormatCount(run.partitions),
                    run.status.ok() ? row.same : Outcome(run)});
  }
  return TextTable({"strategy", "budget", "peak predicted", "peak measured", "step", "above bound", "compute", "stall", "to host",
                    "to device", "swaps out/in", "partitions", "same bits"},
                   rows) +
         errors;
}

}  // namespace millrace
