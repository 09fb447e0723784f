// Prepare: everything before an order is chosen. What comes out is the same for every order, partition size and budget.
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
  bool disk_tier = false;  // what the host budget has no room for goes to disk
};

// The graph before any order is chosen: pruned, inlined, typed, placed.
struct Prepared {
  Graph graph;
  std::vector<uint64_t> by_value;          // per node id, as InferShapesAndFold gives it
  std::vector<std::string> placement_notes;  // requests for devices that are not there
};

// "cpu:0": as given, or the machine's name and the index.
std::string DeviceName(const CompileRequest& request, int32_t device);

absl::StatusOr<Prepared> Prepare(const CompileRequest& request);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PREPARE_H_
