// Prepare: everything before an order is chosen. What comes out is the same for every order and partition size.
#ifndef MILLRACE_PASSES_PREPARE_H_
#define MILLRACE_PASSES_PREPARE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/op.h"
#include "millrace/options.h"
#include "millrace/report.h"
#include "passes/access/deadline.h"
#include "passes/kernel_oracle.h"
#include "passes/pass_clock.h"
#include "passes/rewrite/prune.h"
#include "passes/shapes/infer_shapes.h"
#include "passes/unroll/unroll_loops.h"

namespace millrace {

struct CompileRequest {
  const Graph& graph;
  const OpRegistry& ops;
  KernelOracle& oracle;
  Signature signature;
  PlanningOptions options;
  Machine machine;
  std::map<std::string, TensorType> variable_types;  // of variables that exist already
  bool disk_tier = false;  // what the host budget has no room for goes to disk
  PassClock* clock = nullptr;
  // planned: how much is searched, in parts of what SearchWork says. On one device a plan of more work is never longer.
  double work = 1;
  PlanClock now = {};  // what plan_seconds is measured by; the machine's clock when empty
  // planned: how many times as long as they are its search takes copies to and from host memory for, so that fewer bytes go there.
  double copy_price = 1;
  // Whether the graph is verified after every phase of Prepare (verify_graph.h), or only after the last.
#ifdef NDEBUG
  bool verify_phases = false;
#else
  bool verify_phases = true;
#endif
};

// The graph before any order is chosen: pruned, inlined, typed, placed.
struct Prepared {
  Graph graph;
  InferenceResult inferred;
  GraphSummary summary;  // before the rewritings that depend on options; largest_node is found when an order is
  int64_t sliced_updates = 0;
  std::vector<std::string> placement_notes;  // requests for devices that are not there
  std::vector<std::string> asked;            // signature.ask: what the plan fetches
  bool stopped = false;                      // signature.ask: there may be more to ask
};

// "cpu:0": as given, or the machine's name and the index.
std::string DeviceName(const CompileRequest& request, int32_t device);

// The first steps, on a graph that need not be pruned: calls inlined, conditionals lowered, until nothing is left to do.
// With an oracle loops are unrolled too; that needs a pruned graph with types of feeds. Returns the nodes whose effects must
// happen whenever they are in the graph (InlineResult), and what it asks.
absl::StatusOr<UnrollResult> ExpandCalls(Graph& graph, const OpRegistry& ops, KernelOracle* oracle = nullptr,
                                                     const UnrollOptions& unroll = {});

absl::StatusOr<Prepared> Prepare(const CompileRequest& request);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PREPARE_H_
