// A device behind a driver with streams: one arena in its memory, page-locked host memory, and the stream engine.
#ifndef MILLRACE_RUNTIME_STREAM_STREAM_DEVICE_H_
#define MILLRACE_RUNTIME_STREAM_STREAM_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/runtime_device.h"
#include "stream/device_driver.h"

namespace millrace {

// Whether a step is captured once as a graph and replayed. kAuto: when nothing in it depends on the host, from the
// second step on. kOn: an error where that is not possible.
enum class GraphCapture { kAuto, kOn, kOff };
// "auto", "on", "off"; InvalidArgument for others.
absl::StatusOr<GraphCapture> ParseGraphCapture(const std::string& text);

class StreamDevice : public RuntimeDevice {
 public:
  // Of addresses, in bytes, as CUDA's own allocations have it: a warp that reads 512 bytes beginning within a line of 128 takes up to 1.7
  // times as long (bench/results/cuda_h200.md).
  static constexpr int64_t kAlignment = 256;

  virtual DeviceDriver& driver() = 0;
  virtual const DeviceDriver& driver() const = 0;
  virtual GraphCapture graph_capture() const = 0;
  // Why host memory could not be page-locked, if any could not: copies are slower then, and steps are not captured.
  virtual const absl::Status& pinning() const = 0;
  // Device memory in use beside the arena, now: the driver's context and libraries, and other programs.
  virtual absl::StatusOr<int64_t> ContextBytes() = 0;
};

// Device "<kind>:<index>".
std::unique_ptr<StreamDevice> MakeStreamDevice(const std::string& kind, int index, std::unique_ptr<DeviceDriver> driver,
                                               GraphCapture graph_capture);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_STREAM_STREAM_DEVICE_H_
