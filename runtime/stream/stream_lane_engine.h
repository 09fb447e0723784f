// Lanes as streams: every step is enqueued on the stream of its lane in the order of the plan's positions, waits are
// events, and the host waits once, at the end. A plan that depends on nothing but its arguments is captured as a graph
// on its second step and replayed from then on (stream_device.h, GraphCapture).
//
// Feeds, fetches and constants go through page-locked memory of the engine's own, so that addresses do not change from
// step to step.
//
// After an error: what had been enqueued has run or been dropped when RunStep returns. All variables whose writer or
// copy home may have run count as changed.
#ifndef MILLRACE_RUNTIME_STREAM_STREAM_LANE_ENGINE_H_
#define MILLRACE_RUNTIME_STREAM_STREAM_LANE_ENGINE_H_

#include <memory>

#include "runtime/lane_engine.h"
#include "runtime/program.h"
#include "stream/stream_device.h"

namespace millrace {

// `program` and `device` outlive the engine. All lanes are of devices behind stream drivers of one kind.
std::unique_ptr<LaneEngine> MakeStreamLaneEngine(const Program& program, const EngineOptions& options,
                                                 StreamDevice& device);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_STREAM_STREAM_LANE_ENGINE_H_
