#include "cuda/plugin/device_watch.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cuda/plugin/cuda_errors.h"
#include "millrace/status.h"
#include "stream/driver_errors.h"

namespace millrace::cuda {
namespace {

struct GivenUp {
  std::mutex mutex;
  std::set<std::string> identities;
};
GivenUp& AllGivenUp() {
  static auto* const all = new GivenUp;
  return *all;
}

}  // namespace

absl::Status DeviceWatch::Lost() const {
  return DeviceLost(name_, absl::StrCat("it did not answer for ", seconds_, " s, device_timeout"));
}

absl::Status DeviceWatch::Use() const {
  if (given_up_) return Lost();
  return CudaStatus(cudaSetDevice(index_), name_, "cudaSetDevice");
}

absl::Status DeviceWatch::Synchronize(cudaStream_t stream) {
  MR_RETURN_IF_ERROR(Use());
  if (!has_limit()) return CudaStatus(cudaStreamSynchronize(stream), name_, "cudaStreamSynchronize");
  return WaitFor([&] { return cudaStreamQuery(stream); }, "cudaStreamQuery");
}

absl::Status DeviceWatch::Synchronize(cudaEvent_t event) {
  MR_RETURN_IF_ERROR(Use());
  if (!has_limit()) return CudaStatus(cudaEventSynchronize(event), name_, "cudaEventSynchronize");
  return WaitFor([&] { return cudaEventQuery(event); }, "cudaEventQuery");
}

absl::Status DeviceWatch::WaitFor(absl::FunctionRef<cudaError_t()> query, const char* call) {
  // As CUDA's own waits do, it asks again and again; in longer waits now and then, which adds a thousandth to them.
  constexpr double kShort = 0.05, kPart = 1e-3, kLongestPause = 1e-3;
  const auto start = std::chrono::steady_clock::now();
  while (true) {
    // Before it is asked: a process that was stopped meanwhile gives the device no less time for that.
    const double waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const cudaError_t state = query();
    if (state != cudaErrorNotReady) return CudaStatus(state, name_, call);
    cudaGetLastError();  // no error, but kept as one
    if (given_up_ || waited > seconds_) {
      GiveUp();
      return Lost();
    }
    if (waited < kShort) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::duration<double>(std::min(waited * kPart, kLongestPause)));
    }
  }
}

void DeviceWatch::GiveUp() {
  {
    const std::lock_guard<std::mutex> lock(AllGivenUp().mutex);
    AllGivenUp().identities.insert(identity_);
  }
  std::unique_lock<std::mutex> lock(mutex_);
  given_up_ = true;
  idle_.wait_for(lock, std::chrono::duration<double>(seconds_), [&] { return host_calls_ == 0; });
}

bool DeviceWatch::BeginHostCall() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (given_up_) return false;
  ++host_calls_;
  return true;
}

void DeviceWatch::EndHostCall() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (--host_calls_ == 0) idle_.notify_all();
}

bool WasGivenUp(const std::string& identity) {
  const std::lock_guard<std::mutex> lock(AllGivenUp().mutex);
  return AllGivenUp().identities.count(identity) > 0;
}

void KeepForever(std::shared_ptr<void> what) {
  static auto* const mutex = new std::mutex;
  static auto* const kept = new std::vector<std::shared_ptr<void>>;
  const std::lock_guard<std::mutex> lock(*mutex);
  kept->push_back(std::move(what));
}

}  // namespace millrace::cuda
