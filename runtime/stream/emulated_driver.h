// A driver without a device: streams are threads, device memory is host memory of its own, kernels run on the host.
// Every operation may be held up at random, and faults can be thrown in, so that what the stream engine does wrong
// shows as wrong bits, as an error or under a sanitizer.
#ifndef MILLRACE_RUNTIME_STREAM_EMULATED_DRIVER_H_
#define MILLRACE_RUNTIME_STREAM_EMULATED_DRIVER_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "stream/device_driver.h"

namespace millrace {

// What a driver has been asked for, which says where faults can be thrown in.
struct EmulatedCounts {
  int64_t allocations = 0;     // calls of AllocateDevice
  int64_t pinnings = 0;        // of PinHost
  int64_t streams = 0;         // of CreateStream
  int64_t events = 0;          // of CreateEvent
  int64_t launches = 0;        // of Launch and LaunchTogether
  int64_t captures = 0;        // of EndCapture
  int64_t graph_launches = 0;  // of LaunchGraph
  int64_t operations = 0;      // kernels and copies that streams and graphs have run, or that a lost device has dropped
};

// By their counts, the first being 0; -1: never. What is refused is refused once.
struct EmulatedFaults {
  bool refuse_pinning = false;  // always
  int64_t fail_allocation = -1;
  int64_t fail_pinning = -1;
  int64_t fail_stream = -1;
  int64_t fail_event = -1;
  int64_t fail_launch = -1;
  int64_t fail_graph = -1;  // what is captured then is not made a graph
  int64_t fail_graph_launch = -1;
  int64_t lose_device = -1;  // the device is lost in the midst of this operation, whichever stream runs it
};

struct EmulatedOptions {
  int64_t device_memory_bytes = int64_t{4} << 30;
  int64_t context_bytes = 0;     // of it, never free
  uint64_t seed = 0;             // of the delays
  int max_delay_microseconds = 0;  // of one operation in eight; 0: none
  EmulatedFaults faults;
  EmulatedCounts* counts = nullptr;  // kept while the driver lives, which it outlives
};

// Devices of one machine wait for each other's events and can be captured together. One that is lost leaves the others as they are.
struct EmulatedMachine;
std::shared_ptr<EmulatedMachine> MakeEmulatedMachine();

// `kernels` run on the host. Without a `machine` the device has one to itself. Errors are what the CUDA plugin says in the same situation.
absl::StatusOr<std::unique_ptr<DeviceDriver>> MakeEmulatedDriver(std::shared_ptr<const KernelRegistry> kernels,
                                                                 const EmulatedOptions& options = {},
                                                                 std::shared_ptr<EmulatedMachine> machine = nullptr);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_STREAM_EMULATED_DRIVER_H_
