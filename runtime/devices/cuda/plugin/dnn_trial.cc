#include "cuda/plugin/dnn_trial.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <limits>
#include <optional>

#include <glog/logging.h>

#include "absl/strings/str_cat.h"
#include "cuda/plugin/cuda_errors.h"
#include "millrace/status.h"
#include "millrace/types.h"

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
  explicit Clock(const DnnTrialPlace& place) : watch_(place.watch), stream_(place.stream) {}
  ~Clock() {
    if (watch_.given_up()) return;
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
      MR_RETURN_IF_ERROR(watch_.Synchronize(stream_));
      return launched;
    }
    MR_RETURN_IF_ERROR(Check(cudaEventRecord(to_, stream_)));
    MR_RETURN_IF_ERROR(watch_.Synchronize(stream_));
    float milliseconds = 0;
    MR_RETURN_IF_ERROR(Check(cudaEventElapsedTime(&milliseconds, from_, to_)));
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  absl::Status Check(cudaError_t error) const { return CudaStatus(error, watch_.name(), "trying a convolution"); }

  DeviceWatch& watch_;
  const cudaStream_t stream_;
  cudaEvent_t from_ = nullptr, to_ = nullptr;
};

int64_t Volume(const ConvShape::Sizes& size) { return size[0] * size[1] * size[2]; }

// The operands of a convolution, one behind the other, and behind them scratch.
struct Operands {
  explicit Operands(const ConvShape& shape) {
    const int64_t bytes = shape.type == Type::kDouble ? 8 : shape.type == Type::kFloat ? 4 : 2;
    const auto place = [&](int64_t elements) {
      const int64_t at = end;
      end = AlignUp(end + elements * bytes);
      return at;
    };
    const int64_t outputs = shape.batch * shape.out_channels * Volume(shape.out);
    place(shape.batch * shape.in_channels * Volume(shape.in));
    filter = place(shape.out_channels * shape.in_channels / shape.groups * Volume(shape.kernel));
    output = place(outputs);
    if (shape.epilogue != Epilogue::kNone) bias = place(shape.out_channels);
    if (shape.side) side = place(outputs);
    end = AlignUp(end, kLibraryAlignment);
  }
  ConvTensors In(char* memory) const {
    return {memory, memory + filter, memory + output, bias > 0 ? memory + bias : nullptr, side > 0 ? memory + side : nullptr};
  }
  int64_t filter = 0, output = 0, bias = 0, side = 0, end = 0;
};

// Device memory for the time of a trial.
class Borrowed {
 public:
  // All that there is, or `most` bytes where each trial allocates.
  Borrowed(const DnnTrialPlace& place, int64_t most) : place_(place), begin_(place.memory.begin), bytes_(place.memory.bytes) {
    if (place.memory.limited) return;
    const bool allocated = cudaMalloc(&own_, static_cast<size_t>(most)) == cudaSuccess;
    if (!allocated) cudaGetLastError();
    begin_ = static_cast<char*>(own_);
    bytes_ = allocated ? most : 0;
  }
  // Others use what was lent from then on, whatever the trial came to.
  ~Borrowed() {
    if (begin_ == nullptr) return;
    place_.watch.Synchronize(place_.stream).IgnoreError();  // the trial has said so
    if (own_ != nullptr && !place_.watch.given_up()) cudaFree(own_);
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  char* begin() const { return begin_; }
  int64_t bytes() const { return bytes_; }

 private:
  const DnnTrialPlace& place_;
  void* own_ = nullptr;
  char* begin_;
  int64_t bytes_;
};

// One plan after another, on one set of operands.
class Trial {
 public:
  Trial(const std::vector<DnnPlan>& plans, const ConvShape& shape, const DnnTrialPlace& place, const std::string& device)
      : plans_(plans), place_(place), device_(device), operands_(shape), clock_(place),
        memory_(place, operands_.end + MostScratch(plans)) {}

  // Zeros for operands, where there is room for these.
  absl::Status Init() {
    MR_RETURN_IF_ERROR(clock_.Init());
    if (operands_.end > memory_.bytes()) return absl::OkStatus();
    return CudaStatus(cudaMemsetAsync(memory_.begin(), 0, static_cast<size_t>(operands_.end), place_.stream), device_, "cudaMemsetAsync");
  }
  int64_t NeededBytes(size_t plan) const { return operands_.end + plans_[plan].scratch_bytes; }
  bool Fits(size_t plan) const { return NeededBytes(plan) <= memory_.bytes(); }
  // Seconds of one run, or the least of a few.
  absl::StatusOr<double> Run(size_t plan, bool measure, double best) {
    // The first run loads the kernel. One that is far behind already, even if some of its time went into that, is not run again.
    absl::StatusOr<double> seconds = RunOnce(plan);
    if (seconds.ok() && *seconds > 3 * best + 5e-3) return seconds;
    for (int again = 0; again < kMeasuredRuns && seconds.ok() && measure; ++again) {
      const absl::StatusOr<double> next = RunOnce(plan);
      seconds = next.ok() && again > 0 ? std::min(*seconds, *next) : next;
    }
    VLOG(2) << device_ << ": " << plans_[plan].name << ": " << (seconds.ok() ? absl::StrCat(*seconds, " s") : seconds.status().ToString());
    return seconds;
  }
  double spent() const { return spent_; }
  absl::StatusOr<DnnTrial> Untried(size_t plan) const {
    DnnTrial untried{.best = plan, .tried = false, .needed_bytes = NeededBytes(plan), .free_bytes = memory_.bytes()};
    if (place_.memory.limited) return untried;
    size_t free = 0, all = 0;
    MR_RETURN_IF_ERROR(CudaStatus(cudaMemGetInfo(&free, &all), device_, "cudaMemGetInfo"));
    untried.free_bytes = static_cast<int64_t>(free);
    return untried;
  }

 private:
  static int64_t MostScratch(const std::vector<DnnPlan>& plans) {
    int64_t most = 0;
    for (const DnnPlan& plan : plans) most = std::max(most, plan.scratch_bytes);
    return most;
  }
  absl::StatusOr<double> RunOnce(size_t plan) {
    MR_ASSIGN_OR_RETURN(const double seconds, clock_.Seconds([&] {
      return ExecuteDnnPlan(place_.handle, plans_[plan], operands_.In(memory_.begin()), memory_.begin() + operands_.end);
    }));
    spent_ += seconds;
    return seconds;
  }

  const std::vector<DnnPlan>& plans_;
  const DnnTrialPlace& place_;
  const std::string& device_;
  const Operands operands_;
  Clock clock_;
  const Borrowed memory_;
  double spent_ = 0;
};

}  // namespace

absl::StatusOr<DnnTrial> TryDnnPlans(const std::vector<DnnPlan>& plans, const ConvShape& shape, bool measure,
                                     const DnnTrialPlace& place, const std::string& device) {
  Trial trial(plans, shape, place, device);
  MR_RETURN_IF_ERROR(trial.Init());
  std::optional<DnnTrial> best;
  std::optional<size_t> untried;
  absl::Status refused;
  for (size_t i = 0; i < plans.size() && (measure || (!best && !untried)); ++i) {
    if (best && trial.spent() > std::max(kMostSeconds, kMostTimesBest * best->seconds)) break;
    if (!trial.Fits(i)) {
      VLOG(2) << device << ": " << plans[i].name << ": " << trial.NeededBytes(i) << " bytes are more than there are for a trial";
      if (!untried) untried = i;
      continue;
    }
    const absl::StatusOr<double> seconds = trial.Run(i, measure, best ? best->seconds : std::numeric_limits<double>::infinity());
    if (absl::IsUnavailable(seconds.status())) return seconds.status();
    if (!seconds.ok()) {
      refused = seconds.status();
    } else if (!best || *seconds < best->seconds) {
      best = {.best = i, .seconds = *seconds};
    }
  }
  if (!best && untried) return trial.Untried(*untried);
  if (!best) return absl::UnimplementedError(refused.message());
  if (!measure) best->seconds = 0;
  return *best;
}

}  // namespace millrace::cuda
