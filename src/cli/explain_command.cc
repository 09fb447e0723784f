// millrace explain: why a tensor or node is kept, swapped or cut where it is.
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "cli/exit_status.h"
#include "cli/outputs.h"
#include "cli/reuse_memory.h"
#include "cli/train.h"
#include "graph/one_line.h"
#include "graph/parameters.h"
#include "graph/variable_name.h"
#include "millrace/status.h"
#include "passes/rewrite/prune.h"
#include "report/explain.h"

namespace millrace::cli {
namespace {

// What the workload needs of its graph.
absl::StatusOr<Graph> NeededOf(const Workload& workload) {
  const Graph& graph = *workload.graph;
  Signature signature;
  for (const auto& [name, type] : workload.feed_types) {
    MR_ASSIGN_OR_RETURN(const OutputRef ref, graph.FindTensor(name));
    signature.feeds.emplace(graph.TensorName(ref), type);
  }
  for (const std::string& name : workload.fetches) {
    MR_ASSIGN_OR_RETURN(const OutputRef ref, graph.FindTensor(name));
    signature.fetches.push_back(graph.TensorName(ref));
  }
  signature.targets = workload.targets;
  return Prune(graph, signature);
}

// The variable whose memory a node of the graph hands on, without a step of its own in plans; empty where it does not.
std::string VariableBehind(const Graph& graph, const std::string& name) {
  NodeId id = graph.Find(name.substr(0, name.find(':')));
  if (!id.valid()) return "";
  const auto reads = [](const Node& node) { return (node.op == "ReadVariableOp" || node.op == "Identity") && !node.inputs.empty(); };
  while (reads(graph.node(id))) id = graph.node(id).inputs[0].node;
  return IsVariable(graph.node(id)) ? VariableName(graph.node(id)) : "";
}

absl::StatusOr<std::string> ExplainNamed(const std::string& name, const Workload& workload, const ExecutionPlan& plan, const SessionOptions& session) {
  auto text = Explain(plan, session.planning, session.machine, name);
  if (!absl::IsNotFound(text.status())) return text;
  const absl::StatusOr<Graph> needed = NeededOf(workload);
  const std::string variable = needed.ok() ? VariableBehind(*needed, name) : "";
  if (variable.empty() || variable == name) return text;
  const auto of_variable = Explain(plan, session.planning, session.machine, variable);
  if (!of_variable.ok()) return text;
  return absl::StrCat(name, " is the variable ", OnOneLine(variable), " itself:\n", *of_variable);
}

}  // namespace

absl::Status ExplainCommand(const Options& options, const Environment& environment) {
  if (options.argument.empty()) return UsageError("explain what: millrace explain TENSOR or NODE, as conv1/Conv2D:0 or conv1/Conv2D");
  MR_ASSIGN_OR_RETURN(SessionOptions session, MakePlanningOptions(options));
  MR_ASSIGN_OR_RETURN(const Budget budget, ParseBudget("device_memory", options.engine.device_memory));
  MR_ASSIGN_OR_RETURN(Outputs outputs, Outputs::Open(options.output));
  MR_ASSIGN_OR_RETURN(const Workload workload, LoadWorkload(options.input, FeedValues::kTypesOnly, environment));
  MR_ASSIGN_OR_RETURN(const DeviceBudgets budgets, ResolveBudget(budget, workload, session, environment));
  budgets.Apply(session.planning);
  TrainResult result = PlanOnly(workload, session, environment);
  KeepUntilTheEnd(workload.graph);
  KeepUntilTheEnd(result.run.plan);
  if (outputs.wants_report()) result.graph = FactsOf(result, workload, session, environment);
  const absl::Status written = outputs.WriteReport({.graph = result.graph, .machine = session.machine, .runs = {result.run}}, nullptr);
  if (!result.run.status.ok()) return RunThenWritten(result.run.status, written);
  const auto text = ExplainNamed(options.argument, workload, *result.run.plan, session);
  if (text.ok()) *environment.out << *text;
  return RunThenWritten(text.status(), written);
}

}  // namespace millrace::cli
