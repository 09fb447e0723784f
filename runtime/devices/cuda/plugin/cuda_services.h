// The services of a CUDA device: handles of cuBLASLt and cuDNN, the fault word, what host functions of streams need.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_CUDA_SERVICES_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_CUDA_SERVICES_H_

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cuda/kernels/services.h"
#include "cuda/plugin/device_watch.h"
#include "cuda/plugin/dnn_plan.h"
#include "cuda/plugin/dnn_trial.h"
#include "stream/device_driver.h"

namespace millrace::cuda {

// What users may choose of how kernels compute.
struct Choices {
  bool tf32 = false;
  bool measure_convolutions = false;
};

// What cuDNN computes a convolution with.
struct ConvolutionChoice {
  DnnPlan plan;
  double seconds = 0;  // measured; 0 where that was not done
};

class CudaServices final : public DeviceServices {
 public:
  // `fault` is in device memory and outlives the services.
  static absl::StatusOr<std::unique_ptr<CudaServices>> Create(std::shared_ptr<DeviceWatch> watch, int index, Fault* fault, Choices choices);
  ~CudaServices() override;

  Queue QueueOf(const KernelContext& context) override { return {context.stream, fault_, position_}; }
  absl::Status Launched(const Queue&, const OpInstance&) override { return absl::OkStatus(); }
  bool tf32() const override { return choices_.tf32; }
  absl::StatusOr<std::unique_ptr<Product>> PlanProduct(const ProductShape& shape) override;
  absl::StatusOr<std::unique_ptr<Convolution>> PlanConvolution(const ConvShape& shape) override;
  absl::StatusOr<std::shared_ptr<const CompiledFusion>> CompileFusion(const std::string& source) override;
  // Waits for the compiler and loads what is not loaded yet, or was refused for want of memory: before all memory is taken, and before a
  // capture, which may not do it.
  absl::Status LoadFusions();
  // Text that does not compile, or load, is an error of ours, said once; it is Unimplemented, since there is another way. A device that is
  // lost stays Unavailable.
  absl::Status FusionRefused(const absl::Status& why);
  absl::Status LoadState(const Queue& queue, void* device, const void* host, int64_t bytes) override;
  absl::Status StoreState(const Queue& queue, void* host, const void* device, int64_t bytes) override;

  const std::string& device() const { return device_; }
  // Makes it the calling thread's device, on which kernels are planned and memory is page-locked.
  absl::Status Use() const { return watch_->Use(); }
  DeviceWatch& watch() const { return *watch_; }
  Fault* fault() const { return fault_; }
  cublasLtHandle_t blas() const { return blas_; }
  // The steps' handle, for what is launched on `stream` next.
  absl::StatusOr<cudnnHandle_t> DnnOn(cudaStream_t stream);
  // Before the stream is destroyed: the handle does not keep it.
  void LeaveStream(cudaStream_t stream);
  const Choices& choices() const { return choices_; }
  // DeviceDriver::LendForTrials.
  void LendForTrials(void* memory, int64_t bytes);
  // Of the step that is being launched.
  int64_t position() const { return position_; }
  void set_position(int64_t position) { position_ = position; }

  // Faults of kernels that ran on the host, from the streams' host functions. Any thread.
  void ReportHostFault(KernelFault fault);
  KernelFault TakeHostFault();
  // Keeps what a host function given to `stream` will read: until the faults of the step are taken, or, in a capture,
  // as long as the graph.
  absl::Status Keep(std::shared_ptr<void> what, cudaStream_t stream);

 private:
  CudaServices(std::shared_ptr<DeviceWatch> watch, int index, Fault* fault, Choices choices)
      : watch_(std::move(watch)), device_(watch_->name()), index_(index), fault_(fault), choices_(choices) {}

  // Under the planning mutex. By the handle; where cuDNN has nothing for it so, as for a device that is described.
  absl::StatusOr<ConvolutionChoice> Choose(const ConvShape& shape) const;
  absl::StatusOr<ConvolutionChoice> ChooseFor(const ConvShape& shape, const DnnTarget& target) const;
  // Before a node's state, which is at `host`, is copied.
  absl::Status BeforeStateCopy(const Queue& queue, const void* host, int64_t bytes);

  const std::shared_ptr<DeviceWatch> watch_;
  const std::string device_;
  const int index_;
  Fault* const fault_;
  const Choices choices_;
  cublasLtHandle_t blas_ = nullptr;
  cudnnHandle_t dnn_ = nullptr;
  cudaStream_t dnn_stream_ = nullptr;  // that the handle is on
  // For planning, which another thread may do beside the steps: cuDNN's handles serve one thread at a time.
  cudnnHandle_t planning_dnn_ = nullptr;
  cudaStream_t planning_stream_ = nullptr;
  DnnDescriptor dnn_device_;  // none where cuDNN does not describe it
  std::mutex planning_mutex_;
  TrialMemory trial_memory_;
  // By shape: equal ones compute alike, and are tried once. nullptr: cuDNN has none.
  std::map<std::string, std::shared_ptr<const ConvolutionChoice>> convolutions_;
  std::set<std::string> dnn_errors_;  // that have been said
  int64_t position_ = 0;
  std::vector<std::shared_ptr<void>> of_step_;
  std::mutex mutex_;
  KernelFault host_fault_;
  std::mutex fusions_mutex_;
  std::map<std::string, std::shared_ptr<const CompiledFusion>> fusions_;  // by text
  std::set<std::string> fusion_errors_;                                    // that have been said
};

absl::Status BlasStatus(cublasStatus_t status, const std::string& device, const char* call);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_CUDA_SERVICES_H_
