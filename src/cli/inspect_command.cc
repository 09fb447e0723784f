// millrace inspect: what a graph holds, and what of it is not supported.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "builder/gradient_table.h"
#include "cli/commands.h"
#include "cli/exit_status.h"
#include "cli/graph_facts.h"
#include "cli/outputs.h"
#include "cli/train.h"
#include "files/model_files.h"
#include "graph/graph_summary.h"
#include "millrace/op.h"
#include "millrace/status.h"
#include "passes/control_flow/loop_ops.h"
#include "passes/prepare.h"
#include "passes/rewrite/prune.h"
#include "report/summary.h"
#include "report/text_table.h"

namespace millrace::cli {
namespace {

// "Conv2D 161, Mul 320", most used first.
std::string CountsText(const std::map<std::string, int64_t>& counts) {
  std::vector<std::pair<std::string, int64_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return absl::StrJoin(sorted, ", ", [](std::string* out, const auto& entry) {
    absl::StrAppend(out, entry.first, " ", FormatCount(entry.second));
  });
}

// The supported ops as a Markdown table: src/ops/README.md holds it.
std::string OpsTable(const OpRegistry& ops) {
  std::string text = "| op | outputs that may overwrite inputs | gradient | notes |\n|---|---|---|---|\n";
  const GradientTable& gradients = GradientTable::Builtin();
  for (const std::string& name : ops.Names()) {
    const OpDef& def = *ops.Find(name);
    const bool has_gradient = def.gradient || gradients.Find(name) != nullptr;
    const std::string gradient = has_gradient ? "yes" : gradients.PassesNone(name) ? "none flows" : "";
    std::vector<std::string> in_place, notes;
    for (const auto& [output, input] : def.in_place) in_place.push_back(absl::StrCat(output, "←", input));
    if (def.is_view) notes.push_back("view: no copy");
    if (def.is_variable) notes.push_back("declares a variable");
    if (!def.variables.empty()) notes.push_back("accesses variables");
    if (def.is_no_op) notes.push_back("control only");
    if (def.state_bytes > 0) notes.push_back("keeps state");
    if (def.stateful) notes.push_back("stateful");
    absl::StrAppend(&text, "| ", name, " | ", absl::StrJoin(in_place, ", "), " | ", gradient, " | ",
                    absl::StrJoin(notes, "; "), " |\n");
  }
  return text;
}

// "x float[16,12], y int32[16]".
std::string KeysText(const std::map<std::string, SavedSignature::Info>& infos) {
  return absl::StrJoin(infos, ", ", [](std::string* out, const auto& entry) {
    absl::StrAppend(out, entry.first, " ", entry.second.type.ToString());
  });
}

std::string SignaturesText(const SavedModel& model) {
  std::string text;
  for (const auto& [name, signature] : model.signatures) {
    if (IsLoadersOwn(name)) continue;
    absl::StrAppend(&text, "signature    ", name, ": ", KeysText(signature.inputs), " -> ", KeysText(signature.outputs), "\n");
    for (const auto& [key, why] : signature.unread_inputs) absl::StrAppend(&text, "             input ", why.message(), "\n");
    for (const auto& [key, why] : signature.unread_outputs) absl::StrAppend(&text, "             output ", why.message(), "\n");
  }
  for (const auto& [name, status] : model.unread_signatures) absl::StrAppend(&text, "signature    ", name, " cannot be run: ", status.message(), "\n");
  return text;
}

// "/gpu:0 12, /gpu:1 12, any 40": what nodes ask for; empty when none asks.
std::string RequestsText(const Graph& graph) {
  std::map<std::string, int64_t> requests;
  int64_t any = 0;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed) continue;
    ++(node.requested_device.empty() ? any : requests[node.requested_device]);
  }
  if (requests.empty()) return "";
  return absl::StrCat("\ndevices      ", absl::StrJoin(requests, ", ", [](std::string* out, const auto& request) {
    absl::StrAppend(out, request.first, " ", FormatCount(request.second));
  }), ", any ", FormatCount(any));
}

// "cpu:0 12 kernels 1.00 MiB, ...": where they were placed.
std::string PlacementText(const RunReport& run) {
  return absl::StrJoin(run.devices, ", ", [](std::string* out, const DeviceReport& device) {
    absl::StrAppend(out, device.name, " ", FormatCount(device.nodes), " kernels, peak ",
                    FormatBytes(device.predicted_peak_bytes));
  });
}

// What the graph needs to be planned: as given, else the generated graphs' node names where they are there.
InputOptions PlannedInput(InputOptions input, const Graph& graph) {
  input.synthetic_feeds = input.synthetic_feeds || input.feeds.empty();
  if (!input.fetches.empty() || !input.targets.empty() || input.graph.empty()) return input;
  if (graph.Find("loss").valid()) input.fetches = {"loss:0"};
  if (graph.Find("train").valid()) input.targets = {"train"};
  return input;
}

// The graph of whatever file was given.
struct Inspected {
  std::shared_ptr<const Graph> graph;
  Signature served;  // by all signatures of a SavedModel: its saver is not part of them
};

absl::StatusOr<Inspected> LoadInspected(const Options& options, const Environment& environment) {
  Inspected inspected;
  if (!options.input.onnx.empty()) {
    InputOptions input = options.input;
    input.synthetic_feeds = true;
    MR_ASSIGN_OR_RETURN(Workload workload, LoadWorkload(input, FeedValues::kTypesOnly, environment));
    inspected.graph = std::move(workload.graph);
  } else if (options.input.saved_model.empty()) {
    MR_ASSIGN_OR_RETURN(MetaGraph loaded, ReadFrom(options.input.graph, environment.load_graph(options.input.graph)));
    inspected.graph = std::make_shared<const Graph>(std::move(loaded.graph));
  } else {
    const std::string& folder = options.input.saved_model;
    MR_ASSIGN_OR_RETURN(SavedModel model, ReadFrom(SavedModelFile(folder), environment.load_saved_model(folder)));
    *environment.out << SignaturesText(model);
    inspected.graph = std::make_shared<const Graph>(std::move(model.graph));
    for (const auto& [name, signature] : model.signatures) {
      for (const auto& [key, input] : signature.inputs) inspected.served.feeds[input.tensor] = input.type;
      for (const auto& [key, output] : signature.outputs) inspected.served.fetches.push_back(output.tensor);
      inspected.served.targets.insert(inspected.served.targets.end(), signature.targets.begin(), signature.targets.end());
    }
  }
  return inspected;
}

// What is unsupported is known once calls and conditionals are gone; a graph that keeps them is counted as it is.
std::map<std::string, int64_t> UnsupportedOf(const Inspected& inspected, const OpRegistry& ops) {
  Graph expanded = inspected.graph->Clone();
  const bool is_expanded = ExpandCalls(expanded, ops).ok();
  const Graph& counted = is_expanded ? expanded : *inspected.graph;
  absl::StatusOr<Graph> served = absl::NotFoundError("no signatures");
  if (!inspected.served.fetches.empty() || !inspected.served.targets.empty()) served = Prune(counted, inspected.served);
  std::map<std::string, int64_t> unsupported = UnsupportedOps(OpCounts(served.ok() ? *served : counted), ops);
  // Loops need shapes to be taken apart, and keep their conditionals until then.
  if (is_expanded) std::erase_if(unsupported, [](const auto& entry) { return IsPlannedAway(entry.first); });
  return unsupported;
}

// Whether more than the file was given: what is wrong with that is an error.
bool AsksForStep(const InputOptions& input) {
  return !input.fetches.empty() || !input.targets.empty() || !input.feeds.empty() || !input.feed_shapes.empty() || !input.signature.empty() ||
         !input.checkpoint_in.empty() || !input.init_targets.empty();
}

// The largest operation needs shapes, so a plan; without one the rest is still worth having.
absl::Status PlanStep(const Options& options, const Graph& graph, GraphSummary& summary, const Environment& environment) {
  const InputOptions input = PlannedInput(options.input, graph);
  const bool may_have_step = !input.onnx.empty() || !input.saved_model.empty();
  if (input.fetches.empty() && input.targets.empty() && !AsksForStep(input) && !may_have_step) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(SessionOptions session, MakePlanningOptions(options));
  session.planning = BaselineOf(session.planning);
  const auto workload = LoadWorkload(input, FeedValues::kTypesOnly, environment);
  if (!workload.ok() && AsksForStep(options.input)) return workload.status();
  const TrainResult result =
      workload.ok() ? PlanOnly(*workload, session, environment) : TrainResult{.run = {.status = workload.status()}};
  const absl::Status& planned = result.run.status;
  if (AsksForStep(options.input) && (absl::IsNotFound(planned) || absl::IsInvalidArgument(planned))) return planned;
  if (!planned.ok()) {
    *environment.out << "step         not planned: " << planned.message() << "\n";
    return absl::OkStatus();
  }
  summary.largest_node = result.graph.largest_node;
  summary.largest_node_bytes = result.graph.largest_node_bytes;
  *environment.out << "step         " << GraphLine(result.graph) << "\npeak         "
                   << FormatBytes(result.run.predicted_peak_device_bytes) << " without swapping\n";
  if (result.run.devices.size() > 1) *environment.out << "placed       " << PlacementText(result.run) << "\n";
  return absl::OkStatus();
}

}  // namespace

absl::Status InspectCommand(const Options& options, const Environment& environment) {
  const OpRegistry& ops = OpRegistry::Builtin();
  if (options.ops) {
    if (!options.output.report_out.empty()) return UsageError("--report_out is for the figures of a graph; --ops lists operations to standard output");
    *environment.out << OpsTable(ops);
    return absl::OkStatus();
  }
  if (!options.input.graph.empty() + !options.input.saved_model.empty() + !options.input.onnx.empty() != 1) {
    return UsageError("which graph: give --graph=FILE.pb or .pbtxt, --saved_model=FOLDER or --onnx=FILE.onnx; or --ops");
  }
  MR_RETURN_IF_ERROR(CheckKindOfGraph(options.input));
  MR_ASSIGN_OR_RETURN(Outputs outputs, Outputs::Open(options.output));
  MR_ASSIGN_OR_RETURN(const Inspected inspected, LoadInspected(options, environment));
  const Graph& graph = *inspected.graph;
  GraphSummary summary = SummaryOf(graph);
  MR_ASSIGN_OR_RETURN(const int64_t levels, Levels(graph));
  const std::map<std::string, int64_t> counts = OpCounts(graph), unsupported = UnsupportedOf(inspected, ops);
  const int64_t in_functions = NodesInFunctions(graph);
  const std::string more = in_functions > 0 ? absl::StrCat(" (and ", FormatCount(in_functions), " in the functions that they call)") : "";
  *environment.out << "nodes        " << FormatCount(summary.nodes) << more << "\nedges        " << FormatCount(summary.edges)
                   << "\nparameters   " << FormatBytes(summary.parameter_bytes) << "\nlevels       " << FormatCount(levels)
                   << RequestsText(graph) << "\noperations   " << CountsText(counts) << "\nunsupported  "
                   << (unsupported.empty() ? "none" : CountsText(unsupported)) << "\n";
  const absl::Status planned = PlanStep(options, graph, summary, environment);
  const absl::Status written = outputs.WriteReport({.graph = summary}, nullptr);
  return RunThenWritten(planned, written);
}

}  // namespace millrace::cli
