#include "cuda/plugin/cuda_errors.h"

#include "absl/strings/str_cat.h"
#include "stream/driver_errors.h"

namespace millrace::cuda {
namespace {

// Of CUDA 12.8 and later, by number so that the headers of earlier ones do: cudaErrorContained, cudaErrorTensorMemoryLeak.
constexpr int kContained = 226, kTensorMemoryLeak = 721;

// After these every call of the process on this device fails.
bool LosesDevice(cudaError_t error) {
  if (static_cast<int>(error) == kContained || static_cast<int>(error) == kTensorMemoryLeak) return true;
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorExternalDevice:
    case cudaErrorMpsClientTerminated:
    case cudaErrorUnknown: return true;
    default: return false;
  }
}

}  // namespace

absl::Status CudaStatus(cudaError_t error, const std::string& device, const char* call) {
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string what = absl::StrCat(call, ": ", cudaGetErrorName(error), ", ", cudaGetErrorString(error));
  if (LosesDevice(error)) return DeviceLost(device, what);
  // The error is kept until it is read: the next launch must not be blamed for it.
  cudaGetLastError();
  // Of the first call on a device, for which its context is made.
  if (error == cudaErrorDevicesUnavailable) return DeviceBusy(device, what);
  if (error == cudaErrorSystemNotReady) return DeviceNotReady(device, what);
  if (error == cudaErrorMemoryAllocation) return absl::ResourceExhaustedError(absl::StrCat(device, ": ", what));
  return absl::InternalError(absl::StrCat(device, ": ", what));
}

}  // namespace millrace::cuda
