// The text of a plan: one line per step in position order, then one line per residence. Golden tests compare it,
// people read it; the same plan gives the same bytes.
//
//   3 compute  p1  b (Relu)  a:0@0+64 -> b:0@64+64  [to-device>=1]
//   4 to-host  p1  a_out  a:0@0+64 -> pool@0  [compute>=2]  "consumer c is 3 partitions away"
//
// An address is "owner@offset+bytes", "-" without one; "[lane>=n]" waits until that lane has done n steps. Bytes of names
// that do not print are shown as \xNN.
#ifndef MILLRACE_SRC_PLAN_PLAN_TEXT_H_
#define MILLRACE_SRC_PLAN_PLAN_TEXT_H_

#include <string>

#include "millrace/plan.h"

namespace millrace {

struct PlanTextOptions {
  bool seconds = false;  // predicted durations and totals; they change with every cost rule
  bool residences = true;
  bool types = false;  // of every input and output of compute steps
};

std::string PlanToText(const ExecutionPlan& plan, const PlanTextOptions& options = {});

// The line of one step, without its newline. Requires a valid lane and index.
std::string StepToText(const ExecutionPlan& plan, int32_t lane, int64_t step, const PlanTextOptions& options = {});

// "compute", or "compute/1" of the second device when there are several: how lanes are named in text and traces.
std::string LaneName(const ExecutionPlan& plan, int32_t lane);

// "variable w", "pool@128", "feed images".
std::string HostRefToText(const ExecutionPlan& plan, const HostRef& ref);

}  // namespace millrace

#endif  // MILLRACE_SRC_PLAN_PLAN_TEXT_H_
