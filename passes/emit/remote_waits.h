// Remote waits: what a device's operations must wait for on other devices because of edges that move no bytes: control edges, and tensors
// without bytes, whose shape may be known only when running.
//
// An edge may lead through nodes that run nowhere (NoOp, views); what counts is the operations behind them. An earlier
// operation of the same device needs no wait, nor does what Send and Recv order already.
//
// Needs: placed nodes, an order, Send and Recv. Establishes: waits that lead to earlier operations of that order only.
#ifndef MILLRACE_PASSES_EMIT_REMOTE_WAITS_H_
#define MILLRACE_PASSES_EMIT_REMOTE_WAITS_H_

#include <cstdint>
#include <vector>

#include "millrace/graph.h"
#include "passes/access/storage.h"

namespace millrace {

struct RemoteWait {
  int32_t device = 0;
  int32_t operation = 0;  // of that device's graph
};

struct RemoteWaits {
  // Waits of operation i: waits[first[i] .. first[i+1]); `first` is empty when there is one device.
  std::vector<int64_t> first;
  std::vector<RemoteWait> waits;
  absl::Span<const RemoteWait> of(int32_t operation) const {
    if (first.empty()) return {};
    return absl::MakeConstSpan(waits).subspan(first[operation], first[operation + 1] - first[operation]);
  }
};

// Per device. `order` is the order of all nodes.
std::vector<RemoteWaits> FindRemoteWaits(const Graph& graph, const std::vector<NodeId>& order,
                                         const std::vector<const DeviceGraph*>& devices);

}  // namespace millrace

#endif  // MILLRACE_PASSES_EMIT_REMOTE_WAITS_H_
