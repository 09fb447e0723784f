// Gaps of a device graph, for tests of what chooses among them.
#ifndef MILLRACE_TESTLIB_ORDERED_GAPS_H_
#define MILLRACE_TESTLIB_ORDERED_GAPS_H_

#include "millrace/options.h"
#include "passes/access/access_graph.h"
#include "passes/planner/gaps.h"

namespace millrace {

// Over a link of `bytes_per_second` each way.
inline GapGraph OrderedGaps(const AccessGraph& graph, double bytes_per_second, double copy_latency_seconds = Machine().copy_latency_seconds) {
  Machine machine;
  machine.to_host_bytes_per_second = machine.to_device_bytes_per_second = bytes_per_second;
  machine.copy_latency_seconds = copy_latency_seconds;
  GapGraph gaps = FindGaps(graph, machine);
  OrderGaps(gaps);
  return gaps;
}

}  // namespace millrace

#endif  // MILLRACE_TESTLIB_ORDERED_GAPS_H_
