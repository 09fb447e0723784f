// The pipeline: from a graph and what to run of it to an execution plan. pipeline.cc tells the story.
#ifndef MILLRACE_PASSES_PIPELINE_H_
#define MILLRACE_PASSES_PIPELINE_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/op.h"
#include "millrace/options.h"
#include "millrace/plan.h"
#include "millrace/report.h"
#include "passes/kernel_oracle.h"
#include "passes/prune.h"

namespace millrace {

struct CompileRequest {
  const Graph& graph;
  const OpRegistry& ops;
  KernelOracle& oracle;
  Signature signature;
  PlanningOptions options;
  Machine machine;
  std::map<std::string, TensorType> variable_types;  // of variables that exist already
};

struct Compiled {
  Graph graph;  // as rewritten
  ExecutionPlan plan;
  GraphSummary summary;
};

// ResourceExhausted when no plan fits the budget; other errors say what is wrong with graph, feeds or options.
// Deterministic: equal requests give equal plans.
absl::StatusOr<Compiled> Compile(const CompileRequest& request);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PIPELINE_H_
