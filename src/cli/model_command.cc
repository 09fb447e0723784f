// millrace model: a generated training graph as a file.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/commands.h"
#include "cli/exit_status.h"
#include "cli/outputs.h"
#include "graph/graph_summary.h"
#include "cli/settings.h"
#include "millrace/status.h"
#include "models/models.h"
#include "report/text_table.h"

namespace millrace::cli {

absl::Status ModelCommand(const Options& options, const Environment& environment) {
  if (options.argument.empty()) {
    return UsageError(absl::StrCat("which model: millrace model NAME --out=FILE.pb, with NAME one of ",
                                   absl::StrJoin(Models(), ", ", [](std::string* out, const ModelInfo& model) {
                                     out->append(model.name);
                                   })));
  }
  MR_RETURN_IF_ERROR(CheckGraphOutput(options.out));
  MR_ASSIGN_OR_RETURN(Outputs outputs, Outputs::Open(options.output));
  ModelOptions model = options.model;
  MR_ASSIGN_OR_RETURN(const std::vector<std::string> devices, ParseDeviceNames(options.engine.devices, "gpu"));
  if (!devices.empty()) model.devices = static_cast<int64_t>(devices.size());
  const auto graph = BuildModel(options.argument, model);
  MR_RETURN_IF_ERROR(AsUsageError(graph.status()));
  MR_RETURN_IF_ERROR(environment.save_graph(*graph, options.out));
  const GraphSummary summary = SummaryOf(*graph);
  const int64_t parameters = CountParameters(*graph);
  const absl::Status written = outputs.WriteReport({.graph = summary}, nullptr);
  *environment.out << absl::StrCat(options.out, ": ", FormatCount(summary.nodes), " nodes, ", FormatCount(summary.edges),
                                   " edges, ", FormatCount(parameters), " parameters\n");
  return written;
}

}  // namespace millrace::cli
