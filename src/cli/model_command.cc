// millrace model: a generated training graph as a file.
#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "cli/exit_status.h"
#include "cli/graph_facts.h"
#include "cli/outputs.h"
#include "millrace/status.h"
#include "report/text_table.h"

namespace millrace::cli {

absl::Status ModelCommand(const Options& options, const Environment& environment) {
  const ModelOptions& model = options.model;
  if (model.name.empty()) return UsageError("which model: millrace model NAME --out=FILE.pb");
  for (const auto& [flag, value] : {std::pair("depth", model.depth), std::pair("batch", model.batch),
                                    std::pair("image_size", model.image_size), std::pair("classes", model.classes)}) {
    if (value < 1) return UsageError(absl::StrCat("--", flag, ": expected 1 or more"));
  }
  MR_RETURN_IF_ERROR(CheckGraphOutput(options.out));
  MR_ASSIGN_OR_RETURN(Outputs outputs, Outputs::Open(options.output));
  const auto graph = environment.make_model(model);
  MR_RETURN_IF_ERROR(AsUsageError(graph.status()));
  MR_RETURN_IF_ERROR(environment.save_graph(*graph, options.out));
  const GraphSummary summary = SummaryOf(*graph);
  MR_RETURN_IF_ERROR(outputs.WriteReport({.graph = summary}, nullptr));
  *environment.out << absl::StrCat(options.out, ": ", FormatCount(summary.nodes), " nodes, ", FormatCount(summary.edges),
                                   " edges, ", FormatBytes(summary.parameter_bytes), " of parameters\n");
  return absl::OkStatus();
}

}  // namespace millrace::cli
