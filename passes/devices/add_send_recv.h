// Add Send and Recv: a tensor that another device uses goes through host memory.
//
//   cpu:0  a ─► b            a ─► b
//          │                 └──► Send(a)
//   cpu:1  └──► c, d                └─────► Recv(a) ─► c
//                                   └─────► Recv(a)' ─► d      (sharing: one Recv for c and d)
//
// Send copies to the host once, right after the tensor is made; of a reference variable, which is memory, again after each
// write that a use on another device comes after. Each Recv copies to its device when its use comes near, and to the passes
// behind it is like a feed that arrives late. A Recv per use, the default, holds no memory between the uses (TensorFlowMem
// found that better); a shared one moves the bytes once.
// Constants and feeds have their home in host memory, so every device takes them from there: their views are repeated
// per device. Tensors without bytes need no copy. Control edges stay as they are; they become waits.
//
// Needs: placed nodes, types, ordered variable accesses. Establishes: no data edge with bytes between devices but from Send to Recv.
#ifndef MILLRACE_PASSES_DEVICES_ADD_SEND_RECV_H_
#define MILLRACE_PASSES_DEVICES_ADD_SEND_RECV_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "millrace/graph.h"
#include "millrace/op.h"
#include "passes/devices/place_devices.h"

namespace millrace {

inline constexpr const char* kSendOp = "Send";
inline constexpr const char* kRecvOp = "Recv";

struct SendRecvOptions {
  std::vector<std::string> devices;  // names
  bool share_recv = false;
};

// `by_value` (per node id) grows with the graph. True when the graph has changed.
bool AddSendRecv(Graph& graph, const OpRegistry& ops, const DevicePlacement& placement, const SendRecvOptions& options,
                 std::vector<uint64_t>& by_value);

// Internal names a data edge that crosses between devices without Send and Recv.
absl::Status VerifySendRecv(const Graph& graph, const OpRegistry& ops, const DevicePlacement& placement);

}  // namespace millrace

#endif  // MILLRACE_PASSES_DEVICES_ADD_SEND_RECV_H_
