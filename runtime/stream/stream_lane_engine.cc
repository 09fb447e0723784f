#include "stream/stream_lane_engine.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <glog/logging.h>

#include "absl/strings/str_cat.h"
#include "graph/exceptions.h"
#include "graph/with_message.h"
#include "millrace/status.h"
#include "plan/step_order.h"
#include "stream/check_order.h"
#include "stream/disk_lanes.h"
#include "stream/fault_paths.h"
#include "stream/launch_group.h"
#include "stream/staged_memory.h"
#include "stream/step_faults.h"
#include "stream/stream_lane.h"
#include "stream/variable_marks.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;

class StreamLaneEngine final : public LaneEngine {
 public:
  StreamLaneEngine(const Program& program, const EngineOptions& options, StreamDevice& device)
      : program_(program), options_(options), device_(device), disk_(program, options), marks_(program) {}

  absl::Status RunStep(const StepBindings& bindings, StepStats* stats) override;
  void LeavePool() override { disk_.LeavePool(); }

 private:
  // Streams, events and staging memory, before the first step; all of them again where one was refused.
  absl::Status Prepare();
  absl::Status PrepareLane(int32_t l);
  absl::Status PrepareRecording();
  absl::Status CheckCapturable() const;
  // As of now: of the pool, when another plan has let it grow, page-locking may have been refused since.
  absl::Status Capturable() const;
  bool HasGraph() const {
    return graph_.get() != nullptr && graph_binding_ == program_.binding() && graph_initialized_ == marks_.initialized_at_start();
  }

  absl::Status RunOnStreams();
  absl::StatusOr<bool> PrepareReplay();
  absl::Status CaptureGraph();
  absl::Status Replay();
  absl::Status Fork();  // all other streams wait for the origin's
  absl::Status Join();
  absl::Status EnqueueAll();
  // The same beside disk lanes.
  absl::Status EnqueueBesideDisk();
  absl::Status EnqueueAsDiskAllows();
  // Behind the steps before `next`: what waits for others waits from here on, also for its being enqueued; behind the last the lane ends.
  absl::Status BeginWait(int32_t l, int64_t next);
  void NoteEnqueued(const StepRef& step);
  absl::Status EnqueueWaits(const StepRef& step);
  // For those who wait for the first `count` steps of the lane.
  absl::Status RecordReached(int32_t l, int64_t count);
  absl::Status MarkIfBegun(absl::Span<const StepRef> steps, absl::Status launched);
  absl::Status EnqueueCompute(const StepRef& step);
  absl::Status EnqueueCopy(int32_t l, int64_t step);
  absl::Status EnqueueStep(const StepRef& step);
  // Steps of order_ from `first` on that are one launch, with `first`; 1 where it goes alone.
  int64_t GroupAt(int64_t first);
  absl::Status EnqueueGroup(int64_t first, int64_t count);
  // Until all streams are idle; the first error of them all.
  absl::Status Drain();
  const OpInstance* NodeAt(const DeviceDriver* driver, int64_t position) const;
  absl::StatusOr<StepFaults> TakeFaults();
  absl::Status AtStep(const StepRef& step, const absl::Status& status) const;
  // That a device is lost is no matter of the step that met it.
  absl::Status AtStepUnlessLost(const StepRef& step, const absl::Status& status) const {
    return absl::IsUnavailable(status) ? status : AtStep(step, status);
  }
  const StepRef* FindPosition(const DeviceDriver* driver, int64_t position) const;

  absl::Status FillStats(double seconds, bool replayed, StepStats* stats);
  absl::Status FillTrace(StepStats* stats) const;
  // What the devices hold beside their arenas, once the code of this step's kernels has been loaded.
  absl::Status MeasureContexts();
  bool timing() const { return !capturing_; }
  bool recording() const { return recording_ && !capturing_; }

  const Program& program_;
  const EngineOptions options_;
  StreamDevice& device_;
  std::vector<StepRef> order_;
  std::vector<StreamLane> lanes_;
  int32_t origin_ = 0;  // the lane whose stream begins captures and launches graphs
  StagedMemory staged_;
  DiskLanes disk_;
  FaultPaths fault_paths_;
  bool is_prepared_ = false;
  std::vector<int64_t> peak_device_bytes_;  // per device of the plan
  int64_t peak_pool_bytes_ = 0;
  std::vector<int64_t> context_bytes_;  // per device of the plan
  bool context_is_measured_ = false;

  // Of the step that runs.
  std::vector<StepRef> enqueued_;  // or done, of disk lanes; in the order of the calls
  LaunchGroup group_;
  bool capturing_ = false;
  bool recording_ = false;  // when each of its steps begins and ends
  VariableMarks marks_;

  // What the graph was captured under.
  OwnedGraph graph_;
  int64_t graph_binding_ = -1;
  std::vector<bool> graph_initialized_;
  absl::Status capturable_;  // as of Prepare, or why a capture has failed
  int64_t warm_binding_ = -1;  // a step has run on streams since this Bind, launching what a graph would
  double busy_seconds_ = 0;    // of compute, measured on the last step that ran on streams
};

absl::Status StreamLaneEngine::Prepare() {
  order_ = StepsInOrder(program_.plan());
  lanes_.clear();
  lanes_.resize(program_.lanes().size());
  MR_RETURN_IF_ERROR(CheckOrder(program_, order_));
  fault_paths_ = FaultPaths(program_, order_);
  for (size_t l = 0; l < lanes_.size(); ++l) {
    const ProgramLane& lane = program_.lanes()[l];
    auto* device = dynamic_cast<StreamDevice*>(lane.device);
    if (device == nullptr) {
      return absl::UnimplementedError(absl::StrCat("a plan for ", device_.name(), " has a lane on ",
                                                   lane.device->name(), ", which has no streams"));
    }
    lanes_[l].driver = &device->driver();
    if (lane.lane->kind == LaneKind::kCompute && program_.lanes()[origin_].lane->kind != LaneKind::kCompute) {
      origin_ = static_cast<int32_t>(l);
    }
  }
  peak_device_bytes_.assign(program_.plan().devices.size(), 0);
  for (int32_t l = 0; l < static_cast<int32_t>(lanes_.size()); ++l) MR_RETURN_IF_ERROR(PrepareLane(l));
  // What others wait for, of each lane.
  for (const ProgramLane& lane : program_.lanes()) {
    for (const Wait& wait : lane.waits) {
      StreamLane& other = lanes_[wait.lane];
      if (disk_.Has(wait.lane) || wait.count <= 0 || other.reached.count(wait.count) > 0) continue;
      MR_ASSIGN_OR_RETURN(other.reached[wait.count], MakeEvent(*other.driver, /*timed=*/false));
    }
  }
  MR_RETURN_IF_ERROR(staged_.Prepare(program_, device_));
  capturable_ = CheckCapturable();
  return absl::OkStatus();
}

absl::Status StreamLaneEngine::PrepareLane(int32_t l) {
  const ProgramLane& lane = program_.lanes()[l];
  MR_RETURN_IF_ERROR(lanes_[l].Prepare(lane));
  int64_t& peak_device_bytes = peak_device_bytes_[lane.lane->device];
  for (const ComputeOp& op : lane.compute) peak_device_bytes = std::max(peak_device_bytes, op.high_water);
  for (const CopyOp& op : lane.copies) {
    peak_device_bytes = std::max(peak_device_bytes, op.high_water);
    peak_pool_bytes_ = std::max(peak_pool_bytes_, op.pool_high_water);
  }
  return absl::OkStatus();
}

absl::Status StreamLaneEngine::PrepareRecording() {
  for (size_t l = 0; l < lanes_.size(); ++l) {
    if (!disk_.Has(static_cast<int32_t>(l))) MR_RETURN_IF_ERROR(lanes_[l].PrepareRecording(program_.lanes()[l]));
  }
  return absl::OkStatus();
}

absl::Status StreamLaneEngine::CheckCapturable() const {
  if (!staged_.pinned()) return absl::FailedPreconditionError("host memory could not be page-locked");
  if (!disk_.empty()) return absl::FailedPreconditionError("what is on disk comes and goes by the host in every step");
  for (const ProgramLane& lane : program_.lanes()) {
    for (const ComputeOp& op : lane.compute) {
      if (op.dynamic == nullptr && lanes_[origin_].driver->CanCapture(*op.kernel)) continue;
      const OpInstance& instance = *op.context.instance;
      return absl::FailedPreconditionError(
          absl::StrCat("node '", instance.name, "' (", instance.op, ") depends on the host in every step"));
    }
  }
  return absl::OkStatus();
}

absl::Status StreamLaneEngine::Capturable() const {
  if (!capturable_.ok() || device_.pinning().ok()) return capturable_;
  return absl::FailedPreconditionError("host memory could not be page-locked");
}

absl::Status StreamLaneEngine::AtStep(const StepRef& step, const absl::Status& status) const {
  return WithPrefix(status, WordsFor(program_.plan(), *program_.lanes()[step.lane].lane, step.index));
}

const StepRef* StreamLaneEngine::FindPosition(const DeviceDriver* driver, int64_t position) const {
  auto it = std::lower_bound(order_.begin(), order_.end(), position,
                             [](const StepRef& step, int64_t p) { return step.position < p; });
  while (it != order_.end() && lanes_[it->lane].driver != driver) ++it;
  return it == order_.end() ? nullptr : &*it;
}

const OpInstance* StreamLaneEngine::NodeAt(const DeviceDriver* driver, int64_t position) const {
  const StepRef* const step = FindPosition(driver, position);
  if (step == nullptr || program_.lanes()[step->lane].lane->kind != LaneKind::kCompute) return nullptr;
  const ComputeOp& op = program_.lanes()[step->lane].compute[step->index];
  return op.dynamic != nullptr ? &op.dynamic->instance() : op.context.instance;
}

absl::StatusOr<StepFaults> StreamLaneEngine::TakeFaults() {
  StepFaults faults;
  absl::Status status;
  std::set<const DeviceDriver*> taken;
  for (const StreamLane& lane : lanes_) {
    const auto node_at = [&](int64_t position) { return NodeAt(lane.driver, position); };
    if (taken.insert(lane.driver).second) status.Update(faults.Take(*lane.driver, lane.stream.get(), node_at));
  }
  MR_RETURN_IF_ERROR(status);
  return faults;
}

absl::Status StreamLaneEngine::EnqueueWaits(const StepRef& step) {
  StreamLane& lane = lanes_[step.lane];
  const absl::Span<const Wait> waits = WaitsOf(program_.lanes()[step.lane], step.index);
  if (waits.empty()) return absl::OkStatus();
  const bool compute = program_.lanes()[step.lane].lane->kind == LaneKind::kCompute;
  const Span* const timed = compute && timing() ? &lane.waits[lane.next_wait++] : nullptr;
  // Beside disk lanes it has begun behind the step before this one.
  if (timed != nullptr && disk_.empty()) MR_RETURN_IF_ERROR(lane.Begin(*timed));
  for (const Wait& wait : waits) {
    if (wait.count <= 0 || disk_.Has(wait.lane)) continue;
    MR_RETURN_IF_ERROR(lane.driver->WaitFor(lane.stream.get(), lanes_[wait.lane].reached.at(wait.count).get()));
  }
  for (const int32_t other : fault_paths_.TakenOver(step)) {
    const StreamLane& from = lanes_[other];
    MR_RETURN_IF_ERROR(lane.driver->TakeOverFaults(lane.stream.get(), *from.driver, from.stream.get(), step.position));
  }
  return timed == nullptr ? absl::OkStatus() : lane.End(*timed);
}

absl::Status StreamLaneEngine::RecordReached(int32_t l, int64_t count) {
  const StreamLane& lane = lanes_[l];
  const auto reached = lane.reached.find(count);
  if (reached == lane.reached.end()) return absl::OkStatus();
  if (fault_paths_.Publishes(l, count)) MR_RETURN_IF_ERROR(lane.driver->PublishFaults(lane.stream.get()));
  return lane.driver->Record(reached->second.get(), lane.stream.get());
}

// One launch of several may have gone before the one that was refused. What a device has written that is lost is lost with it: the value at
// home is the one from before.
absl::Status StreamLaneEngine::MarkIfBegun(absl::Span<const StepRef> steps, absl::Status launched) {
  if (launched.ok() || absl::IsUnavailable(launched)) return launched;
  for (const StepRef& step : steps) marks_.MarkBegun(step);
  return launched;
}

absl::Status StreamLaneEngine::EnqueueCompute(const StepRef& step) {
  const ComputeOp& op = program_.lanes()[step.lane].compute[step.index];
  const StreamLane& lane = lanes_[step.lane];
  KernelContext context = op.context;
  context.stream = lane.stream.get();
  if (op.dynamic == nullptr) {
    return MarkIfBegun({&step, 1}, WithoutKernelExceptions([&] { return lane.driver->Launch(*op.kernel, context, lane.stream.get(), step.position); }));
  }
  // The host must know the shapes of what it launches next.
  MR_RETURN_IF_ERROR(lane.driver->Synchronize(lane.stream.get()));
  bool begun = false;
  const auto launch = [&](const Kernel& kernel, const KernelContext& now) -> absl::Status {
    begun = true;
    const auto run = [&]() -> absl::Status {
      MR_RETURN_IF_ERROR(lane.driver->Launch(kernel, now, lane.stream.get(), step.position));
      return lane.driver->Synchronize(lane.stream.get());
    };
    return WithoutKernelExceptions(run);
  };
  const absl::Status ran = op.dynamic->Run(context, program_.dynamic_shapes(), launch);
  return begun ? MarkIfBegun({&step, 1}, ran) : ran;
}

absl::Status StreamLaneEngine::EnqueueCopy(int32_t l, int64_t step) {
  const CopyOp& op = program_.lanes()[l].copies[step];
  const StreamLane& lane = lanes_[l];
  if (op.step->bytes == 0) return absl::OkStatus();
  void* staged = staged_.Find(op.step->host);
  void* host = staged != nullptr ? staged : op.host_address;
  if (program_.lanes()[l].lane->kind == LaneKind::kToHost) {
    return lane.driver->CopyToHost(host, op.device_address, op.step->bytes, lane.stream.get());
  }
  return lane.driver->CopyToDevice(op.device_address, host, op.step->bytes, lane.stream.get());
}

absl::Status StreamLaneEngine::EnqueueStep(const StepRef& step) {
  const ProgramLane& lane = program_.lanes()[step.lane];
  StreamLane& out = lanes_[step.lane];
  const bool compute = lane.lane->kind == LaneKind::kCompute;
  if (options_.observer != nullptr) MR_RETURN_IF_ERROR(options_.observer->BeforeStep(step.lane, step.index));
  MR_RETURN_IF_ERROR(EnqueueWaits(step));
  const Span* span = recording() ? &out.steps[step.index] : nullptr;
  if (span != nullptr) MR_RETURN_IF_ERROR(out.Begin(*span));
  MR_RETURN_IF_ERROR(compute ? WithoutExceptions([&] { return EnqueueCompute(step); })
                             : EnqueueCopy(step.lane, step.index));
  NoteEnqueued(step);  // whatever is refused behind it
  if (span != nullptr) MR_RETURN_IF_ERROR(out.End(*span));
  return RecordReached(step.lane, step.index + 1);
}

absl::Status StreamLaneEngine::EnqueueAll() {
  for (StreamLane& lane : lanes_) lane.next_wait = 0;
  enqueued_.clear();
  if (!disk_.empty()) return EnqueueBesideDisk();
  while (enqueued_.size() < order_.size()) {
    const int64_t first = static_cast<int64_t>(enqueued_.size());
    const StepRef& step = order_[first];
    const int64_t count = GroupAt(first);
    const absl::Status status = count > 1 ? EnqueueGroup(first, count) : EnqueueStep(step);
    if (!status.ok()) return AtStepUnlessLost(step, status);
  }
  return absl::OkStatus();
}

void StreamLaneEngine::NoteEnqueued(const StepRef& step) {
  marks_.Mark(step);
  enqueued_.push_back(step);
}

absl::Status StreamLaneEngine::EnqueueBesideDisk() {
  const auto wait = [this](int32_t lane, int64_t count) {
    return lanes_[lane].driver->SynchronizeEvent(lanes_[lane].reached.at(count).get());
  };
  for (int32_t l = 0; l < static_cast<int32_t>(lanes_.size()); ++l) MR_RETURN_IF_ERROR(BeginWait(l, 0));
  MR_RETURN_IF_ERROR(disk_.Start(wait, Clock::now(), recording()));
  const absl::Status status = EnqueueAsDiskAllows();
  if (!status.ok()) disk_.Stop();
  disk_.Join();
  for (const StepRef& step : disk_.TakeDone()) NoteEnqueued(step);
  const std::optional<DiskLanes::Failure> failure = disk_.failure();
  if (!status.ok() || !failure.has_value()) return status;
  return AtStepUnlessLost(failure->step, failure->status);
}

absl::Status StreamLaneEngine::BeginWait(int32_t l, int64_t next) {
  const ProgramLane& lane = program_.lanes()[l];
  const StreamLane& out = lanes_[l];
  if (next == lane.num_steps) return out.End(out.whole);
  const bool waits = lane.lane->kind == LaneKind::kCompute && lane.compute[next].waits.count > 0;
  return waits ? out.Begin(out.waits[out.next_wait]) : absl::OkStatus();
}

// Streams never wait for the host: what waits for a disk lane is enqueued when that has come so far, and what does not wait for it
// goes before it meanwhile.
absl::Status StreamLaneEngine::EnqueueAsDiskAllows() {
  while (!disk_.failed()) {
    const StepRef* const step = disk_.FindReady();
    // Behind the look, so that all that the step waited for is noted before it: what it writes is not at home, whoever read it before.
    for (const StepRef& done : disk_.TakeDone()) NoteEnqueued(done);
    if (step == nullptr) {
      if (enqueued_.size() == order_.size()) return absl::OkStatus();
      disk_.AwaitProgress();
      continue;
    }
    absl::Status status = EnqueueStep(*step);
    if (status.ok()) status = BeginWait(step->lane, step->index + 1);
    if (!status.ok()) return AtStepUnlessLost(*step, status);
    disk_.Enqueued(*step);
  }
  return absl::OkStatus();
}

// Steps that follow one another in the plan and on one lane, without waits in between.
int64_t StreamLaneEngine::GroupAt(int64_t first) {
  group_.Clear();
  if (recording() || options_.observer != nullptr) return 1;
  const int32_t l = order_[first].lane;
  const ProgramLane& lane = program_.lanes()[l];
  if (lane.lane->kind != LaneKind::kCompute) return 1;
  for (int64_t i = first; i < static_cast<int64_t>(order_.size()) && order_[i].lane == l; ++i) {
    const ComputeOp& op = lane.compute[order_[i].index];
    const GroupedKernel* kernel = op.dynamic == nullptr ? lanes_[l].driver->Grouped(*op.kernel) : nullptr;
    if (kernel == nullptr || (i > first && op.waits.count > 0)) break;
    KernelContext context = op.context;
    context.stream = lanes_[l].stream.get();
    if (!group_.Add(*kernel, context)) break;
    // Others wait for this step: what follows must not keep them.
    if (lanes_[l].reached.count(order_[i].index + 1) > 0) break;
  }
  return std::max<int64_t>(static_cast<int64_t>(group_.members().size()), 1);
}

absl::Status StreamLaneEngine::EnqueueGroup(int64_t first, int64_t count) {
  const int32_t l = order_[first].lane;
  const StreamLane& out = lanes_[l];
  MR_RETURN_IF_ERROR(EnqueueWaits(order_[first]));
  const auto launch = [&] { return out.driver->LaunchTogether(group_.members(), out.stream.get(), order_[first].position); };
  MR_RETURN_IF_ERROR(MarkIfBegun(absl::MakeConstSpan(order_).subspan(first, count), WithoutKernelExceptions(launch)));
  for (int64_t i = 0; i < count; ++i) NoteEnqueued(order_[first + i]);
  return RecordReached(l, order_[first + count - 1].index + 1);
}

absl::Status StreamLaneEngine::Fork() {
  const StreamLane& origin = lanes_[origin_];
  MR_RETURN_IF_ERROR(origin.driver->Record(origin.joined.get(), origin.stream.get()));
  for (StreamLane& lane : lanes_) {
    if (&lane != &origin) MR_RETURN_IF_ERROR(lane.driver->WaitFor(lane.stream.get(), origin.joined.get()));
  }
  return absl::OkStatus();
}

absl::Status StreamLaneEngine::Join() {
  const StreamLane& origin = lanes_[origin_];
  for (StreamLane& lane : lanes_) {
    if (&lane == &origin) continue;
    MR_RETURN_IF_ERROR(lane.driver->Record(lane.joined.get(), lane.stream.get()));
    MR_RETURN_IF_ERROR(origin.driver->WaitFor(origin.stream.get(), lane.joined.get()));
  }
  return absl::OkStatus();
}

absl::Status StreamLaneEngine::CaptureGraph() {
  const StreamLane& origin = lanes_[origin_];
  graph_ = OwnedGraph();
  MR_RETURN_IF_ERROR(origin.driver->BeginCapture(origin.stream.get()));
  capturing_ = true;
  absl::Status status = Fork();
  if (status.ok()) status = EnqueueAll();
  if (status.ok()) status = Join();
  capturing_ = false;
  marks_.Forget();  // nothing has run
  enqueued_.clear();
  // Also after an error, so that the streams are usable again; a graph of what was enqueued before it is nobody's.
  const absl::StatusOr<DeviceGraph> ended = origin.driver->EndCapture(origin.stream.get());
  OwnedGraph graph = ended.ok() ? OwnedGraph(origin.driver, *ended) : OwnedGraph();
  MR_RETURN_IF_ERROR(status);
  MR_RETURN_IF_ERROR(ended.status());
  graph_ = std::move(graph);
  graph_binding_ = program_.binding();
  graph_initialized_ = marks_.initialized_at_start();
  context_is_measured_ = false;
  return absl::OkStatus();
}

absl::Status StreamLaneEngine::RunOnStreams() {
  for (const StreamLane& lane : lanes_) MR_RETURN_IF_ERROR(lane.Begin(lane.whole));
  MR_RETURN_IF_ERROR(EnqueueAll());
  if (!disk_.empty()) return absl::OkStatus();  // each has ended behind its last step
  for (const StreamLane& lane : lanes_) MR_RETURN_IF_ERROR(lane.End(lane.whole));
  return absl::OkStatus();
}

absl::Status StreamLaneEngine::Drain() {
  absl::Status first;
  for (StreamLane& lane : lanes_) first.Update(lane.driver->Synchronize(lane.stream.get()));
  return first;
}

// Whether this step is replayed, capturing it when that has not been done.
absl::StatusOr<bool> StreamLaneEngine::PrepareReplay() {
  const GraphCapture mode = device_.graph_capture();
  const absl::Status capturable = HasGraph() ? absl::OkStatus() : Capturable();
  if (mode == GraphCapture::kOn && !capturable.ok()) {
    return WithPrefix(capturable, "the step cannot be captured");
  }
  // The first step after a Bind warms up what kernels and libraries set up when they are first used.
  if (mode == GraphCapture::kOff || !capturable.ok() || recording_ || options_.observer != nullptr ||
      warm_binding_ != program_.binding()) {
    return false;
  }
  if (HasGraph()) return true;
  const absl::Status captured = CaptureGraph();
  if (captured.ok()) return true;
  if (mode == GraphCapture::kOn || absl::IsUnavailable(captured)) return captured;
  LOG(WARNING) << device_.name() << ": steps run without a graph: " << captured.message();
  capturable_ = captured;
  return false;
}

absl::Status StreamLaneEngine::Replay() {
  const StreamLane& origin = lanes_[origin_];
  MR_RETURN_IF_ERROR(origin.driver->LaunchGraph(graph_.get(), origin.stream.get()));
  enqueued_ = order_;
  for (const StepRef& step : order_) marks_.Mark(step);
  // Other devices run their part of it, too, and their streams hold nothing: they wait for its end, so that each device is given up where
  // that does not come.
  const bool one_device = std::all_of(lanes_.begin(), lanes_.end(), [&](const StreamLane& lane) { return lane.driver == origin.driver; });
  return one_device ? absl::OkStatus() : Fork();
}

absl::Status StreamLaneEngine::RunStep(const StepBindings& bindings, StepStats* stats) {
  const Clock::time_point start = Clock::now();
  if (!is_prepared_) MR_RETURN_IF_ERROR(Prepare());
  is_prepared_ = true;
  recording_ = options_.trace || bindings.record;
  if (recording_) MR_RETURN_IF_ERROR(PrepareRecording());
  marks_.BeginStep();
  staged_.TakeFeeds(bindings, *options_.runner);
  enqueued_.clear();
  absl::StatusOr<bool> replays = PrepareReplay();
  MR_RETURN_IF_ERROR(replays.status());
  absl::Status status = *replays ? Replay() : RunOnStreams();
  // Whatever went wrong: nothing is in flight when this returns, but on a device that is lost.
  const absl::Status drained = Drain();
  if (!status.ok() && !absl::IsUnavailable(status) && absl::IsUnavailable(drained)) {
    // A library has its own words for what it meets on a device that is lost.
    status = WithMessage(drained, absl::StrCat(drained.message(), "; met first as: ", status.message()));
  }
  status.Update(drained);
  const absl::StatusOr<StepFaults> faults = TakeFaults();
  status.Update(faults.status());
  const bool failed = faults.ok() && !faults->empty();
  if (failed) marks_.MarkAfterFaults(enqueued_, [&](int32_t lane) { return faults->StopOf(lanes_[lane].driver); });
  if (!drained.ok()) marks_.ForgetCopiesHome();
  if (failed) {
    const StepFaults::First first = faults->first();
    const StepRef* step = FindPosition(first.driver, first.fault.position);
    return step == nullptr ? first.fault.status : AtStep(*step, first.fault.status);
  }
  MR_RETURN_IF_ERROR(status);
  // A step that is recorded launches each kernel by itself: those that go together have not been loaded.
  if (!recording_) warm_binding_ = program_.binding();
  staged_.GiveFetches(bindings, *options_.runner);
  if (stats == nullptr) return absl::OkStatus();
  return FillStats(std::chrono::duration<double>(Clock::now() - start).count(), *replays, stats);
}

absl::Status StreamLaneEngine::MeasureContexts() {
  if (context_is_measured_) return absl::OkStatus();
  context_bytes_.assign(program_.plan().devices.size(), 0);
  for (const ProgramLane& lane : program_.lanes()) {
    auto* device = dynamic_cast<StreamDevice*>(lane.device);
    if (lane.lane->kind != LaneKind::kCompute) continue;
    MR_ASSIGN_OR_RETURN(context_bytes_[lane.lane->device], device->ContextBytes());
  }
  context_is_measured_ = true;
  return absl::OkStatus();
}

absl::Status StreamLaneEngine::FillStats(double seconds, bool replayed, StepStats* stats) {
  stats->seconds = seconds;
  stats->replayed = replayed;
  stats->device_peak_bytes = peak_device_bytes_;
  stats->peak_device_bytes = std::accumulate(peak_device_bytes_.begin(), peak_device_bytes_.end(), int64_t{0});
  stats->peak_host_bytes = peak_pool_bytes_;
  MR_RETURN_IF_ERROR(MeasureContexts());
  stats->device_context_bytes = context_bytes_;
  if (!replayed) busy_seconds_ = 0;
  for (int32_t l = 0; l < static_cast<int32_t>(lanes_.size()); ++l) {
    const StreamLane& lane = lanes_[l];
    const LaneKind kind = program_.lanes()[l].lane->kind;
    if (kind == LaneKind::kToHost) stats->bytes_to_host += lane.bytes;
    if (kind == LaneKind::kToDevice) stats->bytes_to_device += lane.bytes;
    if (disk_.Has(l)) {
      (kind == LaneKind::kToDisk ? stats->bytes_to_disk : stats->bytes_from_disk) += lane.bytes;
      (kind == LaneKind::kToDisk ? stats->to_disk_seconds : stats->from_disk_seconds) += disk_.seconds(l);
    }
    if (kind != LaneKind::kCompute || replayed) continue;
    MR_ASSIGN_OR_RETURN(const double busy, lane.BusySeconds());
    busy_seconds_ = std::max(busy_seconds_, busy);
  }
  // A replayed graph has no events inside: its kernels are those of the step that was measured.
  stats->compute_seconds = std::min(busy_seconds_, seconds);
  stats->stall_seconds = seconds - stats->compute_seconds;
  return recording_ ? FillTrace(stats) : absl::OkStatus();
}

absl::Status StreamLaneEngine::FillTrace(StepStats* stats) const {
  for (int32_t l = 0; l < static_cast<int32_t>(lanes_.size()); ++l) {
    const StreamLane& lane = lanes_[l];
    if (disk_.Has(l)) stats->trace.insert(stats->trace.end(), disk_.trace(l).begin(), disk_.trace(l).end());
    for (int64_t i = 0; i < static_cast<int64_t>(lane.steps.size()); ++i) {
      MR_ASSIGN_OR_RETURN(const double from,
                          lane.driver->SecondsBetween(lane.whole.from.get(), lane.steps[i].from.get()));
      MR_ASSIGN_OR_RETURN(const double to, lane.driver->SecondsBetween(lane.whole.from.get(), lane.steps[i].to.get()));
      stats->trace.push_back({l, i, from, to});
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<LaneEngine> MakeStreamLaneEngine(const Program& program, const EngineOptions& options,
                                                 StreamDevice& device) {
  return std::make_unique<StreamLaneEngine>(program, options, device);
}

}  // namespace millrace
