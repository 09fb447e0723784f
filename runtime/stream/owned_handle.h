// A driver's stream, event or graph that goes with its owner.
#ifndef MILLRACE_RUNTIME_STREAM_OWNED_HANDLE_H_
#define MILLRACE_RUNTIME_STREAM_OWNED_HANDLE_H_

#include <utility>

#include "stream/device_driver.h"

namespace millrace {

// Frees a driver's handles when their owner dies.
template <typename Handle, void (DeviceDriver::*Destroy)(Handle)>
class Owned {
 public:
  Owned() = default;
  Owned(DeviceDriver* driver, Handle handle) : driver_(driver), handle_(handle) {}
  Owned(Owned&& other) noexcept { *this = std::move(other); }
  Owned& operator=(Owned&& other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_ != nullptr) (driver_->*Destroy)(handle_);
  }
  Handle get() const { return handle_; }

 private:
  DeviceDriver* driver_ = nullptr;
  Handle handle_ = nullptr;
};
using OwnedStream = Owned<DeviceStream, &DeviceDriver::DestroyStream>;
using OwnedEvent = Owned<DeviceEvent, &DeviceDriver::DestroyEvent>;
using OwnedGraph = Owned<DeviceGraph, &DeviceDriver::DestroyGraph>;

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_STREAM_OWNED_HANDLE_H_
