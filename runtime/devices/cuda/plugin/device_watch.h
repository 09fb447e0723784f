// Waits for a device, but not for ever: one that does not answer counts as lost.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_DEVICE_WATCH_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_DEVICE_WATCH_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace millrace::cuda {

// Any thread. Once a wait was given up nothing may be called that waits for the device, as giving back memory does, and what its streams
// may still read stays where it is (KeepForever): the device may go on at any time.
class DeviceWatch {
 public:
  // `name` says it in errors, `identity` is as in WasGivenUp. `seconds` of one wait; 0: no limit.
  DeviceWatch(std::string name, int index, std::string identity, double seconds)
      : name_(std::move(name)), index_(index), identity_(std::move(identity)), seconds_(seconds) {}

  const std::string& name() const { return name_; }
  // Makes it the calling thread's device. Unavailable once a wait was given up.
  absl::Status Use() const;
  // Until the stream has done all it was given. Unavailable where that takes too long, or the device is lost. Not for a stream that is
  // captured, nor by a host function.
  absl::Status Synchronize(cudaStream_t stream);
  // As much for what the event was recorded behind.
  absl::Status Synchronize(cudaEvent_t event);
  bool has_limit() const { return seconds_ > 0; }
  bool given_up() const { return given_up_; }

  // Around what a host function of a stream does: false where the wait for it was given up, and what it would use may be gone. Who gives
  // up waits for those that have begun, as long again.
  bool BeginHostCall();
  void EndHostCall();

 private:
  absl::Status Lost() const;
  // Until `query` is not cudaErrorNotReady any more.
  absl::Status WaitFor(absl::FunctionRef<cudaError_t()> query, const char* call);
  void GiveUp();

  const std::string name_;
  const int index_;
  const std::string identity_;
  const double seconds_;
  std::atomic<bool> given_up_ = false;
  std::mutex mutex_;
  std::condition_variable idle_;
  int host_calls_ = 0;
};

// Whether a wait for that device was given up in this process, by whichever watch. Any thread.
bool WasGivenUp(const std::string& identity);

// Until the process ends. Any thread.
void KeepForever(std::shared_ptr<void> what);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_DEVICE_WATCH_H_
