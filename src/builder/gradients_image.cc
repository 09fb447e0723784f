// Gradients of colours, crops and projections of images.
#include <array>

#include "builder/emit.h"
#include "builder/gradient_rules.h"

namespace millrace {
namespace {

using Context = GradientContext;
using ops::Binary;
using ops::IntList;
using ops::Unary;
using In = const Output&;
using Colours = std::array<Output, 3>;

Output DivNoNan(In x, In y) { return Binary("DivNoNan", x, y); }
Output And(In x, In y) { return Emit("LogicalAnd", {x, y}, {}); }
Output Not(In x) { return Emit("LogicalNot", {x}, {}); }

// 1 for the colour that is `extreme`, the first of those that are.
Colours FirstEqual(const Colours& colours, In extreme) {
  const Output first = Binary("Equal", colours[0], extreme), second = Binary("Equal", colours[1], extreme);
  const Output not_first = Not(first);
  const Colours chosen = {first, And(not_first, second), And(not_first, Not(second))};
  Colours numbers;
  for (int i = 0; i < 3; ++i) numbers[i] = ops::Cast(chosen[i], extreme.dtype());
  return numbers;
}

// Value: the largest colour; saturation: (largest - smallest) / largest; hue: a sixth of (next - last colour) /
// (largest - smallest), from where the largest stands. Greys have no hue, black no saturation: theirs do not move.
absl::Status RgbToHsvGradient(Context& c) {
  const Output x = c.input(0), g = c.gradient();
  Colours colours, gradients;
  for (int i = 0; i < 3; ++i) {
    colours[i] = ops::Index(x, i, -1);
    gradients[i] = ops::Index(g, i, -1);
  }
  const Output largest = ops::Maximum(ops::Maximum(colours[0], colours[1]), colours[2]);
  const Output smallest = ops::Minimum(ops::Minimum(colours[0], colours[1]), colours[2]);
  const Output range = largest - smallest;
  const Colours is_largest = FirstEqual(colours, largest), is_smallest = FirstEqual(colours, smallest);
  Output numerator;  // next - last colour, after the one that is largest
  for (int i = 0; i < 3; ++i) {
    const Output part = is_largest[i] * (colours[(i + 1) % 3] - colours[(i + 2) % 3]);
    numerator = numerator.valid() ? numerator + part : part;
  }
  const Output hue_scale = DivNoNan(gradients[0], range) / 6.0, hue = DivNoNan(numerator, range);
  const Output saturation_scale = DivNoNan(gradients[1], largest), ratio = DivNoNan(smallest, largest);
  std::vector<Output> results;
  for (int i = 0; i < 3; ++i) {
    const Output of_numerator = is_largest[(i + 2) % 3] - is_largest[(i + 1) % 3];
    const Output of_range = is_largest[i] - is_smallest[i];
    results.push_back(hue_scale * (of_numerator - hue * of_range) +
                      saturation_scale * (is_largest[i] * ratio - is_smallest[i]) + gradients[2] * is_largest[i]);
  }
  c.Set(0, ops::Pack(results, -1));
  return absl::OkStatus();
}

// y = (x - mean) factor + mean, the mean over height and width.
absl::Status ContrastGradient(Context& c) {
  const Output x = c.input(0), factor = c.input(1), g = c.gradient();
  const IntList area = {x.rank() - 3, x.rank() - 2};
  const auto scale = [&factor](In image) { return image * ops::Cast(factor, image.dtype()); };
  if (c.wants(0)) {
    const Output mean = ops::Mean(g, area, {}, true);
    c.Set(0, scale(g - mean) + mean);
  }
  if (c.wants(1)) {
    const Output deviation = x - ops::Mean(x, area, {}, true);
    c.Set(1, ops::Cast(ops::Sum(g * deviation, {}), factor.dtype()));
  }
  return absl::OkStatus();
}

AttrMap CropAttrs(DataType image, const Context& c) {
  return {{"T", image}, {"method", c.attrs().GetOr<std::string>("method", "bilinear")}};
}

// (image, boxes, box_ind, crop_size). With the nearest method, too, boxes get the gradient of the bilinear one, as in
// TensorFlow.
absl::Status CropGradient(Context& c) {
  const Output image = c.input(0), boxes = c.input(1), g = c.gradient();
  if (c.wants(0)) {
    MR_RETURN_IF_ERROR(ExpectRanks(c));
    c.Set(0, Emit("CropAndResizeGradImage", {g, boxes, c.input(2), ShapeOf(image)}, CropAttrs(image.dtype(), c)));
  }
  if (c.wants(1)) {
    c.Set(1, Emit("CropAndResizeGradBoxes", {g, image, boxes, c.input(2)},
                  {{"T", image.dtype()}, {"method", "bilinear"}}));
  }
  return absl::OkStatus();
}

// (grads, boxes, box_ind, image_size): crops transposed, so its gradient by grads crops.
absl::Status CropGradImageGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectKnownShapes(c));
  const Output crops = c.input(0), boxes = c.input(1), g = c.gradient();
  if (c.wants(0)) {
    AttrMap attrs = CropAttrs(g.dtype(), c);
    attrs.Set("extrapolation_value", 0.0f);
    c.Set(0, Emit("CropAndResize", {g, boxes, c.input(2), c.builder().Ints({crops.dim(1), crops.dim(2)})}, attrs));
  }
  if (c.wants(1)) {
    c.Set(1, Emit("CropAndResizeGradBoxes", {crops, g, boxes, c.input(2)}, {{"T", g.dtype()}, {"method", "bilinear"}}));
  }
  return absl::OkStatus();
}

// [n, 8], the rows of a 3 x 3 matrix without its last element, 1 -> the same of the inverse matrices.
Output InverseTransforms(In transforms) {
  GraphBuilder& b = *transforms.builder();
  const int64_t count = transforms.dim(0);
  const Output ones = ops::Full(b, {transforms.dtype(), Shape({count, 1})}, 1);
  const Output matrices = ops::Reshape(ops::Concat({transforms, ones}, 1), {count, 3, 3});
  const Output inverse = Emit("MatrixInverse", {matrices}, {{"T", matrices.dtype()}, {"adjoint", false}});
  const Output flat = ops::Reshape(inverse, {count, 9});
  return ops::Slice(flat, {0, 0}, {count, 8}) / ops::Slice(flat, {0, 8}, {count, 1});
}

// (images, transforms, output_shape[, fill_value]). As TensorFlow does, the gradient is projected back by the inverse
// transforms, which is exact where no pixel is weighed.
absl::Status ProjectGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectKnownShapes(c));
  if (!c.wants(0)) return absl::OkStatus();
  GraphBuilder& b = c.builder();
  const Output size = b.Ints({c.input(0).dim(1), c.input(0).dim(2)}), back = InverseTransforms(c.input(1));
  c.Set(0, c.op() == "ImageProjectiveTransformV3"
               ? SameAttrs(c, c.op(), {c.gradient(), back, size, b.Scalar(DataType::kFloat, 0)})
               : SameAttrs(c, c.op(), {c.gradient(), back, size}));
  return absl::OkStatus();
}

// Fake quantisation passes gradients where the input is within what can be held (a straight-through estimator); what
// lies outside moves with the bound that holds it.
GradientTable::Rule QuantizeGradient(const char* gradient_op) {
  return [gradient_op](Context& c) {
    const Operation gradients =
        c.num_inputs() == 1 ? SameAttrs(c, gradient_op, {c.gradient(), c.input(0)})
                            : SameAttrs(c, gradient_op, {c.gradient(), c.input(0), c.input(1), c.input(2)});
    for (int i = 0; i < c.num_inputs(); ++i) {
      if (c.wants(i)) c.Set(i, gradients.output(i));
    }
    return absl::OkStatus();
  };
}

// (gradients, inputs) -> gradients where inputs are within: linear in the gradients.
absl::Status QuantizeArgsGradientGradient(Context& c) {
  if (c.wants(0)) c.Set(0, SameAttrs(c, c.op(), {c.gradient(), c.input(1)}));
  return absl::OkStatus();
}

// (gradients, inputs, min, max) -> (those within, the sum of those below, the sum of those above): linear, too.
absl::Status QuantizeVarsGradientGradient(Context& c) {
  if (!c.wants(0)) return absl::OkStatus();
  const Output x = c.input(1), low = c.input(2), high = c.input(3);
  const bool per_channel = c.op() == "FakeQuantWithMinMaxVarsPerChannelGradient";
  const Output within = SameAttrs(c, c.op(), {ops::OnesLike(x), x, low, high});
  const Output held = SameAttrs(
      c, per_channel ? "FakeQuantWithMinMaxVarsPerChannel" : "FakeQuantWithMinMaxVars", {x, low, high});
  const Output outside = ops::Select(Binary("Less", x, held), c.gradient(1), c.gradient(2));
  c.Set(0, ops::Select(Binary("NotEqual", within, x.builder()->Scalar(x.dtype(), 0)), c.gradient(0), outside));
  return absl::OkStatus();
}

}  // namespace

void AddImageGradients(GradientTable& table) {
  table.Add("RGBToHSV", RgbToHsvGradient);
  table.Add("AdjustContrastv2", ContrastGradient);
  table.Add("CropAndResize", CropGradient);
  table.Add("CropAndResizeGradImage", CropGradImageGradient);
  table.Add({"ImageProjectiveTransformV2", "ImageProjectiveTransformV3"}, ProjectGradient);
  table.Add("FakeQuantWithMinMaxArgs", QuantizeGradient("FakeQuantWithMinMaxArgsGradient"));
  table.Add("FakeQuantWithMinMaxVars", QuantizeGradient("FakeQuantWithMinMaxVarsGradient"));
  table.Add("FakeQuantWithMinMaxVarsPerChannel", QuantizeGradient("FakeQuantWithMinMaxVarsPerChannelGradient"));
  table.Add("FakeQuantWithMinMaxArgsGradient", QuantizeArgsGradientGradient);
  table.Add({"FakeQuantWithMinMaxVarsGradient", "FakeQuantWithMinMaxVarsPerChannelGradient"}, QuantizeVarsGradientGradient);
}

}  // namespace millrace
