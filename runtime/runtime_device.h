// A device as the executor drives it: one arena, and copies between the arena and host memory.
#ifndef MILLRACE_RUNTIME_RUNTIME_DEVICE_H_
#define MILLRACE_RUNTIME_RUNTIME_DEVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "millrace/device.h"
#include "runtime/host_memory.h"
#include "runtime/lane_engine.h"

namespace millrace {

class RuntimeDevice : public Device {
 public:
  // The device's one arena, at least `bytes` large; nullptr when the device has no data. Executors share it, one
  // active at a time. It may move when it grows, and what it held is lost then. Not during a step.
  virtual absl::StatusOr<void*> ReserveArena(int64_t bytes) = 0;

  // Whether kernels are tried on it when they are planned.
  virtual bool tries_kernels() const { return false; }
  // The arena of a budget, `bytes` large, is allocated now, and until the next ReserveArena no executor uses it: kernels that are
  // planned meanwhile may be tried in it, and nowhere else. ResourceExhausted where the device has no room for it.
  virtual absl::Status OfferArena(int64_t bytes) {
    static_cast<void>(bytes);
    return absl::OkStatus();
  }

  // Copies outside of steps (variables that live on the device); done when they return. The error of a device that is
  // lost names it.
  virtual absl::Status CopyToDevice(void* device, const void* host, int64_t bytes) = 0;
  virtual absl::Status CopyToHost(void* host, const void* device, int64_t bytes) = 0;

  // Who is told of host memory that the device's copies use, so that it can page-lock it; nullptr when nobody cares.
  virtual HostMemoryListener* host_memory_listener() { return nullptr; }

  // What runs the lanes of a plan on this device and those of its kind. `program` outlives it. ResourceExhausted where the
  // machine gives no more threads.
  virtual absl::StatusOr<std::unique_ptr<LaneEngine>> MakeEngine(const Program& program, const EngineOptions& options) = 0;
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_RUNTIME_DEVICE_H_
