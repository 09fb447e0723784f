#include "cuda/plugin/dnn_trial.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include <glog/logging.h>

#include "absl/strings/str_cat.h"
#include "cuda/plugin/cuda_errors.h"
#include "millrace/status.h"

namespace millrace::cuda {
namespace {

constexpr int kMeasuredRuns = 3;
// Of all runs together, in times of the best and in seconds: one engine that is a hundred times slower ends the trial, since
// what is ranked behind it will hardly win.
constexpr double kMostTimesBest = 40, kMostSeconds = 0.5;

// Two events on a stream, for the time of a trial. Nothing here waits for the device as a whole, which is not allowed while
// another thread captures a step.
class Clock {
 public:
  Clock(cudaStream_t stream, const std::string& device) : device_(device), stream_(stream) {}
  ~Clock() {
    if (to_ != nullptr) cudaEventDestroy(to_);
    if (from_ != nullptr) cudaEventDestroy(from_);
  }
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;

  absl::Status Init() {
    MR_RETURN_IF_ERROR(Check(cudaEventCreate(&from_)));
    return Check(cudaEventCreate(&to_));
  }

  // Of what `launch` gives to the stream. Where it is refused, the stream is idle again, too.
  template <typename Launch>
  absl::StatusOr<double> Seconds(const Launch& launch) const {
    MR_RETURN_IF_ERROR(Check(cudaEventRecord(from_, stream_)));
    const absl::Status launched = launch();
    if (!launched.ok()) {
      // A library may have launched a part of it, and have left an error that the next launch must not be blamed for.
      cudaGetLastError();
      MR_RETURN_IF_ERROR(Check(cudaStreamSynchronize(stream_)));
      return launched;
    }
    MR_RETURN_IF_ERROR(Check(cudaEventRecord(to_, stream_)));
    MR_RETURN_IF_ERROR(Check(cudaEventSynchronize(to_)));
    float milliseconds = 0;
    MR_RETURN_IF_ERROR(Check(cudaEventElapsedTime(&milliseconds, from_, to_)));
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  absl::Status Check(cudaError_t error) const { return CudaStatus(error, device_, "trying a convolution"); }

  const std::string& device_;
  const cudaStream_t stream_;
  cudaEvent_t from_ = nullptr, to_ = nullptr;
};

// Device memory for the time of a trial, zeros for what follows on the stream.
class Borrowed {
 public:
  Borrowed(int64_t bytes, cudaStream_t stream) {
    const auto size = static_cast<size_t>(bytes);
    if (size > 0 && cudaMalloc(&memory_, size) == cudaSuccess) cudaMemsetAsync(memory_, 0, size, stream);
    failed_ = size > 0 && memory_ == nullptr;
    bytes_ = bytes;
    cudaGetLastError();
  }
  ~Borrowed() { cudaFree(memory_); }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  void* get() const { return memory_; }
  int64_t bytes() const { return bytes_; }
  bool failed() const { return failed_; }

 private:
  void* memory_ = nullptr;
  int64_t bytes_ = 0;
  bool failed_ = false;
};

int64_t Volume(const ConvShape::Sizes& size) { return size[0] * size[1] * size[2]; }

}  // namespace

absl::StatusOr<DnnTrial> TryDnnPlans(const std::vector<DnnPlan>& plans, const ConvShape& shape, bool measure, cudnnHandle_t handle,
                                     cudaStream_t stream, const std::string& device) {
  Clock clock(stream, device);
  MR_RETURN_IF_ERROR(clock.Init());
  int64_t most = 0;
  for (const DnnPlan& plan : plans) most = std::max(most, plan.scratch_bytes);
  const int64_t bytes = shape.type == Type::kDouble ? 8 : shape.type == Type::kFloat ? 4 : 2;
  const Borrowed input(shape.batch * shape.in_channels * Volume(shape.in) * bytes, stream);
  const Borrowed output(shape.batch * shape.out_channels * Volume(shape.out) * bytes, stream);
  const Borrowed filter(shape.out_channels * shape.in_channels / shape.groups * Volume(shape.kernel) * bytes, stream);
  const bool has_bias = shape.epilogue != Epilogue::kNone;
  const Borrowed bias(has_bias ? shape.out_channels * bytes : 0, stream);
  const Borrowed side(shape.side ? shape.batch * shape.out_channels * Volume(shape.out) * bytes : 0, stream);
  const Borrowed scratch(most, stream);
  DnnTrial trial;
  for (const Borrowed* memory : {&input, &output, &filter, &bias, &side, &scratch}) {
    trial.tried = trial.tried && !memory->failed();
    trial.needed_bytes += memory->bytes();
    trial.free_bytes += memory->failed() ? 0 : memory->bytes();
  }
  if (!trial.tried) {
    size_t free = 0, all = 0;
    MR_RETURN_IF_ERROR(CudaStatus(cudaMemGetInfo(&free, &all), device, "cudaMemGetInfo"));
    trial.free_bytes += static_cast<int64_t>(free);
    return trial;
  }
  const ConvTensors tensors{input.get(), filter.get(), output.get(), bias.get(), side.get()};
  bool found = false;
  double spent = 0;
  absl::Status refused;
  for (size_t i = 0; i < plans.size() && (measure || !found); ++i) {
    if (found && spent > std::max(kMostSeconds, kMostTimesBest * trial.seconds)) break;
    const auto run = [&] {
      const absl::StatusOr<double> seconds = clock.Seconds(
          [&] { return ExecuteDnnPlan(handle, plans[i], tensors, scratch.get()); });
      if (seconds.ok()) spent += *seconds;
      return seconds;
    };
    // The first run loads the kernel. One that is far behind already, even if some of its time went into that, is not run again.
    absl::StatusOr<double> seconds = run();
    if (seconds.ok() && found && *seconds > 3 * trial.seconds + 5e-3) continue;
    for (int again = 0; again < kMeasuredRuns && seconds.ok() && measure; ++again) {
      const absl::StatusOr<double> next = run();
      seconds = next.ok() && again > 0 ? std::min(*seconds, *next) : next;
    }
    if (absl::IsUnavailable(seconds.status())) return seconds.status();
    VLOG(2) << device << ": " << plans[i].name << ": "
            << (seconds.ok() ? absl::StrCat(*seconds, " s") : seconds.status().ToString());
    if (!seconds.ok()) {
      refused = seconds.status();
    } else if (!found || *seconds < trial.seconds) {
      trial = {.best = i, .seconds = *seconds};
      found = true;
    }
  }
  if (!found) return absl::UnimplementedError(refused.message());
  if (!measure) trial.seconds = 0;
  return trial;
}

}  // namespace millrace::cuda
