#include "runtime/thread_lane_engine.h"

#include <pthread.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <numeric>
#include <string>
#include <system_error>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/exceptions.h"
#include "graph/with_message.h"
#include "millrace/status.h"
#include "plan/step_order.h"
#include "runtime/disk_lane.h"
#include "runtime/lane_counter.h"
#include "runtime/link_pacer.h"
#include "runtime/task_runner.h"
#include "runtime/variable_store.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;

// Copies are cut into pieces of this size, so that pacing is even.
constexpr int64_t kChunkBytes = int64_t{1} << 20;

// To copy so much takes less time than to wake the threads of the lanes.
constexpr int64_t kLittleBytes = int64_t{64} << 10;

bool AllWaitsPrecede(const ExecutionPlan& plan, const StepRef& step) {
  const StepWaits& waits = WaitsOf(plan.lanes[step.lane], step.index);
  return std::all_of(waits.begin(), waits.end(), [&](const Wait& wait) {
    return wait.count == 0 || PositionOf(plan.lanes[wait.lane], wait.count - 1) < step.position;
  });
}

// Where all that a plan copies is what a step is given and gives, and little: these copies, by position. None where lanes had better have
// threads of their own.
std::vector<StepRef> LittleCopies(const ExecutionPlan& plan) {
  int64_t bytes = 0;
  for (const Lane& lane : plan.lanes) {
    for (const CopyStep& copy : lane.copies) {
      bytes += copy.bytes;
      if (bytes > kLittleBytes || (copy.host.kind != HostRef::Kind::kFeed && copy.host.kind != HostRef::Kind::kFetch)) return {};
    }
  }
  std::vector<StepRef> steps = StepsInOrder(plan);
  if (!std::all_of(steps.begin(), steps.end(), [&](const StepRef& step) { return AllWaitsPrecede(plan, step); })) return {};
  std::erase_if(steps, [&](const StepRef& step) { return plan.lanes[step.lane].kind == LaneKind::kCompute; });
  return steps;
}

// What a lane measured of a step, written by its thread alone.
struct alignas(128) LaneRecord {
  double stall_seconds = 0;
  int64_t peak_device_bytes = 0;
  int64_t peak_pool_bytes = 0;
  int64_t bytes = 0;
  double done_seconds = 0;     // when a compute lane came to rest
  double virtual_seconds = 0;  // when the lane is free, on a virtual clock
  // Ends of the steps on a virtual clock, read by other lanes after the counter says they are there.
  std::vector<double> ends;
  std::vector<TraceEvent> trace;
};

class ThreadLaneEngine final : public LaneEngine {
 public:
  ThreadLaneEngine(const Program& program, const EngineOptions& options, CopyFunction copy);
  ~ThreadLaneEngine() override;

  // The threads of all lanes but the caller's.
  absl::Status Start();
  absl::Status RunStep(const StepBindings& bindings, StepStats* stats) override;
  void LeavePool() override {
    for (const auto& disk_lane : disk_lanes_) {
      if (disk_lane != nullptr) disk_lane->LeavePool();
    }
  }
  bool holds_threads() const override { return !threads_.empty(); }

 private:
  void ThreadMain(int32_t lane);
  void RunLane(int32_t lane);
  void RunComputeLane(int32_t lane);
  void RunCopyLane(int32_t lane);
  // False after an error.
  bool RunCopyStep(int32_t lane, int64_t step, LinkPacer& pacer);
  // The caller's own that come before this position; false after an error.
  bool RunOwnCopies(int64_t position);
  // Steps [begin, end) of a compute lane in order; false after an error.
  bool RunOps(int32_t lane, int64_t begin, int64_t end);
  bool EnterAndRunOps(int32_t lane, int64_t begin, int64_t end);
  bool RunBatch(int32_t lane, const ComputeBatch& batch);
  absl::Status RunOp(int32_t lane, int64_t step);
  void RunCopy(const ProgramLane& lane, const CopyOp& op, LinkPacer& pacer);
  // False when the step has been stopped. Adds time spent to the lane's stall.
  bool WaitForAll(int32_t lane, const WaitRange& range);
  void AdvanceVirtualClock(int32_t lane, int64_t step, const WaitRange& range, double seconds);
  void Fail(int32_t lane, int64_t step, const absl::Status& status);
  void StartThreads();
  void JoinThreadsOfStep();
  void FillStats(StepStats* stats, double seconds) const;

  double Now() const { return std::chrono::duration<double>(Clock::now() - step_start_).count(); }

  const Program& program_;
  const EngineOptions options_;
  const CopyFunction copy_;
  const bool virtual_clock_;
  const int32_t num_lanes_;
  // Compute lanes that wait for each other must not hold places of the runner, of which there may be fewer than lanes:
  // then they enter for the kernels alone.
  bool enter_per_op_ = false;
  int32_t main_lane_ = -1;  // runs on the caller's thread; -1: there is no compute lane
  std::vector<StepRef> own_copies_;  // all there are, where the caller's thread makes them between the nodes, or none
  size_t next_own_copy_ = 0;
  std::unique_ptr<LaneCounter[]> counters_;
  std::vector<LaneRecord> records_;
  std::vector<std::unique_ptr<DiskLane>> disk_lanes_;  // per lane, of those that have data
  std::atomic<bool> stop_{false};
  bool recording_ = false;  // of this step
  Clock::time_point step_start_;
  const StepBindings* bindings_ = nullptr;

  std::mutex error_mutex_;
  absl::Status error_;
  int64_t error_position_ = 0;

  // Starting and ending of the lane threads' part of a step.
  std::vector<std::thread> threads_;
  std::mutex step_mutex_;
  std::condition_variable step_started_, step_finished_;
  int64_t generation_ = 0;
  int32_t running_ = 0;
  bool exit_ = false;
};

ThreadLaneEngine::ThreadLaneEngine(const Program& program, const EngineOptions& options, CopyFunction copy)
    : program_(program),
      options_(options),
      copy_(copy),
      virtual_clock_(!program.lanes().empty() && !program.lanes()[0].device->has_data()),
      num_lanes_(static_cast<int32_t>(program.lanes().size())),
      counters_(std::make_unique<LaneCounter[]>(program.lanes().size())),
      records_(program.lanes().size()),
      disk_lanes_(program.lanes().size()) {
  int32_t compute_lanes = 0;
  for (const ProgramLane& lane : program.lanes()) {
    if (lane.num_steps > 0 && lane.lane->kind == LaneKind::kCompute) ++compute_lanes;
  }
  enter_per_op_ = compute_lanes > 1;
  for (int32_t l = 0; l < num_lanes_; ++l) {
    const ProgramLane& lane = program.lanes()[l];
    if (virtual_clock_) {
      records_[l].trace.resize(lane.num_steps);
      records_[l].ends.resize(lane.num_steps);
    }
    if (IsDiskLane(lane.lane->kind) && !virtual_clock_) {
      disk_lanes_[l] = std::make_unique<DiskLane>(program, l, *options.disk, options.disk_bytes_per_second);
    }
    if (main_lane_ < 0 && lane.num_steps > 0 && lane.lane->kind == LaneKind::kCompute) main_lane_ = l;
  }
  const bool may_wait = options.link_bytes_per_second > 0 || (options.observer != nullptr && options.observer->may_wait());
  if (compute_lanes == 1 && !virtual_clock_ && !may_wait) own_copies_ = LittleCopies(program.plan());
}

absl::Status ThreadLaneEngine::Start() {
  for (int32_t l = 0; l < num_lanes_; ++l) {
    if (l == main_lane_ || program_.lanes()[l].num_steps == 0 || !own_copies_.empty()) continue;
    try {
      threads_.emplace_back([this, l] { ThreadMain(l); });
    } catch (const std::system_error& error) {
      return absl::ResourceExhaustedError(absl::StrCat("no thread for lane ", l, " of ", num_lanes_, ": ", error.what()));
    }
  }
  return absl::OkStatus();
}

ThreadLaneEngine::~ThreadLaneEngine() {
  {
    std::lock_guard<std::mutex> lock(step_mutex_);
    exit_ = true;
  }
  step_started_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadLaneEngine::ThreadMain(int32_t lane) {
  const LaneKind kind = program_.lanes()[lane].lane->kind;
  pthread_setname_np(pthread_self(), std::string(LaneKindName(kind)).c_str());
  prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);  // paced copies end within microseconds of their time
  int64_t seen = 0;
  while (true) {
    {
      std::unique_lock<std::mutex> lock(step_mutex_);
      step_started_.wait(lock, [&] { return exit_ || generation_ != seen; });
      if (exit_) return;
      seen = generation_;
    }
    RunLane(lane);
    bool last;
    {
      std::lock_guard<std::mutex> lock(step_mutex_);
      last = --running_ == 0;
    }
    if (last) step_finished_.notify_all();
  }
}

void ThreadLaneEngine::StartThreads() {
  if (threads_.empty()) return;
  {
    std::lock_guard<std::mutex> lock(step_mutex_);
    ++generation_;
    running_ = static_cast<int32_t>(threads_.size());
  }
  step_started_.notify_all();
}

void ThreadLaneEngine::JoinThreadsOfStep() {
  std::unique_lock<std::mutex> lock(step_mutex_);
  step_finished_.wait(lock, [&] { return running_ == 0; });
}

absl::Status ThreadLaneEngine::RunStep(const StepBindings& bindings, StepStats* stats) {
  bindings_ = &bindings;
  recording_ = options_.trace || bindings.record;
  stop_.store(false, std::memory_order_relaxed);
  error_ = absl::OkStatus();
  next_own_copy_ = 0;
  for (int32_t l = 0; l < num_lanes_; ++l) {
    counters_[l].Reset();
    LaneRecord& record = records_[l];
    if (recording_) record.trace.resize(program_.lanes()[l].num_steps);
    record.stall_seconds = record.done_seconds = record.virtual_seconds = 0;
    record.peak_device_bytes = record.peak_pool_bytes = record.bytes = 0;
  }
  step_start_ = Clock::now();
  StartThreads();
  if (main_lane_ >= 0) RunLane(main_lane_);
  JoinThreadsOfStep();
  const double seconds = Now();
  for (LaneRecord& record : records_) {
    if (record.done_seconds > 0) record.stall_seconds += seconds - record.done_seconds;
  }
  if (stats != nullptr) FillStats(stats, seconds);
  return error_;
}

void ThreadLaneEngine::RunLane(int32_t lane) {
  if (program_.lanes()[lane].lane->kind == LaneKind::kCompute) {
    if (enter_per_op_) {
      RunComputeLane(lane);
    } else {
      options_.runner->Enter([&] { RunComputeLane(lane); });
    }
    records_[lane].done_seconds = Now();
  } else {
    RunCopyLane(lane);
  }
}

void ThreadLaneEngine::RunComputeLane(int32_t l) {
  const ProgramLane& lane = program_.lanes()[l];
  LaneCounter& counter = counters_[l];
  int64_t& peak = records_[l].peak_device_bytes;
  for (int64_t i = 0; i < lane.num_steps;) {
    const ComputeOp& op = lane.compute[i];
    if (!RunOwnCopies(lane.lane->compute[i].position) || !WaitForAll(l, op.waits)) return;
    int64_t end = i + 1;
    if (op.batch >= 0 && options_.runner->threads() > 1) {
      const ComputeBatch& batch = lane.batches[op.batch];
      if (!RunBatch(l, batch)) return;
      end = batch.chunk_begin.back();
    } else if (!(enter_per_op_ && !virtual_clock_ ? EnterAndRunOps(l, i, end) : RunOps(l, i, end))) {
      return;
    }
    for (; i < end; ++i) peak = std::max(peak, lane.compute[i].high_water);
    counter.Publish(i);
  }
  RunOwnCopies(std::numeric_limits<int64_t>::max());
}

bool ThreadLaneEngine::RunBatch(int32_t lane, const ComputeBatch& batch) {
  std::atomic<bool> ok{true};
  options_.runner->For(static_cast<int64_t>(batch.chunk_begin.size()) - 1, [&](int64_t chunk) {
    if (!RunOps(lane, batch.chunk_begin[chunk], batch.chunk_begin[chunk + 1])) ok = false;
  });
  return ok;
}

bool ThreadLaneEngine::EnterAndRunOps(int32_t lane, int64_t begin, int64_t end) {
  bool ok = false;
  options_.runner->Enter([&] { ok = RunOps(lane, begin, end); });
  return ok;
}

bool ThreadLaneEngine::RunOps(int32_t l, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const absl::Status status = RunOp(l, i);
    if (!status.ok()) {
      Fail(l, i, status);
      return false;
    }
  }
  return true;
}

absl::Status ThreadLaneEngine::RunOp(int32_t l, int64_t step) {
  const ProgramLane& lane = program_.lanes()[l];
  const ComputeOp& op = lane.compute[step];
  LaneRecord& record = records_[l];
  if (options_.observer != nullptr) {
    const absl::Status status = options_.observer->BeforeStep(l, step);
    if (!status.ok()) return status;
  }
  if (virtual_clock_) {
    AdvanceVirtualClock(l, step, op.waits, lane.lane->compute[step].predicted_seconds);
    return absl::OkStatus();
  }
  const bool trace = recording_;
  if (trace) record.trace[step].start_seconds = Now();
  bool begun = false;
  absl::Status status = WithoutKernelExceptions([&] { return program_.RunOp(op, begun); });
  if (trace) record.trace[step].end_seconds = Now();
  if (begun || status.ok()) program_.MarkWrites(lane, op, status.ok());
  return status;
}

void ThreadLaneEngine::RunCopyLane(int32_t l) {
  DiskLane* const disk = disk_lanes_[l].get();
  LinkPacer pacer(virtual_clock_ ? 0 : options_.link_bytes_per_second);
  disk != nullptr ? disk->BeginStep() : pacer.Idle();
  for (int64_t i = 0; i < program_.lanes()[l].num_steps; ++i) {
    if (!RunCopyStep(l, i, pacer)) return;
  }
}

bool ThreadLaneEngine::RunCopyStep(int32_t l, int64_t i, LinkPacer& pacer) {
  const ProgramLane& lane = program_.lanes()[l];
  const CopyOp& op = lane.copies[i];
  LaneRecord& record = records_[l];
  DiskLane* const disk = disk_lanes_[l].get();
  const auto failed = [&](const absl::Status& status) {
    if (!status.ok()) Fail(l, i, status);
    return !status.ok();
  };
  const double stalled = record.stall_seconds;
  if (!WaitForAll(l, op.waits)) return false;
  if (record.stall_seconds > stalled) disk != nullptr ? disk->Waited() : pacer.Idle();
  if (options_.observer != nullptr && failed(options_.observer->BeforeStep(l, i))) return false;
  record.peak_device_bytes = std::max(record.peak_device_bytes, op.high_water);
  record.peak_pool_bytes = std::max(record.peak_pool_bytes, op.pool_high_water);
  record.bytes += op.step->bytes;
  if (virtual_clock_) {
    AdvanceVirtualClock(l, i, op.waits, op.step->predicted_seconds);
  } else {
    const bool trace = recording_;
    if (trace) record.trace[i].start_seconds = Now();
    if (disk == nullptr) {
      RunCopy(lane, op, pacer);
    } else if (failed(disk->Transfer(op))) {
      return false;
    }
    if (trace) record.trace[i].end_seconds = Now();
  }
  program_.MarkCopy(op, op.carries_former_value);
  counters_[l].Publish(i + 1);
  return true;
}

bool ThreadLaneEngine::RunOwnCopies(int64_t position) {
  const auto is_next = [&] { return next_own_copy_ < own_copies_.size() && own_copies_[next_own_copy_].position < position; };
  if (!is_next()) return true;
  const double from = Now();
  LinkPacer pacer(0);
  bool ok = true;
  for (; ok && is_next(); ++next_own_copy_) ok = RunCopyStep(own_copies_[next_own_copy_].lane, own_copies_[next_own_copy_].index, pacer);
  records_[main_lane_].stall_seconds += Now() - from;
  return ok;
}

void ThreadLaneEngine::RunCopy(const ProgramLane& lane, const CopyOp& op, LinkPacer& pacer) {
  const bool to_host = lane.lane->kind == LaneKind::kToHost;
  void* host = op.host_address;
  if (op.step->host.kind == HostRef::Kind::kFetch) host = bindings_->fetches[op.step->host.index];
  if (op.step->host.kind == HostRef::Kind::kFeed) host = const_cast<void*>(bindings_->feeds[op.step->host.index]);
  char* destination = static_cast<char*>(to_host ? host : op.device_address);
  const char* source = static_cast<const char*>(to_host ? op.device_address : host);
  // Once begun a copy is finished, whatever happens to the step: a variable's home is never half written.
  for (int64_t at = 0; at < op.step->bytes; at += kChunkBytes) {
    const int64_t bytes = std::min(kChunkBytes, op.step->bytes - at);
    copy_(destination + at, source + at, bytes);
    pacer.Carry(bytes);
  }
}

bool ThreadLaneEngine::WaitForAll(int32_t lane, const WaitRange& range) {
  if (stop_.load(std::memory_order_relaxed)) return false;
  const Wait* waits = program_.lanes()[lane].waits.data() + range.first;
  for (int32_t i = 0; i < range.count; ++i) {
    LaneCounter& counter = counters_[waits[i].lane];
    if (counter.count() >= waits[i].count) continue;
    const double from = Now();
    const bool reached = counter.WaitFor(waits[i].count, stop_);
    records_[lane].stall_seconds += Now() - from;
    if (!reached) return false;
  }
  return true;
}

void ThreadLaneEngine::AdvanceVirtualClock(int32_t lane, int64_t step, const WaitRange& range, double seconds) {
  LaneRecord& record = records_[lane];
  double start = record.virtual_seconds;
  const Wait* waits = program_.lanes()[lane].waits.data() + range.first;
  for (int32_t i = 0; i < range.count; ++i) {
    start = std::max(start, records_[waits[i].lane].ends[waits[i].count - 1]);
  }
  record.virtual_seconds = start + seconds;
  record.ends[step] = record.virtual_seconds;
  record.trace[step].start_seconds = start;
  record.trace[step].end_seconds = record.virtual_seconds;
}

void ThreadLaneEngine::Fail(int32_t lane, int64_t step, const absl::Status& status) {
  const Lane& l = *program_.lanes()[lane].lane;
  const int64_t position = PositionOf(l, step);
  {
    std::lock_guard<std::mutex> lock(error_mutex_);
    if (error_.ok() || position < error_position_) {
      const std::string words = WordsFor(program_.plan(), l, step);
      error_ = absl::StartsWith(status.message(), absl::StrCat(words, ": ")) ? status : WithPrefix(status, words);
      error_position_ = position;
    }
  }
  stop_.store(true, std::memory_order_seq_cst);
  for (int32_t i = 0; i < num_lanes_; ++i) counters_[i].Wake();
}

void ThreadLaneEngine::FillStats(StepStats* stats, double seconds) const {
  if (virtual_clock_) {
    seconds = 0;
    for (const LaneRecord& record : records_) seconds = std::max(seconds, record.virtual_seconds);
  }
  double compute_seconds = 0;
  stats->device_peak_bytes.assign(program_.plan().devices.size(), 0);
  for (int32_t l = 0; l < num_lanes_; ++l) {
    const Lane& lane = *program_.lanes()[l].lane;
    const LaneRecord& record = records_[l];
    if (lane.kind == LaneKind::kCompute && lane.num_steps() > 0) {
      double busy = seconds - record.stall_seconds;
      if (virtual_clock_) {
        busy = 0;
        for (const ComputeStep& step : lane.compute) busy += step.predicted_seconds;
      }
      compute_seconds = std::max(compute_seconds, busy);
    }
    const double disk_seconds = disk_lanes_[l] == nullptr ? 0 : disk_lanes_[l]->seconds();
    if (lane.kind == LaneKind::kToDisk) {
      stats->bytes_to_disk += record.bytes;
      stats->to_disk_seconds += disk_seconds;
    }
    if (lane.kind == LaneKind::kFromDisk) {
      stats->bytes_from_disk += record.bytes;
      stats->from_disk_seconds += disk_seconds;
    }
    if (lane.kind == LaneKind::kToHost) stats->bytes_to_host += record.bytes;
    if (lane.kind == LaneKind::kToDevice) stats->bytes_to_device += record.bytes;
    int64_t& peak = stats->device_peak_bytes[lane.device];
    peak = std::max(peak, record.peak_device_bytes);
    stats->peak_host_bytes = std::max(stats->peak_host_bytes, record.peak_pool_bytes);
    if (!recording_ && !virtual_clock_) continue;
    for (int64_t i = 0; i < static_cast<int64_t>(record.trace.size()); ++i) {
      stats->trace.push_back({l, i, record.trace[i].start_seconds, record.trace[i].end_seconds});
    }
  }
  stats->peak_device_bytes = std::accumulate(stats->device_peak_bytes.begin(), stats->device_peak_bytes.end(), int64_t{0});
  stats->seconds = seconds;
  stats->compute_seconds = compute_seconds;
  stats->stall_seconds = seconds - compute_seconds;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LaneEngine>> MakeThreadLaneEngine(const Program& program, const EngineOptions& options, CopyFunction copy) {
  auto engine = std::make_unique<ThreadLaneEngine>(program, options, copy);
  MR_RETURN_IF_ERROR(engine->Start());
  return engine;
}

}  // namespace millrace
