// Sent values: what the copies between devices mean for a policy's decisions, which know of one device only.
#ifndef MILLRACE_PASSES_ACCESS_SENT_VALUES_H_
#define MILLRACE_PASSES_ACCESS_SENT_VALUES_H_

#include "millrace/graph.h"
#include "millrace/options.h"
#include "passes/access/storage.h"
#include "passes/access/swap_choice.h"

namespace millrace {

// No copy in begins before the bytes are in host memory. A policy that would begin earlier has no opinion on when they
// should come: they come in time for their use, and do not wait for it on the device. True when a decision has changed;
// stays only get shorter.
bool DelayArrivals(const AccessGraph& graph, const Machine& machine, SwapChoice& choice);

// What was sent to another device is in host memory: it needs no copy out when it leaves.
void ReuseSent(const Graph& graph, const DeviceGraph& device, SwapChoice& choice);

}  // namespace millrace

#endif  // MILLRACE_PASSES_ACCESS_SENT_VALUES_H_
