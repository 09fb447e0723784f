// Whether streams can run a plan's steps in an order: each waits for steps that are enqueued before it, so none waits for ever.
#ifndef MILLRACE_RUNTIME_STREAM_CHECK_ORDER_H_
#define MILLRACE_RUNTIME_STREAM_CHECK_ORDER_H_

#include <vector>

#include "absl/status/status.h"
#include "plan/step_order.h"
#include "runtime/program.h"

namespace millrace {

// Internal where one does not: it is named.
absl::Status CheckOrder(const Program& program, const std::vector<StepRef>& order);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_STREAM_CHECK_ORDER_H_
