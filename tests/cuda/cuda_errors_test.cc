// CUDA's errors as the session says them: what loses the device, and what can be tried again.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/plugin/cuda_errors.h"

namespace millrace::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(CudaErrorsTest, AnEccErrorAndALaunchFailureLoseTheDeviceAndSayHow) {
  for (const cudaError_t error : {cudaErrorECCUncorrectable, cudaErrorLaunchFailure, cudaErrorIllegalAddress,
                                  cudaErrorLaunchTimeout, cudaErrorNvlinkUncorrectable}) {
    const absl::Status status = CudaStatus(error, "NVIDIA H200 (cuda:0)", "cudaStreamSynchronize");
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("NVIDIA H200 (cuda:0) was lost (cudaStreamSynchronize: "), HasSubstr(cudaGetErrorName(error)),
                      HasSubstr("a new process is needed")));
  }
}

TEST(CudaErrorsTest, ADeviceThatCannotBeHadYetIsNotLost) {
  const absl::Status busy = CudaStatus(cudaErrorDevicesUnavailable, "gpu", "cudaSetDevice");
  EXPECT_EQ(busy.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(busy.message()), HasSubstr("gpu is busy (cudaSetDevice: cudaErrorDevicesUnavailable"));
  const absl::Status early = CudaStatus(cudaErrorSystemNotReady, "gpu", "cudaSetDevice");
  EXPECT_EQ(early.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(early.message()), HasSubstr("gpu is not ready yet (cudaSetDevice: cudaErrorSystemNotReady"));
}

TEST(CudaErrorsTest, MemoryThatIsNotThereIsExhaustionAndABadCallIsOurs) {
  EXPECT_EQ(CudaStatus(cudaErrorMemoryAllocation, "gpu", "cudaMalloc").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(CudaStatus(cudaErrorInvalidConfiguration, "gpu", "a launch").code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(CudaStatus(cudaSuccess, "gpu", "a call").ok());
}

}  // namespace
}  // namespace millrace::cuda
