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

// Counts are of operations or calls since the driver was made, the first being 0; -1: never.
struct EmulatedFaults {
  bool no_driver = false;
  bool driver_too_old = false;
  bool no_device = false;
  bool refuse_pinning = false;
  int64_t fail_launch = -1;       // this call of Launch is refused
  int64_t lose_device = -1;       // the device is lost in the midst of this operation, whichever stream runs it
  int64_t fail_allocation = -1;   // this call of AllocateDevice
  int64_t fail_graph = -1;        // this graph is captured and not made
};

struct EmulatedOptions {
  int64_t device_memory_bytes = int64_t{4} << 30;
  uint64_t seed = 0;             // of the delays
  int max_delay_microseconds = 0;  // of one operation in eight; 0: none
  EmulatedFaults faults;
};

// Devices of one machine wait for each other's events and can be captured together; one that is lost takes all along.
struct EmulatedMachine;
std::shared_ptr<EmulatedMachine> MakeEmulatedMachine();

// `kernels` run on the host. Without a `machine` the device has one to itself. Errors are what the CUDA plugin says in the same situation.
absl::StatusOr<std::unique_ptr<DeviceDriver>> MakeEmulatedDriver(std::shared_ptr<const KernelRegistry> kernels,
                                                                 const EmulatedOptions& options = {},
                                                                 std::shared_ptr<EmulatedMachine> machine = nullptr);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_STREAM_EMULATED_DRIVER_H_
