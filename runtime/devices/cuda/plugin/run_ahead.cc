#include "cuda/plugin/run_ahead.h"

#include "absl/cleanup/cleanup.h"
#include "cuda/plugin/cuda_errors.h"
#include "millrace/status.h"

namespace millrace::cuda {

RunAhead::~RunAhead() {
  for (const auto& [stream, mark] : marks_) Destroy(mark);
}

absl::Status RunAhead::BeforeCall(cudaStream_t stream) {
  // With no limit CUDA's own wait is as good.
  if (!watch_->has_limit()) return absl::OkStatus();
  Mark& mark = marks_[stream];
  if (++mark.calls <= kStride) return absl::OkStatus();
  mark.calls = 1;
  // What is captured runs later, as one launch.
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  MR_RETURN_IF_ERROR(CudaStatus(cudaStreamIsCapturing(stream, &capture), watch_->name(), "cudaStreamIsCapturing"));
  return capture == cudaStreamCaptureStatusNone ? Renew(stream, mark) : absl::OkStatus();
}

bool RunAhead::MayLaunch(void* stream) {
  if (refused_.ok()) refused_ = BeforeCall(static_cast<cudaStream_t>(stream));
  return refused_.ok();
}

absl::Status RunAhead::Around(absl::FunctionRef<absl::Status()> run) {
  refused_ = absl::OkStatus();
  launch_pace = this;
  const absl::Cleanup leave = [] { launch_pace = nullptr; };  // a kernel that finds no memory on the host throws
  const absl::Status ran = run();
  return refused_.ok() ? ran : refused_;
}

absl::Status RunAhead::Renew(cudaStream_t stream, Mark& mark) {
  const std::string& name = watch_->name();
  // A launch that was refused says so only there, and who asks whether the device has come to the mark clears it.
  MR_RETURN_IF_ERROR(CudaStatus(cudaPeekAtLastError(), name, "a launch"));
  if (mark.event == nullptr) MR_RETURN_IF_ERROR(CudaStatus(cudaEventCreateWithFlags(&mark.event, cudaEventDisableTiming), name, "cudaEventCreateWithFlags"));
  if (mark.recorded) MR_RETURN_IF_ERROR(watch_->Synchronize(mark.event));
  MR_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(mark.event, stream), name, "cudaEventRecord"));
  mark.recorded = true;
  return absl::OkStatus();
}

void RunAhead::Idle(cudaStream_t stream) {
  const auto found = marks_.find(stream);
  if (found == marks_.end()) return;
  found->second.calls = 0;
  found->second.recorded = false;
}

void RunAhead::Leave(cudaStream_t stream) {
  const auto found = marks_.find(stream);
  if (found == marks_.end()) return;
  Destroy(found->second);
  marks_.erase(found);
}

void RunAhead::Destroy(const Mark& mark) {
  if (mark.event != nullptr && !watch_->given_up()) cudaEventDestroy(mark.event);
}

}  // namespace millrace::cuda
