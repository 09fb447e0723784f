// Convolutions in two and three dimensions, forward and both gradients, channels first or last; with their bias, a sum and a
// Relu, as one node. Gradients that are another convolution or a product are that (conv_gradients.cc).
//
// The library wants filters with the output channel first, which are turned around in scratch memory. Inputs are padded there
// where it cannot pad the two sides differently, or only slowly. Where it has no deterministic algorithm for a layout, the
// other one is tried, between transposes; what it cannot do at all, and depthwise convolutions, run on kernels of this
// device's own. What follows a convolution is the library's where it has it, else kernels that go over the result.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cuda/kernels/common.h"
#include "cuda/kernels/conv_gradients.h"
#include "cuda/kernels/register.h"
#include "cuda/launch/conv.h"
#include "cuda/launch/layout.h"
#include "graph/fused_conv.h"
#include "graph/staged_kernel.h"
#include "graph/window.h"

namespace millrace::cuda {
namespace {

struct Geometry {
  ConvShape shape;                        // as the library sees it
  ConvShape::Sizes before{0, 0, 0};       // rows of zeros before the real input
  ConvShape::Sizes real_in{1, 1, 1};
  bool padded = false;                    // in scratch memory, so that the library has nothing to pad
  bool channels_first = false;            // of the node
  bool equal_padding() const { return shape.pad == shape.pad_after; }
};

absl::StatusOr<Geometry> Read(const OpInstance& instance, ConvPart part, int spatial, bool depthwise) {
  const Shape& input = part == ConvPart::kInput ? instance.outputs[0].shape : instance.inputs[0].shape;
  const Shape& filter = part == ConvPart::kFilter ? instance.outputs[0].shape : instance.inputs[1].shape;
  const Shape& output = part == ConvPart::kForward ? instance.outputs[0].shape : instance.inputs[2].shape;
  const std::string format = instance.attrs.GetOr<std::string>("data_format", spatial == 3 ? "NDHWC" : "NHWC");
  MR_ASSIGN_OR_RETURN(const DataLayout layout, ParseDataFormat(format));
  if (input.num_elements() == 0 || output.num_elements() == 0 || filter.num_elements() == 0) {
    return Refused(instance, "empty tensors");
  }
  Geometry g;
  MR_ASSIGN_OR_RETURN(g.shape.type, FloatingTypeOf(instance, instance.outputs[0].dtype));
  g.channels_first = layout.channels_first;
  g.shape.part = part;
  g.shape.spatial = spatial;
  g.shape.batch = input.dim(0);
  g.shape.in_channels = input.dim(layout.channel());
  g.shape.out_channels = output.dim(layout.channel());
  g.shape.groups = depthwise ? g.shape.in_channels : g.shape.in_channels / filter.dim(spatial);
  MR_ASSIGN_OR_RETURN(const std::vector<WindowDim> windows, ConvWindows(instance.attrs, layout, input, filter));
  for (int i = 0; i < layout.num_spatial(); ++i) {
    const WindowDim& window = windows[i];
    g.real_in[i] = g.shape.in[i] = window.input;
    g.shape.out[i] = window.output;
    g.shape.kernel[i] = window.window;
    g.shape.stride[i] = window.stride;
    g.shape.dilation[i] = window.dilation;
    g.before[i] = g.shape.pad[i] = std::max<int64_t>(window.pad_before, 0);
    g.shape.pad_after[i] = std::max<int64_t>(window.pad_after, 0);
  }
  return g;
}

// The library's input is the padded one.
Geometry Padded(Geometry g) {
  g.padded = true;
  for (int i = 0; i < g.shape.spatial; ++i) {
    g.shape.in[i] += g.shape.pad[i] + g.shape.pad_after[i];
    g.shape.pad[i] = g.shape.pad_after[i] = 0;
  }
  return g;
}

// Between the node's tensor and the library's: other layout, padding around it.
StridedCopy StageCopy(const Geometry& g, bool input, bool library_first, bool into_library) {
  const int spatial = g.shape.spatial;
  const int64_t channels = input ? g.shape.in_channels : g.shape.out_channels;
  StridedCopy copy;
  copy.rank = spatial + 2;
  copy.elements = g.shape.batch * channels;
  int64_t node[kMaxDims], library[kMaxDims], offset = 0;
  const auto strides = [&](bool first, const ConvShape::Sizes& size, int64_t* out) {
    int64_t step = first ? 1 : channels, plane = 1;
    for (int i = spatial - 1; i >= 0; --i) {
      out[i + 1] = step;
      step *= size[i];
      plane *= size[i];
    }
    out[spatial + 1] = first ? plane : 1;
    out[0] = plane * channels;
  };
  const ConvShape::Sizes& real = input ? g.real_in : g.shape.out;
  strides(g.channels_first, real, node);
  strides(library_first, input ? g.shape.in : g.shape.out, library);
  copy.dims[0] = g.shape.batch;
  copy.dims[spatial + 1] = channels;
  for (int i = 0; i < spatial; ++i) {
    copy.dims[i + 1] = real[i];
    copy.elements *= real[i];
    if (input && g.padded) offset += g.before[i] * library[i + 1];
  }
  for (int d = 0; d < copy.rank; ++d) {
    copy.from_strides[d] = into_library ? node[d] : library[d];
    copy.to_strides[d] = into_library ? library[d] : node[d];
  }
  (into_library ? copy.to_offset : copy.from_offset) = offset;
  return copy;
}

// Between [taps][in / groups][out], as nodes have it, and [out][taps][in / groups] or [out][in / groups][taps].
StridedCopy FilterCopy(const ConvShape& shape, bool library_first, bool to_library) {
  const int64_t taps = shape.kernel[0] * shape.kernel[1] * shape.kernel[2];
  const int64_t inner = shape.in_channels / shape.groups, out = shape.out_channels;
  StridedCopy copy;
  copy.rank = 3;
  copy.elements = taps * inner * out;
  const int64_t dims[] = {out, taps, inner}, node[] = {1, inner * out, out};
  const int64_t library[] = {taps * inner, library_first ? 1 : inner, library_first ? taps : 1};
  for (int d = 0; d < 3; ++d) {
    copy.dims[d] = dims[d];
    copy.from_strides[d] = to_library ? node[d] : library[d];
    copy.to_strides[d] = to_library ? library[d] : node[d];
  }
  return copy;
}

int64_t InputElements(const ConvShape& s) { return s.batch * s.in_channels * s.in[0] * s.in[1] * s.in[2]; }
int64_t OutputElements(const ConvShape& s) { return s.batch * s.out_channels * s.out[0] * s.out[1] * s.out[2]; }

// A choice: the layout, whether the input is padded in scratch memory, the library's name of the algorithm. Or that of a
// convolution whose epilogue is apart.
constexpr char kFirst[] = "channels_first", kLast[] = "channels_last", kPadded[] = ",padded", kApart[] = "apart,";

std::string ChoiceOf(const Geometry& g, const std::string& algorithm) {
  return absl::StrCat(g.shape.channels_first ? kFirst : kLast, g.padded ? kPadded : "", ":", algorithm);
}

// The library's convolution with all that it takes around it. Scratch: filter, input, output and what is added to it as the
// library wants them, the library's own.
std::unique_ptr<Kernel> MakeLibraryConv(DeviceServices& services, const Geometry& g, int bytes,
                                        std::shared_ptr<Convolution> convolution) {
  const bool first = g.shape.channels_first, other = first != g.channels_first, staged = other || g.padded;
  const ConvPart part = g.shape.part;
  const StridedCopy filter_in = FilterCopy(g.shape, first, true), filter_out = FilterCopy(g.shape, first, false);
  const StridedCopy in = StageCopy(g, true, first, true), in_back = StageCopy(g, true, first, false);
  const StridedCopy out = StageCopy(g, false, first, true), out_back = StageCopy(g, false, first, false);
  const int64_t in_bytes = InputElements(g.shape) * bytes;
  const int64_t input_at = AlignUp(filter_in.elements * bytes, kLibraryAlignment);
  const int64_t output_at = input_at + (staged ? AlignUp(in_bytes, kLibraryAlignment) : 0);
  const int64_t out_bytes = AlignUp(OutputElements(g.shape) * bytes, kLibraryAlignment);
  const int64_t side_at = output_at + (other ? out_bytes : 0);
  const bool has_bias = g.shape.epilogue != Epilogue::kNone, has_side = g.shape.side;
  const int64_t library_at = side_at + (other && has_side ? out_bytes : 0);
  const auto run = [=, padded = g.padded](const Queue& queue, const KernelContext& context) -> absl::Status {
    char* scratch = AlignedScratch(context);
    void* filter = scratch;
    if (part != ConvPart::kFilter) LaunchStridedCopy(queue, bytes, filter_in, context.inputs[1], filter);
    void* node_input = part == ConvPart::kInput ? context.outputs[0] : context.inputs[0];
    void* node_output = part == ConvPart::kForward ? context.outputs[0] : context.inputs[2];
    void* input = staged ? scratch + input_at : node_input;
    void* output = other ? scratch + output_at : node_output;
    ConvTensors tensors{input, filter, output};
    if (has_bias) tensors.bias = context.inputs[2];
    if (has_side) tensors.side = other ? scratch + side_at : context.inputs[3];
    if (has_side && other) LaunchStridedCopy(queue, bytes, out, context.inputs[3], tensors.side);
    if (staged && part != ConvPart::kInput) {
      if (padded) LaunchZero(queue, input, in_bytes);
      LaunchStridedCopy(queue, bytes, in, node_input, input);
    }
    if (other && part != ConvPart::kForward) LaunchStridedCopy(queue, bytes, out, node_output, output);
    MR_RETURN_IF_ERROR(convolution->Run(queue, tensors, scratch + library_at));
    if (staged && part == ConvPart::kInput) LaunchStridedCopy(queue, bytes, in_back, input, node_input);
    if (other && part == ConvPart::kForward) LaunchStridedCopy(queue, bytes, out_back, output, node_output);
    if (part == ConvPart::kFilter) LaunchStridedCopy(queue, bytes, filter_out, filter, context.outputs[0]);
    return absl::OkStatus();
  };
  return MakeLaunch(services, run, library_at + convolution->scratch_bytes() + kLibraryAlignment,
                    ChoiceOf(g, convolution->algorithm()));
}

std::unique_ptr<Kernel> MakeDirectConv(DeviceServices& services, const Geometry& g) {
  DirectConv shape;
  shape.channels_first = g.channels_first;
  shape.batch = g.shape.batch;
  shape.in_channels = g.shape.in_channels;
  shape.out_channels = g.shape.out_channels;
  shape.groups = g.shape.groups;
  for (int d = 0; d < 3; ++d) {
    shape.in[d] = g.real_in[d];
    shape.out[d] = g.shape.out[d];
    shape.kernel[d] = g.shape.kernel[d];
    shape.stride[d] = g.shape.stride[d];
    shape.dilation[d] = g.shape.dilation[d];
    shape.pad[d] = g.before[d];
  }
  const Type type = g.shape.type;
  switch (g.shape.part) {
    case ConvPart::kForward:
      return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
        LaunchConvForward(queue, type, shape, context.inputs[0], context.inputs[1], context.outputs[0]);
      });
    case ConvPart::kInput:
      return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
        LaunchConvInput(queue, type, shape, context.inputs[1], context.inputs[2], context.outputs[0]);
      });
    case ConvPart::kFilter: break;
  }
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        LaunchConvFilter(queue, type, shape, context.inputs[0], context.inputs[2], context.outputs[0], context.scratch);
      },
      ConvFilterScratchBytes(shape));
}

// Of input and output, there and back: a guess that is only compared with measured times.
double TransposeSeconds(const ConvShape& shape, int bytes) {
  constexpr double kBytesPerSecond = 1e12;
  return 2.0 * static_cast<double>(InputElements(shape) + OutputElements(shape)) * bytes / kBytesPerSecond;
}

// As a plan has recorded it.
absl::StatusOr<std::unique_ptr<Kernel>> MakeChosenConv(DeviceServices& services, Geometry g, int bytes, absl::string_view choice) {
  const absl::string_view given = choice;
  g.shape.channels_first = absl::ConsumePrefix(&choice, kFirst);
  const bool layout = g.shape.channels_first || absl::ConsumePrefix(&choice, kLast);
  if (absl::ConsumePrefix(&choice, kPadded)) g = Padded(std::move(g));
  if (!layout || !absl::ConsumePrefix(&choice, ":")) {
    return absl::InvalidArgumentError(absl::StrCat("a plan names the algorithm '", given, "'"));
  }
  g.shape.algorithm = std::string(choice);
  MR_ASSIGN_OR_RETURN(std::unique_ptr<Convolution> convolution, services.PlanConvolution(g.shape));
  return MakeLibraryConv(services, g, bytes, std::move(convolution));
}

struct Way {
  Geometry geometry;
  std::unique_ptr<Convolution> convolution;
};

// In the geometry's layout. Where padding differs between two sides, gradients are padded in scratch memory first: cuDNN has engines for
// such an input gradient only among the slowest for float32, and the filter gradient of a 7 x 7 filter over three channels came out wrong
// by a tenth of its norm (cuDNN 9.19, H200: bench/results/cuda_h200.md). Forward it has the same engines either way.
absl::StatusOr<Way> PlanInLayout(DeviceServices& services, const Geometry& g) {
  absl::Status none;
  const bool padded_first = g.shape.part != ConvPart::kForward;
  for (const bool padded : {padded_first, !padded_first}) {
    if (padded && g.equal_padding()) continue;
    Way way{padded ? Padded(g) : g, nullptr};
    absl::StatusOr<std::unique_ptr<Convolution>> convolution = services.PlanConvolution(way.geometry.shape);
    if (!convolution.ok() && !absl::IsUnimplemented(convolution.status())) return convolution.status();
    if (convolution.ok()) {
      way.convolution = *std::move(convolution);
      return way;
    }
    none = convolution.status();
  }
  return none;
}

// The library's best; Unimplemented where it has none.
absl::StatusOr<std::unique_ptr<Kernel>> MakeBestConv(DeviceServices& services, Geometry g, int bytes) {
  std::optional<Way> best;
  for (const bool other : {false, true}) {
    if (best && best->convolution->seconds() == 0) break;  // the node's own layout needs no transposes
    g.shape.channels_first = g.channels_first != other;
    absl::StatusOr<Way> way = PlanInLayout(services, g);
    if (!way.ok() && !absl::IsUnimplemented(way.status())) return way.status();
    if (!way.ok()) continue;
    const double transposes = other ? TransposeSeconds(g.shape, bytes) : 0;
    if (best && way->convolution->seconds() + transposes >= best->convolution->seconds()) continue;
    best = *std::move(way);
  }
  if (!best) return absl::UnimplementedError("the library has no such convolution");
  return MakeLibraryConv(services, best->geometry, bytes, std::move(best->convolution));
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeConv(DeviceServices& services, const OpInstance& instance) {
  const bool depthwise = absl::StrContains(instance.op, "Depthwise");
  const int spatial = absl::StrContains(instance.op, "Conv3D") ? 3 : 2;
  const ConvPart part = absl::StrContains(instance.op, "BackpropInput")    ? ConvPart::kInput
                        : absl::StrContains(instance.op, "BackpropFilter") ? ConvPart::kFilter
                                                                           : ConvPart::kForward;
  MR_ASSIGN_OR_RETURN(Geometry g, Read(instance, part, spatial, depthwise));
  const int bytes = static_cast<int>(DataTypeSize(instance.outputs[0].dtype));
  if (depthwise) return MakeDirectConv(services, g);
  const std::string given = instance.attrs.GetOr<std::string>(kKernelChoice, "");
  if (part != ConvPart::kForward) {
    ConvShape gradient = g.shape;
    gradient.channels_first = g.channels_first;
    absl::StatusOr<std::unique_ptr<Kernel>> other = MakeConvGradient(services, gradient, given);
    if (!absl::IsUnimplemented(other.status())) return other;
  }
  if (!given.empty()) return MakeChosenConv(services, g, bytes, given);
  absl::StatusOr<std::unique_ptr<Kernel>> best = MakeBestConv(services, g, bytes);
  return absl::IsUnimplemented(best.status()) ? MakeDirectConv(services, g) : std::move(best);
}

// The convolution, then kernels over its result.
absl::StatusOr<std::unique_ptr<Kernel>> MakeConvThenEpilogue(DeviceServices& services, const OpInstance& instance,
                                                             const ConvEpilogue& epilogue, const std::string& choice) {
  std::vector<StagedKernel::Stage> stages(1);
  stages[0] = {ConvolutionOf(instance), {0, 1}, nullptr};
  stages[0].node.attrs.Set(kKernelChoice, choice);
  MR_ASSIGN_OR_RETURN(stages[0].kernel, MakeConv(services, stages[0].node));
  KernelRegistry kernels;
  RegisterElementwise(kernels, services);
  RegisterFused(kernels, services);
  for (EpilogueNode& over : EpilogueNodesOf(instance, epilogue)) {
    StagedKernel::Stage stage{std::move(over.node), {StagedKernel::kResult}, nullptr};
    stage.operands.insert(stage.operands.end(), over.others.begin(), over.others.end());
    MR_ASSIGN_OR_RETURN(stage.kernel, (*kernels.Find(stage.node.op))(stage.node));
    stages.push_back(std::move(stage));
  }
  return std::make_unique<StagedKernel>(std::move(stages), kApart);
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeFusedConv(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const ConvEpilogue epilogue, ConvEpilogueOf(instance.attrs));
  MR_ASSIGN_OR_RETURN(Geometry g, Read(instance, ConvPart::kForward, instance.op == "_FusedConv3D" ? 3 : 2, false));
  g.shape.epilogue = epilogue.relu ? Epilogue::kBiasRelu : Epilogue::kBias;
  g.shape.side = epilogue.side;
  const int bytes = static_cast<int>(DataTypeSize(instance.outputs[0].dtype));
  const std::string given = instance.attrs.GetOr<std::string>(kKernelChoice, "");
  absl::string_view of_convolution = given;
  if (absl::ConsumePrefix(&of_convolution, kApart)) {
    return MakeConvThenEpilogue(services, instance, epilogue, std::string(of_convolution));
  }
  if (!given.empty()) return MakeChosenConv(services, g, bytes, given);
  absl::StatusOr<std::unique_ptr<Kernel>> best = MakeBestConv(services, g, bytes);
  return absl::IsUnimplemented(best.status()) ? MakeConvThenEpilogue(services, instance, epilogue, "") : std::move(best);
}

}  // namespace

void RegisterConvolutions(KernelRegistry& registry, DeviceServices& services) {
  for (const char* op : {"Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter", "Conv3D", "Conv3DBackpropInputV2",
                         "Conv3DBackpropFilterV2", "DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropInput",
                         "DepthwiseConv2dNativeBackpropFilter"}) {
    Add(registry, services, op, MakeConv);
  }
  for (const char* op : {"_FusedConv2D", "_FusedConv3D"}) Add(registry, services, op, MakeFusedConv);
}

}  // namespace millrace::cuda
