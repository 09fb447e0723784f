#include "cuda/plugin/cuda_services.h"

#include <utility>

#include <glog/logging.h>

#include "absl/strings/str_cat.h"
#include "cuda/launch/pace.h"
#include "cuda/plugin/cuda_errors.h"
#include "cuda/plugin/page_locked.h"
#include "cuda/plugin/run_time_compiler.h"
#include "millrace/status.h"

namespace millrace::cuda {

absl::Status BlasStatus(cublasStatus_t status, const std::string& device, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  const std::string what = absl::StrCat(device, ": ", call, ": ", cublasLtGetStatusString(status));
  return status == CUBLAS_STATUS_NOT_SUPPORTED ? absl::UnimplementedError(what) : absl::InternalError(what);
}

absl::StatusOr<std::unique_ptr<CudaServices>> CudaServices::Create(std::shared_ptr<DeviceWatch> watch, int index, Fault* fault,
                                                                   Choices choices) {
  auto services = std::unique_ptr<CudaServices>(new CudaServices(std::move(watch), index, fault, choices));
  const std::string& device = services->device();
  MR_RETURN_IF_ERROR(BlasStatus(cublasLtCreate(&services->blas_), device, "cublasLtCreate"));
  if (cudnnGetVersion() < kOldestDnn) {
    return absl::FailedPreconditionError(absl::StrCat(device, ": cuDNN ", cudnnGetVersion(), " is too old, ", kOldestDnn, " is needed"));
  }
  MR_RETURN_IF_ERROR(DnnStatus(cudnnCreate(&services->dnn_), "cudnnCreate"));
  MR_RETURN_IF_ERROR(DnnStatus(cudnnCreate(&services->planning_dnn_), "cudnnCreate"));
  MR_RETURN_IF_ERROR(CudaStatus(cudaStreamCreateWithFlags(&services->planning_stream_, cudaStreamNonBlocking), device,
                                "cudaStreamCreateWithFlags"));
  MR_RETURN_IF_ERROR(DnnStatus(cudnnSetStream(services->planning_dnn_, services->planning_stream_), "cudnnSetStream"));
  absl::StatusOr<DnnDescriptor> described = DnnDevice(index);
  VLOG_IF(1, !described.ok()) << device << ": " << described.status();
  if (described.ok()) services->dnn_device_ = *std::move(described);
  if (VLOG_IS_ON(1) && services->dnn_device_.get() != nullptr) {
    const absl::StatusOr<std::string> text = DnnDeviceText(services->dnn_device_);
    VLOG(1) << device << ": to cuDNN " << cudnnGetVersion() << " it is " << (text.ok() ? *text : text.status().ToString());
  }
  return services;
}

CudaServices::~CudaServices() {
  fusions_.clear();
  WaitForCompilersThatNobodyNeeds();
  if (planning_dnn_ != nullptr) cudnnDestroy(planning_dnn_);
  if (planning_stream_ != nullptr) cudaStreamDestroy(planning_stream_);
  if (dnn_ != nullptr) cudnnDestroy(dnn_);
  if (blas_ != nullptr) cublasLtDestroy(blas_);
}

absl::StatusOr<cudnnHandle_t> CudaServices::DnnOn(cudaStream_t stream) {
  if (stream != dnn_stream_) MR_RETURN_IF_ERROR(DnnStatus(cudnnSetStream(dnn_, stream), "cudnnSetStream"));
  dnn_stream_ = stream;
  return dnn_;
}

void CudaServices::LeaveStream(cudaStream_t stream) {
  if (stream != dnn_stream_) return;
  const absl::Status left = DnnOn(planning_stream_).status();
  LOG_IF(WARNING, !left.ok()) << device_ << ": " << left;
}

void CudaServices::LendForTrials(void* memory, int64_t bytes) {
  std::lock_guard<std::mutex> lock(planning_mutex_);
  trial_memory_ = {true, static_cast<char*>(memory), bytes};
}

absl::Status CudaServices::BeforeStateCopy(const Queue& queue, const void* host, int64_t bytes) {
  if (IsPageLocked(host, bytes)) return MayLaunch(queue) ? absl::OkStatus() : absl::UnavailableError("the device does not answer");
  // A launch of the node that was refused says so only there, and the wait clears it.
  MR_RETURN_IF_ERROR(CudaStatus(cudaPeekAtLastError(), device_, "a launch"));
  // CUDA would do so itself, for ever if need be.
  return watch_->Synchronize(static_cast<cudaStream_t>(queue.stream));
}

absl::Status CudaServices::LoadState(const Queue& queue, void* device, const void* host, int64_t bytes) {
  MR_RETURN_IF_ERROR(BeforeStateCopy(queue, host, bytes));
  return CudaStatus(cudaMemcpyAsync(device, host, static_cast<size_t>(bytes), cudaMemcpyHostToDevice,
                                    static_cast<cudaStream_t>(queue.stream)),
                    device_, "loading a node's state");
}

absl::Status CudaServices::StoreState(const Queue& queue, void* host, const void* device, int64_t bytes) {
  MR_RETURN_IF_ERROR(BeforeStateCopy(queue, host, bytes));
  return CudaStatus(cudaMemcpyAsync(host, device, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost,
                                    static_cast<cudaStream_t>(queue.stream)),
                    device_, "storing a node's state");
}

void CudaServices::ReportHostFault(KernelFault fault) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (host_fault_.position < 0 || fault.position < host_fault_.position) host_fault_ = std::move(fault);
}

KernelFault CudaServices::TakeHostFault() {
  of_step_.clear();  // the streams are idle
  std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(host_fault_, KernelFault());
}

absl::Status CudaServices::Keep(std::shared_ptr<void> what, cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaGraph_t graph = nullptr;
  const cudaError_t error = cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph);
  if (error != cudaSuccess || status != cudaStreamCaptureStatusActive) {
    of_step_.push_back(std::move(what));
    return CudaStatus(error, device_, "cudaStreamGetCaptureInfo");
  }
  // The graph's, and every executable's that is made of it: CUDA lets go of it with the last of them.
  auto owned = std::make_unique<std::shared_ptr<void>>(std::move(what));
  const auto release = [](void* object) { delete static_cast<std::shared_ptr<void>*>(object); };
  cudaUserObject_t object = nullptr;
  MR_RETURN_IF_ERROR(CudaStatus(cudaUserObjectCreate(&object, owned.get(), release, 1, cudaUserObjectNoDestructorSync), device_,
                                "cudaUserObjectCreate"));
  static_cast<void>(owned.release());
  const cudaError_t retained = cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove);
  if (retained != cudaSuccess) cudaUserObjectRelease(object, 1);
  return CudaStatus(retained, device_, "cudaGraphRetainUserObject");
}

}  // namespace millrace::cuda
