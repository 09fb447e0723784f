// Place devices: Variables and Constants have their home in host memory (kHostDevice), every other node runs on
// device 0. Needs: nothing. Establishes: Node::device.
#ifndef MILLRACE_PASSES_PLACE_DEVICES_H_
#define MILLRACE_PASSES_PLACE_DEVICES_H_

#include "millrace/graph.h"
#include "millrace/op.h"

namespace millrace {

void PlaceDevices(Graph& graph, const OpRegistry& ops);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PLACE_DEVICES_H_
