// Storages: which tensors share memory, and the device graph as the swap policies see it (access_graph.h).
//
// Needs: types, an order, partitions. Establishes: a storage per memory, Node::in_place, an AccessGraph whose
// operation k is a compute or _Fetch node (or a group of independent ones, group_nodes.h).
#ifndef MILLRACE_PASSES_STORAGE_H_
#define MILLRACE_PASSES_STORAGE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/op.h"
#include "millrace/options.h"
#include "passes/access_graph.h"
#include "passes/infer_shapes.h"
#include "passes/kernel_oracle.h"

namespace millrace {

inline constexpr int32_t kNoStorage = -1;

// A node that runs (or a fetch that copies), with what cost rules and the device say of it.
struct Operation {
  NodeId node;
  bool is_fetch = false;
  OpInstance instance;  // empty for fetches
  std::vector<int32_t> input_storages;  // kNoStorage for inputs by value and for empty tensors
  double seconds = 0;
  int64_t scratch_bytes = 0;
};

struct DeviceGraph {
  std::vector<Operation> operations;       // in order
  AccessGraph access;                      // operation k of both is the same
  // Storage of output o of node n: storage_of[first_output[n] + o]; kNoStorage for what has no memory.
  std::vector<int32_t> first_output;
  std::vector<int32_t> storage_of;
  // Per storage: the tensor that made it (a variable's, constant's or feed's node for those).
  std::vector<OutputRef> root;

  int32_t storage(OutputRef ref) const { return storage_of[first_output[ref.node.value] + ref.index]; }
};

// Time of one run of a node on `machine` by its cost rule: max(flops / rate, bytes / rate) + launch.
double PredictSeconds(const OpDef& def, const OpInstance& instance, const Machine& machine);

// Chooses in-place outputs, then lists storages and accesses. `by_value` as InferShapesAndFold gave it.
absl::StatusOr<DeviceGraph> BuildDeviceGraph(Graph& graph, const OpRegistry& ops, KernelOracle& oracle,
                                             const Machine& machine, const std::vector<NodeId>& order,
                                             const std::vector<uint64_t>& by_value);

}  // namespace millrace

#endif  // MILLRACE_PASSES_STORAGE_H_
