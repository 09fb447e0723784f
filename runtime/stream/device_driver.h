// What a device with streams can do, as its driver offers it: memory, streams, events, copies, kernel launches,
// graphs. The stream engine is written against this, so that the same engine runs on CUDA (devices/cuda) and on
// threads of the host (emulated_driver.h).
//
// Everything that takes a stream returns at once and takes effect in the order of the stream's calls. Calls come from
// one thread at a time. Errors name the call; an error of a device that is lost (Unavailable) repeats on every later
// call.
#ifndef MILLRACE_RUNTIME_STREAM_DEVICE_DRIVER_H_
#define MILLRACE_RUNTIME_STREAM_DEVICE_DRIVER_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "millrace/kernel.h"
#include "stream/grouped_kernel.h"

namespace millrace {

// Handles of the driver's objects. nullptr is none.
using DeviceStream = void*;
using DeviceEvent = void*;
using DeviceGraph = void*;

struct DriverInfo {
  std::string name;                // "NVIDIA H200"
  int compute_capability = 0;      // 90 for 9.0; 0 on the host
  int driver_version = 0;          // 13000: what the driver supports
  int runtime_version = 0;         // 13000: what the device code was built for
  int64_t total_bytes = 0;         // device memory
  int64_t free_bytes = 0;          // of it, when the driver had been opened
  int64_t context_bytes = 0;       // of it, what was not free then: the context, and what other programs have
  int32_t numa_node = -1;          // of the host memory near the device; -1: unknown
  double flops_per_second = 0;     // float32; 0: unknown
  double memory_bytes_per_second = 0;
};

// The first kernel, by position in the plan, that failed while it ran.
struct KernelFault {
  int64_t position = -1;  // -1: none did
  absl::Status status;
  // It was one of another device: no kernel from `position` on has written anything.
  bool elsewhere = false;
};

class DeviceDriver {
 public:
  virtual ~DeviceDriver() = default;
  virtual const DriverInfo& info() const = 0;
  // They live as long as the driver and may be launched by it alone.
  virtual const KernelRegistry& kernels() const = 0;

  // ResourceExhausted names the bytes asked for and what is free.
  virtual absl::StatusOr<void*> AllocateDevice(int64_t bytes) = 0;
  virtual void FreeDevice(void* memory) = 0;
  // Device memory that nobody else uses until the next call: kernels that are planned meanwhile may be tried there, and from the
  // first call on nowhere else. nullptr: there is none. When this returns no trial is on its way in what was lent before. Not
  // while a step is captured; another thread may be planning.
  virtual void LendForTrials(void* memory, int64_t bytes) = 0;
  // Kernels that have been made can be launched at once: waits for those that are still being compiled, and asks again for what
  // memory was short for. Not while a step is captured.
  virtual absl::Status LoadKernels() { return absl::OkStatus(); }
  // Of device memory, now: libraries load their code when it is first used, and other programs come and go.
  virtual absl::StatusOr<int64_t> FreeBytes() = 0;
  // Page-locks memory of the host that is there already.
  virtual absl::Status PinHost(void* memory, int64_t bytes) = 0;
  // False: the device may use it still, so that it must stay mapped until the process ends.
  virtual bool UnpinHost(void* memory) = 0;

  virtual absl::StatusOr<DeviceStream> CreateStream() = 0;
  virtual void DestroyStream(DeviceStream stream) = 0;
  // Blocks until the stream has done all it was given, or the driver counts the device as lost.
  virtual absl::Status Synchronize(DeviceStream stream) = 0;

  virtual absl::StatusOr<DeviceEvent> CreateEvent(bool timed) = 0;
  virtual void DestroyEvent(DeviceEvent event) = 0;
  virtual absl::Status Record(DeviceEvent event, DeviceStream stream) = 0;
  // What comes later on `stream` waits for the last Record of `event`.
  virtual absl::Status WaitFor(DeviceStream stream, DeviceEvent event) = 0;
  // Blocks until the last Record of `event` has come to pass, or the driver counts the device as lost. From any thread, also beside
  // calls from another one.
  virtual absl::Status SynchronizeEvent(DeviceEvent event) = 0;
  // Between two timed events that have both come to pass.
  virtual absl::StatusOr<double> SecondsBetween(DeviceEvent from, DeviceEvent to) = 0;

  // Host memory that is not page-locked makes these slow, not wrong.
  virtual absl::Status CopyToHost(void* host, const void* device, int64_t bytes, DeviceStream stream) = 0;
  virtual absl::Status CopyToDevice(void* device, const void* host, int64_t bytes, DeviceStream stream) = 0;

  // `context` and what it points to, but for `initialized`, stay until the stream has run it. Errors are those of the
  // launch; what goes wrong while the kernel runs is a fault of `position`. After a fault kernels on this stream write
  // no variables.
  virtual absl::Status Launch(const Kernel& kernel, const KernelContext& context, DeviceStream stream,
                              int64_t position) = 0;
  // The kernel as one of which several may be one launch; nullptr: it is none.
  virtual const GroupedKernel* Grouped(const Kernel& kernel) const = 0;
  // Launch for members of equal group(), at once. A fault before them leaves all of them without effect.
  virtual absl::Status LaunchTogether(absl::Span<const GroupMember> members, DeviceStream stream, int64_t position) = 0;
  // What the device knows of faults by then, on `stream`, is there for TakeOverFaults behind an event that is recorded next. Again before
  // every event that it is taken over behind.
  virtual absl::Status PublishFaults(DeviceStream stream) = 0;
  // Where `from`, a stream of `other`, has published a fault, it is one of this device, too, of `position`. `other` is a driver of the same kind.
  virtual absl::Status TakeOverFaults(DeviceStream stream, DeviceDriver& other, DeviceStream from, int64_t position) = 0;
  // The node whose step is at that position; nullptr: none.
  using NodeAt = absl::FunctionRef<const OpInstance*(int64_t position)>;
  // The first fault since the last call, in the words of its node. All streams are idle.
  virtual absl::StatusOr<KernelFault> TakeFault(DeviceStream stream, NodeAt node_at) = 0;

  // From BeginCapture to EndCapture, what is given to `stream`, and to streams that wait for events recorded on it, is
  // kept instead of run. All of them must have been waited for by `stream` at the end.
  virtual absl::Status BeginCapture(DeviceStream stream) = 0;
  virtual absl::StatusOr<DeviceGraph> EndCapture(DeviceStream stream) = 0;
  virtual absl::Status LaunchGraph(DeviceGraph graph, DeviceStream stream) = 0;
  virtual void DestroyGraph(DeviceGraph graph) = 0;
  // False: a launch of this kernel depends on what the host knows at that moment, so it cannot be repeated.
  virtual bool CanCapture(const Kernel& kernel) const = 0;
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_STREAM_DEVICE_DRIVER_H_
