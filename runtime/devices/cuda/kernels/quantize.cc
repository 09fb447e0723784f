// Fake quantisation, numbers rounded to a grid, and colours of images.
#include <string>

#include "cuda/kernels/common.h"
#include "cuda/kernels/register.h"
#include "cuda/launch/layout.h"
#include "cuda/launch/quantize.h"

namespace millrace::cuda {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

// `data`: the input that is quantised. `range`: that of the minimum, which the maximum follows; -1: they are attributes.
FakeQuantShape FakeQuantOf(const OpInstance& instance, int data, int range) {
  const Shape& in = instance.inputs[data].shape;
  const bool per_channel = range >= 0 && instance.inputs[range].shape.rank() == 1;
  FakeQuantShape shape;
  shape.channels = per_channel ? in.dim(in.rank() - 1) : 1;
  shape.rows = shape.channels == 0 ? 0 : in.num_elements() / shape.channels;
  shape.lowest = instance.attrs.GetOr<bool>("narrow_range", false) ? 1.0f : 0.0f;
  shape.highest = static_cast<float>((int64_t{1} << instance.attrs.GetOr<int64_t>("num_bits", 8)) - 1);
  shape.least = instance.attrs.GetOr<float>("min", -6.0f);
  shape.most = instance.attrs.GetOr<float>("max", 6.0f);
  return shape;
}

// (inputs[, min, max])
KernelOr MakeFakeQuant(DeviceServices& services, const OpInstance& instance) {
  MR_RETURN_IF_ERROR(ExpectOnDevice(instance));
  const bool given = instance.inputs.size() == 1;
  const FakeQuantShape shape = FakeQuantOf(instance, 0, given ? -1 : 1);
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        LaunchFakeQuant(queue, shape, context.input<float>(0), given ? nullptr : context.input<float>(1),
                        given ? nullptr : context.input<float>(2), context.output<float>(0), context.scratch);
      },
      given ? 0 : FakeQuantScratchBytes(shape));
}

// (gradients, inputs[, min, max])
KernelOr MakeFakeQuantGrad(DeviceServices& services, const OpInstance& instance) {
  MR_RETURN_IF_ERROR(ExpectOnDevice(instance));
  const bool given = instance.inputs.size() == 2;
  const FakeQuantShape shape = FakeQuantOf(instance, 1, given ? -1 : 2);
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        const float *min = nullptr, *max = nullptr;
        float *dmin = nullptr, *dmax = nullptr;
        if (!given) {
          min = context.input<float>(2);
          max = context.input<float>(3);
          dmin = context.output<float>(1);
          dmax = context.output<float>(2);
        }
        LaunchFakeQuantGrad(queue, shape, context.input<float>(0), context.input<float>(1), min, max, context.output<float>(0), dmin,
                            dmax, context.scratch);
      },
      given ? 0 : FakeQuantGradScratchBytes(shape));
}

absl::StatusOr<Type> FloatOrDoubleOf(const OpInstance& instance) {
  const DataType dtype = instance.inputs[0].dtype;
  if (dtype != DataType::kFloat && dtype != DataType::kDouble) return Refused(instance, "other numbers than float and double");
  return TypeOf(instance, dtype);
}

RoundTripShape RoundTripOf(const OpInstance& instance) {
  const Shape& in = instance.inputs[0].shape;
  const int64_t axis = instance.attrs.GetOr<int64_t>("axis", -1);
  RoundTripShape shape;
  for (int d = 0; d < in.rank(); ++d) (axis < 0 || d > axis ? shape.inner : d < axis ? shape.outer : shape.slices) *= in.dim(d);
  shape.is_signed = instance.attrs.GetOr<bool>("signed_input", true);
  shape.range_given = instance.attrs.GetOr<bool>("range_given", instance.op == "QuantizeAndDequantizeV3");
  shape.narrow = instance.attrs.GetOr<bool>("narrow_range", false);
  shape.half_up = instance.attrs.GetOr<std::string>("round_mode", "HALF_TO_EVEN") == "HALF_UP";
  shape.bits = instance.attrs.GetOr<int64_t>("num_bits", 8);
  return shape;
}

// (input, input_min, input_max[, num_bits])
KernelOr MakeRoundTrip(DeviceServices& services, const OpInstance& instance) {
  MR_RETURN_IF_ERROR(ExpectOnDevice(instance));
  MR_ASSIGN_OR_RETURN(const Type type, FloatOrDoubleOf(instance));
  RoundTripShape shape = RoundTripOf(instance);
  const bool reads_bits = instance.op == "QuantizeAndDequantizeV3";
  if (reads_bits) {
    const DataType dtype = instance.inputs[3].dtype;
    if (dtype != DataType::kInt32 && dtype != DataType::kInt64) return Refused(instance, "these bits");
    if (instance.inputs[3].shape.num_elements() != 1) return Refused(instance, "bits that are no scalar");
    shape.wide_bits = dtype == DataType::kInt64;
  } else if (shape.bits < 1 || shape.bits > 62) {
    return Refused(instance, "so many bits");
  }
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        LaunchRoundTrip(queue, type, shape, context.inputs[0], context.inputs[1], context.inputs[2],
                        reads_bits ? context.inputs[3] : nullptr, context.outputs[0], context.scratch);
      },
      RoundTripScratchBytes(shape));
}

// (gradients, input, input_min, input_max): the range has no gradient.
KernelOr MakeRoundTripGrad(DeviceServices& services, const OpInstance& instance) {
  MR_RETURN_IF_ERROR(ExpectOnDevice(instance));
  MR_ASSIGN_OR_RETURN(const Type type, FloatOrDoubleOf(instance));
  const RoundTripShape shape = RoundTripOf(instance);
  const int64_t min_bytes = instance.outputs[1].size_bytes(), max_bytes = instance.outputs[2].size_bytes();
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchRoundTripGrad(queue, type, shape, context.inputs[0], context.inputs[1], context.inputs[2], context.inputs[3],
                        context.outputs[0]);
    LaunchZero(queue, context.outputs[1], min_bytes);
    LaunchZero(queue, context.outputs[2], max_bytes);
  });
}

KernelOr MakeColours(DeviceServices& services, const OpInstance& instance) {
  MR_RETURN_IF_ERROR(ExpectOnDevice(instance));
  MR_ASSIGN_OR_RETURN(const Type type, FloatingTypeOf(instance, instance.inputs[0].dtype));
  const int64_t pixels = instance.inputs[0].shape.num_elements() / 3;
  const ColourChange change = instance.op == "RGBToHSV"    ? ColourChange::kRgbToHsv
                              : instance.op == "HSVToRGB"  ? ColourChange::kHsvToRgb
                              : instance.op == "AdjustHue" ? ColourChange::kTurnHue
                                                           : ColourChange::kScaleSaturation;
  const bool has_amount = instance.inputs.size() > 1;
  if (has_amount && instance.inputs[1].dtype != DataType::kFloat) return Refused(instance, "an amount that is no float");
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchColours(queue, type, change, pixels, context.inputs[0], has_amount ? context.input<float>(1) : nullptr, context.outputs[0]);
  });
}

KernelOr MakeContrast(DeviceServices& services, const OpInstance& instance) {
  MR_RETURN_IF_ERROR(ExpectOnDevice(instance));
  MR_ASSIGN_OR_RETURN(const Type type, FloatingTypeOf(instance, instance.inputs[0].dtype));
  if (instance.inputs[1].dtype != DataType::kFloat) return Refused(instance, "a factor that is no float");
  const Shape& in = instance.inputs[0].shape;
  ContrastShape shape;
  shape.channels = in.dim(in.rank() - 1);
  shape.pixels = in.dim(in.rank() - 3) * in.dim(in.rank() - 2);
  shape.images = in.num_elements() == 0 ? 0 : in.num_elements() / (shape.pixels * shape.channels);
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        LaunchContrast(queue, type, shape, context.inputs[0], context.input<float>(1), context.outputs[0], context.scratch);
      },
      ContrastScratchBytes(shape));
}

}  // namespace

void RegisterQuantizing(KernelRegistry& registry, DeviceServices& services) {
  for (const char* op : {"FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel"}) {
    Add(registry, services, op, MakeFakeQuant);
    Add(registry, services, absl::StrCat(op, "Gradient"), MakeFakeQuantGrad);
  }
  for (const char* op : {"QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4"}) {
    Add(registry, services, op, MakeRoundTrip);
  }
  Add(registry, services, "QuantizeAndDequantizeV4Grad", MakeRoundTripGrad);
  for (const char* op : {"RGBToHSV", "HSVToRGB", "AdjustHue", "AdjustSaturation"}) Add(registry, services, op, MakeColours);
  Add(registry, services, "AdjustContrastv2", MakeContrast);
}

}  // namespace millrace::cuda
