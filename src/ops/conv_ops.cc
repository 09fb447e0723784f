// Conv2D, Conv3D, DepthwiseConv2dNative and their gradients: shape and cost rules.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "ops/register.h"
#include "ops/rules.h"
#include "ops/windows.h"

namespace millrace {
namespace {

enum class ConvKind { kForward, kInput, kFilter };

// Where a convolution's tensors are among its node's inputs, and what the filter's dimensions mean.
struct ConvOp {
  ConvKind kind;
  int spatial;     // 2 or 3
  bool depthwise;  // filter [h, w, channels, multiplier]
};

// The shape of the layer's input, filter or output; the one that the node computes comes from a sizes input.
struct ConvShapes {
  Shape input, filter, output;
};

absl::Status ExpectRank(const InferenceContext& context, const char* what, const Shape& shape, int rank) {
  if (shape.unknown_rank() || shape.rank() == rank) return absl::OkStatus();
  return context.Error(absl::StrCat(what, " has shape ", shape.ToString(), ", expected rank ", rank));
}

absl::StatusOr<int64_t> OutputChannels(const InferenceContext& context, const ConvOp& op, int64_t channels,
                                       const Shape& filter) {
  const int64_t filter_in = filter.dim(op.spatial), filter_out = filter.dim(op.spatial + 1);
  if (op.depthwise) {
    if (channels >= 0 && filter_in >= 0 && channels != filter_in) {
      return context.Error(absl::StrCat("the input has ", channels, " channels, the filter ", filter.ToString(),
                                        " is for ", filter_in));
    }
    const int64_t in = channels >= 0 ? channels : filter_in;
    return in < 0 || filter_out < 0 ? -1 : in * filter_out;
  }
  if (channels >= 0 && filter_in >= 0) {
    if (filter_in == 0 || channels % filter_in != 0) {
      return context.Error(absl::StrCat("the input has ", channels, " channels, expected a multiple of the ",
                                        filter_in, " that the filter ", filter.ToString(), " is for"));
    }
    if (filter_out >= 0 && filter_out % (channels / filter_in) != 0) {
      return context.Error(absl::StrCat("the filter ", filter.ToString(), " has ", filter_out,
                                        " outputs, expected a multiple of the ", channels / filter_in, " groups"));
    }
  }
  return filter_out;
}

// The output's shape of a layer with this input and filter.
absl::StatusOr<Shape> LayerOutput(const InferenceContext& context, const ConvOp& op, const Shape& input,
                                  const Shape& filter) {
  const int rank = op.spatial + 2;
  MR_RETURN_IF_ERROR(ExpectRank(context, "the input", input, rank));
  MR_RETURN_IF_ERROR(ExpectRank(context, "the filter", filter, rank));
  MR_ASSIGN_OR_RETURN(const WindowAttrs window, ReadWindowAttrs(context, rank, /*has_window=*/false));
  Shape output;
  for (int i = 0; i < rank; ++i) output.AddDim(-1);
  if (input.unknown_rank() || filter.unknown_rank()) return output;
  for (int64_t dim : filter.dims()) {
    if (dim == 0) return context.Error(absl::StrCat("the filter is empty: ", filter.ToString()));
  }
  output.set_dim(0, input.dim(0));
  MR_ASSIGN_OR_RETURN(const int64_t channels,
                      OutputChannels(context, op, input.dim(window.channel_dim), filter));
  output.set_dim(window.channel_dim, channels);
  for (int i = 0; i < op.spatial; ++i) {
    MR_ASSIGN_OR_RETURN(const int64_t size,
                        WindowOutputSize(context, window, i, input.dim(window.spatial_dim(i)), filter.dim(i)));
    output.set_dim(window.spatial_dim(i), size);
  }
  return output;
}

absl::Status ConvForwardShape(InferenceContext& context, const ConvOp& op) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  if (context.dtype(0) != context.dtype(1)) {
    return context.Error(absl::StrCat("input ", context.input(0).ToString(), " and filter ",
                                      context.input(1).ToString(), " differ in element type"));
  }
  MR_ASSIGN_OR_RETURN(Shape output, LayerOutput(context, op, context.shape(0), context.shape(1)));
  context.AddOutput(context.dtype(0), std::move(output));
  return absl::OkStatus();
}

// The input_sizes or filter_sizes that a gradient is given as a tensor.
absl::StatusOr<Shape> GivenShape(const InferenceContext& context, const ConvOp& op, int input) {
  MR_ASSIGN_OR_RETURN(std::vector<int64_t> sizes, KnownInts(context, input));
  const int rank = op.spatial + 2;
  if (op.kind == ConvKind::kInput && static_cast<int>(sizes.size()) == op.spatial &&
      !context.shape(1).unknown_rank() && !context.shape(2).unknown_rank()) {
    const bool channels_first = context.attrs().GetOr<std::string>("data_format", "NHWC")[1] == 'C';
    const int64_t channels = context.shape(1).dim(op.spatial);
    sizes.insert(sizes.begin(), context.shape(2).dim(0));
    sizes.insert(channels_first ? sizes.begin() + 1 : sizes.end(), channels);
  }
  if (static_cast<int>(sizes.size()) != rank) {
    return context.Error(absl::StrCat("input ", input, " gives ", sizes.size(), " sizes, expected ", rank));
  }
  for (int64_t size : sizes) {
    if (size < 0) return context.Error(absl::StrCat("input ", input, " gives a negative size ", size));
  }
  return Shape(absl::MakeConstSpan(sizes));
}

absl::Status ConvGradientShape(InferenceContext& context, const ConvOp& op) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  const bool filter_gradient = op.kind == ConvKind::kFilter;
  const int sizes_input = filter_gradient ? 1 : 0, other = filter_gradient ? 0 : 1;
  if (context.dtype(other) != context.dtype(2)) {
    return context.Error(absl::StrCat("inputs ", context.input(other).ToString(), " and ",
                                      context.input(2).ToString(), " differ in element type"));
  }
  MR_RETURN_IF_ERROR(ExpectRank(context, "the output's gradient", context.shape(2), op.spatial + 2));
  MR_ASSIGN_OR_RETURN(Shape result, GivenShape(context, op, sizes_input));
  const Shape& input = filter_gradient ? context.shape(0) : result;
  const Shape& filter = filter_gradient ? result : context.shape(1);
  MR_ASSIGN_OR_RETURN(const Shape expected, LayerOutput(context, op, input, filter));
  for (int i = 0; i < expected.rank() && !context.shape(2).unknown_rank(); ++i) {
    const int64_t given = context.shape(2).dim(i);
    if (given >= 0 && expected.dim(i) >= 0 && given != expected.dim(i)) {
      return context.Error(absl::StrCat("the output's gradient has shape ", context.shape(2).ToString(), ", expected ",
                                        expected.ToString(), " for input ", input.ToString(), " and filter ",
                                        filter.ToString()));
    }
  }
  context.AddOutput(context.dtype(2), std::move(result));
  return absl::OkStatus();
}

Cost ConvCost(const OpInstance& node, const ConvOp& op) {
  const Shape& filter = op.kind == ConvKind::kFilter ? node.outputs[0].shape : node.inputs[1].shape;
  const Shape& output = op.kind == ConvKind::kForward ? node.outputs[0].shape : node.inputs[2].shape;
  double taps = op.depthwise ? 1 : static_cast<double>(filter.dim(op.spatial));
  for (int i = 0; i < op.spatial; ++i) taps *= static_cast<double>(filter.dim(i));
  Cost cost;
  cost.flops = 2 * taps * static_cast<double>(output.num_elements());
  for (const TensorType& type : node.inputs) cost.bytes += static_cast<double>(type.size_bytes());
  for (const TensorType& type : node.outputs) cost.bytes += static_cast<double>(type.size_bytes());
  cost.scratch_bytes = filter.num_elements() * DataTypeSize(node.outputs[0].dtype);
  return cost;
}

void AddConv(OpRegistry& registry, const char* name, const ConvOp& op) {
  const auto shape = [op](InferenceContext& context) {
    return op.kind == ConvKind::kForward ? ConvForwardShape(context, op) : ConvGradientShape(context, op);
  };
  AddOp(registry, {.name = name, .shape = shape, .cost = [op](const OpInstance& node) { return ConvCost(node, op); }});
}

}  // namespace

void RegisterConvOps(OpRegistry& registry) {
  AddConv(registry, "Conv2D", {ConvKind::kForward, 2, false});
  AddConv(registry, "Conv2DBackpropInput", {ConvKind::kInput, 2, false});
  AddConv(registry, "Conv2DBackpropFilter", {ConvKind::kFilter, 2, false});
  AddConv(registry, "Conv3D", {ConvKind::kForward, 3, false});
  AddConv(registry, "Conv3DBackpropInputV2", {ConvKind::kInput, 3, false});
  AddConv(registry, "Conv3DBackpropFilterV2", {ConvKind::kFilter, 3, false});
  AddConv(registry, "DepthwiseConv2dNative", {ConvKind::kForward, 2, true});
  AddConv(registry, "DepthwiseConv2dNativeBackpropInput", {ConvKind::kInput, 2, true});
  AddConv(registry, "DepthwiseConv2dNativeBackpropFilter", {ConvKind::kFilter, 2, true});
}

}  // namespace millrace
