// A plan's lane as a stream: its events, and the times between them.
#ifndef MILLRACE_RUNTIME_STREAM_STREAM_LANE_H_
#define MILLRACE_RUNTIME_STREAM_STREAM_LANE_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/program.h"
#include "stream/device_driver.h"
#include "stream/owned_handle.h"

namespace millrace {

absl::StatusOr<OwnedEvent> MakeEvent(DeviceDriver& driver, bool timed);

// Events around a step, or around the waits before it.
struct Span {
  OwnedEvent from, to;
};

struct StreamLane {
  DeviceDriver* driver = nullptr;  // before all else
  OwnedStream stream;
  std::map<int64_t, OwnedEvent> reached;  // by count of steps that some lane waits for
  std::vector<Span> waits;                // of a compute lane: one per step that waits for others
  size_t next_wait = 0;                   // into `waits`, while a step is enqueued
  std::vector<Span> steps;                // once a step has been recorded
  OwnedEvent joined;                      // all of the step has been enqueued
  Span whole;                             // timed
  int64_t bytes = 0;                      // of a copy lane

  // Stream and events of `lane`, which it is.
  absl::Status Prepare(const ProgramLane& lane);
  // An event before and behind each step, from the first call on.
  absl::Status PrepareRecording(const ProgramLane& lane);

  // Between timed events that are recorded on it.
  absl::Status Begin(const Span& span) const { return driver->Record(span.from.get(), stream.get()); }
  absl::Status End(const Span& span) const { return driver->Record(span.to.get(), stream.get()); }
  // Of a compute lane whose step has run: all of it less its waits.
  absl::StatusOr<double> BusySeconds() const;
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_STREAM_STREAM_LANE_H_
