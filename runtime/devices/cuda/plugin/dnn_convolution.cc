// Convolutions by cuDNN: of the algorithms that it ranks, those that are deterministic, supported, and content with the
// scratch allowed; of these the first, the fastest measured, or the one that a plan names.
#include <cudnn.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <glog/logging.h>

#include "absl/strings/str_cat.h"
#include "cuda/plugin/cuda_errors.h"
#include "cuda/plugin/cuda_services.h"
#include "millrace/status.h"
#include "millrace/types.h"

namespace millrace::cuda {
namespace {

constexpr size_t kMostScratch = size_t{512} << 20;
constexpr int kMostAlgorithms = 16;
constexpr int kMeasuredRuns = 3;

cudnnDataType_t DataTypeOf(Type type) {
  switch (type) {
    case Type::kDouble: return CUDNN_DATA_DOUBLE;
    case Type::kHalf: return CUDNN_DATA_HALF;
    case Type::kBfloat16: return CUDNN_DATA_BFLOAT16;
    default: return CUDNN_DATA_FLOAT;
  }
}

// A stream for the time of a measurement. Nothing here waits for the device as a whole, which is not allowed while another
// thread captures a step.
class OwnStream {
 public:
  OwnStream() { failed_ = cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) != cudaSuccess; }
  ~OwnStream() {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  cudaStream_t get() const { return stream_; }
  bool failed() const { return failed_; }

 private:
  cudaStream_t stream_ = nullptr;
  bool failed_ = false;
};

// Device memory for the time of a measurement, zeros for what follows on the stream.
class Borrowed {
 public:
  Borrowed(size_t bytes, cudaStream_t stream) {
    if (bytes > 0 && cudaMalloc(&memory_, bytes) == cudaSuccess) cudaMemsetAsync(memory_, 0, bytes, stream);
    failed_ = bytes > 0 && memory_ == nullptr;
    cudaGetLastError();
  }
  ~Borrowed() { cudaFree(memory_); }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  void* get() const { return memory_; }
  bool failed() const { return failed_; }

 private:
  void* memory_ = nullptr;
  bool failed_ = false;
};

class DnnConvolution final : public Convolution {
 public:
  DnnConvolution(const CudaServices& services, const ConvShape& shape) : services_(services), shape_(shape) {}
  ~DnnConvolution() override {
    if (input_ != nullptr) cudnnDestroyTensorDescriptor(input_);
    if (output_ != nullptr) cudnnDestroyTensorDescriptor(output_);
    if (filter_ != nullptr) cudnnDestroyFilterDescriptor(filter_);
    if (convolution_ != nullptr) cudnnDestroyConvolutionDescriptor(convolution_);
  }

  // As it was chosen before.
  absl::Status Init(const ConvolutionChoice& known) {
    MR_RETURN_IF_ERROR(Describe());
    return Take(known);
  }
  // Chooses. Under the planning mutex.
  absl::Status Init() {
    MR_RETURN_IF_ERROR(Describe());
    std::vector<Candidate> candidates;
    MR_RETURN_IF_ERROR(Rank(candidates));
    std::erase_if(candidates, [&](Candidate& candidate) { return !Completes(candidate); });
    if (candidates.empty()) return absl::UnimplementedError("cuDNN has no deterministic algorithm for this convolution");
    const auto named = std::find_if(candidates.begin(), candidates.end(),
                                    [&](const Candidate& candidate) { return candidate.algorithm == shape_.algorithm; });
    if (shape_.algorithm >= 0) {
      if (named == candidates.end()) {
        return absl::FailedPreconditionError(absl::StrCat("the plan was made with algorithm ", shape_.algorithm,
                                                          " of cuDNN, which this device or version does not offer"));
      }
      return Take(*named);
    }
    MR_RETURN_IF_ERROR(Take(candidates.front()));
    return Try(candidates);
  }

  const ConvolutionChoice& chosen() const { return chosen_; }
  int algorithm() const override { return chosen_.algorithm; }
  double seconds() const override { return chosen_.seconds; }
  int64_t scratch_bytes() const override { return AlignUp(static_cast<int64_t>(chosen_.scratch_bytes), kLibraryAlignment); }

  absl::Status Run(const Queue& queue, void* input, void* filter, void* output, void* scratch) const override {
    MR_RETURN_IF_ERROR(Check(cudnnSetStream(services_.dnn(), static_cast<cudaStream_t>(queue.stream)), "cudnnSetStream"));
    return Compute(services_.dnn(), input, filter, output, scratch);
  }

 private:
  using Candidate = ConvolutionChoice;

  absl::Status Check(cudnnStatus_t status, const char* call) const { return DnnStatus(status, services_.device(), call); }

  // cuDNN counts elements in ints.
  bool TooLarge() const {
    const auto elements = [&](int64_t channels, const ConvShape::Sizes& size) {
      return shape_.batch * channels * size[0] * size[1] * size[2];
    };
    return std::max(elements(shape_.in_channels, shape_.in), elements(shape_.out_channels, shape_.out)) > INT32_MAX;
  }

  absl::Status Describe() {
    if (TooLarge()) return absl::UnimplementedError("cuDNN takes no tensors of 2^31 elements");
    MR_RETURN_IF_ERROR(Check(cudnnCreateTensorDescriptor(&input_), "an input's descriptor"));
    MR_RETURN_IF_ERROR(Check(cudnnCreateTensorDescriptor(&output_), "an output's descriptor"));
    MR_RETURN_IF_ERROR(Check(cudnnCreateFilterDescriptor(&filter_), "a filter's descriptor"));
    MR_RETURN_IF_ERROR(Check(cudnnCreateConvolutionDescriptor(&convolution_), "a convolution's descriptor"));
    const cudnnDataType_t type = DataTypeOf(shape_.type);
    const int rank = shape_.spatial + 2;
    MR_RETURN_IF_ERROR(DescribeTensor(input_, shape_.in_channels, shape_.in));
    MR_RETURN_IF_ERROR(DescribeTensor(output_, shape_.out_channels, shape_.out));
    std::array<int, 5> filter{static_cast<int>(shape_.out_channels), static_cast<int>(shape_.in_channels / shape_.groups)};
    std::array<int, 3> pad{}, stride{}, dilation{};
    for (int i = 0; i < shape_.spatial; ++i) {
      filter[i + 2] = static_cast<int>(shape_.kernel[i]);
      pad[i] = static_cast<int>(shape_.pad[i]);
      stride[i] = static_cast<int>(shape_.stride[i]);
      dilation[i] = static_cast<int>(shape_.dilation[i]);
    }
    MR_RETURN_IF_ERROR(Check(cudnnSetFilterNdDescriptor(filter_, type, shape_.channels_first ? CUDNN_TENSOR_NCHW : CUDNN_TENSOR_NHWC,
                                                        rank, filter.data()), "the filter"));
    const cudnnDataType_t compute = shape_.type == Type::kDouble ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    MR_RETURN_IF_ERROR(Check(cudnnSetConvolutionNdDescriptor(convolution_, shape_.spatial, pad.data(), stride.data(),
                                                             dilation.data(), CUDNN_CROSS_CORRELATION, compute),
                             "the convolution"));
    MR_RETURN_IF_ERROR(Check(cudnnSetConvolutionGroupCount(convolution_, static_cast<int>(shape_.groups)), "its groups"));
    return SetMath(rounds() ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH);
  }

  // Sizes are given with the channels second, whatever the layout; strides say what it is.
  absl::Status DescribeTensor(cudnnTensorDescriptor_t descriptor, int64_t channels, const ConvShape::Sizes& size) const {
    std::array<int, 5> dims{static_cast<int>(shape_.batch), static_cast<int>(channels)}, strides{};
    int64_t step = shape_.channels_first ? 1 : channels, plane = 1;
    for (int i = shape_.spatial - 1; i >= 0; --i) {
      dims[i + 2] = static_cast<int>(size[i]);
      strides[i + 2] = static_cast<int>(step);
      step *= size[i];
      plane *= size[i];
    }
    strides[1] = shape_.channels_first ? static_cast<int>(plane) : 1;
    strides[0] = static_cast<int>(plane * channels);
    return Check(cudnnSetTensorNdDescriptor(descriptor, DataTypeOf(shape_.type), shape_.spatial + 2, dims.data(), strides.data()),
                 "a tensor");
  }

  // Whether products may be rounded: always in halves, in floats where the user says so. The default math of cuDNN
  // rounds floats to TF32 on these devices, so it is never left at that.
  bool rounds() const {
    return shape_.type == Type::kHalf || shape_.type == Type::kBfloat16 ||
           (shape_.type == Type::kFloat && services_.choices().tf32);
  }
  absl::Status SetMath(cudnnMathType_t math) const {
    return Check(cudnnSetConvolutionMathType(convolution_, rounds() ? math : CUDNN_FMA_MATH), "its precision");
  }

  template <typename Result>
  void Keep(const Result* results, int count, std::vector<Candidate>& candidates) const {
    for (int i = 0; i < count; ++i) {
      const Result& result = results[i];
      if (result.status != CUDNN_STATUS_SUCCESS || result.determinism != CUDNN_DETERMINISTIC) continue;
      const bool known = std::any_of(candidates.begin(), candidates.end(), [&](const Candidate& candidate) {
        return candidate.algorithm == static_cast<int>(result.algo);
      });
      if (!known) candidates.push_back({static_cast<int>(result.algo), result.mathType, 0, 0, absl::OkStatus()});
    }
  }

  absl::Status Rank(std::vector<Candidate>& candidates) const {
    const cudnnHandle_t dnn = services_.planning_dnn();
    int count = 0;
    switch (shape_.part) {
      case ConvPart::kForward: {
        cudnnConvolutionFwdAlgoPerf_t results[kMostAlgorithms];
        MR_RETURN_IF_ERROR(Check(cudnnGetConvolutionForwardAlgorithm_v7(dnn, input_, filter_, convolution_, output_,
                                                                        kMostAlgorithms, &count, results),
                                 "cudnnGetConvolutionForwardAlgorithm_v7"));
        Keep(results, count, candidates);
        return absl::OkStatus();
      }
      case ConvPart::kInput: {
        cudnnConvolutionBwdDataAlgoPerf_t results[kMostAlgorithms];
        MR_RETURN_IF_ERROR(Check(cudnnGetConvolutionBackwardDataAlgorithm_v7(dnn, filter_, output_, convolution_, input_,
                                                                             kMostAlgorithms, &count, results),
                                 "cudnnGetConvolutionBackwardDataAlgorithm_v7"));
        Keep(results, count, candidates);
        return absl::OkStatus();
      }
      case ConvPart::kFilter: {
        cudnnConvolutionBwdFilterAlgoPerf_t results[kMostAlgorithms];
        MR_RETURN_IF_ERROR(Check(cudnnGetConvolutionBackwardFilterAlgorithm_v7(dnn, input_, output_, convolution_, filter_,
                                                                               kMostAlgorithms, &count, results),
                                 "cudnnGetConvolutionBackwardFilterAlgorithm_v7"));
        Keep(results, count, candidates);
        return absl::OkStatus();
      }
    }
    return absl::InternalError("an unknown part of a convolution");
  }

  // Fills in the scratch that the algorithm needs in the precision it will have; false where it is not supported so.
  bool Completes(Candidate& candidate) const {
    if (!SetMath(candidate.math).ok()) return false;
    const cudnnHandle_t dnn = services_.planning_dnn();
    cudnnStatus_t status = CUDNN_STATUS_NOT_SUPPORTED;
    size_t* bytes = &candidate.scratch_bytes;
    switch (shape_.part) {
      case ConvPart::kForward:
        status = cudnnGetConvolutionForwardWorkspaceSize(dnn, input_, filter_, convolution_, output_,
                                                         static_cast<cudnnConvolutionFwdAlgo_t>(candidate.algorithm), bytes);
        break;
      case ConvPart::kInput:
        status = cudnnGetConvolutionBackwardDataWorkspaceSize(
            dnn, filter_, output_, convolution_, input_, static_cast<cudnnConvolutionBwdDataAlgo_t>(candidate.algorithm), bytes);
        break;
      case ConvPart::kFilter:
        status = cudnnGetConvolutionBackwardFilterWorkspaceSize(
            dnn, input_, output_, convolution_, filter_, static_cast<cudnnConvolutionBwdFilterAlgo_t>(candidate.algorithm), bytes);
        break;
    }
    return status == CUDNN_STATUS_SUCCESS && *bytes <= kMostScratch;
  }

  absl::Status Take(const Candidate& candidate) {
    chosen_ = candidate;
    return SetMath(candidate.math);
  }

  absl::Status Compute(cudnnHandle_t dnn, void* input, void* filter, void* output, void* scratch) const {
    const float one = 1, zero = 0;
    const double wide_one = 1, wide_zero = 0;
    const bool wide = shape_.type == Type::kDouble;
    const void* alpha = wide ? static_cast<const void*>(&wide_one) : &one;
    const void* beta = wide ? static_cast<const void*>(&wide_zero) : &zero;
    if (chosen_.scratch_bytes == 0) scratch = nullptr;
    switch (shape_.part) {
      case ConvPart::kForward:
        return Check(cudnnConvolutionForward(dnn, alpha, input_, input, filter_, filter, convolution_,
                                             static_cast<cudnnConvolutionFwdAlgo_t>(chosen_.algorithm), scratch,
                                             chosen_.scratch_bytes, beta, output_, output),
                     "cudnnConvolutionForward");
      case ConvPart::kInput:
        return Check(cudnnConvolutionBackwardData(dnn, alpha, filter_, filter, output_, output, convolution_,
                                                  static_cast<cudnnConvolutionBwdDataAlgo_t>(chosen_.algorithm), scratch,
                                                  chosen_.scratch_bytes, beta, input_, input),
                     "cudnnConvolutionBackwardData");
      case ConvPart::kFilter:
        return Check(cudnnConvolutionBackwardFilter(dnn, alpha, input_, input, output_, output, convolution_,
                                                    static_cast<cudnnConvolutionBwdFilterAlgo_t>(chosen_.algorithm), scratch,
                                                    chosen_.scratch_bytes, beta, filter_, filter),
                     "cudnnConvolutionBackwardFilter");
    }
    return absl::InternalError("an unknown part of a convolution");
  }

  // Runs candidates and takes the first that does run, or the fastest where they are measured: what cuDNN ranks it may
  // still refuse. Where the device has no memory left for it, the choice stays.
  absl::Status Try(std::vector<Candidate>& candidates) {
    const bool measures = services_.choices().measure_convolutions;
    size_t most = 0;
    for (const Candidate& candidate : candidates) most = std::max(most, candidate.scratch_bytes);
    const size_t bytes = shape_.type == Type::kDouble ? 8 : shape_.type == Type::kFloat ? 4 : 2;
    const auto elements = [&](int64_t channels, const ConvShape::Sizes& size) {
      return static_cast<size_t>(shape_.batch * channels * size[0] * size[1] * size[2]) * bytes;
    };
    const OwnStream own;
    if (own.failed()) return CudaStatus(cudaGetLastError(), services_.device(), "cudaStreamCreateWithFlags");
    const cudaStream_t stream = own.get();
    const Borrowed input(elements(shape_.in_channels, shape_.in), stream);
    const Borrowed output(elements(shape_.out_channels, shape_.out), stream);
    const Borrowed filter(static_cast<size_t>(shape_.out_channels * shape_.in_channels / shape_.groups * shape_.kernel[0] *
                                              shape_.kernel[1] * shape_.kernel[2]) * bytes, stream);
    const Borrowed scratch(most, stream);
    if (input.failed() || output.failed() || filter.failed() || scratch.failed()) return absl::OkStatus();
    cudaEvent_t from = nullptr, to = nullptr;
    const auto check = [&](cudaError_t error) { return CudaStatus(error, services_.device(), "measuring a convolution"); };
    absl::Status status = check(cudaEventCreate(&from));
    status.Update(check(cudaEventCreate(&to)));
    status.Update(Check(cudnnSetStream(services_.planning_dnn(), stream), "cudnnSetStream"));
    Candidate best;
    bool found = false;
    for (Candidate& candidate : candidates) {
      if (!status.ok() || (found && !measures)) break;
      if (!Take(candidate).ok()) continue;
      const auto time = [&]() -> absl::Status {
        MR_RETURN_IF_ERROR(check(cudaEventRecord(from, stream)));
        MR_RETURN_IF_ERROR(Compute(services_.planning_dnn(), input.get(), filter.get(), output.get(), scratch.get()));
        MR_RETURN_IF_ERROR(check(cudaEventRecord(to, stream)));
        MR_RETURN_IF_ERROR(check(cudaEventSynchronize(to)));
        float milliseconds = 0;
        MR_RETURN_IF_ERROR(check(cudaEventElapsedTime(&milliseconds, from, to)));
        if (candidate.seconds == 0 || milliseconds * 1e-3 < candidate.seconds) candidate.seconds = milliseconds * 1e-3;
        return absl::OkStatus();
      };
      // The first run loads the kernel. One that cannot run after all is no candidate.
      bool ran = time().ok();
      // Far behind already, even if some of it went into loading the kernel: slow ones would take most of the time.
      if (ran && found && candidate.seconds > 3 * best.seconds + 5e-3) continue;
      candidate.seconds = 0;
      for (int run = 0; run < kMeasuredRuns && ran && measures; ++run) ran = time().ok();
      if (!ran || (found && candidate.seconds >= best.seconds)) continue;
      best = candidate;
      found = true;
    }
    if (to != nullptr) cudaEventDestroy(to);
    if (from != nullptr) cudaEventDestroy(from);
    MR_RETURN_IF_ERROR(status);
    return found ? Take(best) : absl::UnimplementedError("cuDNN runs none of its algorithms for this convolution");
  }

  const CudaServices& services_;
  const ConvShape shape_;
  cudnnTensorDescriptor_t input_ = nullptr, output_ = nullptr;
  cudnnFilterDescriptor_t filter_ = nullptr;
  cudnnConvolutionDescriptor_t convolution_ = nullptr;
  Candidate chosen_;
};

}  // namespace

namespace {

// Everything that tells one convolution from another.
std::string KeyOf(const ConvShape& shape) {
  std::string key = absl::StrCat(shape.channels_first, " ", static_cast<int>(shape.part), " ", static_cast<int>(shape.type), " ",
                                 shape.spatial, " ", shape.batch, " ", shape.in_channels, " ", shape.out_channels, " ",
                                 shape.groups, " ", shape.algorithm);
  for (const ConvShape::Sizes* sizes : {&shape.in, &shape.out, &shape.kernel, &shape.stride, &shape.dilation, &shape.pad}) {
    for (const int64_t size : *sizes) absl::StrAppend(&key, " ", size);
  }
  return key;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Convolution>> CudaServices::PlanConvolution(const ConvShape& shape) {
  MR_RETURN_IF_ERROR(Use());
  std::lock_guard<std::mutex> lock(planning_mutex());
  auto convolution = std::make_unique<DnnConvolution>(*this, shape);
  const std::string key = KeyOf(shape);
  const auto known = convolutions_.find(key);
  absl::Status planned;
  if (known == convolutions_.end()) {
    planned = convolution->Init();
    // A lost device says nothing about the convolution.
    if (absl::IsUnavailable(planned)) return planned;
    ConvolutionChoice& choice = convolutions_[key];
    choice = convolution->chosen();
    choice.status = planned;
  } else {
    planned = known->second.status;
    if (planned.ok()) planned = convolution->Init(known->second);
  }
  if (planned.ok()) return std::unique_ptr<Convolution>(std::move(convolution));
  // Whatever cuDNN has against it, there are other ways to compute it; but a plan that names one means that one.
  if (shape.algorithm >= 0 || absl::IsUnavailable(planned)) return planned;
  VLOG(1) << planned;
  return absl::UnimplementedError(planned.message());
}

}  // namespace millrace::cuda
