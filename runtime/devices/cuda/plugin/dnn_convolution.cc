// Convolutions by cuDNN: of the algorithms that it ranks, the first that is deterministic, supported, and content with
// the scratch allowed.
#include <cudnn.h>

#include <array>
#include <utility>
#include <vector>

#include "cuda/plugin/cuda_services.h"
#include "millrace/status.h"
#include "millrace/types.h"

namespace millrace::cuda {
namespace {

constexpr size_t kMostScratch = size_t{512} << 20;
constexpr int kMostAlgorithms = 16;

cudnnDataType_t DataTypeOf(Type type) {
  switch (type) {
    case Type::kDouble: return CUDNN_DATA_DOUBLE;
    case Type::kHalf: return CUDNN_DATA_HALF;
    case Type::kBfloat16: return CUDNN_DATA_BFLOAT16;
    default: return CUDNN_DATA_FLOAT;
  }
}

class DnnConvolution final : public Convolution {
 public:
  DnnConvolution(const CudaServices& services, const ConvShape& shape) : services_(services), shape_(shape) {}
  ~DnnConvolution() override {
    if (input_ != nullptr) cudnnDestroyTensorDescriptor(input_);
    if (output_ != nullptr) cudnnDestroyTensorDescriptor(output_);
    if (filter_ != nullptr) cudnnDestroyFilterDescriptor(filter_);
    if (convolution_ != nullptr) cudnnDestroyConvolutionDescriptor(convolution_);
  }

  absl::Status Init() {
    MR_RETURN_IF_ERROR(Check(cudnnCreateTensorDescriptor(&input_), "an input's descriptor"));
    MR_RETURN_IF_ERROR(Check(cudnnCreateTensorDescriptor(&output_), "an output's descriptor"));
    MR_RETURN_IF_ERROR(Check(cudnnCreateFilterDescriptor(&filter_), "a filter's descriptor"));
    MR_RETURN_IF_ERROR(Check(cudnnCreateConvolutionDescriptor(&convolution_), "a convolution's descriptor"));
    const cudnnDataType_t type = DataTypeOf(shape_.type);
    // Sizes are given with the channels second, whatever the layout.
    const auto sizes = [&](int64_t first, int64_t second, const ConvShape::Sizes& spatial) {
      std::vector<int> result = {static_cast<int>(first), static_cast<int>(second)};
      for (int i = 0; i < shape_.spatial; ++i) result.push_back(static_cast<int>(spatial[i]));
      return result;
    };
    const int rank = shape_.spatial + 2;
    const std::vector<int> in = sizes(shape_.batch, shape_.in_channels, shape_.in);
    const std::vector<int> out = sizes(shape_.batch, shape_.out_channels, shape_.out);
    const std::vector<int> filter = sizes(shape_.out_channels, shape_.in_channels / shape_.groups, shape_.kernel);
    MR_RETURN_IF_ERROR(Check(cudnnSetTensorNdDescriptorEx(input_, CUDNN_TENSOR_NHWC, type, rank, in.data()), "the input"));
    MR_RETURN_IF_ERROR(Check(cudnnSetTensorNdDescriptorEx(output_, CUDNN_TENSOR_NHWC, type, rank, out.data()), "the output"));
    MR_RETURN_IF_ERROR(Check(cudnnSetFilterNdDescriptor(filter_, type, CUDNN_TENSOR_NHWC, rank, filter.data()), "the filter"));
    std::array<int, 3> pad{}, stride{}, dilation{};
    for (int i = 0; i < shape_.spatial; ++i) {
      pad[i] = static_cast<int>(shape_.pad[i]);
      stride[i] = static_cast<int>(shape_.stride[i]);
      dilation[i] = static_cast<int>(shape_.dilation[i]);
    }
    MR_RETURN_IF_ERROR(Check(cudnnSetConvolutionNdDescriptor(convolution_, shape_.spatial, pad.data(), stride.data(),
                                                             dilation.data(), CUDNN_CROSS_CORRELATION,
                                                             shape_.type == Type::kDouble ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT),
                             "the convolution"));
    MR_RETURN_IF_ERROR(Check(cudnnSetConvolutionGroupCount(convolution_, static_cast<int>(shape_.groups)), "its groups"));
    const bool rounds = shape_.type != Type::kFloat || services_.tf32();
    MR_RETURN_IF_ERROR(Check(cudnnSetConvolutionMathType(convolution_, rounds ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH),
                             "its precision"));
    return Choose();
  }

  int64_t scratch_bytes() const override { return AlignUp(static_cast<int64_t>(scratch_bytes_), 256); }

  absl::Status Run(const Queue& queue, void* input, void* filter, void* output, void* scratch) const override {
    const float one = 1, zero = 0;
    const double wide_one = 1, wide_zero = 0;
    const bool wide = shape_.type == Type::kDouble;
    const void* alpha = wide ? static_cast<const void*>(&wide_one) : &one;
    const void* beta = wide ? static_cast<const void*>(&wide_zero) : &zero;
    MR_RETURN_IF_ERROR(Check(cudnnSetStream(services_.dnn(), static_cast<cudaStream_t>(queue.stream)), "cudnnSetStream"));
    switch (shape_.part) {
      case ConvPart::kForward:
        return Check(cudnnConvolutionForward(services_.dnn(), alpha, input_, input, filter_, filter, convolution_, forward_,
                                             scratch, scratch_bytes_, beta, output_, output),
                     "cudnnConvolutionForward");
      case ConvPart::kInput:
        return Check(cudnnConvolutionBackwardData(services_.dnn(), alpha, filter_, filter, output_, output, convolution_,
                                                  backward_input_, scratch, scratch_bytes_, beta, input_, input),
                     "cudnnConvolutionBackwardData");
      case ConvPart::kFilter:
        return Check(cudnnConvolutionBackwardFilter(services_.dnn(), alpha, input_, input, output_, output, convolution_,
                                                    backward_filter_, scratch, scratch_bytes_, beta, filter_, filter),
                     "cudnnConvolutionBackwardFilter");
    }
    return absl::InternalError("an unknown part of a convolution");
  }

 private:
  absl::Status Check(cudnnStatus_t status, const char* call) const { return DnnStatus(status, services_.device(), call); }

  template <typename Result, typename Algorithm>
  absl::Status TakeFirst(const Result* results, int count, Algorithm* algorithm) {
    for (int i = 0; i < count; ++i) {
      const Result& result = results[i];
      if (result.status != CUDNN_STATUS_SUCCESS || result.determinism != CUDNN_DETERMINISTIC ||
          result.memory > kMostScratch) {
        continue;
      }
      if (shape_.type == Type::kFloat && !services_.tf32() && result.mathType != CUDNN_DEFAULT_MATH &&
          result.mathType != CUDNN_FMA_MATH) {
        continue;
      }
      MR_RETURN_IF_ERROR(Check(cudnnSetConvolutionMathType(convolution_, result.mathType), "its precision"));
      *algorithm = result.algo;
      scratch_bytes_ = result.memory;
      return absl::OkStatus();
    }
    return absl::UnimplementedError("cuDNN has no deterministic algorithm for this convolution");
  }

  absl::Status Choose() {
    int count = 0;
    switch (shape_.part) {
      case ConvPart::kForward: {
        cudnnConvolutionFwdAlgoPerf_t results[kMostAlgorithms];
        MR_RETURN_IF_ERROR(Check(cudnnGetConvolutionForwardAlgorithm_v7(services_.dnn(), input_, filter_, convolution_,
                                                                        output_, kMostAlgorithms, &count, results),
                                 "cudnnGetConvolutionForwardAlgorithm_v7"));
        return TakeFirst(results, count, &forward_);
      }
      case ConvPart::kInput: {
        cudnnConvolutionBwdDataAlgoPerf_t results[kMostAlgorithms];
        MR_RETURN_IF_ERROR(Check(cudnnGetConvolutionBackwardDataAlgorithm_v7(services_.dnn(), filter_, output_, convolution_,
                                                                             input_, kMostAlgorithms, &count, results),
                                 "cudnnGetConvolutionBackwardDataAlgorithm_v7"));
        return TakeFirst(results, count, &backward_input_);
      }
      case ConvPart::kFilter: {
        cudnnConvolutionBwdFilterAlgoPerf_t results[kMostAlgorithms];
        MR_RETURN_IF_ERROR(Check(cudnnGetConvolutionBackwardFilterAlgorithm_v7(services_.dnn(), input_, output_, convolution_,
                                                                               filter_, kMostAlgorithms, &count, results),
                                 "cudnnGetConvolutionBackwardFilterAlgorithm_v7"));
        return TakeFirst(results, count, &backward_filter_);
      }
    }
    return absl::InternalError("an unknown part of a convolution");
  }

  const CudaServices& services_;
  const ConvShape shape_;
  cudnnTensorDescriptor_t input_ = nullptr, output_ = nullptr;
  cudnnFilterDescriptor_t filter_ = nullptr;
  cudnnConvolutionDescriptor_t convolution_ = nullptr;
  cudnnConvolutionFwdAlgo_t forward_ = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM;
  cudnnConvolutionBwdDataAlgo_t backward_input_ = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
  cudnnConvolutionBwdFilterAlgo_t backward_filter_ = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;
  size_t scratch_bytes_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Convolution>> CudaServices::PlanConvolution(const ConvShape& shape) {
  auto convolution = std::make_unique<DnnConvolution>(*this, shape);
  MR_RETURN_IF_ERROR(convolution->Init());
  return std::unique_ptr<Convolution>(std::move(convolution));
}

}  // namespace millrace::cuda
