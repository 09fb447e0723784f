#include "stream/disk_lanes.h"

#include <pthread.h>

#include <algorithm>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "graph/exceptions.h"
#include "millrace/status.h"

namespace millrace {

DiskLanes::DiskLanes(const Program& program, const EngineOptions& options)
    : program_(program),
      observer_(options.observer),
      lane_at_(program.lanes().size(), -1),
      counters_(std::make_unique<LaneCounter[]>(program.lanes().size())) {
  for (size_t l = 0; l < program.lanes().size(); ++l) {
    const ProgramLane& lane = program.lanes()[l];
    if (!IsDiskLane(lane.lane->kind) || lane.num_steps == 0) continue;
    lane_at_[l] = static_cast<int32_t>(lanes_.size());
    lanes_.push_back(std::make_unique<OneLane>(program, static_cast<int32_t>(l), options));
  }
  if (lanes_.empty()) return;
  steps_.resize(program.lanes().size());
  for (const StepRef& step : StepsInOrder(program.plan())) steps_[step.lane].push_back(step);
}

absl::Status DiskLanes::Start(const WaitForStream& wait, Clock::time_point start, bool record) {
  wait_ = wait;
  start_ = start;
  record_ = record;
  stop_ = false;
  progress_ = seen_ = 0;
  taken_.assign(lane_at_.size(), 0);
  failure_.reset();
  for (size_t l = 0; l < lane_at_.size(); ++l) counters_[l].Reset();
  for (const auto& lane : lanes_) {
    lane->trace.clear();
    try {
      lane->thread = std::thread([this, &lane = *lane] { RunLane(lane); });
    } catch (const std::system_error& error) {
      Stop();
      Join();
      return absl::ResourceExhaustedError(absl::StrCat("no thread for a disk lane: ", error.what()));
    }
  }
  return absl::OkStatus();
}

const StepRef* DiskLanes::FindReady() const {
  const StepRef* first = nullptr;
  for (size_t l = 0; l < steps_.size(); ++l) {
    const int64_t next = taken_[l];
    if (Has(static_cast<int32_t>(l)) || next == static_cast<int64_t>(steps_[l].size())) continue;
    const StepRef& step = steps_[l][next];
    if (first != nullptr && first->position < step.position) continue;
    const absl::Span<const Wait> waits = WaitsOf(program_.lanes()[l], next);
    const bool ready = std::all_of(waits.begin(), waits.end(), [&](const Wait& wait) { return counters_[wait.lane].count() >= wait.count; });
    if (ready) first = &step;
  }
  return first;
}

std::vector<StepRef> DiskLanes::TakeDone() {
  std::vector<StepRef> done;
  for (const auto& lane : lanes_) {
    int64_t& taken = taken_[lane->lane];
    for (const int64_t count = counters_[lane->lane].count(); taken < count; ++taken) done.push_back(steps_[lane->lane][taken]);
  }
  return done;
}

void DiskLanes::RunLane(OneLane& lane) {
  const ProgramLane& program_lane = program_.lanes()[lane.lane];
  pthread_setname_np(pthread_self(), std::string(LaneKindName(program_lane.lane->kind)).c_str());
  lane.disk.BeginStep();
  for (int64_t i = 0; i < program_lane.num_steps; ++i) {
    const absl::StatusOr<bool> waited = WaitForAll(lane, i);
    if (!waited.ok()) return Fail(lane, i, waited.status());
    if (!*waited) return;
    const absl::Status status = WithoutExceptions([&] { return RunStep(lane, i); });
    if (!status.ok()) return Fail(lane, i, status);
    counters_[lane.lane].Publish(i + 1);
    NoteProgress();
  }
}

absl::Status DiskLanes::RunStep(OneLane& lane, int64_t step) {
  if (observer_ != nullptr) MR_RETURN_IF_ERROR(observer_->BeforeStep(lane.lane, step));
  const double from = Now();
  MR_RETURN_IF_ERROR(lane.disk.Transfer(program_.lanes()[lane.lane].copies[step]));
  if (record_) lane.trace.push_back({lane.lane, step, from, Now()});
  return absl::OkStatus();
}

absl::StatusOr<bool> DiskLanes::WaitForAll(OneLane& lane, int64_t step) {
  for (const Wait& wait : WaitsOf(program_.lanes()[lane.lane], step)) {
    if (wait.count <= 0) continue;
    LaneCounter& counter = counters_[wait.lane];
    const bool of_disk = Has(wait.lane);
    if (of_disk && counter.count() >= wait.count) continue;
    if (!counter.WaitFor(wait.count, stop_)) return false;
    if (!of_disk) MR_RETURN_IF_ERROR(wait_(wait.lane, wait.count));
    lane.disk.Waited();
  }
  return !stop_;
}

void DiskLanes::Fail(const OneLane& lane, int64_t step, const absl::Status& status) {
  const StepRef& ref = steps_[lane.lane][step];
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!failure_.has_value() || ref.position < failure_->step.position) failure_ = {ref, status};
  }
  Stop();
}

void DiskLanes::NoteProgress() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++progress_;
  }
  moved_.notify_all();
}

void DiskLanes::AwaitProgress() {
  std::unique_lock<std::mutex> lock(mutex_);
  moved_.wait(lock, [&] { return progress_ != seen_; });
  seen_ = progress_;
}

std::optional<DiskLanes::Failure> DiskLanes::failure() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

void DiskLanes::Stop() {
  stop_ = true;
  for (size_t l = 0; l < lane_at_.size(); ++l) counters_[l].Wake();
  NoteProgress();
}

void DiskLanes::Join() {
  for (const auto& lane : lanes_) {
    if (lane->thread.joinable()) lane->thread.join();
  }
}

void DiskLanes::LeavePool() {
  for (const auto& lane : lanes_) lane->disk.LeavePool();
}

}  // namespace millrace
