// Rates of this machine's device, measured with the kernels and copies that will run.
#ifndef MILLRACE_SRC_CLI_MEASURE_H_
#define MILLRACE_SRC_CLI_MEASURE_H_

#include "absl/status/statusor.h"
#include "cli/environment.h"
#include "millrace/options.h"

namespace millrace::cli {

// Matrix products and convolutions for flops, sums of large tensors for memory, large feeds and fetches for the link,
// small ones for its latency, a chain of tiny kernels for their overhead; the best of a few runs each. Takes a few
// seconds, and as much memory as half a GiB. `session` says which device, link and threads.
absl::StatusOr<Machine> MeasureMachine(const SessionOptions& session, const Environment& environment);

}  // namespace millrace::cli

#endif  // MILLRACE_SRC_CLI_MEASURE_H_
