// Lanes as threads: the first compute lane on the caller's thread, every other lane that has steps on a thread of
// its own. A lane waits on the counters of others by spinning briefly, then sleeping; no worker of the task runner
// ever waits. Where a plan copies next to nothing, and that feeds and fetches alone, the caller's thread makes these copies between the nodes.
//
// On a device without data nothing is computed or copied: steps take their predicted seconds on a virtual clock.
#ifndef MILLRACE_RUNTIME_THREAD_LANE_ENGINE_H_
#define MILLRACE_RUNTIME_THREAD_LANE_ENGINE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/lane_engine.h"
#include "runtime/program.h"

namespace millrace {

// How a device of this kind copies: `destination` and `source` do not overlap. Called from lane threads.
using CopyFunction = void (*)(void* destination, const void* source, int64_t bytes);

// ResourceExhausted where the machine gives no more threads.
absl::StatusOr<std::unique_ptr<LaneEngine>> MakeThreadLaneEngine(const Program& program, const EngineOptions& options, CopyFunction copy);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_THREAD_LANE_ENGINE_H_
