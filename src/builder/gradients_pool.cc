// Gradients of pools and resizes.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "builder/emit.h"
#include "builder/gradient_rules.h"

namespace millrace {
namespace {

using Context = GradientContext;

absl::Status MaxPoolGradient(Context& c) {
  c.Set(0, SameAttrs(c, "MaxPoolGrad", {c.input(0), c.output(0), c.gradient()}));
  return absl::OkStatus();
}

absl::Status MaxPool3DGradient(Context& c) {
  AttrMap attrs = c.attrs();
  attrs.Set("TInput", c.dtype());
  c.Set(0, Emit("MaxPool3DGrad", {c.input(0), c.output(0), c.gradient()}, std::move(attrs)));
  return absl::OkStatus();
}

absl::Status MaxPoolWithArgmaxGradient(Context& c) {
  c.Set(0, SameAttrs(c, "MaxPoolGradWithArgmax", {c.input(0), c.gradient(0), c.output(1)}));
  return absl::OkStatus();
}

// dx = MaxPoolGradWithArgmax(x, dy, argmax) puts every dy where its maximum is: the gradient is picked up there.
absl::Status MaxPoolGradWithArgmaxGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  if (!c.wants(1)) return absl::OkStatus();
  GraphBuilder& b = c.builder();
  const Output x = c.input(0);
  Output at = c.input(2);
  if (!c.attrs().GetOr<bool>("include_batch_in_index", false)) {
    const Output first = ops::Range(b.Int(0), DimOf(x, 0), b.Int(1)) * CountOver(x, {1, 2, 3}, DataType::kInt32);
    at = at + ops::Cast(ops::Reshape(first, {-1, 1, 1, 1}), at.dtype());
  }
  c.Set(1, ops::Gather(ops::Reshape(c.gradient(), {-1}), at));
  return absl::OkStatus();
}

// Before and after each dimension, as Pad takes them.
Output ExplicitPads(Context& c) {
  const auto pads = c.attrs().GetOr<std::vector<int64_t>>("explicit_paddings", {});
  Tensor tensor(DataType::kInt64, Shape({static_cast<int64_t>(pads.size()) / 2, 2}));
  std::copy(pads.begin(), pads.end(), tensor.mutable_as<int64_t>().begin());
  return c.builder().SharedConst(std::move(tensor));
}

// dx = MaxPoolGrad(x, y, dy) picks by x and y and is linear in dy. MaxPoolGradGrad takes no EXPLICIT padding: what it would pad is padded before.
absl::Status MaxPoolGradGradient(Context& c) {
  if (!c.wants(2)) return absl::OkStatus();
  AttrMap attrs = c.attrs();
  attrs.Erase("TInput");
  attrs.Erase("explicit_paddings");
  Output x = c.input(0), dx = c.gradient();
  if (c.attrs().GetOr<std::string>("padding", "") == "EXPLICIT") {
    const Output pads = ExplicitPads(c);
    x = Emit("PadV2", {x, pads, c.builder().Scalar(x.dtype(), -std::numeric_limits<double>::infinity())}, {});
    dx = Emit("Pad", {dx, pads}, {});
    attrs.Set("padding", std::string("VALID"));
  }
  c.Set(2, Emit(c.op() == "MaxPoolGrad" ? "MaxPoolGradGrad" : "MaxPool3DGradGrad", {x, c.input(1), dx}, std::move(attrs)));
  return absl::OkStatus();
}

// dy of MaxPoolGradGrad(x, y, dx) is read off where the maxima are: linear in dx.
absl::Status MaxPoolGradGradGradient(Context& c) {
  if (!c.wants(2)) return absl::OkStatus();
  AttrMap attrs = c.attrs();
  const bool volume = c.op() == "MaxPool3DGradGrad";
  if (volume) attrs.Set("TInput", c.dtype());
  c.Set(2, Emit(volume ? "MaxPool3DGrad" : "MaxPoolGrad", {c.input(0), c.input(1), c.gradient()}, std::move(attrs)));
  return absl::OkStatus();
}

// Window and strides as inputs: MaxPoolV2(x, ksize, strides), MaxPoolGradV2 and MaxPoolGradGradV2(x, y, g, ksize, strides).
absl::Status MaxPoolV2Gradient(Context& c) {
  if (c.wants(0)) {
    c.Set(0, SameAttrs(c, "MaxPoolGradV2", {c.input(0), c.output(0), c.gradient(), c.input(1), c.input(2)}));
  }
  return absl::OkStatus();
}

absl::Status MaxPoolGradV2Gradient(Context& c) {
  const char* op = c.op() == "MaxPoolGradV2" ? "MaxPoolGradGradV2" : "MaxPoolGradV2";
  if (c.wants(2)) c.Set(2, SameAttrs(c, op, {c.input(0), c.input(1), c.gradient(), c.input(3), c.input(4)}));
  return absl::OkStatus();
}

absl::Status AvgPoolGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  c.Set(0, SameAttrs(c, c.op() == "AvgPool" ? "AvgPoolGrad" : "AvgPool3DGrad", {ShapeOf(c.input(0)), c.gradient()}));
  return absl::OkStatus();
}

absl::Status AvgPoolGradGradient(Context& c) {
  if (c.wants(1)) c.Set(1, SameAttrs(c, c.op() == "AvgPoolGrad" ? "AvgPool" : "AvgPool3D", {c.gradient()}));
  return absl::OkStatus();
}

// y = resize(x, size); the op's gradient takes x itself for its size and type.
GradientTable::Rule ResizeWithImage(const char* gradient_op) {
  return [gradient_op](Context& c) {
    c.Set(0, SameAttrs(c, gradient_op, {c.gradient(), c.input(0)}));
    return absl::OkStatus();
  };
}

// Height and width of images, [2].
Output SizeOf(const Output& images) {
  const bool known = images.dim(1) >= 0 && images.dim(2) >= 0 && !images.builder()->HasBoundShape(images);
  return known ? images.builder()->Ints({images.dim(1), images.dim(2)}) : ops::Slice(ShapeOf(images), {1}, {2});
}

absl::Status ResizeNearestGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  c.Set(0, SameAttrs(c, "ResizeNearestNeighborGrad", {c.gradient(), SizeOf(c.input(0))}));
  return absl::OkStatus();
}

// dx = ResizeBilinearGrad(dy, x) is linear in dy: its gradient resizes again.
GradientTable::Rule ResizeAgain(const char* op) {
  return [op](Context& c) {
    MR_RETURN_IF_ERROR(ExpectRanks(c));
    if (c.wants(0)) c.Set(0, SameAttrs(c, op, {c.gradient(), SizeOf(c.input(0))}));
    return absl::OkStatus();
  };
}

}  // namespace

// The windows are the forward node's: outputs 1 and 2.
absl::Status FractionalPoolGradient(GradientContext& c) {
  const bool max = c.op() == "FractionalMaxPool";
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  if (!max && c.builder().HasBoundShape(c.input(0))) MR_RETURN_IF_ERROR(ExpectKnownShapes(c));
  AttrMap attrs;
  attrs.Set("T", c.input(0).dtype());
  attrs.Set("overlapping", c.attrs().GetOr<bool>("overlapping", false));
  const Output in = max ? c.input(0) : ShapeOf(c.input(0), DataType::kInt64);
  std::vector<Output> inputs = {in};
  if (max) inputs.push_back(c.output(0));
  inputs.insert(inputs.end(), {c.gradient(), c.output(1), c.output(2)});
  c.Set(0, Emit(max ? "FractionalMaxPoolGrad" : "FractionalAvgPoolGrad", inputs, std::move(attrs), ""));
  return absl::OkStatus();
}

void AddPoolGradients(GradientTable& table) {
  table.Add({"FractionalMaxPool", "FractionalAvgPool"}, FractionalPoolGradient);
  table.Add("MaxPool", MaxPoolGradient);
  table.Add("MaxPool3D", MaxPool3DGradient);
  table.Add("MaxPoolWithArgmax", MaxPoolWithArgmaxGradient);
  table.Add("MaxPoolGradWithArgmax", MaxPoolGradWithArgmaxGradient);
  table.Add({"MaxPoolGrad", "MaxPool3DGrad"}, MaxPoolGradGradient);
  table.Add({"MaxPoolGradGrad", "MaxPool3DGradGrad"}, MaxPoolGradGradGradient);
  table.Add("MaxPoolV2", MaxPoolV2Gradient);
  table.Add({"MaxPoolGradV2", "MaxPoolGradGradV2"}, MaxPoolGradV2Gradient);
  table.Add({"AvgPool", "AvgPool3D"}, AvgPoolGradient);
  table.Add({"AvgPoolGrad", "AvgPool3DGrad"}, AvgPoolGradGradient);
  table.Add("ResizeBilinear", ResizeWithImage("ResizeBilinearGrad"));
  table.Add("ResizeBicubic", ResizeWithImage("ResizeBicubicGrad"));
  table.Add("ResizeNearestNeighbor", ResizeNearestGradient);
  table.Add("ResizeBilinearGrad", ResizeAgain("ResizeBilinear"));
  table.Add("ResizeBicubicGrad", ResizeAgain("ResizeBicubic"));
  table.Add("ResizeNearestNeighborGrad", ResizeAgain("ResizeNearestNeighbor"));
}

}  // namespace millrace
