// Convolutions in two and three dimensions, forward and both gradients, channels last.
//
// The library wants filters with the output channel first and equal padding on both sides: filters are turned around
// and inputs padded in scratch memory where the node's are not like that.
#include <vector>

#include "absl/strings/match.h"
#include "cuda/kernels/common.h"
#include "cuda/kernels/register.h"
#include "cuda/launch/layout.h"
#include "graph/window.h"

namespace millrace::cuda {
namespace {

struct Geometry {
  ConvShape shape;                        // as the library sees it
  ConvShape::Sizes before{0, 0, 0};       // rows of zeros before the real input, where `padded`
  ConvShape::Sizes real_in{1, 1, 1};
  bool padded = false;
};

absl::StatusOr<Geometry> Read(const OpInstance& instance, ConvPart part, int spatial, bool depthwise) {
  const Shape& input = part == ConvPart::kInput ? instance.outputs[0].shape : instance.inputs[0].shape;
  const Shape& filter = part == ConvPart::kFilter ? instance.outputs[0].shape : instance.inputs[1].shape;
  const Shape& output = part == ConvPart::kForward ? instance.outputs[0].shape : instance.inputs[2].shape;
  const std::string format = instance.attrs.GetOr<std::string>("data_format", spatial == 3 ? "NDHWC" : "NHWC");
  MR_ASSIGN_OR_RETURN(const DataLayout layout, ParseDataFormat(format));
  if (layout.channels_first) return Refused(instance, format);
  if (input.num_elements() == 0 || output.num_elements() == 0 || filter.num_elements() == 0) {
    return Refused(instance, "empty tensors");
  }
  Geometry g;
  MR_ASSIGN_OR_RETURN(g.shape.type, FloatingTypeOf(instance, instance.outputs[0].dtype));
  g.shape.part = part;
  g.shape.spatial = spatial;
  g.shape.batch = input.dim(0);
  g.shape.in_channels = input.dim(layout.channel());
  g.shape.out_channels = output.dim(layout.channel());
  g.shape.groups = depthwise ? g.shape.in_channels : g.shape.in_channels / filter.dim(spatial);
  using Ints = std::vector<int64_t>;
  const Ints ones(layout.rank, 1), strides = instance.attrs.GetOr("strides", ones);
  const Ints dilations = instance.attrs.GetOr("dilations", ones);
  Ints pads = instance.attrs.GetOr("explicit_paddings", Ints());
  pads.resize(2 * layout.rank, 0);
  const std::string padding = instance.attrs.GetOr<std::string>("padding", "");
  ConvShape::Sizes after{0, 0, 0};
  for (int i = 0; i < spatial; ++i) {
    const int dim = layout.spatial(i);
    MR_ASSIGN_OR_RETURN(const WindowDim window, MakeWindowDim(input.dim(dim), filter.dim(i), strides[dim], dilations[dim],
                                                              padding, pads[2 * dim], pads[2 * dim + 1]));
    g.real_in[i] = window.input;
    g.shape.out[i] = window.output;
    g.shape.kernel[i] = window.window;
    g.shape.stride[i] = window.stride;
    g.shape.dilation[i] = window.dilation;
    g.before[i] = std::max<int64_t>(window.pad_before, 0);
    after[i] = std::max<int64_t>(window.pad_after, 0);
    g.padded = g.padded || g.before[i] != after[i];
  }
  for (int i = 0; i < spatial; ++i) {
    g.shape.in[i] = g.padded ? g.real_in[i] + g.before[i] + after[i] : g.real_in[i];
    g.shape.pad[i] = g.padded ? 0 : g.before[i];
  }
  return g;
}

// Between the node's input and the padded one.
StridedCopy PaddingCopy(const Geometry& g, bool into_padded) {
  StridedCopy copy;
  copy.rank = g.shape.spatial + 2;
  int64_t real = 1, wide = 1, offset = 0;
  const auto set = [&](int at, int64_t dim, int64_t real_dim, int64_t wide_dim) {
    copy.dims[at] = dim;
    copy.from_strides[at] = into_padded ? real : wide;
    copy.to_strides[at] = into_padded ? wide : real;
    real *= real_dim;
    wide *= wide_dim;
  };
  set(copy.rank - 1, g.shape.in_channels, g.shape.in_channels, g.shape.in_channels);
  for (int i = g.shape.spatial - 1; i >= 0; --i) {
    offset += g.before[i] * wide;
    set(i + 1, g.real_in[i], g.real_in[i], g.shape.in[i]);
  }
  set(0, g.shape.batch, g.shape.batch, g.shape.batch);
  copy.elements = real;
  (into_padded ? copy.to_offset : copy.from_offset) = offset;
  return copy;
}

// Between [taps][in / groups][out], as nodes have it, and [out][taps][in / groups].
StridedCopy FilterCopy(const ConvShape& shape, bool to_library) {
  const int64_t taps = shape.kernel[0] * shape.kernel[1] * shape.kernel[2];
  const int64_t inner = shape.in_channels / shape.groups, out = shape.out_channels;
  StridedCopy copy;
  copy.rank = 2;
  copy.elements = taps * inner * out;
  copy.dims[0] = out;
  copy.dims[1] = taps * inner;
  const int64_t node[] = {1, out}, library[] = {taps * inner, 1};
  for (int d = 0; d < 2; ++d) {
    copy.from_strides[d] = to_library ? node[d] : library[d];
    copy.to_strides[d] = to_library ? library[d] : node[d];
  }
  return copy;
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeConv(DeviceServices& services, const OpInstance& instance) {
  const bool depthwise = absl::StrContains(instance.op, "Depthwise");
  const int spatial = absl::StrContains(instance.op, "Conv3D") ? 3 : 2;
  const ConvPart part = absl::StrContains(instance.op, "BackpropInput")    ? ConvPart::kInput
                        : absl::StrContains(instance.op, "BackpropFilter") ? ConvPart::kFilter
                                                                           : ConvPart::kForward;
  MR_ASSIGN_OR_RETURN(const Geometry g, Read(instance, part, spatial, depthwise));
  MR_ASSIGN_OR_RETURN(std::shared_ptr<Convolution> convolution, services.PlanConvolution(g.shape));
  const int bytes = static_cast<int>(DataTypeSize(instance.outputs[0].dtype));
  const int64_t in_bytes = g.shape.batch * g.shape.in_channels * g.shape.in[0] * g.shape.in[1] * g.shape.in[2] * bytes;
  const StridedCopy filter_in = FilterCopy(g.shape, true), filter_out = FilterCopy(g.shape, false);
  const StridedCopy pad = PaddingCopy(g, true), crop = PaddingCopy(g, false);
  // Scratch: the filter, the padded input, the library's own.
  const int64_t padded_at = AlignUp(filter_in.elements * bytes, 256);
  const int64_t library_at = padded_at + (g.padded ? AlignUp(in_bytes, 256) : 0);
  return MakeLaunch(
      services,
      [=, padded = g.padded](const Queue& queue, const KernelContext& context) -> absl::Status {
        char* scratch = static_cast<char*>(context.scratch);
        void *filter = scratch, *wide = scratch + padded_at, *library = scratch + library_at;
        if (part != ConvPart::kFilter) LaunchStridedCopy(queue, bytes, filter_in, context.inputs[1], filter);
        void* input = part == ConvPart::kInput ? context.outputs[0] : context.inputs[0];
        void* output = part == ConvPart::kForward ? context.outputs[0] : context.inputs[2];
        if (padded && part != ConvPart::kInput) {
          LaunchZero(queue, wide, in_bytes);
          LaunchStridedCopy(queue, bytes, pad, input, wide);
        }
        MR_RETURN_IF_ERROR(convolution->Run(queue, padded ? wide : input, filter, output, library));
        if (padded && part == ConvPart::kInput) LaunchStridedCopy(queue, bytes, crop, wide, input);
        if (part == ConvPart::kFilter) LaunchStridedCopy(queue, bytes, filter_out, filter, context.outputs[0]);
        return absl::OkStatus();
      },
      library_at + convolution->scratch_bytes());
}

}  // namespace

void RegisterConvolutions(KernelRegistry& registry, DeviceServices& services) {
  for (const char* op : {"Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter", "Conv3D", "Conv3DBackpropInputV2",
                         "Conv3DBackpropFilterV2", "DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropInput",
                         "DepthwiseConv2dNativeBackpropFilter"}) {
    Add(registry, services, op, MakeConv);
  }
}

}  // namespace millrace::cuda
