// Convolutions and their gradients against a direct sum in double.
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>

#include <Eigen/Core>
#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/conv_kernels.h"
#include "cpu/kernels/onednn.h"
#include "kernel_testing.h"

namespace millrace::cpu {
namespace {

struct Layer {
  std::vector<int64_t> in;  // spatial
  std::vector<int64_t> kernel;
  int64_t batch = 2, in_channels = 3, out_channels = 5, groups = 1;
  std::vector<int64_t> strides = {}, dilations = {};  // default 1
  std::string padding = "SAME";
  std::vector<int64_t> pads = {};  // before, after per spatial dimension, of EXPLICIT
  bool channels_first = false;
  DataType dtype = DataType::kFloat;
  bool depthwise = false;

  int spatial() const { return static_cast<int>(in.size()); }
  int64_t stride(int i) const { return strides.empty() ? 1 : strides[i]; }
  int64_t dilation(int i) const { return dilations.empty() ? 1 : dilations[i]; }
  int64_t extent(int i) const { return (kernel[i] - 1) * dilation(i) + 1; }
  int64_t pad_before(int i) const {
    if (padding == "EXPLICIT") return pads[2 * i];
    return padding == "VALID" ? 0 : std::max<int64_t>((out(i) - 1) * stride(i) + extent(i) - in[i], 0) / 2;
  }
  int64_t out(int i) const {
    if (padding == "SAME") return (in[i] + stride(i) - 1) / stride(i);
    const int64_t padded = in[i] + (padding == "EXPLICIT" ? pads[2 * i] + pads[2 * i + 1] : 0);
    return (padded - extent(i)) / stride(i) + 1;
  }
  Shape Activations(int64_t channels, bool output) const {
    Shape shape({batch});
    if (channels_first) shape.AddDim(channels);
    for (int i = 0; i < spatial(); ++i) shape.AddDim(output ? out(i) : in[i]);
    if (!channels_first) shape.AddDim(channels);
    return shape;
  }
  Shape input() const { return Activations(in_channels, false); }
  Shape output() const { return Activations(out_channels, true); }
  Shape filter() const {
    Shape shape(absl::MakeConstSpan(kernel));
    shape.AddDim(depthwise ? in_channels : in_channels / groups);
    shape.AddDim(depthwise ? out_channels / in_channels : out_channels);
    return shape;
  }
  AttrMap attrs() const {
    const auto list = [&](auto value) {
      std::vector<int64_t> list(spatial() + 2, 1);
      for (int i = 0; i < spatial(); ++i) list[i + (channels_first ? 2 : 1)] = value(i);
      return list;
    };
    AttrMap attrs;
    attrs.Set("strides", list([&](int i) { return stride(i); }));
    attrs.Set("dilations", list([&](int i) { return dilation(i); }));
    attrs.Set("padding", padding);
    if (padding == "EXPLICIT") {
      std::vector<int64_t> explicit_pads(2 * spatial() + 4, 0);
      std::copy(pads.begin(), pads.end(), explicit_pads.begin() + (channels_first ? 4 : 2));
      attrs.Set("explicit_paddings", explicit_pads);
    }
    if (spatial() == 2) attrs.Set("data_format", std::string(channels_first ? "NCHW" : "NHWC"));
    if (spatial() == 3) attrs.Set("data_format", std::string(channels_first ? "NCDHW" : "NDHWC"));
    return attrs;
  }
};

// Calls fn(input element, filter element, output element) for every product of the layer.
template <typename Fn>
void ForProducts(const Layer& layer, Fn&& fn) {
  const auto pad3 = [&](auto value, int64_t rest) {
    std::array<int64_t, 3> sizes{rest, rest, rest};
    for (int i = 0; i < layer.spatial(); ++i) sizes[i] = value(i);
    return sizes;
  };
  const auto in = pad3([&](int i) { return layer.in[i]; }, 1), out = pad3([&](int i) { return layer.out(i); }, 1);
  const auto kernel = pad3([&](int i) { return layer.kernel[i]; }, 1);
  const auto stride = pad3([&](int i) { return layer.stride(i); }, 1);
  const auto dilation = pad3([&](int i) { return layer.dilation(i); }, 1);
  const auto pad = pad3([&](int i) { return layer.pad_before(i); }, 0);
  const auto element = [&](int64_t n, int64_t pixel, int64_t pixels, int64_t c, int64_t channels) {
    return layer.channels_first ? (n * channels + c) * pixels + pixel : (n * pixels + pixel) * channels + c;
  };
  const int64_t in_pixels = in[0] * in[1] * in[2], out_pixels = out[0] * out[1] * out[2];
  const int64_t taps = kernel[0] * kernel[1] * kernel[2];
  const int64_t group_in = layer.in_channels / layer.groups, group_out = layer.out_channels / layer.groups;
  for (int64_t pixel = 0; pixel < out_pixels; ++pixel) {
    const std::array<int64_t, 3> o{pixel / (out[1] * out[2]), pixel / out[2] % out[1], pixel % out[2]};
    for (int64_t tap = 0; tap < taps; ++tap) {
      const std::array<int64_t, 3> k{tap / (kernel[1] * kernel[2]), tap / kernel[2] % kernel[1], tap % kernel[2]};
      std::array<int64_t, 3> i;
      bool inside = true;
      for (int d = 0; d < 3; ++d) {
        i[d] = o[d] * stride[d] - pad[d] + k[d] * dilation[d];
        inside = inside && i[d] >= 0 && i[d] < in[d];
      }
      if (!inside) continue;
      const int64_t in_pixel = (i[0] * in[1] + i[1]) * in[2] + i[2];
      for (int64_t n = 0; n < layer.batch; ++n) {
        for (int64_t oc = 0; oc < layer.out_channels; ++oc) {
          for (int64_t ic = 0; ic < group_in; ++ic) {
            fn(element(n, in_pixel, in_pixels, oc / group_out * group_in + ic, layer.in_channels),
               (tap * group_in + ic) * layer.out_channels + oc, element(n, pixel, out_pixels, oc, layer.out_channels));
          }
        }
      }
    }
  }
}

Tensor Sizes(const Shape& shape) {
  std::vector<int32_t> sizes(shape.dims().begin(), shape.dims().end());
  return Tensor::Vector<int32_t>(sizes);
}

std::string OpName(const Layer& layer, const char* suffix) {
  if (layer.depthwise) return absl::StrCat("DepthwiseConv2dNative", suffix);
  return absl::StrCat(layer.spatial() == 2 ? "Conv2D" : "Conv3D", suffix,
                      layer.spatial() == 3 && suffix[0] != 0 ? "V2" : "");
}

// The depthwise filter [h, w, c, m] is, in memory, the grouped one [h, w, 1, c * m].
void CheckLayer(Layer layer, const KernelRegistry& kernels = CpuKernels()) {
  if (layer.depthwise) layer.groups = layer.in_channels;
  const Tensor x = TestValues(layer.dtype, layer.input(), 1), w = TestValues(layer.dtype, layer.filter(), 2);
  const Tensor dy = TestValues(layer.dtype, layer.output(), 3);
  std::vector<double> y(dy.num_elements(), 0), dx(x.num_elements(), 0), dw(w.num_elements(), 0);
  ForProducts(layer, [&](int64_t i, int64_t f, int64_t o) {
    y[o] += x.DoubleAt(i) * w.DoubleAt(f);
    dx[i] += dy.DoubleAt(o) * w.DoubleAt(f);
    dw[f] += dy.DoubleAt(o) * x.DoubleAt(i);
  });
  const double tolerance = Tolerance(layer.dtype);
  {
    SCOPED_TRACE("forward");
    const Tensor got = EvaluateOnThreads({OpName(layer, ""), layer.attrs(), {x, w}}, kernels);
    EXPECT_EQ(got.shape(), layer.output());
    ExpectClose(got, y, tolerance);
  }
  {
    SCOPED_TRACE("input gradient");
    const Tensor got = EvaluateOnThreads(
        {OpName(layer, "BackpropInput"), layer.attrs(), {Sizes(layer.input()), w, dy}, {true, false, false}}, kernels);
    EXPECT_EQ(got.shape(), layer.input());
    ExpectClose(got, dx, tolerance);
  }
  if (layer.dtype == DataType::kInt32) return;  // TensorFlow has no such filter gradient
  SCOPED_TRACE("filter gradient");
  const Tensor got = EvaluateOnThreads(
      {OpName(layer, "BackpropFilter"), layer.attrs(), {x, Sizes(layer.filter()), dy}, {false, true, false}}, kernels);
  EXPECT_EQ(got.shape(), layer.filter());
  ExpectClose(got, dw, tolerance);
}

TEST(Conv2DTest, AgreesWithDirectSumForEveryPaddingStrideAndDilation) {
  for (const char* padding : {"SAME", "VALID"}) {
    for (int64_t kernel : {1, 2, 3, 5}) {
      for (int64_t stride : {1, 2, 3}) {
        for (int64_t dilation : {1, 2}) {
          SCOPED_TRACE(absl::StrCat(padding, " kernel ", kernel, " stride ", stride, " dilation ", dilation));
          CheckLayer({.in = {11, 12}, .kernel = {kernel, kernel}, .strides = {stride, stride},
                      .dilations = {dilation, dilation}, .padding = padding});
        }
      }
    }
  }
}

TEST(Conv2DTest, TakesExplicitPadding) {
  CheckLayer({.in = {9, 7}, .kernel = {3, 3}, .strides = {2, 1}, .padding = "EXPLICIT", .pads = {1, 0, 2, 2}});
  CheckLayer({.in = {4, 4}, .kernel = {2, 2}, .padding = "EXPLICIT", .pads = {3, 5, 0, 4}});
}

TEST(Conv2DTest, TakesUnequalSizesPerDimension) {
  CheckLayer({.in = {10, 17}, .kernel = {1, 7}, .in_channels = 17, .out_channels = 33, .strides = {2, 3}});
  CheckLayer({.in = {13, 5}, .kernel = {4, 1}, .in_channels = 16, .out_channels = 64, .dilations = {3, 1}});
}

TEST(Conv2DTest, TakesChannelsFirst) {
  CheckLayer({.in = {9, 8}, .kernel = {3, 3}, .strides = {2, 2}, .channels_first = true});
  CheckLayer({.in = {9, 8}, .kernel = {3, 2}, .padding = "EXPLICIT", .pads = {1, 0, 0, 1}, .channels_first = true});
}

// A filter of a signal: oneDNN has nothing but reference code for it with channels first.
TEST(Conv2DTest, OneChannelLiesTheSameInBothLayouts) {
  Layer layer{.in = {1, 301}, .kernel = {1, 64}, .in_channels = 1, .out_channels = 1, .strides = {1, 2}, .padding = "VALID", .channels_first = true};
  CheckLayer(layer);
  const auto run = [](const Layer& of) {
    return EvaluateOnThreads({"Conv2D", of.attrs(), {TestValues(of.dtype, of.input(), 1), TestValues(of.dtype, of.filter(), 2)}}, CpuKernels());
  };
  const Tensor first = run(layer);
  layer.channels_first = false;
  const Tensor last = run(layer);
  EXPECT_EQ(std::memcmp(first.data(), last.data(), first.size_bytes()), 0);
}

TEST(Conv2DTest, TakesGroups) {
  CheckLayer({.in = {8, 9}, .kernel = {3, 3}, .in_channels = 8, .out_channels = 12, .groups = 4});
  CheckLayer({.in = {8, 9}, .kernel = {3, 3}, .in_channels = 32, .out_channels = 32, .groups = 2, .strides = {2, 2}});
}

// Large enough to be cut into pieces by images, by rows, and both.
TEST(Conv2DTest, CutLayersAgreeWithDirectSum) {
  CheckLayer({.in = {28, 28}, .kernel = {3, 3}, .batch = 4, .in_channels = 16, .out_channels = 32});
  CheckLayer({.in = {33, 31}, .kernel = {3, 3}, .batch = 1, .in_channels = 32, .out_channels = 32});
  CheckLayer({.in = {33, 31}, .kernel = {3, 3}, .batch = 1, .in_channels = 16, .out_channels = 64, .strides = {2, 2}});
  CheckLayer({.in = {40, 40}, .kernel = {1, 1}, .batch = 1, .in_channels = 64, .out_channels = 64, .strides = {2, 2}});
  CheckLayer({.in = {40, 20}, .kernel = {5, 5}, .batch = 3, .in_channels = 16, .out_channels = 16, .dilations = {2, 2}});
  CheckLayer({.in = {7, 7}, .kernel = {3, 3}, .batch = 2, .in_channels = 128, .out_channels = 256});
  CheckLayer({.in = {6, 6}, .kernel = {1, 1}, .batch = 2, .in_channels = 130, .out_channels = 530});
}

TEST(Conv2DTest, TakesOtherElementTypes) {
  for (DataType dtype : {DataType::kDouble, DataType::kHalf, DataType::kBfloat16, DataType::kInt32}) {
    SCOPED_TRACE(std::string(DataTypeName(dtype)));
    CheckLayer({.in = {6, 7}, .kernel = {3, 2}, .in_channels = 4, .out_channels = 6, .groups = 2, .strides = {2, 1},
                .dtype = dtype});
    CheckLayer({.in = {6, 7}, .kernel = {2, 2}, .padding = "VALID", .channels_first = true, .dtype = dtype});
    CheckLayer({.in = {4, 5}, .kernel = {3, 2}, .in_channels = 6, .out_channels = 42, .groups = 2, .dtype = dtype});
  }
}

// Of 16 bits, with copies of three images at most: two slices of two.
TEST(Conv2DTest, SlicesOfCopiesAgreeWithDirectSum) {
  for (const int64_t batch : {4, 5}) {  // of two images; of three, and two behind them
    CheckLayer({.in = {256, 257}, .kernel = {1, 1}, .batch = batch, .in_channels = 9, .out_channels = 1, .dtype = DataType::kBfloat16});
  }
}

TEST(Conv2DTest, EmptyBatchGivesEmptyOutputAndZeroFilterGradient) {
  const Layer layer{.in = {4, 4}, .kernel = {3, 3}, .batch = 0};
  const Tensor x(DataType::kFloat, layer.input()), w = TestValues(DataType::kFloat, layer.filter(), 1);
  const Tensor y = EvaluateOnThreads({"Conv2D", layer.attrs(), {x, w}});
  EXPECT_EQ(y.shape(), layer.output());
  const Tensor dw = EvaluateOnThreads(
      {"Conv2DBackpropFilter", layer.attrs(), {x, Sizes(layer.filter()), y}, {false, true, false}});
  ExpectClose(dw, std::vector<double>(dw.num_elements(), 0.0), 0);
}

TEST(Conv2DTest, InputSizesMayBeSpatialOnly) {
  const Layer layer{.in = {5, 6}, .kernel = {3, 3}};
  const Tensor w = TestValues(DataType::kFloat, layer.filter(), 1), dy = TestValues(DataType::kFloat, layer.output(), 2);
  const NodeRun whole{"Conv2DBackpropInput", layer.attrs(), {Sizes(layer.input()), w, dy}, {true, false, false}};
  const NodeRun spatial{"Conv2DBackpropInput", layer.attrs(), {Sizes(Shape({5, 6})), w, dy}, {true, false, false}};
  EXPECT_TRUE(EvaluateOnThreads(spatial).BitEqual(EvaluateOnThreads(whole)));
}

TEST(DepthwiseTest, AgreesWithDirectSumForEveryMultiplierStrideAndDilation) {
  for (int64_t channels : {1, 5, 24, 40, 133}) {
    for (int64_t multiplier : {1, 2, 3}) {
      SCOPED_TRACE(absl::StrCat(channels, " channels, multiplier ", multiplier));
      Layer layer{.in = {9, 10}, .kernel = {3, 3}, .in_channels = channels, .out_channels = channels * multiplier};
      layer.depthwise = true;
      CheckLayer(layer);
      layer.strides = {2, 2};
      CheckLayer(layer);
      layer.padding = "VALID";
      layer.kernel = {2, 5};
      CheckLayer(layer);
      layer.strides = {1, 1};
      layer.dilations = {3, 2};
      layer.kernel = {3, 4};
      CheckLayer(layer);
      layer.padding = "SAME";
      CheckLayer(layer);
    }
  }
}

TEST(DepthwiseTest, CutLayersAgreeWithDirectSum) {
  Layer layer{.in = {40, 41}, .kernel = {3, 3}, .batch = 3, .in_channels = 70, .out_channels = 70};
  layer.depthwise = true;
  CheckLayer(layer);
  layer.dilations = {4, 4};
  CheckLayer(layer);
}

// Lines of few channels, as vectors after each of which, or after 3, 5 and 7, they repeat: around whole ones of them, with strides that leave
// columns over, and paddings larger than windows.
TEST(DepthwiseTest, FewChannelsAgreeWithDirectSum) {
  for (int64_t channels : {1, 2, 3, 4, 6, 7, 9, 10, 12, 24}) {
    SCOPED_TRACE(absl::StrCat(channels, " channels"));
    for (int64_t width : {2, 16, 41, 97}) {
      Layer layer{.in = {7, width}, .kernel = {3, 4}, .batch = 2, .in_channels = channels, .out_channels = channels, .depthwise = true};
      CheckLayer(layer);
      layer.strides = {2, 3};
      CheckLayer(layer);
      layer.kernel = {2, 2};
      layer.padding = "EXPLICIT";
      layer.pads = {3, 1, 4, 2};
      CheckLayer(layer);
    }
    CheckLayer({.in = {5, 30}, .kernel = {3, 3}, .in_channels = channels, .out_channels = channels, .dtype = DataType::kDouble, .depthwise = true});
  }
}

// What lies behind the last pixel of a tap goes into no sum.
TEST(DepthwiseTest, AnInfinityReachesOnlyItsOwnTaps) {
  Layer layer{.in = {1, 10}, .kernel = {1, 3}, .in_channels = 3, .out_channels = 3, .padding = "VALID", .depthwise = true};
  Tensor x = TestValues(DataType::kFloat, layer.input(), 1);
  const Tensor dy = TestValues(DataType::kFloat, layer.output(), 2);
  x.mutable_as<float>()[9 * 3] = std::numeric_limits<float>::infinity();
  const Tensor dw = EvaluateOnThreads({"DepthwiseConv2dNativeBackpropFilter", layer.attrs(), {x, Sizes(layer.filter()), dy}, {false, true, false}});
  for (int64_t i = 0; i < 9; ++i) EXPECT_EQ(std::isfinite(dw.as<float>()[i]), i != 6) << i;
}

// Taps on padding go into no sum, of rows and of columns.
TEST(DepthwiseTest, InfiniteWeightsDoNotMeetPadding) {
  const Layer layer{.in = {4, 19}, .kernel = {3, 3}, .in_channels = 3, .out_channels = 3, .depthwise = true};
  Tensor x(DataType::kFloat, layer.input()), w(DataType::kFloat, layer.filter());
  for (float& value : x.mutable_as<float>()) value = 1;
  for (float& value : w.mutable_as<float>()) value = std::numeric_limits<float>::infinity();
  const std::vector<float> infinite(x.num_elements(), std::numeric_limits<float>::infinity());
  EXPECT_THAT(EvaluateOnThreads({"DepthwiseConv2dNative", layer.attrs(), {x, w}}).as<float>(), testing::ElementsAreArray(infinite));
  const NodeRun gradient{"DepthwiseConv2dNativeBackpropInput", layer.attrs(), {Sizes(layer.input()), w, x}, {true, false, false}};
  EXPECT_THAT(EvaluateOnThreads(gradient).as<float>(), testing::ElementsAreArray(infinite));
}

// The same of filter gradients: taps that see the infinite element become infinite.
TEST(DepthwiseTest, InfiniteGradientsDoNotMeetPadding) {
  for (int64_t stride : {1, 2}) {
    const Layer layer{.in = {5, 19}, .kernel = {3, 3}, .in_channels = 3, .out_channels = 3, .strides = {stride, stride}, .depthwise = true};
    Tensor x(DataType::kFloat, layer.input()), dy(DataType::kFloat, layer.output());
    for (float& value : x.mutable_as<float>()) value = 1;
    dy.mutable_as<float>()[0] = std::numeric_limits<float>::infinity();  // channel 0 of the first pixel, whose first taps see padding
    const Tensor dw =
        EvaluateOnThreads({"DepthwiseConv2dNativeBackpropFilter", layer.attrs(), {x, Sizes(layer.filter()), dy}, {false, true, false}});
    for (int64_t i = 0; i < dw.num_elements(); ++i) {
      const bool inside = i % 3 == 0 && i / 9 >= layer.pad_before(0) && i / 3 % 3 >= layer.pad_before(1);
      EXPECT_EQ(dw.as<float>()[i], inside ? std::numeric_limits<float>::infinity() : 0) << i << " of stride " << stride;
    }
  }
}

int64_t ScratchOf(const NodeRun& run) {
  const auto instance = Infer(run);
  EXPECT_TRUE(instance.ok()) << instance.status();
  const auto kernel = (*CpuKernels().Find(run.op))(*instance);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  return (*kernel)->scratch_bytes();
}

// A window of many rows wants as many lines in scratch: for no more shards than there is room for.
TEST(DepthwiseTest, WideWindowsOfFewChannelsKeepToModestScratch) {
  for (int64_t channels : {1, 3}) {
    Layer layer{.in = {512, 512}, .kernel = {3, 3}, .batch = 1, .in_channels = channels, .out_channels = channels, .dilations = {200, 200}};
    layer.depthwise = true;
    const Tensor x(DataType::kFloat, layer.input()), w(DataType::kFloat, layer.filter());
    const int64_t most = std::max(int64_t{4} << 20, 2 * (2 * x.size_bytes() + w.size_bytes()));
    for (const NodeRun& run : {NodeRun{"DepthwiseConv2dNative", layer.attrs(), {x, w}},
                               NodeRun{"DepthwiseConv2dNativeBackpropInput", layer.attrs(), {Sizes(layer.input()), w, x}, {true, false, false}}}) {
      const int64_t scratch = ScratchOf(run);
      EXPECT_TRUE(most / 2 <= scratch && scratch <= most) << run.op << " of " << channels << " channels: " << scratch;
    }
  }
}

// Inputs spread to a channel for every output channel, which is written in vectors of 8.
TEST(DepthwiseTest, MultipliersAroundVectorsAgreeWithDirectSum) {
  for (int64_t multiplier : {7, 8, 9, 17}) {
    SCOPED_TRACE(absl::StrCat("multiplier ", multiplier));
    Layer layer{.in = {5, 6}, .kernel = {3, 2}, .in_channels = 3, .out_channels = 3 * multiplier};
    layer.depthwise = true;
    CheckLayer(layer);
    layer.in_channels = 1;
    layer.out_channels = multiplier;
    CheckLayer(layer);
  }
  Layer slices{.in = {150, 151}, .kernel = {1, 1}, .batch = 2, .in_channels = 3, .out_channels = 48};
  slices.depthwise = true;
  CheckLayer(slices);
}

TEST(DepthwiseTest, TakesOtherElementTypesAndLayouts) {
  for (DataType dtype : {DataType::kFloat, DataType::kDouble, DataType::kHalf, DataType::kBfloat16}) {
    for (bool channels_first : {false, true}) {
      SCOPED_TRACE(absl::StrCat(std::string(DataTypeName(dtype)), channels_first ? " NCHW" : " NHWC"));
      CheckLayer({.in = {6, 7}, .kernel = {3, 2}, .in_channels = 4, .out_channels = 8, .strides = {2, 2},
                  .channels_first = channels_first, .dtype = dtype, .depthwise = true});
    }
  }
}

TEST(Conv3DTest, AgreesWithDirectSum) {
  for (const char* padding : {"SAME", "VALID"}) {
    CheckLayer({.in = {5, 6, 7}, .kernel = {3, 3, 3}, .padding = padding});
    CheckLayer({.in = {6, 5, 7}, .kernel = {2, 2, 2}, .strides = {2, 2, 2}, .padding = padding});
    CheckLayer({.in = {6, 9, 7}, .kernel = {1, 3, 2}, .strides = {1, 2, 1}, .padding = padding, .channels_first = true});
  }
  CheckLayer({.in = {7, 7, 7}, .kernel = {3, 3, 3}, .dilations = {2, 2, 2}});
  CheckLayer({.in = {12, 12, 12}, .kernel = {3, 3, 3}, .batch = 1, .in_channels = 16, .out_channels = 16});
  CheckLayer({.in = {4, 5, 6}, .kernel = {3, 2, 1}, .dtype = DataType::kDouble});
}

using ConvMaker = std::function<absl::StatusOr<std::unique_ptr<Kernel>>(const OpInstance&, const ConvGeometry&, ConvKind)>;

KernelRegistry* RegistryOf(const ConvMaker& make) {
  auto* kernels = new KernelRegistry;
  const auto add = [&](const char* op, ConvKind kind, int spatial) {
    const absl::Status added = kernels->Register(op, [=](const OpInstance& instance) -> absl::StatusOr<std::unique_ptr<Kernel>> {
      const absl::StatusOr<ConvGeometry> geometry = ReadConvGeometry(instance, kind, spatial, false);
      return geometry.ok() ? make(instance, *geometry, kind) : geometry.status();
    });
    EXPECT_TRUE(added.ok());
  };
  add("Conv2D", ConvKind::kForward, 2);
  add("Conv2DBackpropInput", ConvKind::kInput, 2);
  add("Conv2DBackpropFilter", ConvKind::kFilter, 2);
  add("Conv3D", ConvKind::kForward, 3);
  add("Conv3DBackpropInputV2", ConvKind::kInput, 3);
  add("Conv3DBackpropFilterV2", ConvKind::kFilter, 3);
  return kernels;
}

// Those of 16 bits, of images in slabs of about so many bytes.
const KernelRegistry& SlabKernels(int64_t slab_bytes) {
  static std::map<int64_t, const KernelRegistry*> registries;
  const KernelRegistry*& registry = registries[slab_bytes];
  if (registry != nullptr) return *registry;
  registry = RegistryOf([slab_bytes](const OpInstance& instance, const ConvGeometry& geometry, ConvKind kind) {
    const auto make = [&](const ConvGeometry& slab) -> absl::StatusOr<std::unique_ptr<Kernel>> {
      if (std::unique_ptr<Kernel> minimal = MakeWinogradConv(slab, kind)) return minimal;
      return MakeOneDnnConv(slab, kind);
    };
    return MakeWidenedConv(instance.outputs[0].dtype, geometry, kind, make, slab_bytes);
  });
  return *registry;
}

// One that takes more than kConvSlabBytes, and the kernel of float on all of it.
TEST(SlabConvTest, ALargeImageHasTheBitsOfTheWhole) {
  Layer layer{.in = {600, 460}, .kernel = {3, 3}, .batch = 1, .in_channels = 16, .out_channels = 16};
  const Tensor x = TestValues(DataType::kHalf, layer.input(), 1), w = TestValues(DataType::kHalf, layer.filter(), 2);
  ASSERT_GT((x.num_elements() + layer.output().num_elements()) * static_cast<int64_t>(sizeof(float)), kConvSlabBytes);
  const auto cast = [](const Tensor& tensor, DataType to) { return Evaluate({"Cast", {{"DstT", to}}, {tensor}}).value()[0]; };
  const AttrMap attrs = layer.attrs();
  const Tensor whole = Evaluate({"Conv2D", attrs, {cast(x, DataType::kFloat), cast(w, DataType::kFloat)}}).value()[0];
  EXPECT_TRUE(Evaluate({"Conv2D", attrs, {x, w}}).value()[0].BitEqual(cast(whole, DataType::kHalf)));
}

TEST(SlabConvTest, KernelsOfOneKindHaveTheBitsOfWholeImages) {
  const std::vector<Layer> layers{
      {.in = {21, 13}, .kernel = {3, 3}, .batch = 3, .in_channels = 5, .out_channels = 7},
      {.in = {26, 9}, .kernel = {3, 3}, .in_channels = 32, .out_channels = 32},  // by minimal filtering
      {.in = {30, 8}, .kernel = {3, 3}, .in_channels = 32, .out_channels = 16, .padding = "VALID"},
      {.in = {29, 8}, .kernel = {5, 5}, .strides = {2, 2}},
      {.in = {28, 8}, .kernel = {2, 2}, .strides = {3, 3}, .padding = "VALID"},
      {.in = {40, 8}, .kernel = {3, 3}, .dilations = {4, 4}},
      {.in = {33, 8}, .kernel = {4, 3}, .padding = "EXPLICIT", .pads = {3, 0, 1, 1}},
      {.in = {5, 9}, .kernel = {7, 7}},
      {.in = {17, 6, 5}, .kernel = {3, 3, 3}, .in_channels = 4, .out_channels = 3},
      {.in = {12, 9}, .kernel = {3, 3}, .channels_first = true}};
  for (Layer layer : layers) {
    for (const DataType dtype : {DataType::kHalf, DataType::kBfloat16}) {
      layer.dtype = dtype;
      SCOPED_TRACE(absl::StrCat(layer.input().ToString(), " ", layer.filter().ToString(), " ", std::string(DataTypeName(dtype))));
      constexpr int64_t kWhole = int64_t{1} << 40, kSlab = 4096;
      CheckLayer(layer, SlabKernels(kSlab));
      const Tensor x = TestValues(dtype, layer.input(), 1), w = TestValues(dtype, layer.filter(), 2), dy = TestValues(dtype, layer.output(), 3);
      const NodeRun forward{OpName(layer, ""), layer.attrs(), {x, w}};
      EXPECT_TRUE(EvaluateOnThreads(forward, SlabKernels(kSlab)).BitEqual(EvaluateOnThreads(forward, SlabKernels(kWhole))));
      const NodeRun input{OpName(layer, "BackpropInput"), layer.attrs(), {Sizes(layer.input()), w, dy}, {true, false, false}};
      EXPECT_TRUE(EvaluateOnThreads(input, SlabKernels(kSlab)).BitEqual(EvaluateOnThreads(input, SlabKernels(kWhole))));
    }
  }
}

TEST(SlabConvTest, CopiesOfAVolumeTakeASlabOfIt) {
  ConvGeometry geometry{.spatial = 3, .batch = 1, .in_channels = 32, .out_channels = 32};
  geometry.in = geometry.out = {128, 128, 128};
  geometry.kernel = {3, 3, 3};
  geometry.pad_before = geometry.pad_after = {1, 1, 1};
  const auto one_dnn = [](ConvKind kind) { return [kind](const ConvGeometry& g) { return MakeOneDnnConv(g, kind); }; };
  for (ConvKind kind : {ConvKind::kForward, ConvKind::kInput, ConvKind::kFilter}) {
    const auto kernel = MakeWidenedConv(DataType::kHalf, geometry, kind, one_dnn(kind));
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    EXPECT_LT((*kernel)->scratch_bytes(), 64 << 20) << static_cast<int>(kind);
  }
}

// The kernels by matrix products of patches, whatever the choice for the geometry is.
const KernelRegistry& PatchKernels() {
  static const KernelRegistry* const registry = RegistryOf([](const OpInstance& instance, const ConvGeometry& geometry, ConvKind kind) {
    return MakeGemmConv(instance, geometry, kind, instance.outputs[0].dtype);
  });
  return *registry;
}

TEST(PatchConvTest, AgreesWithDirectSum) {
  for (const char* padding : {"SAME", "VALID"}) {
    for (int64_t kernel : {1, 2, 5}) {
      for (int64_t stride : {1, 2, 3}) {
        for (int64_t dilation : {1, 2}) {
          SCOPED_TRACE(absl::StrCat(padding, " kernel ", kernel, " stride ", stride, " dilation ", dilation));
          CheckLayer({.in = {11, 12}, .kernel = {kernel, kernel + 1}, .strides = {stride, stride},
                      .dilations = {dilation, dilation}, .padding = padding}, PatchKernels());
        }
      }
    }
    CheckLayer({.in = {5, 6, 7}, .kernel = {3, 2, 3}, .padding = padding}, PatchKernels());
    CheckLayer({.in = {7, 6, 9}, .kernel = {2, 3, 2}, .strides = {2, 2, 2}, .padding = padding}, PatchKernels());
  }
  CheckLayer({.in = {9, 7}, .kernel = {3, 3}, .strides = {2, 1}, .padding = "EXPLICIT", .pads = {1, 0, 2, 2}},
             PatchKernels());
}

// Minimal filtering, for odd and even sizes, every padding, unequal channels, batches that are cut.
const KernelRegistry& MinimalKernels() {
  static const KernelRegistry* const registry = [] {
    auto* kernels = new KernelRegistry;
    const auto add = [&](const char* op, ConvKind kind) {
      const absl::Status added = kernels->Register(op, [=](const OpInstance& instance) -> absl::StatusOr<std::unique_ptr<Kernel>> {
        MR_ASSIGN_OR_RETURN(const ConvGeometry geometry, ReadConvGeometry(instance, kind, 2, false));
        std::unique_ptr<Kernel> kernel = MakeWinogradConv(geometry, kind);
        if (kernel == nullptr) return absl::UnimplementedError("not by minimal filtering");
        return kernel;
      });
      EXPECT_TRUE(added.ok());
    };
    add("Conv2D", ConvKind::kForward);
    add("Conv2DBackpropInput", ConvKind::kInput);
    add("Conv2DBackpropFilter", ConvKind::kFilter);
    return kernels;
  }();
  return *registry;
}

TEST(MinimalFilteringTest, AgreesWithDirectSum) {
  for (const char* padding : {"SAME", "VALID"}) {
    for (const auto& [height, width] : {std::pair<int64_t, int64_t>{3, 3}, {4, 7}, {5, 8}, {12, 11}}) {
      SCOPED_TRACE(absl::StrCat(padding, " ", height, "x", width));
      CheckLayer({.in = {height, width}, .kernel = {3, 3}, .in_channels = 16, .out_channels = 16, .padding = padding},
                 MinimalKernels());
      CheckLayer({.in = {height, width}, .kernel = {3, 3}, .in_channels = 32, .out_channels = 80, .padding = padding},
                 MinimalKernels());
    }
  }
  CheckLayer({.in = {9, 7}, .kernel = {3, 3}, .in_channels = 48, .out_channels = 16, .padding = "EXPLICIT",
              .pads = {1, 0, 2, 2}}, MinimalKernels());
}

TEST(MinimalFilteringTest, CutLayersAgreeWithDirectSum) {
  CheckLayer({.in = {32, 32}, .kernel = {3, 3}, .batch = 8, .in_channels = 16, .out_channels = 16}, MinimalKernels());
  CheckLayer({.in = {17, 31}, .kernel = {3, 3}, .batch = 3, .in_channels = 64, .out_channels = 64}, MinimalKernels());
}

// More patches than are kept at once: blocks that end within an image, and a last one that is shorter.
TEST(PatchConvTest, BlocksOfRowsAgreeWithDirectSum) {
  CheckLayer({.in = {60, 40}, .kernel = {11, 21}, .in_channels = 1, .out_channels = 8, .strides = {2, 2}}, PatchKernels());
  CheckLayer({.in = {61, 43}, .kernel = {13, 9}, .batch = 3, .in_channels = 2, .out_channels = 4}, PatchKernels());
  CheckLayer({.in = {20, 14, 13}, .kernel = {5, 5, 5}, .batch = 1, .in_channels = 2}, PatchKernels());
  CheckLayer({.in = {61, 23}, .kernel = {13, 9}, .batch = 3, .in_channels = 2, .out_channels = 4, .dtype = DataType::kDouble}, PatchKernels());
}

// Filters of all sizes, whose packed layouts have blocks that do not divide the channels.
TEST(Conv2DTest, OneDnnTakesLayersOfUsualSizes) {
  for (const auto& [size, channels, outputs, kernel] : std::vector<std::array<int64_t, 4>>{
           {56, 64, 64, 3}, {28, 128, 512, 1}, {14, 256, 1024, 1}, {7, 2048, 512, 1}, {7, 512, 512, 3}, {17, 192, 70, 3}}) {
    ConvGeometry geometry{.batch = 2, .in_channels = channels, .out_channels = outputs};
    geometry.in = geometry.out = {size, size, 1};
    geometry.kernel = {kernel, kernel, 1};
    geometry.pad_before = geometry.pad_after = {kernel / 2, kernel / 2, 0};
    for (ConvKind kind : {ConvKind::kForward, ConvKind::kInput, ConvKind::kFilter}) {
      EXPECT_TRUE(MakeOneDnnConv(geometry, kind).ok()) << size << " " << channels << " " << outputs << " " << kernel;
    }
  }
}

absl::Status ErrorOf(const NodeRun& run) { return Infer(run).status(); }

TEST(ConvErrorsTest, SayWhatWasExpected) {
  const Layer layer{.in = {5, 6}, .kernel = {3, 3}};
  const Tensor x(DataType::kFloat, layer.input()), w(DataType::kFloat, layer.filter());
  AttrMap strides = layer.attrs(), format = layer.attrs(), pads = layer.attrs();
  strides.Set("strides", std::vector<int64_t>{2, 1, 1, 1});
  format.Set("data_format", std::string("CHWN"));
  pads.Set("padding", std::string("FULL"));
  EXPECT_THAT(ErrorOf({"Conv2D", strides, {x, w}}).message(), testing::HasSubstr("1 for batch and channels"));
  EXPECT_THAT(ErrorOf({"Conv2D", format, {x, w}}).message(), testing::HasSubstr("expected NHWC, NCHW"));
  EXPECT_THAT(ErrorOf({"Conv2D", pads, {x, w}}).message(), testing::HasSubstr("expected SAME, VALID or EXPLICIT"));
  const Tensor other(DataType::kFloat, Shape({3, 3, 2, 5})), matrix(DataType::kFloat, Shape({3, 3}));
  EXPECT_THAT(ErrorOf({"Conv2D", layer.attrs(), {x, other}}).message(), testing::HasSubstr("expected a multiple of the 2"));
  EXPECT_THAT(ErrorOf({"Conv2D", layer.attrs(), {x, matrix}}).message(), testing::HasSubstr("expected rank 4"));
  const Tensor big(DataType::kFloat, Shape({9, 9, 3, 5}));
  AttrMap valid = layer.attrs();
  valid.Set("padding", std::string("VALID"));
  EXPECT_THAT(ErrorOf({"Conv2D", valid, {x, big}}).message(), testing::HasSubstr("does not fit"));
  const NodeRun unknown{"Conv2DBackpropInput", layer.attrs(), {Sizes(layer.input()), w, x}};
  EXPECT_THAT(ErrorOf(unknown).message(), testing::HasSubstr("must be known"));
  const NodeRun wrong{"Conv2DBackpropInput", layer.attrs(), {Sizes(layer.input()), w, x}, {true, false, false}};
  EXPECT_THAT(ErrorOf(wrong).message(), testing::HasSubstr("gradient has shape [2,5,6,3], expected [2,5,6,5]"));
}

TEST(ConvErrorsTest, ScarceMemoryIsNoReasonForAnotherKernel) {
  const auto refused = [](dnnl_status_t status) {
    return onednn::Guard("convolve", [&]() -> int { throw dnnl::error(status, "no"); }).status().code();
  };
  EXPECT_EQ(refused(dnnl_out_of_memory), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused(dnnl_unimplemented), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace millrace::cpu
