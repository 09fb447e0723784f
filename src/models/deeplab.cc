// DeepLab v3+: a trunk at output stride 16, atrous spatial pyramid pooling at rates 6, 12, 18, a decoder at stride 4.
//
// Trunks (variant): resnet50 and resnet101 (v1.5 bottlenecks, the last stage dilated) and xception (the modified
// aligned Xception with 65 layers). The pyramid's 3x3 convolutions are depthwise separable, as the decoder's are.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "models/generators.h"
#include "models/layers.h"

namespace millrace {
namespace {

constexpr int64_t kPyramidFilters = 256;
constexpr int64_t kLowLevelFilters = 48;

struct Features {
  Output high;  // stride 16
  Output low;   // stride 4
};

Output ConvNorm(const Output& x, int64_t filters, const layers::ConvOptions& options, const std::string& name) {
  return layers::BatchNorm(layers::Conv(x, filters, options, name), absl::StrCat(name, "_norm"));
}

Output ConvNormRelu(const Output& x, int64_t filters, const layers::ConvOptions& options, const std::string& name) {
  return ops::Relu(ConvNorm(x, filters, options, name));
}

// Depthwise, then 1x1, then norm; `inner_norm`: norm and ReLU between the two, as in Xception.
struct SeparableOptions {
  int64_t stride = 1;
  int64_t dilation = 1;
  bool inner_norm = false;
};
Output SeparableConv(const Output& x, int64_t filters, const SeparableOptions& options, const std::string& name) {
  if (!x.valid()) return x;
  NameScope scope(*x.builder(), name);
  Output y = layers::DepthwiseConv(x, 3, options.stride, options.dilation, "depthwise");
  if (options.inner_norm) y = ops::Relu(layers::BatchNorm(y, "depthwise_norm"));
  return ConvNorm(y, filters, {.size = 1}, "pointwise");
}

Output Bottleneck(const Output& x, int64_t width, int64_t stride, int64_t dilation, bool project) {
  Output shortcut = x;
  if (project) shortcut = ConvNorm(x, 4 * width, {.size = 1, .stride = stride}, "shortcut");
  Output y = ConvNormRelu(x, width, {.size = 1}, "conv1");
  y = ConvNormRelu(y, width, {.stride = stride, .dilation = dilation}, "conv2");
  return ops::Relu(ConvNorm(y, 4 * width, {.size = 1}, "conv3") + shortcut);
}

Features ResnetTrunk(GraphBuilder& b, const Output& images, const std::vector<int64_t>& blocks) {
  Features features;
  Output x = ops::MaxPool(ConvNormRelu(images, 64, {.size = 7, .stride = 2}, "stem"), {3}, {.strides = {2}});
  for (int stage = 0; stage < 4; ++stage) {
    const int64_t dilation = stage == 3 ? 2 : 1;
    for (int64_t i = 0; i < blocks[stage]; ++i) {
      NameScope scope(b, absl::StrCat("stage", stage + 1, "_block", i + 1));
      const int64_t stride = i == 0 && (stage == 1 || stage == 2) ? 2 : 1;
      x = Bottleneck(x, int64_t{64} << stage, stride, dilation, i == 0);
    }
    if (stage == 0) features.low = x;
  }
  features.high = x;
  return features;
}

// Three separable convolutions and a shortcut: none, the identity, or a 1x1 convolution.
enum class Shortcut { kNone, kSum, kConv };
Output XceptionModule(const Output& x, const std::vector<int64_t>& filters, int64_t stride, Shortcut shortcut,
                      const std::string& name, Output* second = nullptr) {
  if (!x.valid()) return x;
  NameScope scope(*x.builder(), name);
  Output y = x;
  for (size_t i = 0; i < filters.size(); ++i) {
    const bool last = i + 1 == filters.size();
    y = SeparableConv(ops::Relu(y), filters[i], {.stride = last ? stride : 1, .inner_norm = true},
                      absl::StrCat("separable", i + 1));
    if (i == 1 && second != nullptr) *second = y;
  }
  if (shortcut == Shortcut::kSum) return y + x;
  if (shortcut == Shortcut::kConv) return y + ConvNorm(x, filters.back(), {.size = 1, .stride = stride}, "shortcut");
  return y;
}

Features XceptionTrunk(const Output& images) {
  Features features;
  Output x = ConvNormRelu(images, 32, {.stride = 2}, "entry1");
  x = ConvNormRelu(x, 64, {}, "entry2");
  x = XceptionModule(x, {128, 128, 128}, 2, Shortcut::kConv, "entry_block1");
  x = XceptionModule(x, {256, 256, 256}, 2, Shortcut::kConv, "entry_block2", &features.low);
  x = XceptionModule(x, {728, 728, 728}, 2, Shortcut::kConv, "entry_block3");
  for (int i = 1; i <= 16; ++i) {
    x = XceptionModule(x, {728, 728, 728}, 1, Shortcut::kSum, absl::StrCat("middle_block", i));
  }
  x = XceptionModule(x, {728, 1024, 1024}, 1, Shortcut::kConv, "exit_block1");
  features.high = ops::Relu(XceptionModule(x, {1536, 1536, 2048}, 1, Shortcut::kNone, "exit_block2"));
  return features;
}

Output ResizeTo(const Output& x, const Output& like) {
  return x.dim(1) == like.dim(1) && x.dim(2) == like.dim(2) ? x : ops::ResizeBilinear(x, like.dim(1), like.dim(2));
}

Output Pyramid(const Output& x) {
  if (!x.valid()) return x;
  NameScope scope(*x.builder(), "pyramid");
  std::vector<Output> branches = {ConvNormRelu(x, kPyramidFilters, {.size = 1}, "conv1x1")};
  for (int64_t rate : {6, 12, 18}) {
    branches.push_back(
        ops::Relu(SeparableConv(x, kPyramidFilters, {.dilation = rate}, absl::StrCat("atrous", rate))));
  }
  const Output pooled = ConvNormRelu(ops::Mean(x, {1, 2}, {}, true), kPyramidFilters, {.size = 1}, "image");
  branches.push_back(ResizeTo(pooled, x));
  return ConvNormRelu(ops::Concat(branches, -1), kPyramidFilters, {.size = 1}, "project");
}

Output Decoder(const Output& high, const Output& low, const ModelOptions& options) {
  if (!high.valid()) return high;
  NameScope scope(*high.builder(), "decoder");
  Output x = ops::Relu(SeparableConv(layers::Dropout(high, options.dropout), kPyramidFilters, {}, "refine1"));
  const Output skip = ConvNormRelu(low, kLowLevelFilters, {.size = 1}, "low_level");
  x = ops::Relu(SeparableConv(ops::Concat({ResizeTo(x, low), skip}, -1), kPyramidFilters, {}, "refine2"));
  return layers::Conv(x, options.classes, {.size = 1, .bias = true}, "classifier");
}

absl::StatusOr<Output> BuildDeeplab(GraphBuilder& b, const ModelOptions& options) {
  MR_RETURN_IF_ERROR(layers::ExpectAtLeast("deeplab", "image_size", options.image_size, 32));
  const int64_t size = options.image_size;
  const Output images = b.Placeholder("images", DataType::kFloat, {options.batch, size, size, 3});
  const Output labels = b.Placeholder("labels", DataType::kInt32, {options.batch, size, size});
  Features features;
  if (options.variant == "xception") {
    features = XceptionTrunk(images);
  } else if (options.variant == "resnet50") {
    features = ResnetTrunk(b, images, {3, 4, 6, 3});
  } else if (options.variant == "resnet101") {
    features = ResnetTrunk(b, images, {3, 4, 23, 3});
  } else {
    return absl::InvalidArgumentError(absl::StrCat("model deeplab: variant '", options.variant,
                                                   "', expected xception, resnet50 or resnet101"));
  }
  const Output logits =
      ops::Identity(ResizeTo(Decoder(Pyramid(features.high), features.low, options), images), "logits");
  return layers::ClassificationLoss(ops::Reshape(logits, {-1, options.classes}), ops::Reshape(labels, {-1}), "loss");
}

}  // namespace

ModelGenerator DeeplabGenerator() {
  ModelInfo info{.name = "deeplab",
                 .summary = "DeepLab v3+ with atrous pyramid, 512x512 images or up to 10 times that",
                 .defaults = {.batch = 4,
                              .image_size = 512,
                              .classes = 21,
                              .dropout = 0.1,
                              .variant = "xception",
                              .optimizer = "momentum",
                              .learning_rate = 0.007,
                              .weight_decay = 4e-5},
                 .options = {"variant", "image_size", "classes", "dropout"},
                 .variants = "xception, resnet50, resnet101"};
  return {std::move(info), BuildDeeplab};
}

}  // namespace millrace
