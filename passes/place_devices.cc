#include "passes/place_devices.h"

namespace millrace {

void PlaceDevices(Graph& graph, const OpRegistry& ops) {
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    Node& node = graph.mutable_node(NodeId{i});
    if (node.removed) continue;
    const OpDef* def = ops.Find(node.op);
    const bool at_home = node.op == "Const" || node.op == "_Feed" || (def != nullptr && def->is_variable);
    node.device = at_home ? kHostDevice : 0;
  }
}

}  // namespace millrace
