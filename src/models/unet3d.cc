// 3-D U-Net (Cicek et al. 2016): an analysis and a synthesis path over `levels` resolutions, transposed convolutions
// going up, cross entropy per voxel. variant: instance (normalisation, without parameters) or batch (the paper's).
//
// The convolutions are padded, so that the output has the volume's size; it must be divisible by 2^(levels-1).
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "models/generators.h"
#include "models/layers.h"

namespace millrace {
namespace {

constexpr int64_t kInputChannels = 3;

// Every channel of every volume to mean 0 and variance 1.
Output InstanceNorm(const Output& x) {
  constexpr double kEpsilon = 1e-5;
  const Output wide = layers::Wide(x), centered = wide - ops::Mean(wide, {1, 2, 3}, {}, true);
  const Output variance = ops::Mean(ops::Square(centered), {1, 2, 3}, {}, true);
  return ops::Cast(centered * ops::Rsqrt(variance + kEpsilon), x.dtype());
}

// FusedBatchNormV3 takes images: two of the three dimensions are one to it.
Output BatchNorm(const Output& x, const std::string& name) {
  const std::vector<int64_t> dims(x.shape().dims().begin(), x.shape().dims().end());
  const Output images = ops::Reshape(x, {dims[0], dims[1] * dims[2], dims[3], dims[4]});
  return ops::Reshape(layers::BatchNorm(images, name), dims);
}

Output ConvNormRelu(const Output& x, int64_t filters, const std::string& variant, const std::string& name) {
  if (!x.valid()) return x;
  const Output y = layers::Conv(x, filters, {.bias = true}, name);
  if (!y.valid()) return y;
  const std::string norm = absl::StrCat(name, "_norm");
  if (variant == "batch") return ops::Relu(BatchNorm(y, norm));
  NameScope scope(*x.builder(), norm);
  return ops::Relu(InstanceNorm(y));
}

// Doubles the resolution with a 2x2x2 transposed convolution.
Output UpConv(const Output& x, const std::string& name) {
  if (!x.valid()) return x;
  NameScope scope(*x.builder(), name);
  const int64_t channels = x.dim(-1);
  const Output kernel = layers::Weight(x, "kernel", {2, 2, 2, channels, channels}, init::HeNormal());
  return ops::ConvTranspose3D(x, kernel, {x.dim(0), 2 * x.dim(1), 2 * x.dim(2), 2 * x.dim(3), channels},
                              {.strides = {2}});
}

absl::StatusOr<Output> BuildUnet3d(GraphBuilder& b, const ModelOptions& options) {
  MR_RETURN_IF_ERROR(layers::ExpectAtLeast("unet3d", "levels", options.levels, 2));
  const int64_t size = options.image_size;
  if (options.levels > 12 || size % (int64_t{1} << (options.levels - 1)) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("model unet3d: image_size ", size,
                                                   " is not divisible by 2^(levels-1) with ", options.levels,
                                                   " levels"));
  }
  if (options.variant != "instance" && options.variant != "batch") {
    return absl::InvalidArgumentError(
        absl::StrCat("model unet3d: variant '", options.variant, "', expected instance or batch"));
  }
  Output x = ops::Cast(b.Placeholder("volumes", DataType::kFloat, {options.batch, size, size, size, kInputChannels}), PrecisionOf(options));
  const Output labels = b.Placeholder("labels", DataType::kInt32, {options.batch, size, size, size});
  std::vector<Output> skips;
  for (int64_t level = 0; level < options.levels; ++level) {
    NameScope scope(b, absl::StrCat("down", level + 1));
    const int64_t filters = options.channels << level;
    if (level > 0) x = ops::Pool("MaxPool3D", x, {2}, {.strides = {2}, .padding = "VALID"});
    x = ConvNormRelu(x, filters, options.variant, "conv1");
    x = ConvNormRelu(x, 2 * filters, options.variant, "conv2");
    skips.push_back(x);
  }
  for (int64_t level = options.levels - 2; level >= 0; --level) {
    NameScope scope(b, absl::StrCat("up", level + 1));
    const int64_t filters = 2 * (options.channels << level);
    x = ops::Concat({UpConv(x, "upconv"), skips[level]}, -1);
    x = ConvNormRelu(x, filters, options.variant, "conv1");
    x = ConvNormRelu(x, filters, options.variant, "conv2");
  }
  const Output logits =
      ops::Identity(layers::Conv(x, options.classes, {.size = 1, .bias = true}, "classifier"), "logits");
  return layers::ClassificationLoss(ops::Reshape(logits, {-1, options.classes}), ops::Reshape(labels, {-1}), "loss");
}

}  // namespace

ModelGenerator Unet3dGenerator() {
  ModelInfo info{.name = "unet3d",
                 .summary = "3-D U-Net with instance or batch norm, volumes of 144 to 256 voxels a side",
                 .defaults = {.batch = 1,
                              .image_size = 144,
                              .classes = 3,
                              .channels = 32,
                              .levels = 4,
                              .variant = "instance",
                              .optimizer = "adam",
                              .learning_rate = 5e-4,
                              .weight_decay = 0},
                 .options = {"variant", "image_size", "classes", "channels", "levels", "precision"},
                 .variants = "instance, batch"};
  return {std::move(info), BuildUnet3d};
}

}  // namespace millrace
