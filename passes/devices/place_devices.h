// Place devices: where every node runs. Variables and Constants have their home in host memory (kHostDevice); the
// device that works on a variable is the one of its accesses.
//
// With several devices, in this order:
//   1. A device string of the node's own ("/job:worker/task:1/device:GPU:0", "/gpu:1") is honoured; a device that is
//      not there is mapped to one that is, and a note says so.
//   2. Nodes that share a `_class` "loc:@x" are on one device, and so are a variable and all that take its handle.
//   3. A node without a string goes where its first placed consumer is, else where its first placed input is.
//   4. A device that lacks the kernel of a node gives it (and its group) to the first one that has it.
// Views run nowhere: they are where their input's memory is, so that only real uses cross between devices. A fetch is
// where its tensor is made.
//
// Needs: ordered variable accesses. Establishes: Node::device, and Node::reason of what has a home or was not where it asked to be.
#ifndef MILLRACE_PASSES_DEVICES_PLACE_DEVICES_H_
#define MILLRACE_PASSES_DEVICES_PLACE_DEVICES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/op.h"

namespace millrace {

struct PlaceOptions {
  std::vector<std::string> devices;  // names of those there are, at least one
  // Whether a device has a kernel of the op; empty: all have all.
  std::function<bool(const std::string& op, int32_t device)> supports;
};

struct DevicePlacement {
  // Per node id: the device that works on this variable; -1 for other nodes.
  std::vector<int32_t> variable_device;
  std::vector<std::string> notes;  // requests for devices that are not there, a line each
};

// InvalidArgument names a node whose device string is not one.
absl::StatusOr<DevicePlacement> PlaceDevices(Graph& graph, const OpRegistry& ops, const PlaceOptions& options);

}  // namespace millrace

#endif  // MILLRACE_PASSES_DEVICES_PLACE_DEVICES_H_
