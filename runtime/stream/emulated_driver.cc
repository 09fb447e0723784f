#include "stream/emulated_driver.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <glog/logging.h>

#include "absl/strings/str_cat.h"
#include "graph/exceptions.h"
#include "millrace/status.h"
#include "runtime/mapped_region.h"
#include "stream/driver_errors.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;
using Work = std::function<void()>;

struct Capture;

struct Event {
  bool timed = false;
  int64_t recorded = 0;  // Records given to streams; guarded by Machine::mutex, as all of it
  int64_t done = 0;
  Clock::time_point when;
  Capture* capture = nullptr;  // of the last Record when that was captured
  int32_t capture_lane = -1;
  int64_t capture_count = 0;
};

// One operation of a captured stream: it waits for others of the graph, then works.
struct GraphNode {
  std::vector<std::pair<int32_t, int64_t>> waits;  // lane, count of its nodes
  Work work;
};

struct Stream {
  std::deque<Work> queue;  // guarded by Machine::mutex
  bool busy = false;
  bool published_fault = false;
  bool exit = false;
  Capture* capture = nullptr;
  int32_t capture_lane = -1;
  std::thread thread;
};

struct Capture {
  Stream* origin = nullptr;
  std::vector<Stream*> members;
  std::vector<std::vector<GraphNode>> lanes;
};

struct Graph {
  std::vector<std::vector<GraphNode>> lanes;
};

uint64_t Scramble(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 29;
  return x;
}

}  // namespace

// What devices of one machine share, so that streams of one may wait for events of another and be captured together.
struct EmulatedMachine {
  // Of the calling thread.
  std::map<const void*, int64_t> pinned;
  // Queues of all streams, and all below.
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::unique_ptr<Event>> events;
  std::unique_ptr<Capture> capture;
};

namespace {

class EmulatedDriver final : public DeviceDriver {
 public:
  EmulatedDriver(std::shared_ptr<const KernelRegistry> kernels, const EmulatedOptions& options,
                 std::shared_ptr<EmulatedMachine> machine)
      : kernels_(std::move(kernels)),
        options_(options),
        machine_(std::move(machine)),
        mutex_(machine_->mutex),
        changed_(machine_->changed),
        counts_(options.counts != nullptr ? *options.counts : own_counts_) {
    info_.name = "emulated device";
    info_.total_bytes = options.device_memory_bytes;
    info_.context_bytes = options.context_bytes;
    info_.free_bytes = info_.total_bytes - info_.context_bytes;
  }
  ~EmulatedDriver() override {
    while (!streams_.empty()) DestroyStream(streams_.back().get());
    CHECK(graphs_.empty()) << "a graph that nobody destroyed";
  }

  const DriverInfo& info() const override { return info_; }
  const KernelRegistry& kernels() const override { return *kernels_; }

  absl::StatusOr<void*> AllocateDevice(int64_t bytes) override {
    MR_RETURN_IF_ERROR(CheckAlive());
    const bool refused = counts_.allocations++ == options_.faults.fail_allocation;
    if (refused || bytes > info_.free_bytes) {
      return OutOfDeviceMemory(info_.name, bytes, refused ? 0 : info_.free_bytes, info_.total_bytes);
    }
    MR_ASSIGN_OR_RETURN(MappedRegion region, MappedRegion::Create(bytes, "emulated device memory"));
    void* memory = region.data();
    info_.free_bytes -= bytes;
    arenas_.emplace(memory, std::pair(std::move(region), bytes));
    return memory;
  }
  void FreeDevice(void* memory) override {
    const auto it = arenas_.find(memory);
    if (it == arenas_.end()) return;
    info_.free_bytes += it->second.second;
    arenas_.erase(it);
  }
  void LendForTrials(void*, int64_t) override {}  // the host's kernels are not tried
  absl::StatusOr<int64_t> FreeBytes() override {
    MR_RETURN_IF_ERROR(CheckAlive());
    return info_.free_bytes;
  }
  absl::Status PinHost(void* memory, int64_t bytes) override {
    MR_RETURN_IF_ERROR(CheckAlive());
    const bool refused = counts_.pinnings++ == options_.faults.fail_pinning;
    if (refused || options_.faults.refuse_pinning) return PinningRefused(bytes, "the emulated driver was told to");
    machine_->pinned[memory] = bytes;
    return absl::OkStatus();
  }
  bool UnpinHost(void* memory) override { return machine_->pinned.erase(memory), true; }

  absl::StatusOr<DeviceStream> CreateStream() override {
    MR_RETURN_IF_ERROR(CheckAlive());
    if (counts_.streams++ == options_.faults.fail_stream) return Refused("a stream");
    streams_.push_back(std::make_unique<Stream>());
    Stream* stream = streams_.back().get();
    stream->thread = std::thread([this, stream] { StreamMain(*stream); });
    return stream;
  }
  void DestroyStream(DeviceStream handle) override {
    Stream* stream = static_cast<Stream*>(handle);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stream->exit = true;
    }
    changed_.notify_all();
    stream->thread.join();
    std::erase_if(streams_, [&](const auto& one) { return one.get() == stream; });
  }
  absl::Status Synchronize(DeviceStream handle) override {
    Stream* stream = static_cast<Stream*>(handle);
    std::unique_lock<std::mutex> lock(mutex_);
    if (stream->capture != nullptr) return absl::InternalError("cannot wait for a stream that is being captured");
    changed_.wait(lock, [&] { return stream->queue.empty() && !stream->busy; });
    return lost_ ? DeviceLost(info_.name, "synchronize") : absl::OkStatus();
  }

  absl::StatusOr<DeviceEvent> CreateEvent(bool timed) override {
    MR_RETURN_IF_ERROR(CheckAlive());
    if (counts_.events++ == options_.faults.fail_event) return Refused("an event");
    machine_->events.push_back(std::make_unique<Event>());
    machine_->events.back()->timed = timed;
    return machine_->events.back().get();
  }
  void DestroyEvent(DeviceEvent event) override {
    std::erase_if(machine_->events, [&](const auto& one) { return one.get() == event; });
  }
  absl::Status Record(DeviceEvent event_handle, DeviceStream stream_handle) override {
    Event* event = static_cast<Event*>(event_handle);
    Stream* stream = static_cast<Stream*>(stream_handle);
    std::unique_lock<std::mutex> lock(mutex_);
    if (lost_) return DeviceLost(info_.name, "record an event");
    if (stream->capture != nullptr) {
      event->capture = stream->capture;
      event->capture_lane = stream->capture_lane;
      event->capture_count = static_cast<int64_t>(stream->capture->lanes[stream->capture_lane].size());
      return absl::OkStatus();
    }
    event->capture = nullptr;
    const int64_t generation = ++event->recorded;
    stream->queue.push_back([this, event, generation] {
      std::lock_guard<std::mutex> guard(mutex_);
      event->done = std::max(event->done, generation);
      event->when = Clock::now();
    });
    lock.unlock();
    changed_.notify_all();
    return absl::OkStatus();
  }
  absl::Status WaitFor(DeviceStream stream_handle, DeviceEvent event_handle) override {
    Event* event = static_cast<Event*>(event_handle);
    Stream* stream = static_cast<Stream*>(stream_handle);
    std::unique_lock<std::mutex> lock(mutex_);
    if (lost_) return DeviceLost(info_.name, "wait for an event");
    if (event->capture != nullptr) return WaitCaptured(*stream, *event);
    if (stream->capture != nullptr) {
      return absl::InternalError("a captured stream waits for an event from outside the capture");
    }
    stream->queue.push_back([this, event, generation = event->recorded] {
      std::unique_lock<std::mutex> guard(mutex_);
      changed_.wait(guard, [&] { return event->done >= generation || lost_; });
    });
    lock.unlock();
    changed_.notify_all();
    return absl::OkStatus();
  }
  absl::Status SynchronizeEvent(DeviceEvent handle) override {
    const Event* event = static_cast<Event*>(handle);
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&, generation = event->recorded] { return event->done >= generation || lost_; });
    return lost_ ? DeviceLost(info_.name, "wait for an event") : absl::OkStatus();
  }
  absl::StatusOr<double> SecondsBetween(DeviceEvent from, DeviceEvent to) override {
    const Event *a = static_cast<Event*>(from), *b = static_cast<Event*>(to);
    std::lock_guard<std::mutex> lock(mutex_);
    if (lost_) return DeviceLost(info_.name, "read a time");
    if (!a->timed || !b->timed || a->done == 0 || b->done == 0) {
      return absl::InternalError("time between events that are not timed or have not come to pass");
    }
    return std::chrono::duration<double>(b->when - a->when).count();
  }

  absl::Status CopyToHost(void* host, const void* device, int64_t bytes, DeviceStream stream) override {
    return Copy(host, device, bytes, host, device, stream);
  }
  absl::Status CopyToDevice(void* device, const void* host, int64_t bytes, DeviceStream stream) override {
    return Copy(device, host, bytes, host, device, stream);
  }

  absl::Status Launch(const Kernel& kernel, const KernelContext& context, DeviceStream stream,
                      int64_t position) override {
    if (counts_.launches++ == options_.faults.fail_launch) return Refused("the launch", absl::StatusCode::kInternal);
    // Whether variables hold values is asked now: by the time the kernel runs, later nodes have been launched.
    std::vector<char> initialized;
    if (context.initialized != nullptr) {
      for (size_t i = 0; i < context.instance->inputs.size(); ++i) initialized.push_back(*context.initialized[i]);
    }
    return Enqueue(stream, [this, &kernel, context, position, initialized = std::move(initialized)] {
      {
        std::lock_guard<std::mutex> lock(mutex_);
        if (fault_.position >= 0) return;
      }
      std::vector<const bool*> flags;
      for (const char& flag : initialized) flags.push_back(reinterpret_cast<const bool*>(&flag));
      KernelContext now = context;
      if (!flags.empty()) now.initialized = flags.data();
      const absl::Status status = WithoutKernelExceptions([&] { return kernel.Run(now); });
      if (status.ok()) return;
      std::lock_guard<std::mutex> lock(mutex_);
      if (fault_.position < 0 || position < fault_.position) fault_ = {position, status};
    });
  }
  const GroupedKernel* Grouped(const Kernel& kernel) const override { return dynamic_cast<const GroupedKernel*>(&kernel); }
  absl::Status LaunchTogether(absl::Span<const GroupMember> members, DeviceStream stream, int64_t position) override {
    if (counts_.launches++ == options_.faults.fail_launch) return Refused("the launch", absl::StatusCode::kInternal);
    return Enqueue(stream, [this, members = std::vector<GroupMember>(members.begin(), members.end()), position] {
      {
        std::lock_guard<std::mutex> lock(mutex_);
        if (fault_.position >= 0) return;
      }
      const absl::Status status = WithoutKernelExceptions([&] { return members[0].kernel->RunTogether(members); });
      std::lock_guard<std::mutex> lock(mutex_);
      if (!status.ok() && fault_.position < 0) fault_ = {position, status};
    });
  }
  absl::Status PublishFaults(DeviceStream handle) override {
    return Enqueue(handle, [this, stream = static_cast<Stream*>(handle)] {
      std::lock_guard<std::mutex> lock(mutex_);
      stream->published_fault = fault_.position >= 0;
    });
  }
  absl::Status TakeOverFaults(DeviceStream stream, DeviceDriver&, DeviceStream from, int64_t position) override {
    return Enqueue(stream, [this, from = static_cast<Stream*>(from), position] {
      std::lock_guard<std::mutex> lock(mutex_);
      if (from->published_fault && fault_.position < 0) fault_ = {position, FailedElsewhere(), /*elsewhere=*/true};
    });
  }
  absl::StatusOr<KernelFault> TakeFault(DeviceStream, NodeAt) override {
    std::lock_guard<std::mutex> lock(mutex_);
    if (lost_) return DeviceLost(info_.name, "read the fault word");
    return std::exchange(fault_, KernelFault());
  }

  absl::Status BeginCapture(DeviceStream handle) override {
    Stream* stream = static_cast<Stream*>(handle);
    std::lock_guard<std::mutex> lock(mutex_);
    if (lost_) return DeviceLost(info_.name, "begin a capture");
    if (stream->capture != nullptr) return absl::InternalError("the stream is being captured already");
    machine_->capture = std::make_unique<Capture>();
    machine_->capture->origin = stream;
    Join(*stream, *machine_->capture);
    return absl::OkStatus();
  }
  absl::StatusOr<DeviceGraph> EndCapture(DeviceStream handle) override {
    Stream* stream = static_cast<Stream*>(handle);
    std::lock_guard<std::mutex> lock(mutex_);
    if (machine_->capture == nullptr || machine_->capture->origin != stream) return absl::InternalError("the stream began no capture");
    std::unique_ptr<Capture> capture = std::move(machine_->capture);
    for (Stream* member : capture->members) {
      member->capture = nullptr;
      member->capture_lane = -1;
    }
    for (const auto& event : machine_->events) {
      if (event->capture == capture.get()) event->capture = nullptr;
    }
    if (counts_.captures++ == options_.faults.fail_graph) return Refused("the graph");
    if (lost_) return DeviceLost(info_.name, "end a capture");
    for (size_t lane = 1; lane < capture->lanes.size(); ++lane) {
      const std::pair<int32_t, int64_t> all(lane, capture->lanes[lane].size());
      const bool joined = std::any_of(capture->lanes[0].begin(), capture->lanes[0].end(), [&](const GraphNode& node) {
        return std::find(node.waits.begin(), node.waits.end(), all) != node.waits.end();
      });
      if (!joined) return absl::InternalError("a captured stream was not waited for by the stream that began");
    }
    graphs_.push_back(std::make_unique<Graph>(Graph{std::move(capture->lanes)}));
    return graphs_.back().get();
  }
  absl::Status LaunchGraph(DeviceGraph handle, DeviceStream stream) override {
    Graph* graph = static_cast<Graph*>(handle);
    MR_RETURN_IF_ERROR(CheckAlive());
    if (counts_.graph_launches++ == options_.faults.fail_graph_launch) return Refused("the launch of the graph", absl::StatusCode::kInternal);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      static_cast<Stream*>(stream)->queue.push_back([this, graph] { RunGraph(*graph); });
    }
    changed_.notify_all();
    return absl::OkStatus();
  }
  void DestroyGraph(DeviceGraph graph) override {
    std::erase_if(graphs_, [&](const auto& one) { return one.get() == graph; });
  }
  bool CanCapture(const Kernel&) const override { return true; }

 private:
  absl::Status Refused(const char* what, absl::StatusCode code = absl::StatusCode::kResourceExhausted) const {
    return absl::Status(code, absl::StrCat(info_.name, ": ", what, " was refused (told to)"));
  }
  absl::Status CheckAlive() {
    std::lock_guard<std::mutex> lock(mutex_);
    return lost_ ? DeviceLost(info_.name, "call the driver") : absl::OkStatus();
  }

  // Requires mutex_.
  void Join(Stream& stream, Capture& capture) {
    stream.capture = &capture;
    stream.capture_lane = static_cast<int32_t>(capture.members.size());
    capture.members.push_back(&stream);
    capture.lanes.emplace_back();
  }
  absl::Status WaitCaptured(Stream& stream, const Event& event) {
    if (stream.capture == nullptr) Join(stream, *event.capture);
    if (stream.capture != event.capture) return absl::InternalError("two captures wait for each other");
    stream.capture->lanes[stream.capture_lane].push_back({{{event.capture_lane, event.capture_count}}, Work()});
    return absl::OkStatus();
  }

  // `torn` (may be empty) runs instead when the device is lost in the midst of the operation.
  absl::Status Enqueue(DeviceStream handle, Work work, Work torn = Work()) {
    Stream* stream = static_cast<Stream*>(handle);
    Work disturbed = [this, work = std::move(work), torn = std::move(torn)] {
      const Fate fate = BeforeOperation();
      if (fate == Fate::kRuns) work();
      if (fate == Fate::kTorn && torn) torn();
    };
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (lost_) return DeviceLost(info_.name, "enqueue");
      if (stream->capture != nullptr) {
        stream->capture->lanes[stream->capture_lane].push_back({{}, std::move(disturbed)});
        return absl::OkStatus();
      }
      stream->queue.push_back(std::move(disturbed));
    }
    changed_.notify_all();
    return absl::OkStatus();
  }

  enum class Fate { kRuns, kTorn, kDropped };

  // Holds up the operation that is about to run, or loses the device in it.
  Fate BeforeOperation() {
    int64_t operation;
    bool losing, lost;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      operation = counts_.operations++;
      losing = !lost_ && operation == options_.faults.lose_device;
      lost_ = lost = lost_ || losing;
    }
    if (lost) {
      changed_.notify_all();
      return losing ? Fate::kTorn : Fate::kDropped;
    }
    if (options_.max_delay_microseconds > 0) {
      const uint64_t dice = Scramble(options_.seed * 1000003 + static_cast<uint64_t>(operation));
      if (dice % 8 == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(dice / 8 % options_.max_delay_microseconds));
      }
    }
    return Fate::kRuns;
  }

  bool Within(const std::map<const void*, int64_t>& ranges, const void* memory, int64_t bytes) const {
    auto it = ranges.upper_bound(memory);
    if (it == ranges.begin()) return false;
    --it;
    return static_cast<const char*>(memory) + bytes <= static_cast<const char*>(it->first) + it->second;
  }

  absl::Status Copy(void* to, const void* from, int64_t bytes, const void* host, const void* device,
                    DeviceStream stream) {
    bool inside = false;
    for (const auto& [arena, held] : arenas_) {
      const char *begin = static_cast<const char*>(arena), *at = static_cast<const char*>(device);
      inside = inside || (at >= begin && at + bytes <= begin + held.second);
    }
    if (!inside) return absl::InternalError(absl::StrCat("a copy of ", bytes, " bytes is not in device memory"));
    const auto copy = [to, from](int64_t n) {
      if (n > 0) std::memcpy(to, from, n);
    };
    MR_RETURN_IF_ERROR(Enqueue(stream, [=] { copy(bytes); }, [=] { copy(bytes / 2); }));
    // As with CUDA: a copy of pageable memory keeps the host.
    const bool captured = static_cast<Stream*>(stream)->capture != nullptr;
    if (Within(machine_->pinned, host, bytes)) return absl::OkStatus();
    if (captured) return absl::InternalError("a copy of pageable memory cannot be captured");
    return Synchronize(stream);
  }

  void StreamMain(Stream& stream) {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stream.exit || !stream.queue.empty(); });
      if (stream.queue.empty()) return;
      Work work = std::move(stream.queue.front());
      stream.queue.pop_front();
      stream.busy = true;
      lock.unlock();
      work();
      work = nullptr;
      lock.lock();
      stream.busy = false;
      changed_.notify_all();
    }
  }

  // Each captured stream is a thread again, so that nothing but its waits orders the graph.
  void RunGraph(const Graph& graph) {
    std::mutex mutex;
    std::condition_variable moved;
    std::vector<int64_t> done(graph.lanes.size(), 0);
    const auto run_lane = [&](size_t lane) {
      for (const GraphNode& node : graph.lanes[lane]) {
        {
          std::unique_lock<std::mutex> lock(mutex);
          moved.wait(lock, [&] {
            return std::all_of(node.waits.begin(), node.waits.end(),
                               [&](const auto& wait) { return done[wait.first] >= wait.second; });
          });
        }
        if (node.work) node.work();
        {
          std::lock_guard<std::mutex> lock(mutex);
          ++done[lane];
        }
        moved.notify_all();
      }
    };
    std::vector<std::thread> threads;
    for (size_t lane = 1; lane < graph.lanes.size(); ++lane) threads.emplace_back(run_lane, lane);
    run_lane(0);
    for (std::thread& thread : threads) thread.join();
  }

  const std::shared_ptr<const KernelRegistry> kernels_;
  const EmulatedOptions options_;
  DriverInfo info_;
  const std::shared_ptr<EmulatedMachine> machine_;
  std::mutex& mutex_;
  std::condition_variable& changed_;
  // Of the calling thread.
  std::map<const void*, std::pair<MappedRegion, int64_t>> arenas_;
  // Of the calling thread, but for the operations, which mutex_ guards, as all that follows.
  EmulatedCounts own_counts_;
  EmulatedCounts& counts_;
  bool lost_ = false;
  std::vector<std::unique_ptr<Graph>> graphs_;
  KernelFault fault_;
  std::vector<std::unique_ptr<Stream>> streams_;
};

}  // namespace

std::shared_ptr<EmulatedMachine> MakeEmulatedMachine() { return std::make_shared<EmulatedMachine>(); }

absl::StatusOr<std::unique_ptr<DeviceDriver>> MakeEmulatedDriver(std::shared_ptr<const KernelRegistry> kernels,
                                                                 const EmulatedOptions& options,
                                                                 std::shared_ptr<EmulatedMachine> machine) {
  if (machine == nullptr) machine = MakeEmulatedMachine();
  return std::make_unique<EmulatedDriver>(std::move(kernels), options, std::move(machine));
}

}  // namespace millrace
