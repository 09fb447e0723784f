// The disk lanes of a plan beside its streams: in a step each is a thread of the host, which waits for what streams do by their events.
// Streams wait for no disk lane: what does in the plan is enqueued once the lane has come so far.
#ifndef MILLRACE_RUNTIME_STREAM_DISK_LANES_H_
#define MILLRACE_RUNTIME_STREAM_DISK_LANES_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "plan/step_order.h"
#include "runtime/disk_lane.h"
#include "runtime/lane_counter.h"
#include "runtime/lane_engine.h"
#include "runtime/program.h"
#include "runtime/step_stats.h"

namespace millrace {

class DiskLanes {
 public:
  using Clock = std::chrono::steady_clock;
  // Blocks until a stream has done the first `count` steps of `lane`, which have been enqueued. From any thread.
  using WaitForStream = std::function<absl::Status(int32_t lane, int64_t count)>;
  struct Failure {
    StepRef step;
    absl::Status status;
  };

  // `program` and what `options` names outlive it.
  DiskLanes(const Program& program, const EngineOptions& options);

  // Nothing goes to disk or comes from it.
  bool empty() const { return lanes_.empty(); }
  // Whether `lane` of the plan is one of them.
  bool Has(int32_t lane) const { return lane_at_[lane] >= 0; }

  // Begins the step's part of all lanes, their times counted from `start`. After an error nothing has begun.
  absl::Status Start(const WaitForStream& wait, Clock::time_point start, bool record);
  // The step of a stream's lane that comes next: the lowest position of those that follow what their lane has enqueued, and whose waits have
  // been enqueued, or done where they are of disk lanes. nullptr: there is none now.
  const StepRef* FindReady() const;
  // It has been enqueued.
  void Enqueued(const StepRef& step) { counters_[step.lane].Publish(++taken_[step.lane]); }
  // What disk lanes have done since the last call.
  std::vector<StepRef> TakeDone();
  // Blocks until a lane has done more, or failed, since the last call.
  void AwaitProgress();
  bool failed() const { return stop_; }
  // Whose step comes first in the plan, of those that ran.
  std::optional<Failure> failure() const;

  // No lane begins another step.
  void Stop();
  // Returns when all have come to rest. After Start, on any way out of a step.
  void Join();
  void LeavePool();

  // Of the last step: of transfers, and when each began and ended (while recording).
  double seconds(int32_t lane) const { return lanes_[lane_at_[lane]]->disk.seconds(); }
  const std::vector<TraceEvent>& trace(int32_t lane) const { return lanes_[lane_at_[lane]]->trace; }

 private:
  struct OneLane {
    OneLane(const Program& program, int32_t index, const EngineOptions& options)
        : lane(index), disk(program, index, *options.disk, options.disk_bytes_per_second) {}
    const int32_t lane;
    DiskLane disk;
    std::vector<TraceEvent> trace;
    std::thread thread;
  };

  void RunLane(OneLane& lane);
  absl::Status RunStep(OneLane& lane, int64_t step);
  // False when the step has been stopped; an error is the stream's.
  absl::StatusOr<bool> WaitForAll(OneLane& lane, int64_t step);
  void Fail(const OneLane& lane, int64_t step, const absl::Status& status);
  void NoteProgress();
  double Now() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  const Program& program_;
  LaneObserver* const observer_;
  std::vector<std::unique_ptr<OneLane>> lanes_;
  std::vector<std::vector<StepRef>> steps_;  // by lane of the plan
  std::vector<int32_t> lane_at_;             // by lane of the plan: into lanes_, -1 for others
  std::unique_ptr<LaneCounter[]> counters_;  // by lane of the plan: steps done, of a stream's lane steps enqueued
  // Of the step that runs.
  std::vector<int64_t> taken_;  // by lane of the plan: steps enqueued, of a disk lane those that TakeDone has named
  WaitForStream wait_;
  Clock::time_point start_;
  bool record_ = false;
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  std::condition_variable moved_;
  int64_t progress_ = 0, seen_ = 0;
  std::optional<Failure> failure_;
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_STREAM_DISK_LANES_H_
