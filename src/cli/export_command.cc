// millrace export: the graph with partitions, swap nodes and reasons.
#include <memory>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "cli/exit_status.h"
#include "cli/outputs.h"
#include "cli/train.h"
#include "millrace/status.h"
#include "report/text_table.h"

namespace millrace::cli {
namespace {

// Parts of variables are called "w[0:64]" in plans, and what is fetched "_fetch/y_0", which no GraphDef can name.
void TakeNamesOfGraphDefs(Graph& graph) {
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    if (!graph.alive(NodeId{i})) continue;
    std::string name = graph.node(NodeId{i}).name;
    for (char& letter : name) {
      if (!absl::ascii_isalnum(static_cast<unsigned char>(letter)) && !absl::StrContains("_.\\/>-", letter)) letter = '_';
    }
    const size_t first = name.find_first_not_of("_\\/>-");
    graph.Rename(NodeId{i}, first == std::string::npos ? "node" : name.substr(first));
  }
}

}  // namespace

absl::Status ExportCommand(const Options& options, const Environment& environment) {
  MR_RETURN_IF_ERROR(CheckGraphOutput(options.out));
  MR_ASSIGN_OR_RETURN(SessionOptions session_options, MakePlanningOptions(options));
  MR_ASSIGN_OR_RETURN(const Budget budget, ParseBudget("device_memory", options.engine.device_memory));
  MR_ASSIGN_OR_RETURN(Outputs outputs, Outputs::Open(options.output));
  MR_ASSIGN_OR_RETURN(const Workload workload, LoadWorkload(options.input, FeedValues::kTypesOnly, environment));
  MR_ASSIGN_OR_RETURN(const DeviceBudgets budgets, ResolveBudget(budget, workload, session_options, environment));
  budgets.Apply(session_options.planning);

  const auto created = environment.create_session(workload.graph, session_options);
  MR_RETURN_IF_ERROR(AsPlanningError(created.status()));
  const std::unique_ptr<Session>& session = *created;
  session->PlanWithFeeds(workload.feeds);
  auto rewritten = session->RewrittenGraph(workload.feed_types, workload.fetches, workload.targets);
  MR_RETURN_IF_ERROR(AsPlanningError(rewritten.status()));
  const RunReport& run = session->last_run();
  LogPasses(run);
  TakeNamesOfGraphDefs(*rewritten);
  MR_RETURN_IF_ERROR(environment.save_graph(*rewritten, options.out));
  const absl::Status written =
      outputs.WriteReport({.graph = session->graph_summary(), .machine = session_options.machine, .runs = {run}}, nullptr);
  *environment.out << absl::StrCat(options.out, ": ", FormatCount(rewritten->num_nodes()), " nodes, ",
                                   FormatCount(run.partitions), " partitions, ", FormatCount(run.swap_outs),
                                   " swap-outs, ", FormatCount(run.swap_ins), " swap-ins",
                                   run.sends > 0 ? absl::StrCat(", ", FormatCount(run.sends), " sends, ",
                                                                FormatCount(run.recvs), " recvs")
                                                 : "",
                                   "\n");
  return written;
}

}  // namespace millrace::cli
