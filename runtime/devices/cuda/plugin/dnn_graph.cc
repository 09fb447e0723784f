#include "cuda/plugin/dnn_graph.h"

#include <utility>
#include <vector>

#include "millrace/status.h"
#include "millrace/types.h"

namespace millrace::cuda {
namespace {

using Sizes = ConvShape::Sizes;

cudnnDataType_t DataTypeOf(Type type) {
  switch (type) {
    case Type::kDouble: return CUDNN_DATA_DOUBLE;
    case Type::kHalf: return CUDNN_DATA_HALF;
    case Type::kBfloat16: return CUDNN_DATA_BFLOAT16;
    default: return CUDNN_DATA_FLOAT;
  }
}

// cuDNN's sizes are [outer, channels, space ...] in either layout; strides say which it is.
absl::StatusOr<DnnDescriptor> Tensor(const ConvShape& shape, int64_t id, int64_t outer, int64_t channels, const Sizes& size,
                                     bool in_memory = true) {
  const int rank = shape.spatial + 2;
  std::vector<int64_t> dims(rank, outer), strides(rank);
  dims[1] = channels;
  int64_t step = shape.channels_first ? 1 : channels;
  for (int i = rank - 1; i >= 2; --i) {
    dims[i] = size[i - 2];
    strides[i] = step;
    step *= dims[i];
  }
  strides[1] = shape.channels_first ? step : 1;
  strides[0] = shape.channels_first ? step * channels : step;
  if (outer * strides[0] > INT32_MAX) return absl::UnimplementedError("cuDNN is not given tensors of 2^31 elements");
  DnnDescriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
      .Set(CUDNN_ATTR_TENSOR_DATA_TYPE, in_memory ? DataTypeOf(shape.type) : CUDNN_DATA_FLOAT)
      .Set(CUDNN_ATTR_TENSOR_DIMENSIONS, dims)
      .Set(CUDNN_ATTR_TENSOR_STRIDES, strides)
      .Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kTensorAlignment);
  const bool is_virtual = true;
  if (!in_memory) tensor.Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
  MR_RETURN_IF_ERROR(tensor.Finalize("a tensor"));
  return tensor;
}

absl::StatusOr<DnnDescriptor> Window(const ConvShape& shape) {
  const auto sizes = [&](const Sizes& all) { return absl::MakeConstSpan(all.data(), static_cast<size_t>(shape.spatial)); };
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  DnnDescriptor window(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  window.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, shape.type == Type::kDouble ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT)
      .Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode)
      .Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{shape.spatial})
      .Set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, sizes(shape.pad))
      .Set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, sizes(shape.pad_after))
      .Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, sizes(shape.stride))
      .Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, sizes(shape.dilation));
  MR_RETURN_IF_ERROR(window.Finalize("a convolution"));
  return window;
}

// The names of one part's attributes.
struct Operation {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t alpha, beta, window, input, filter, output;
};

Operation OperationOf(ConvPart part) {
  switch (part) {
    case ConvPart::kForward: break;
    case ConvPart::kInput:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
    case ConvPart::kFilter:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
}

// y = mode(x, b), or of x alone.
absl::StatusOr<DnnDescriptor> Pointwise(cudnnPointwiseMode_t mode, const DnnDescriptor& x, const DnnDescriptor* b,
                                        const DnnDescriptor& y) {
  DnnDescriptor pointwise(CUDNN_BACKEND_POINTWISE_DESCRIPTOR), operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  pointwise.Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode)
      .Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  const cudnnNanPropagation_t nan = CUDNN_PROPAGATE_NAN;
  if (b == nullptr) pointwise.Set(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, 1, &nan);
  MR_RETURN_IF_ERROR(pointwise.Finalize("what follows a convolution"));
  operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise)
      .Set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x)
      .Set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  if (b != nullptr) operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
  MR_RETURN_IF_ERROR(operation.Finalize("the operation behind a convolution"));
  return operation;
}

absl::StatusOr<DnnDescriptor> Convolve(const ConvShape& shape, const DnnDescriptor& input, const DnnDescriptor& filter,
                                       const DnnDescriptor& output) {
  MR_ASSIGN_OR_RETURN(const DnnDescriptor window, Window(shape));
  const Operation names = OperationOf(shape.part);
  const float one = 1, zero = 0;
  const double wide_one = 1, wide_zero = 0;
  const bool wide = shape.type == Type::kDouble;
  const cudnnBackendAttributeType_t scale = wide ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;
  DnnDescriptor operation(names.type);
  operation.Set(names.alpha, scale, 1, wide ? static_cast<const void*>(&wide_one) : &one)
      .Set(names.beta, scale, 1, wide ? static_cast<const void*>(&wide_zero) : &zero)
      .Set(names.window, window)
      .Set(names.input, input)
      .Set(names.filter, filter)
      .Set(names.output, output);
  MR_RETURN_IF_ERROR(operation.Finalize("the operation of a convolution"));
  return operation;
}

// Of operations, which cuDNN looks at in this order.
absl::StatusOr<DnnDescriptor> GraphOf(const std::vector<DnnDescriptor>& operations, cudnnHandle_t handle) {
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const DnnDescriptor& operation : operations) raw.push_back(operation.get());
  DnnDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
// The name is marked as deprecated in some versions of cuDNN 9, where it is still what the others have.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  if (handle != nullptr) graph.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
#pragma GCC diagnostic pop
  graph.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(raw.size()), raw.data());
  MR_RETURN_IF_ERROR(graph.Finalize("the graph of a convolution"));
  return graph;
}

}  // namespace

absl::StatusOr<DnnDescriptor> DnnGraph(const ConvShape& shape, cudnnHandle_t handle) {
  MR_ASSIGN_OR_RETURN(const DnnDescriptor input, Tensor(shape, kInputId, shape.batch, shape.in_channels, shape.in));
  // cuDNN tells the groups by the channels of input and filter.
  MR_ASSIGN_OR_RETURN(const DnnDescriptor filter,
                      Tensor(shape, kFilterId, shape.out_channels, shape.in_channels / shape.groups, shape.kernel));
  const auto like_output = [&](int64_t id, bool in_memory) {
    return Tensor(shape, id, shape.batch, shape.out_channels, shape.out, in_memory);
  };
  MR_ASSIGN_OR_RETURN(const DnnDescriptor output, like_output(kOutputId, true));
  std::vector<DnnDescriptor> operations;
  if (shape.epilogue == Epilogue::kNone) {
    MR_ASSIGN_OR_RETURN(operations.emplace_back(), Convolve(shape, input, filter, output));
    return GraphOf(operations, handle);
  }
  if (shape.type == Type::kDouble || shape.epilogue == Epilogue::kBiasGelu) {
    return absl::UnimplementedError("cuDNN has no such epilogue that is compiled beforehand");
  }
  // cuDNN's engines add the side before the bias.
  std::vector<std::pair<cudnnPointwiseMode_t, DnnDescriptor>> steps;
  if (shape.side) {
    MR_ASSIGN_OR_RETURN(DnnDescriptor side, like_output(kSideId, true));
    steps.emplace_back(CUDNN_POINTWISE_ADD, std::move(side));
  }
  MR_ASSIGN_OR_RETURN(DnnDescriptor bias, Tensor(shape, kBiasId, 1, shape.out_channels, {1, 1, 1}));
  steps.emplace_back(CUDNN_POINTWISE_ADD, std::move(bias));
  if (shape.epilogue == Epilogue::kBiasRelu) steps.emplace_back(CUDNN_POINTWISE_RELU_FWD, DnnDescriptor());
  constexpr int64_t kFirstBetweenId = 6;
  MR_ASSIGN_OR_RETURN(DnnDescriptor before, like_output(kFirstBetweenId, false));
  MR_ASSIGN_OR_RETURN(operations.emplace_back(), Convolve(shape, input, filter, before));
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto& [mode, operand] = steps[i];
    const DnnDescriptor* other = operand.get() != nullptr ? &operand : nullptr;
    if (i + 1 == steps.size()) {
      MR_ASSIGN_OR_RETURN(operations.emplace_back(), Pointwise(mode, before, other, output));
      break;
    }
    MR_ASSIGN_OR_RETURN(DnnDescriptor after, like_output(kFirstBetweenId + 1 + static_cast<int64_t>(i), false));
    MR_ASSIGN_OR_RETURN(operations.emplace_back(), Pointwise(mode, before, other, after));
    before = std::move(after);
  }
  return GraphOf(operations, handle);
}

}  // namespace millrace::cuda
