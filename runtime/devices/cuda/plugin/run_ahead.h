// How far the host may be ahead of a device. CUDA takes about a thousand launches that have not begun; the next call then returns when
// the device has gone on, which one that hangs never does.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_RUN_AHEAD_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_RUN_AHEAD_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "cuda/launch/pace.h"
#include "cuda/plugin/device_watch.h"

namespace millrace::cuda {

// A stream is given a mark after every kStride calls, and the next one when the device has come to the last. One thread at a time, as
// the driver it belongs to.
class RunAhead : private LaunchPace {
 public:
  explicit RunAhead(std::shared_ptr<DeviceWatch> watch) : watch_(std::move(watch)) {}
  RunAhead(const RunAhead&) = delete;
  RunAhead& operator=(const RunAhead&) = delete;
  ~RunAhead() override;

  // Of one that gives the stream something to do, which is not to be made after an error: waits, as DeviceWatch does, where the
  // device has twice kStride of them before it.
  absl::Status BeforeCall(cudaStream_t stream);
  // What `run` launches, which may be many kernels, with BeforeCall before each. Where that fails the rest of them is not launched.
  absl::Status Around(absl::FunctionRef<absl::Status()> run);
  // It has done all it was given.
  void Idle(cudaStream_t stream);
  // Before it is destroyed.
  void Leave(cudaStream_t stream);

 private:
  // A call is a launch of ours, or an operation of a library, which is one or two launches.
  static constexpr int64_t kStride = 128;
  struct Mark {
    int64_t calls = 0;            // behind it
    cudaEvent_t event = nullptr;  // made when it is first used
    bool recorded = false;
  };

  bool MayLaunch(void* stream) override;
  absl::Status Renew(cudaStream_t stream, Mark& mark);
  void Destroy(const Mark& mark);

  const std::shared_ptr<DeviceWatch> watch_;
  std::map<cudaStream_t, Mark> marks_;
  absl::Status refused_;  // in Around
};

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_RUN_AHEAD_H_
