// Convolutions, pools, normalisation, losses.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "builder/emit.h"
#include "millrace/graph_ops.h"

namespace millrace::ops {
namespace {

constexpr DataType kInt32 = DataType::kInt32;

// [1, values..., 1] for an image or volume with `spatial` dimensions; one value stands for all of them.
IntList Extended(const IntList& values, int spatial) {
  IntList extended = {1};
  for (int i = 0; i < spatial; ++i) extended.push_back(values.size() == 1 ? values[0] : values[i]);
  extended.push_back(1);
  return extended;
}

// Fails on lists that are neither one number nor one per spatial dimension.
bool CheckList(std::string_view op, const Output& x, const char* what, const IntList& values, int spatial, Name name) {
  if (values.size() == 1 || static_cast<int>(values.size()) == spatial) return true;
  Refuse(op, {x}, name, absl::StrCat(what, " has ", values.size(), " numbers, expected 1 or ", spatial));
  return false;
}

AttrMap WindowAttrs(const WindowOptions& options, int spatial, DataType dtype) {
  AttrMap attrs = {{"T", dtype},
                   {"strides", Extended(options.strides, spatial)},
                   {"padding", options.padding},
                   {"data_format", spatial == 3 ? "NDHWC" : "NHWC"}};
  return attrs;
}

Output Convolve(const char* op, int spatial, std::initializer_list<Output> inputs, const Output& x,
                const WindowOptions& options, Name name) {
  if (!CheckList(op, x, "strides", options.strides, spatial, name) || !CheckList(op, x, "dilations", options.dilations, spatial, name)) {
    return Output(x.builder(), OutputRef{}, TensorType{});
  }
  AttrMap attrs = WindowAttrs(options, spatial, x.dtype());
  attrs.Set("dilations", Extended(options.dilations, spatial));
  return Emit(op, inputs, std::move(attrs), name);
}

}  // namespace

Output Conv2D(const Output& x, const Output& filter, const WindowOptions& options, Name name) {
  return Convolve("Conv2D", 2, {x, filter}, x, options, name);
}

Output Conv3D(const Output& x, const Output& filter, const WindowOptions& options, Name name) {
  return Convolve("Conv3D", 3, {x, filter}, x, options, name);
}

Output DepthwiseConv2D(const Output& x, const Output& filter, const WindowOptions& options, Name name) {
  return Convolve("DepthwiseConv2dNative", 2, {x, filter}, x, options, name);
}

Output ConvTranspose2D(const Output& x, const Output& filter, IntList shape, const WindowOptions& options,
                       Name name) {
  return Convolve("Conv2DBackpropInput", 2, {Ints("Conv2DBackpropInput", x, shape, name), filter, x}, x, options, name);
}

Output ConvTranspose3D(const Output& x, const Output& filter, IntList shape, const WindowOptions& options,
                       Name name) {
  return Convolve("Conv3DBackpropInputV2", 3, {Ints("Conv3DBackpropInputV2", x, shape, name), filter, x}, x, options, name);
}

Output Pool(std::string_view op, const Output& x, IntList window, const WindowOptions& options, Name name) {
  const int spatial = op.ends_with("3D") ? 3 : 2;
  if (!CheckList(op, x, "strides", options.strides, spatial, name) || !CheckList(op, x, "window", window, spatial, name)) {
    return Output(x.builder(), OutputRef{}, TensorType{});
  }
  if (op != "MaxPool" && op != "AvgPool" && op != "MaxPool3D" && op != "AvgPool3D") {
    return Refuse(op, {x}, name, "expected MaxPool, AvgPool, MaxPool3D or AvgPool3D");
  }
  if (std::any_of(options.dilations.begin(), options.dilations.end(), [](int64_t dilation) { return dilation != 1; })) {
    return Refuse(op, {x}, name, absl::StrCat("dilations are ", absl::StrJoin(options.dilations, ","), ", expected 1: a pool has none"));
  }
  AttrMap attrs = WindowAttrs(options, spatial, x.dtype());
  attrs.Set("ksize", Extended(window, spatial));
  return Emit(op, {x}, std::move(attrs), name);
}

Output BiasAdd(const Output& x, const Output& bias, Name name) {
  return Emit("BiasAdd", {x, bias}, {{"T", x.dtype()}, {"data_format", "NHWC"}}, name);
}

Output Softmax(const Output& x, Name name) { return Unary("Softmax", x, name); }
Output LogSoftmax(const Output& x, Name name) { return Unary("LogSoftmax", x, name); }

Output Lrn(const Output& x, int64_t depth_radius, float bias, float alpha, float beta, Name name) {
  return Emit("LRN", {x},
              {{"T", x.dtype()}, {"depth_radius", depth_radius}, {"bias", bias}, {"alpha", alpha}, {"beta", beta}},
              name);
}

BatchNormResult FusedBatchNorm(const Output& x, const Output& scale, const Output& offset, float epsilon, Name name) {
  const Output none = x.valid() && scale.valid() ? x.builder()->SharedConst(Tensor(scale.dtype(), Shape({0}))) : Output();
  const Operation op = Emit("FusedBatchNormV3", {x, scale, offset, none, none},
                            {{"T", x.dtype()},
                             {"U", scale.dtype()},
                             {"epsilon", epsilon},
                             {"exponential_avg_factor", 1.0f},
                             {"data_format", x.rank() == 5 ? "NDHWC" : "NHWC"},
                             {"is_training", true}},
                            name);
  return {op.output(0), op.output(1), op.output(2)};
}

CrossEntropyResult SparseSoftmaxCrossEntropy(const Output& logits, const Output& labels, Name name) {
  const Operation op = Emit("SparseSoftmaxCrossEntropyWithLogits", {logits, labels},
                            {{"T", logits.dtype()}, {"Tlabels", labels.dtype()}}, name);
  return {op.output(0), op.output(1)};
}

CrossEntropyResult SoftmaxCrossEntropy(const Output& logits, const Output& labels, Name name) {
  const Operation op = Emit("SoftmaxCrossEntropyWithLogits", {logits, labels}, {{"T", logits.dtype()}}, name);
  return {op.output(0), op.output(1)};
}

Output ResizeBilinear(const Output& x, int64_t height, int64_t width, bool half_pixel_centers, Name name) {
  return Emit("ResizeBilinear", {x, Ints("ResizeBilinear", x, {height, width}, name)},
              {{"T", x.dtype()}, {"align_corners", false}, {"half_pixel_centers", half_pixel_centers}}, name);
}

}  // namespace millrace::ops
