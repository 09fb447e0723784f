// Runs the lanes of a program, one training step at a time. Devices whose queues are threads share
// ThreadLaneEngine; a device with queues of its own (streams) brings its own engine.
#ifndef MILLRACE_RUNTIME_LANE_ENGINE_H_
#define MILLRACE_RUNTIME_LANE_ENGINE_H_

#include <memory>

#include "absl/status/status.h"
#include "runtime/step_stats.h"

namespace millrace {

class DiskTier;
class Program;
class TaskRunner;
struct StepBindings;

// Called before every step of every lane, on the thread that runs it.
class LaneObserver {
 public:
  virtual ~LaneObserver() = default;
  // Before step `step` of lane `lane`, after its waits. An error fails the step as the kernel's error would.
  virtual absl::Status BeforeStep(int32_t lane, int64_t step) = 0;
  // Whether a lane may be held up by it: each has a thread of its own then.
  virtual bool may_wait() const { return true; }
};

struct EngineOptions {
  TaskRunner* runner = nullptr;  // not null; outlives the engine
  double link_bytes_per_second = 0;  // pace of each copy lane; 0: as fast as copies go
  DiskTier* disk = nullptr;     // of the disk lanes; outlives the engine
  double disk_bytes_per_second = 0;
  bool trace = false;
  LaneObserver* observer = nullptr;
};

class LaneEngine {
 public:
  virtual ~LaneEngine() = default;
  // Runs one step; returns when every lane has come to rest. The error returned is that of the failed step with the
  // lowest position among those that ran; it names the node. Fills all of `stats` but peak_host_bytes' share of
  // homes and constants. One thread at a time; the caller's thread runs the first compute lane, threads of their own
  // the others.
  virtual absl::Status RunStep(const StepBindings& bindings, StepStats* stats) = 0;
  // Whether it holds threads, or queues of a device, from step to step.
  virtual bool holds_threads() const { return true; }
  // Between steps, before the host pool goes to another executor or away: lets go of what was made for it.
  virtual void LeavePool() {}
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_LANE_ENGINE_H_
