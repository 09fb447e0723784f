// What can go wrong with a device, in the same words whoever drives it.
#ifndef MILLRACE_RUNTIME_STREAM_DRIVER_ERRORS_H_
#define MILLRACE_RUNTIME_STREAM_DRIVER_ERRORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace millrace {

inline absl::Status NoDriver(const std::string& why) {
  return absl::FailedPreconditionError(absl::StrCat("no CUDA driver on this machine (", why,
                                                    "); run with --device=cpu, or plan with --device=null"));
}

// It is there and does not work: another version than its module in the kernel, devices that do not come up.
inline absl::Status DriverFails(const std::string& why) {
  return absl::FailedPreconditionError(absl::StrCat("the CUDA driver of this machine does not start (", why,
                                                    "); run with --device=cpu, or plan with --device=null"));
}

// Versions as CUDA counts them: 13000 is 13.0.
inline absl::Status DriverTooOld(int driver_version, int needed_version) {
  const auto text = [](int version) { return absl::StrCat(version / 1000, ".", version % 1000 / 10); };
  return absl::FailedPreconditionError(absl::StrCat("the CUDA driver supports CUDA ", text(driver_version),
                                                    ", this build needs ", text(needed_version), " or newer"));
}

inline absl::Status NoDevice(int index, int count) {
  return absl::FailedPreconditionError(absl::StrCat("no CUDA device ", index, ": the driver sees ", count,
                                                    " devices; run with --device=cpu, or plan with --device=null"));
}

// Capabilities as CUDA counts them: 90 is 9.0; of the code in this build, 900.
inline absl::Status NoDeviceCode(const std::string& device, int capability, const std::vector<int>& architectures, const std::string& why) {
  std::string built;
  for (const int one : architectures) absl::StrAppend(&built, built.empty() ? "" : ", ", one / 100, ".", one % 100 / 10);
  return absl::FailedPreconditionError(absl::StrCat(device, " has compute capability ", capability / 10, ".", capability % 10,
                                                    ", this build has code for ", built, " (", why,
                                                    "); build with -DMILLRACE_CUDA_ARCHITECTURES=", capability, "-real"));
}

inline absl::Status DeviceBusy(const std::string& device, const std::string& call) {
  return absl::FailedPreconditionError(absl::StrCat(device, " is busy (", call, "): another process may have it for itself; ",
                                                    "run when that has ended, or with --device=cpu"));
}

inline absl::Status DeviceNotReady(const std::string& device, const std::string& call) {
  return absl::FailedPreconditionError(absl::StrCat(device, " is not ready yet (", call, "): services of its driver may not have started; ",
                                                    "run later, or with --device=cpu"));
}

inline absl::Status OutOfDeviceMemory(const std::string& device, int64_t bytes, int64_t free_bytes,
                                      int64_t total_bytes) {
  return absl::ResourceExhaustedError(absl::StrCat(device, ": cannot allocate ", bytes, " bytes of device memory, ",
                                                   free_bytes, " of ", total_bytes, " are free; lower --device_memory"));
}

inline absl::Status PinningRefused(int64_t bytes, const std::string& why) {
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot page-lock ", bytes, " bytes of host memory (", why, "); copies will be slower"));
}

inline absl::Status FailedElsewhere() { return absl::AbortedError("a kernel on another device has failed"); }

inline absl::Status DeviceLost(const std::string& device, const std::string& call) {
  return absl::UnavailableError(absl::StrCat(device, " was lost (", call, "); a new process is needed to use it again"));
}

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_STREAM_DRIVER_ERRORS_H_
