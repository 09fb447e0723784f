// Quantisation: floats as integers over a range and back; fake quantisation, which rounds floats to what a few bits can
// hold, for training that prepares for integers.
#include "absl/strings/str_cat.h"
#include "millrace/quantized_types.h"
#include "millrace/status.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace millrace {
namespace {

absl::Status ExpectFloats(const InferenceContext& context) {
  for (int i = 0; i < context.num_inputs(); ++i) {
    if (context.dtype(i) == DataType::kFloat) continue;
    return context.Error(absl::StrCat("input ", i, " is ", context.input(i).ToString(), ", expected float"));
  }
  const int64_t bits = context.attrs().GetOr<int64_t>("num_bits", 8);
  if (bits >= 2 && bits <= 16) return absl::OkStatus();
  return context.Error(absl::StrCat("num_bits must be between 2 and 16, inclusive, got ", bits));
}

// min and max: scalars, or one each for every channel (the last dimension).
absl::Status ExpectRange(const InferenceContext& context, int first, bool per_channel) {
  const Shape& data = context.shape(first - 1);
  for (int i = first; i < first + 2; ++i) {
    const Shape& shape = context.shape(i);
    if (!shape.fully_known() || !data.fully_known()) continue;
    const bool good = per_channel ? data.rank() >= 1 && shape.rank() == 1 && shape.dim(0) == data.dim(data.rank() - 1)
                                  : shape.rank() == 0;
    if (!good) {
      return context.Error(absl::StrCat("input ", i, " is ", shape.ToString(), ", expected ",
                                        per_channel ? "one element per channel of " : "a scalar for ", data.ToString()));
    }
  }
  return absl::OkStatus();
}

// Inputs 0 and 1: the gradients and what was quantised.
absl::Status ExpectEqualShapes(const InferenceContext& context) {
  const Shape &gradients = context.shape(0), &inputs = context.shape(1);
  if (!gradients.fully_known() || !inputs.fully_known() || gradients == inputs) return absl::OkStatus();
  return context.Error(absl::StrCat("gradient and input must be the same size, got ", gradients.ToString(), " and ",
                                    inputs.ToString()));
}

// Of attributes `min` and `max`, neither of which is NaN.
absl::Status ExpectRangeAttrs(const InferenceContext& context) {
  const float min = context.attrs().GetOr("min", -6.0f), max = context.attrs().GetOr("max", 6.0f);
  return min < max ? absl::OkStatus() : context.Error(absl::StrCat("min has to be smaller than max, was: ", min, " >= ", max));
}

absl::Status ArgsShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  MR_RETURN_IF_ERROR(ExpectRangeAttrs(context));
  MR_RETURN_IF_ERROR(ExpectFloats(context));
  return SameAsFirstInput(context);
}

absl::Status ArgsGradientShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_RETURN_IF_ERROR(ExpectRangeAttrs(context));
  MR_RETURN_IF_ERROR(ExpectFloats(context));
  MR_RETURN_IF_ERROR(ExpectEqualShapes(context));
  return SameAsFirstInput(context);
}

template <bool kPerChannel>
absl::Status VarsShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_RETURN_IF_ERROR(ExpectFloats(context));
  MR_RETURN_IF_ERROR(ExpectRange(context, 1, kPerChannel));
  return SameAsFirstInput(context);
}

// (gradients, inputs, min, max) -> gradients of inputs, min and max.
template <bool kPerChannel>
absl::Status VarsGradientShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(4));
  MR_RETURN_IF_ERROR(ExpectFloats(context));
  MR_RETURN_IF_ERROR(ExpectEqualShapes(context));
  MR_RETURN_IF_ERROR(ExpectRange(context, 2, kPerChannel));
  for (int i : {0, 2, 3}) context.AddOutput(DataType::kFloat, context.shape(i));
  return absl::OkStatus();
}

// (input, input_min, input_max[, num_bits]); a range of scalars, or one for every slice along `axis`.
absl::Status ExpectRoundTrip(const InferenceContext& context, int first) {
  const Shape& data = context.shape(first - 1);
  const int64_t axis = context.attrs().GetOr<int64_t>("axis", -1);
  const int64_t bits = context.attrs().GetOr<int64_t>("num_bits", 8);
  const bool is_signed = context.attrs().GetOr("signed_input", true);
  if (bits < 1 || bits > (is_signed ? 62 : 63)) {
    return context.Error(absl::StrCat("num_bits is out of range: ", bits, " with signed_input ", is_signed ? "true" : "false"));
  }
  if (axis < -1 || (data.fully_known() && axis >= data.rank())) {
    return context.Error(absl::StrCat("axis ", axis, " is out of range for ", data.ToString()));
  }
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {first - 1, first, first + 1}));
  for (int i = first; i < first + 2; ++i) {
    const Shape& range = context.shape(i);
    if (!range.fully_known() || !data.fully_known()) continue;
    if (range == (axis < 0 ? Shape() : Shape({data.dim(axis)}))) continue;
    return context.Error(absl::StrCat("input ", i, " is ", range.ToString(), ", expected a range for ", data.ToString()));
  }
  return absl::OkStatus();
}

absl::Status RoundTripShape(InferenceContext& context) {
  const bool third = context.op() == "QuantizeAndDequantizeV3";
  MR_RETURN_IF_ERROR(context.ExpectInputs(third ? 4 : 3));
  MR_RETURN_IF_ERROR(ExpectRoundTrip(context, 1));
  if (third) MR_RETURN_IF_ERROR(ExpectScalar(context, 3, "num_bits"));
  return SameAsFirstInput(context);
}

// (gradients, input, input_min, input_max)
absl::Status RoundTripGradientShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(4));
  MR_RETURN_IF_ERROR(ExpectEqualShapes(context));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 1}));
  MR_RETURN_IF_ERROR(ExpectRoundTrip(context, 2));
  for (int i : {0, 2, 3}) context.AddOutput(context.dtype(0), context.shape(i));
  return absl::OkStatus();
}

// (data, min_range, max_range): scalars, or one each per slice along `axis`.
absl::Status ExpectSlices(const InferenceContext& context, int64_t axis) {
  const Shape& data = context.shape(0);
  if (axis < -1 || (!data.unknown_rank() && axis >= data.rank())) {
    return context.Error(absl::StrCat("axis ", axis, " is out of range for ", data.ToString()));
  }
  const int64_t slices = axis < 0 || data.unknown_rank() ? 1 : data.dim(static_cast<int>(axis));
  for (int i = 1; i < 3; ++i) {
    const Shape& range = context.shape(i);
    if (!range.fully_known() || !data.fully_known()) continue;
    if (range.rank() == (axis < 0 ? 0 : 1) && range.num_elements() == slices) continue;
    return context.Error(absl::StrCat("input ", i, " is ", context.input(i).ToString(), ", expected ",
                                      axis < 0 ? "a scalar" : absl::StrCat(slices, " elements, one per slice of axis ", axis)));
  }
  return absl::OkStatus();
}

absl::Status ExpectMode(const InferenceContext& context) {
  const auto mode = context.attrs().GetOr<std::string>("mode", "MIN_COMBINED");
  if (mode == "MIN_COMBINED" || mode == "MIN_FIRST" || mode == "SCALED") return absl::OkStatus();
  return context.Error(absl::StrCat("Mode string must be 'MIN_COMBINED', 'MIN_FIRST', or 'SCALED', is '", mode, "'"));
}

// TensorFlow knows MIN_FIRST of one slice only.
absl::Status ExpectNoFirstOfSlices(const InferenceContext& context, const char* what) {
  if (context.attrs().GetOr<std::string>("mode", "MIN_COMBINED") != "MIN_FIRST") return absl::OkStatus();
  const Shape& range = context.shape(1);
  if (!range.fully_known() || range.num_elements() == 1) return absl::OkStatus();
  return context.Error(absl::StrCat("MIN_FIRST mode is not implemented for ", what, " with axis != -1"));
}

absl::Status ExpectQuantized(const InferenceContext& context, DataType dtype) {
  if (IsQuantized(dtype)) return absl::OkStatus();
  return context.Error(absl::StrCat("T is ", std::string(DataTypeName(dtype)), ", expected qint8, quint8, qint16, quint16 or qint32"));
}

// (input, min_range, max_range) -> output, output_min, output_max
absl::Status QuantizeShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_ASSIGN_OR_RETURN(const DataType dtype, RequiredAttr<DataType>(context, "T"));
  MR_RETURN_IF_ERROR(ExpectQuantized(context, dtype));
  MR_RETURN_IF_ERROR(ExpectMode(context));
  const auto mode = context.attrs().GetOr<std::string>("mode", "MIN_COMBINED");
  const auto rounding = context.attrs().GetOr<std::string>("round_mode", "HALF_AWAY_FROM_ZERO");
  if (rounding != "HALF_AWAY_FROM_ZERO" && rounding != "HALF_TO_EVEN") {
    return context.Error(absl::StrCat("Round mode string must be 'HALF_AWAY_FROM_ZERO' or 'HALF_TO_EVEN', is '", rounding, "'"));
  }
  if (rounding == "HALF_TO_EVEN" && mode != "SCALED") {
    return context.Error(absl::StrCat("Round mode 'HALF_TO_EVEN' only supported for mode 'SCALED', but mode is '", mode, "'"));
  }
  const int64_t axis = context.attrs().GetOr<int64_t>("axis", -1);
  MR_RETURN_IF_ERROR(ExpectSlices(context, axis));
  MR_RETURN_IF_ERROR(ExpectNoFirstOfSlices(context, "Quantize"));
  context.AddOutput(dtype, context.shape(0));
  const Shape& data = context.shape(0);
  const Shape range = axis < 0 ? Shape() : Shape({data.unknown_rank() ? -1 : data.dim(static_cast<int>(axis))});
  for (int i = 0; i < 2; ++i) context.AddOutput(DataType::kFloat, range);
  return absl::OkStatus();
}

// (input, min_range, max_range)
absl::Status DequantizeShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_RETURN_IF_ERROR(ExpectQuantized(context, context.dtype(0)));
  MR_RETURN_IF_ERROR(ExpectMode(context));
  const auto mode = context.attrs().GetOr<std::string>("mode", "MIN_COMBINED");
  const DataType dtype = context.attrs().GetOr("dtype", DataType::kFloat);
  if (dtype != DataType::kFloat && dtype != DataType::kBfloat16) {
    return context.Error(absl::StrCat("Output type must be bfloat16 or float, is '", std::string(DataTypeName(dtype)), "'"));
  }
  if (dtype == DataType::kBfloat16 && mode != "MIN_COMBINED") {
    return context.Error(absl::StrCat("When output type is bfloat16, Mode string must be 'MIN_COMBINED', is '", mode, "'"));
  }
  const int64_t axis = context.attrs().GetOr<int64_t>("axis", -1);
  MR_RETURN_IF_ERROR(ExpectSlices(context, axis));
  MR_RETURN_IF_ERROR(ExpectNoFirstOfSlices(context, "Dequantize"));
  context.AddOutput(dtype, context.shape(0));
  return absl::OkStatus();
}

}  // namespace

void RegisterQuantizeOps(OpRegistry& registry) {
  AddOp(registry, {.name = "FakeQuantWithMinMaxArgs", .shape = ArgsShape, .in_place = {{0, 0}}});
  AddOp(registry, {.name = "FakeQuantWithMinMaxArgsGradient", .shape = ArgsGradientShape, .in_place = {{0, 0}, {0, 1}}});
  AddOp(registry, {.name = "FakeQuantWithMinMaxVars", .shape = VarsShape<false>, .in_place = {{0, 0}}});
  AddOp(registry, {.name = "FakeQuantWithMinMaxVarsPerChannel", .shape = VarsShape<true>, .in_place = {{0, 0}}});
  AddOp(registry, {.name = "FakeQuantWithMinMaxVarsGradient", .shape = VarsGradientShape<false>});
  AddOp(registry, {.name = "FakeQuantWithMinMaxVarsPerChannelGradient", .shape = VarsGradientShape<true>});
  for (const char* name : {"QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4"}) {
    AddOp(registry, {.name = name, .shape = RoundTripShape});
  }
  AddOp(registry, {.name = "QuantizeV2", .shape = QuantizeShape});
  AddOp(registry, {.name = "Dequantize", .shape = DequantizeShape});
  AddOp(registry, {.name = "QuantizeAndDequantizeV4Grad", .shape = RoundTripGradientShape});
}

}  // namespace millrace
