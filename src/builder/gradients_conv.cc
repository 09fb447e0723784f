// Gradients of convolutions and of their own gradients: the three ops of a family are each other's derivatives.
#include "builder/emit.h"
#include "builder/gradient_rules.h"

namespace millrace {
namespace {

using Context = GradientContext;

struct ConvFamily {
  const char* forward;
  const char* backprop_input;
  const char* backprop_filter;
};

// y = conv(x, filter)
absl::Status Forward(Context& c, const ConvFamily& family) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  const Output g = c.gradient();
  if (c.wants(0)) c.Set(0, SameAttrs(c, family.backprop_input, {ShapeOf(c.input(0)), c.input(1), g}));
  if (c.wants(1)) c.Set(1, SameAttrs(c, family.backprop_filter, {c.input(0), ShapeOf(c.input(1)), g}));
  return absl::OkStatus();
}

// Without the one that only Conv3DBackpropInputV2 has.
AttrMap SharedAttrs(const Context& c) {
  AttrMap attrs = c.attrs();
  attrs.Erase("Tshape");
  return attrs;
}

// dx = backprop_input(sizes, filter, dy)
absl::Status BackpropInput(Context& c, const ConvFamily& family) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  const Output g = c.gradient();
  if (c.wants(1)) c.Set(1, Emit(family.backprop_filter, {g, ShapeOf(c.input(1)), c.input(2)}, SharedAttrs(c)));
  if (c.wants(2)) c.Set(2, Emit(family.forward, {g, c.input(1)}, SharedAttrs(c)));
  return absl::OkStatus();
}

// dfilter = backprop_filter(x, sizes, dy)
absl::Status BackpropFilter(Context& c, const ConvFamily& family) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  const Output g = c.gradient();
  if (c.wants(0)) c.Set(0, SameAttrs(c, family.backprop_input, {ShapeOf(c.input(0)), g, c.input(2)}));
  if (c.wants(2)) c.Set(2, Emit(family.forward, {c.input(0), g}, SharedAttrs(c)));
  return absl::OkStatus();
}

}  // namespace

void AddConvGradients(GradientTable& table) {
  const ConvFamily families[] = {
      {"Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"},
      {"Conv3D", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2"},
      {"DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropInput", "DepthwiseConv2dNativeBackpropFilter"},
  };
  for (const ConvFamily& family : families) {
    table.Add(family.forward, [family](Context& c) { return Forward(c, family); });
    table.Add(family.backprop_input, [family](Context& c) { return BackpropInput(c, family); });
    table.Add(family.backprop_filter, [family](Context& c) { return BackpropFilter(c, family); });
  }
}

}  // namespace millrace
