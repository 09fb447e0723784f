// Conv2D, Conv3D, DepthwiseConv2dNative and their gradients, _FusedConv2D, _FusedConv3D: shape and cost rules.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/fused_conv.h"
#include "graph/window.h"
#include "millrace/status.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace millrace {
namespace {

enum class ConvKind { kForward, kInput, kFilter };

// Where a convolution's tensors are among its node's inputs, and what the filter's dimensions mean.
struct ConvOp {
  ConvKind kind;
  int spatial;     // 2 or 3
  bool depthwise;  // filter [h, w, channels, multiplier]
};

using Ints = std::vector<int64_t>;

// A layer's attributes, checked: lists have an entry per dimension (pads two), which is 1 (0) for batch and channels.
struct LayerAttrs {
  DataLayout layout;
  Ints strides, dilations, pads;
  std::string padding;
};

absl::StatusOr<Ints> DimensionList(const InferenceContext& context, const char* name, const DataLayout& layout,
                                   int per_dimension, int64_t neutral) {
  const size_t count = static_cast<size_t>(layout.rank) * per_dimension;
  Ints list = context.attrs().GetOr<Ints>(name, Ints(count, neutral));
  const auto error = [&](const std::string& expected) {
    return context.Error(absl::StrCat("attribute '", name, "' is [", absl::StrJoin(list, ","), "], expected ", expected));
  };
  if (list.size() != count) return error(absl::StrCat(count, " entries"));
  for (size_t i = 0; i < count; ++i) {
    const int dim = static_cast<int>(i) / per_dimension;
    if (list[i] < neutral || list[i] > INT32_MAX) return error(absl::StrCat("entries of ", neutral, " to ", INT32_MAX));
    if ((dim == 0 || dim == layout.channel()) && list[i] != neutral) {
      return error(absl::StrCat(neutral, " for batch and channels"));
    }
  }
  return list;
}

absl::StatusOr<DataLayout> LayerLayout(const InferenceContext& context, int rank) {
  const std::string format = context.attrs().GetOr<std::string>("data_format", rank == 5 ? "NDHWC" : "NHWC");
  absl::StatusOr<DataLayout> layout = ParseDataFormat(format);
  if (!layout.ok()) return ErrorAtNode(context, layout.status());
  if (layout->rank != rank) {
    return context.Error(absl::StrCat("attribute 'data_format' is ", format, ", expected one of ", rank, " dimensions"));
  }
  return layout;
}

absl::StatusOr<LayerAttrs> ReadLayerAttrs(const InferenceContext& context, int rank) {
  LayerAttrs attrs;
  MR_ASSIGN_OR_RETURN(attrs.layout, LayerLayout(context, rank));
  MR_ASSIGN_OR_RETURN(attrs.strides, DimensionList(context, "strides", attrs.layout, 1, 1));
  MR_ASSIGN_OR_RETURN(attrs.dilations, DimensionList(context, "dilations", attrs.layout, 1, 1));
  attrs.padding = context.attrs().GetOr<std::string>("padding", "");
  attrs.pads = Ints(2 * rank, 0);
  const bool given = !context.attrs().GetOr<Ints>("explicit_paddings", {}).empty();
  if (given && attrs.padding != "EXPLICIT") {
    return context.Error(absl::StrCat("attribute 'explicit_paddings' is given with padding '", attrs.padding, "'"));
  }
  if (given) {
    MR_ASSIGN_OR_RETURN(attrs.pads, DimensionList(context, "explicit_paddings", attrs.layout, 2, 0));
  } else if (attrs.padding == "EXPLICIT") {
    return context.Error("padding is EXPLICIT, expected attribute 'explicit_paddings'");
  }
  return attrs;
}

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
    if (filter_in == 0 || channels == 0 || channels % filter_in != 0) {
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
  MR_ASSIGN_OR_RETURN(const LayerAttrs attrs, ReadLayerAttrs(context, rank));
  const DataLayout& layout = attrs.layout;
  Shape output;
  for (int i = 0; i < rank; ++i) output.AddDim(-1);
  if (input.unknown_rank() || filter.unknown_rank()) return output;
  for (int64_t dim : filter.dims()) {
    if (dim == 0) return context.Error(absl::StrCat("the filter is empty: ", filter.ToString()));
  }
  output.set_dim(0, input.dim(0));
  MR_ASSIGN_OR_RETURN(const int64_t channels, OutputChannels(context, op, input.dim(layout.channel()), filter));
  output.set_dim(layout.channel(), channels);
  for (int i = 0; i < op.spatial; ++i) {
    const int dim = layout.spatial(i);
    if (filter.dim(i) < 0 && attrs.padding != "SAME") continue;
    absl::StatusOr<WindowDim> window =
        MakeWindowDim(input.dim(dim), std::max<int64_t>(filter.dim(i), 1), attrs.strides[dim], attrs.dilations[dim],
                      attrs.padding, attrs.pads[2 * dim], attrs.pads[2 * dim + 1]);
    if (!window.ok()) return ErrorAtNode(context, window.status());
    output.set_dim(dim, window->output);
  }
  return output;
}

absl::Status ConvForwardShape(InferenceContext& context, const ConvOp& op) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 1}));
  MR_ASSIGN_OR_RETURN(Shape output, LayerOutput(context, op, context.shape(0), context.shape(1)));
  context.AddOutput(context.dtype(0), std::move(output));
  return absl::OkStatus();
}

// A convolution, the bias of its channels, and what more `fused_ops` names (graph/fused_conv.h).
absl::Status FusedConvShape(InferenceContext& context, const ConvOp& op) {
  const absl::StatusOr<ConvEpilogue> epilogue = ConvEpilogueOf(context.attrs());
  if (!epilogue.ok()) return ErrorAtNode(context, epilogue.status());
  MR_RETURN_IF_ERROR(context.ExpectInputs(epilogue->side ? 4 : 3));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 1, 2}));
  MR_ASSIGN_OR_RETURN(Shape output, LayerOutput(context, op, context.shape(0), context.shape(1)));
  MR_ASSIGN_OR_RETURN(const DataLayout layout, LayerLayout(context, op.spatial + 2));
  const Shape& bias = context.shape(2);
  const int64_t channels = output.dim(layout.channel());
  if (!bias.unknown_rank() && (bias.rank() != 1 || (bias.dim(0) >= 0 && channels >= 0 && bias.dim(0) != channels))) {
    return context.Error(absl::StrCat("the bias is ", context.input(2).ToString(), ", expected one element for each channel of ",
                                      output.ToString()));
  }
  if (epilogue->side) {
    MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 3}));
    const Shape& side = context.shape(3);
    if (side.fully_known() && output.fully_known() && side != output) {
      return context.Error(absl::StrCat("what is added is ", side.ToString(), ", expected ", output.ToString()));
    }
  }
  context.AddOutput(context.dtype(0), std::move(output));
  return absl::OkStatus();
}

// The input_sizes or filter_sizes that a gradient is given as a tensor.
absl::StatusOr<Shape> GivenShape(const InferenceContext& context, const ConvOp& op, int input) {
  MR_ASSIGN_OR_RETURN(std::vector<int64_t> sizes, KnownInts(context, input));
  const int rank = op.spatial + 2;
  if (op.kind == ConvKind::kInput && static_cast<int>(sizes.size()) == op.spatial &&
      !context.shape(1).unknown_rank() && !context.shape(2).unknown_rank()) {
    MR_ASSIGN_OR_RETURN(const DataLayout layout, LayerLayout(context, rank));
    const int64_t channels = context.shape(1).dim(op.spatial);
    sizes.insert(sizes.begin(), context.shape(2).dim(0));
    sizes.insert(layout.channels_first ? sizes.begin() + 1 : sizes.end(), channels);
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
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {other, 2}));
  MR_RETURN_IF_ERROR(ExpectRank(context, filter_gradient ? "the input" : "the filter", context.shape(other), op.spatial + 2));
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
  cost.convolution = !op.depthwise;
  cost.flops = 2 * taps * static_cast<double>(output.num_elements());
  for (const TensorType& type : node.inputs) cost.bytes += static_cast<double>(type.size_bytes());
  for (const TensorType& type : node.outputs) cost.bytes += static_cast<double>(type.size_bytes());
  cost.scratch_bytes = filter.num_elements() * DataTypeSize(node.outputs[0].dtype);
  return cost;
}

Cost FusedConvCost(const OpInstance& node, const ConvOp& op) {
  Cost cost = ConvCost(node, op);
  cost.flops += static_cast<double>(node.inputs.size() - 1) * static_cast<double>(node.outputs[0].shape.num_elements());
  return cost;
}

void AddConv(OpRegistry& registry, const char* name, const ConvOp& op) {
  const auto shape = [op](InferenceContext& context) {
    return op.kind == ConvKind::kForward ? ConvForwardShape(context, op) : ConvGradientShape(context, op);
  };
  AddOp(registry, {.name = name, .shape = shape, .cost = [op](const OpInstance& node) { return ConvCost(node, op); }});
}

void AddFusedConv(OpRegistry& registry, const char* name, const ConvOp& op) {
  AddOp(registry, {.name = name,
                   .shape = [op](InferenceContext& context) { return FusedConvShape(context, op); },
                   .cost = [op](const OpInstance& node) { return FusedConvCost(node, op); }});
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
  AddFusedConv(registry, "_FusedConv2D", {ConvKind::kForward, 2, false});
  AddFusedConv(registry, "_FusedConv3D", {ConvKind::kForward, 3, false});
}

}  // namespace millrace
