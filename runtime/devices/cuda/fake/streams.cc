#include "cuda/fake/streams.h"

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "cuda/fake/faults.h"
#include "cuda/fake/grid.h"

namespace millrace::cuda::fake {
namespace {

struct Item {
  std::function<void()> work;
  std::vector<std::shared_ptr<Item>> after;
  bool done = false;
  bool Ready() const {
    for (const auto& before : after) {
      if (!before->done) return false;
    }
    return true;
  }
};
using Link = std::shared_ptr<Item>;

// What a graph keeps for who made it, until the last of its copies is gone.
struct UserObject {
  UserObject(void* what, cudaHostFn_t destroy) : what(what), destroy(destroy) { CountObject(1); }
  UserObject(const UserObject&) = delete;
  UserObject& operator=(const UserObject&) = delete;
  ~UserObject() {
    destroy(what);
    CountObject(-1);
  }
  void* const what;
  const cudaHostFn_t destroy;
};
struct Graph {
  int device = CurrentDevice();
  std::vector<Link> items;
  std::vector<std::shared_ptr<UserObject>> objects;
};

struct Stream;
struct Capture {
  Stream* origin = nullptr;
  std::set<Stream*> streams;
  Graph graph;
  cudaError_t spoilt = cudaSuccess;
};
struct Stream {
  const int device = CurrentDevice();
  bool stuck = false;  // its first never ends
  bool asked = false;  // whether it is idle, since it was
  std::deque<Link> queue;
  Link last;
  std::shared_ptr<Capture> capture;
  Link captured;  // the last of the capture
};
struct Event {
  const int device = CurrentDevice();
  bool timed = false;
  bool asked = false;  // whether it has come to pass, since it was recorded
  Link recorded;
  std::shared_ptr<Capture> capture;  // that it was recorded in last
  std::shared_ptr<std::chrono::steady_clock::time_point> when = std::make_shared<std::chrono::steady_clock::time_point>();
  bool HasPassed() const { return recorded == nullptr || recorded->done; }
};

std::recursive_mutex mutex;
std::set<Stream*> streams;
std::set<Event*> events;
std::set<std::shared_ptr<Graph>*> executables;
bool graph_hangs = false;  // the one that has run last
std::mt19937 chance(3);
thread_local cudaError_t last_error = cudaSuccess;
thread_local std::shared_ptr<Capture> own_capture;  // that this thread has begun
thread_local bool in_host_function = false;          // which may call nothing of CUDA's

Stream* Of(cudaStream_t stream) {
  auto* const known = reinterpret_cast<Stream*>(stream);
  return streams.count(known) > 0 ? known : nullptr;
}
Event* Of(cudaEvent_t event) {
  auto* const known = reinterpret_cast<Event*>(event);
  return events.count(known) > 0 ? known : nullptr;
}

void RunUntil(const std::function<bool()>& enough);

// A stream takes so many operations that have not begun; who gives it more waits.
void MakeRoom(const Stream& stream) {
  constexpr size_t kMost = 1024;
  RunUntil([&] { return stream.queue.size() < kMost; });
  if (stream.queue.size() >= kMost) Block("a launch behind 1024 others");
  CountMost("ahead", static_cast<int64_t>(stream.queue.size()) + 1);
}

// Behind what the stream has, and `also`.
Link Add(Stream& stream, std::function<void()> work, const Link& also = nullptr) {
  auto item = std::make_shared<Item>();
  item->work = std::move(work);
  const Link& before = stream.capture != nullptr ? stream.captured : stream.last;
  if (before != nullptr) item->after.push_back(before);
  if (also != nullptr) item->after.push_back(also);
  if (stream.capture != nullptr) {
    stream.capture->graph.items.push_back(item);
    stream.captured = item;
  } else {
    MakeRoom(stream);
    stream.queue.push_back(item);
    stream.last = item;
  }
  return item;
}

// False: it never ends.
bool RunItem(const Item& item) {
  const Turn turn = item.work ? NextTurn() : Turn::kIsDropped;
  if (turn == Turn::kNeverEnds) return false;
  if (turn == Turn::kRuns) item.work();
  return !std::exchange(graph_hangs, false);
}

void RunUntil(const std::function<bool()>& enough) {
  while (!enough()) {
    std::vector<Stream*> ready;
    for (Stream* stream : streams) {
      if (!stream->stuck && !stream->queue.empty() && stream->queue.front()->Ready()) ready.push_back(stream);
    }
    if (ready.empty()) return;
    Stream* const next = ready[chance() % ready.size()];
    const Link item = next->queue.front();
    next->stuck = !RunItem(*item);
    if (next->stuck) continue;
    next->queue.pop_front();
    item->done = true;
    item->work = nullptr;
    item->after.clear();
  }
}

// As often as it is launched, in an order that its edges allow.
void RunGraph(const Graph& graph) {
  for (const Link& item : graph.items) item->done = false;
  std::vector<Link> left = graph.items;
  while (!left.empty()) {
    // Among the first few, so that long graphs stay quick.
    constexpr size_t kLooked = 16;
    std::vector<size_t> ready;
    for (size_t i = 0; i < left.size() && i < kLooked; ++i) {
      if (left[i]->Ready()) ready.push_back(i);
    }
    const size_t next = ready[chance() % ready.size()];
    const Link item = left[next];
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(next));
    graph_hangs = !RunItem(*item);
    if (graph_hangs) return;
    item->done = true;
  }
}

cudaError_t Spoil(Capture& capture, cudaError_t error) {
  capture.spoilt = error;
  return Say(error);
}

// All that the streams of the capture were given comes before the end of its origin.
bool AllJoined(const Capture& capture) {
  std::set<const Item*> before;
  std::vector<const Item*> open{capture.origin->captured.get()};
  while (!open.empty()) {
    const Item* const item = open.back();
    open.pop_back();
    if (item == nullptr || !before.insert(item).second) continue;
    for (const Link& link : item->after) open.push_back(link.get());
  }
  for (const Stream* stream : capture.streams) {
    if (stream->captured != nullptr && before.count(stream->captured.get()) == 0) return false;
  }
  return true;
}

}  // namespace

cudaError_t Say(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

cudaError_t Enqueue(cudaStream_t stream, std::function<void()> work) {
  if (const cudaError_t error = Enter(); error != cudaSuccess) return error;
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  Stream* const known = Of(stream);
  if (known == nullptr) return Say(cudaErrorInvalidResourceHandle);
  if (in_host_function) return Say(cudaErrorNotPermitted);
  if (known->capture != nullptr && known->capture->spoilt != cudaSuccess) return Say(cudaErrorStreamCaptureInvalidated);
  Add(*known, std::move(work));
  return cudaSuccess;
}

cudaError_t EnqueueKernel(cudaStream_t stream, std::function<void()> work) {
  if (DeviceOf(stream) != CurrentDevice()) return Say(cudaErrorInvalidResourceHandle);
  return Enqueue(stream, std::move(work));
}

int& CurrentDevice() {
  thread_local int device = 0;
  return device;
}

int DeviceOf(cudaStream_t stream) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  const Stream* const known = Of(stream);
  return known == nullptr ? -1 : known->device;
}

void RunAll() {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  RunUntil([] { return false; });
}

void DropStreams() {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  for (const Stream* stream : streams) delete stream;
  for (const Event* event : events) delete event;
  for (const auto* executable : executables) delete executable;
  streams.clear();
  events.clear();
  executables.clear();
}

bool IsCapturing(cudaStream_t stream) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  const Stream* const known = Of(stream);
  return known != nullptr && known->capture != nullptr;
}

bool IsStream(cudaStream_t stream) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  return Of(stream) != nullptr;
}

cudaError_t MayCall() {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  if (in_host_function) return Say(cudaErrorNotPermitted);
  return own_capture == nullptr ? cudaSuccess : Spoil(*own_capture, cudaErrorStreamCaptureUnsupported);
}

void LaunchGrid(void* stream, int64_t blocks, int threads, std::function<void()> thread) {
  if (Enter("launch") != cudaSuccess) return;
  if (blocks <= 0 || blocks > INT32_MAX || threads <= 0 || threads > 1024) {
    Say(cudaErrorInvalidConfiguration);
    return;
  }
  EnqueueKernel(static_cast<cudaStream_t>(stream),
                [blocks, threads, thread = std::move(thread)] { RunGrid(blocks, threads, thread); });
}

}  // namespace millrace::cuda::fake

using namespace millrace::cuda::fake;  // the rest has the names that CUDA gives it
using Lock = std::lock_guard<std::recursive_mutex>;

extern "C" {

// The error of a device that is lost stays.
cudaError_t cudaPeekAtLastError() { return LostWith() != cudaSuccess ? LostWith() : last_error; }
cudaError_t cudaGetLastError() {
  const cudaError_t last = std::exchange(last_error, cudaSuccess);
  return LostWith() != cudaSuccess ? LostWith() : last;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (const cudaError_t error = Enter("stream"); error != cudaSuccess) return error;
  const Lock lock(mutex);
  // One that waits for the legacy stream waits for whatever a library does there.
  if (flags != cudaStreamNonBlocking) return Say(cudaErrorInvalidValue);
  return *stream = reinterpret_cast<cudaStream_t>(*streams.insert(new Stream).first), cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Lock lock(mutex);
  Stream* const known = Of(stream);
  if (known == nullptr) return Say(cudaErrorInvalidResourceHandle);
  if (known->capture != nullptr) return Spoil(*known->capture, cudaErrorStreamCaptureUnsupported);
  RunUntil([&] { return known->queue.empty(); });
  Block("cudaStreamDestroy");
  streams.erase(known);
  delete known;
  return Enter();
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Lock lock(mutex);
  Stream* const known = Of(stream);
  if (known == nullptr) return Say(cudaErrorInvalidResourceHandle);
  if (known->capture != nullptr) return Spoil(*known->capture, cudaErrorStreamCaptureUnsupported);
  if (const cudaError_t error = MayCall(); error != cudaSuccess) return error;
  RunUntil([&] { return known->queue.empty(); });
  if (!known->queue.empty()) Block("cudaStreamSynchronize");
  return Enter();
}
// The first answer is that it is not idle, as it may be; of events, too.
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const Lock lock(mutex);
  Stream* const known = Of(stream);
  if (known == nullptr) return Say(cudaErrorInvalidResourceHandle);
  if (known->capture != nullptr) return Spoil(*known->capture, cudaErrorStreamCaptureUnsupported);
  if (const cudaError_t error = MayCall(); error != cudaSuccess) return error;
  if (!known->queue.empty() && !std::exchange(known->asked, true)) return Say(cudaErrorNotReady);
  RunUntil([&] { return known->queue.empty(); });
  if (known->stuck || !known->queue.empty()) return Say(cudaErrorNotReady);
  known->asked = false;
  return Enter();
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (const cudaError_t error = Enter(); error != cudaSuccess) return error;
  const Lock lock(mutex);
  Stream* const known = Of(stream);
  Event* const waited = Of(event);
  if (known == nullptr || waited == nullptr) return Say(cudaErrorInvalidResourceHandle);
  // CUDA waits for nothing then, which nobody here can mean.
  if (waited->recorded == nullptr) return Say(cudaErrorInvalidValue);
  if (known->capture != nullptr && waited->capture != known->capture) return Spoil(*known->capture, cudaErrorStreamCaptureIsolation);
  if (known->capture == nullptr && waited->capture != nullptr) {
    if (waited->capture->origin == nullptr) return Say(cudaErrorCapturedEvent);  // that capture has ended
    known->capture = waited->capture;
    known->captured = nullptr;
    known->capture->streams.insert(known);
  }
  Add(*known, nullptr, waited->recorded);
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  if (const cudaError_t error = Enter("launch"); error != cudaSuccess) return error;
  return Enqueue(stream, [=] {
    in_host_function = true;
    function(argument);
    in_host_function = false;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (const cudaError_t error = Enter("event"); error != cudaSuccess) return error;
  const Lock lock(mutex);
  auto* const made = *events.insert(new Event).first;
  made->timed = (flags & cudaEventDisableTiming) == 0;
  return *event = reinterpret_cast<cudaEvent_t>(made), cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Lock lock(mutex);
  if (Of(event) == nullptr) return Say(cudaErrorInvalidResourceHandle);
  CountStray(Of(event)->device);
  events.erase(Of(event));
  delete reinterpret_cast<Event*>(event);
  return Enter();
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (const cudaError_t error = Enter(); error != cudaSuccess) return error;
  const Lock lock(mutex);
  Stream* const known = Of(stream);
  Event* const record = Of(event);
  if (known == nullptr || record == nullptr || known->device != record->device) return Say(cudaErrorInvalidResourceHandle);
  record->asked = false;
  record->capture = known->capture;
  record->recorded = Add(*known, [when = record->when] { *when = std::chrono::steady_clock::now(); });
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Lock lock(mutex);
  Event* const waited = Of(event);
  if (waited == nullptr) return Say(cudaErrorInvalidResourceHandle);
  if (waited->capture != nullptr) return Say(cudaErrorCapturedEvent);
  if (const cudaError_t error = MayCall(); error != cudaSuccess) return error;
  RunUntil([&] { return waited->HasPassed(); });
  if (!waited->HasPassed()) Block("cudaEventSynchronize");
  return Enter();
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Lock lock(mutex);
  Event* const asked = Of(event);
  if (asked == nullptr) return Say(cudaErrorInvalidResourceHandle);
  if (asked->capture != nullptr) return Say(cudaErrorCapturedEvent);
  if (const cudaError_t error = MayCall(); error != cudaSuccess) return error;
  if (!asked->HasPassed() && !std::exchange(asked->asked, true)) return Say(cudaErrorNotReady);
  RunUntil([&] { return asked->HasPassed(); });
  if (!asked->HasPassed()) return Say(cudaErrorNotReady);
  asked->asked = false;
  return Enter();
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  if (const cudaError_t error = Enter(); error != cudaSuccess) return error;
  const Lock lock(mutex);
  if (Of(from) != nullptr && Of(to) != nullptr && Of(from)->device != Of(to)->device) return Say(cudaErrorInvalidResourceHandle);
  for (cudaEvent_t event : {from, to}) {
    const Event* const known = Of(event);
    if (known == nullptr || !known->timed || known->recorded == nullptr || known->capture != nullptr) {
      return Say(cudaErrorInvalidResourceHandle);
    }
    if (!known->recorded->done) return Say(cudaErrorNotReady);
    CountStray(known->device);
  }
  return *milliseconds = std::chrono::duration<float, std::milli>(*Of(to)->when - *Of(from)->when).count(), cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (const cudaError_t error = Enter(); error != cudaSuccess) return error;
  const Lock lock(mutex);
  Stream* const known = Of(stream);
  if (known == nullptr) return Say(cudaErrorInvalidResourceHandle);
  // Any other mode forbids other threads to plan meanwhile.
  if (known->capture != nullptr || own_capture != nullptr || mode != cudaStreamCaptureModeThreadLocal) {
    return Say(cudaErrorIllegalState);
  }
  own_capture = known->capture = std::make_shared<Capture>();
  known->capture->origin = known;
  known->capture->streams.insert(known);
  known->captured = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const Lock lock(mutex);
  *graph = nullptr;
  Stream* const known = Of(stream);
  if (known == nullptr) return Say(cudaErrorInvalidResourceHandle);
  const std::shared_ptr<Capture> capture = known->capture;
  if (capture == nullptr) return Say(cudaErrorIllegalState);
  if (capture->origin != known) return Say(cudaErrorStreamCaptureUnmatched);
  if (own_capture != capture) return Say(cudaErrorStreamCaptureWrongThread);
  cudaError_t error = capture->spoilt != cudaSuccess ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
  if (error == cudaSuccess && !AllJoined(*capture)) error = cudaErrorStreamCaptureUnjoined;
  if (const cudaError_t lost = Enter(); lost != cudaSuccess) error = lost;
  for (Stream* each : capture->streams) {
    each->capture = nullptr;
    each->captured = nullptr;
  }
  capture->origin = nullptr;
  own_capture = nullptr;
  if (error != cudaSuccess) return Say(error);
  return *graph = reinterpret_cast<cudaGraph_t>(new Graph(capture->graph)), cudaSuccess;
}
#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long*, cudaGraph_t* graph,
                                     const cudaGraphNode_t**, const cudaGraphEdgeData**, size_t*) {
#else
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long*, cudaGraph_t* graph,
                                     const cudaGraphNode_t**, size_t*) {
#endif
  if (const cudaError_t error = Enter(); error != cudaSuccess) return error;
  const Lock lock(mutex);
  Stream* const known = Of(stream);
  if (known == nullptr) return Say(cudaErrorInvalidResourceHandle);
  *status = known->capture != nullptr ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  if (known->capture != nullptr) *graph = reinterpret_cast<cudaGraph_t>(&known->capture->graph);
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  if (const cudaError_t error = Enter(); error != cudaSuccess) return error;
  if (!IsStream(stream)) return Say(cudaErrorInvalidResourceHandle);
  return *status = IsCapturing(stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone, cudaSuccess;
}
cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* what, cudaHostFn_t destroy, unsigned references, unsigned flags) {
  if (references != 1 || flags != cudaUserObjectNoDestructorSync) return Say(cudaErrorInvalidValue);
  if (const cudaError_t error = Enter(); error != cudaSuccess) return error;
  return *object = reinterpret_cast<cudaUserObject_t>(new std::shared_ptr<UserObject>(std::make_shared<UserObject>(what, destroy))),
         cudaSuccess;
}
cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned) {
  return delete reinterpret_cast<std::shared_ptr<UserObject>*>(object), cudaSuccess;
}
cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned references, unsigned flags) {
  if (references != 1 || flags != cudaGraphUserObjectMove) return Say(cudaErrorInvalidValue);
  if (const cudaError_t error = Enter(); error != cudaSuccess) return error;
  auto* const moved = reinterpret_cast<std::shared_ptr<UserObject>*>(object);
  reinterpret_cast<Graph*>(graph)->objects.push_back(*moved);
  return delete moved, cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  if (graph == nullptr) return Say(cudaErrorInvalidValue);
  if (const cudaError_t error = Enter("instantiate"); error != cudaSuccess) return error;
  const Lock lock(mutex);
  auto* const made = *executables.insert(new std::shared_ptr<Graph>(std::make_shared<Graph>(*reinterpret_cast<Graph*>(graph)))).first;
  return *executable = reinterpret_cast<cudaGraphExec_t>(made), cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  if (executable == nullptr) return Say(cudaErrorInvalidValue);
  if (const cudaError_t error = Enter("graph"); error != cudaSuccess) return error;
  return Enqueue(stream, [graph = *reinterpret_cast<std::shared_ptr<Graph>*>(executable)] { RunGraph(*graph); });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete reinterpret_cast<Graph*>(graph), cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  Block("cudaGraphExecDestroy");
  const Lock lock(mutex);
  auto* const known = reinterpret_cast<std::shared_ptr<Graph>*>(executable);
  CountStray((*known)->device);
  executables.erase(known);
  return delete known, cudaSuccess;
}

}  // extern "C"
