// What a swap policy is asked.
#ifndef MILLRACE_PASSES_SWAPS_SWAP_REQUEST_H_
#define MILLRACE_PASSES_SWAPS_SWAP_REQUEST_H_

#include <string>

#include "millrace/options.h"
#include "passes/access/access_graph.h"
#include "passes/access/storage.h"
#include "passes/access/swap_choice.h"

namespace millrace {

struct GapGraph;

// What a policy decides on: the access graph, and the graph behind it for policies that look at names and op types.
struct SwapRequest {
  const AccessGraph& graph;
  const PlanningOptions& options;
  const Machine& machine;
  const Graph& nodes;
  const DeviceGraph& device;
  PlanLimits limits = {};
  GapGraph* gaps = nullptr;  // of `graph`, where they are known; what is found is left there

  const std::string& NameOf(int32_t operation) const { return nodes.node(device.operations[operation].node()).name; }
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_SWAPS_SWAP_REQUEST_H_
