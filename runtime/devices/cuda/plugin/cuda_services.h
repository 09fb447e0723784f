// The services of a CUDA device: handles of cuBLASLt and cuDNN, the fault word, what host functions of streams need.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_CUDA_SERVICES_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_CUDA_SERVICES_H_

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/kernels/services.h"
#include "stream/device_driver.h"

namespace millrace::cuda {

class CudaServices final : public DeviceServices {
 public:
  // `fault` is in device memory and outlives the services.
  static absl::StatusOr<std::unique_ptr<CudaServices>> Create(const std::string& device, Fault* fault, bool tf32);
  ~CudaServices() override;

  Queue QueueOf(const KernelContext& context) override { return {context.stream, fault_, position_}; }
  absl::Status Launched(const Queue&) override { return absl::OkStatus(); }
  absl::StatusOr<std::unique_ptr<Product>> PlanProduct(const ProductShape& shape) override;
  absl::StatusOr<std::unique_ptr<Convolution>> PlanConvolution(const ConvShape& shape) override;

  const std::string& device() const { return device_; }
  Fault* fault() const { return fault_; }
  cublasLtHandle_t blas() const { return blas_; }
  cudnnHandle_t dnn() const { return dnn_; }
  bool tf32() const { return tf32_; }
  // Of the step that is being launched.
  int64_t position() const { return position_; }
  void set_position(int64_t position) { position_ = position; }

  // Faults of kernels that ran on the host, from the streams' host functions. Any thread.
  void ReportHostFault(KernelFault fault);
  KernelFault TakeHostFault();
  // Keeps what a host function given to `stream` will read: until the faults of the step are taken, or, in a capture,
  // as long as this object lives.
  void Keep(std::shared_ptr<void> what, cudaStream_t stream);

 private:
  CudaServices(const std::string& device, Fault* fault, bool tf32) : device_(device), fault_(fault), tf32_(tf32) {}

  const std::string device_;
  Fault* const fault_;
  const bool tf32_;
  cublasLtHandle_t blas_ = nullptr;
  cudnnHandle_t dnn_ = nullptr;
  int64_t position_ = 0;
  std::vector<std::shared_ptr<void>> of_step_, of_graphs_;
  std::mutex mutex_;
  KernelFault host_fault_;
};

absl::Status BlasStatus(cublasStatus_t status, const std::string& device, const char* call);
absl::Status DnnStatus(cudnnStatus_t status, const std::string& device, const char* call);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_CUDA_SERVICES_H_
