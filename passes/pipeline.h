// The pipeline: from a graph and what to run of it to an execution plan. pipeline.cc tells the story.
#ifndef MILLRACE_PASSES_PIPELINE_H_
#define MILLRACE_PASSES_PIPELINE_H_

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/plan.h"
#include "millrace/report.h"
#include "passes/prepare.h"

namespace millrace {

struct Compiled {
  Graph graph;  // as rewritten
  ExecutionPlan plan;
  GraphSummary summary;
  std::vector<std::string> placement_notes;  // devices that the graph asks for and that are not there
  bool stopped = false;  // signature.ask: there may be more questions than the plan fetches
};

// ResourceExhausted when no plan fits the budget; other errors say what is wrong with graph, feeds or options.
// Deterministic: equal requests give equal plans.
absl::StatusOr<Compiled> Compile(CompileRequest request);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PIPELINE_H_
