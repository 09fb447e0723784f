// GoogLeNet (Inception v1): local response normalisation, nine inception modules, two auxiliary classifiers.
//
// Images of any size from 64 on: the auxiliary heads pool to 4x4 and the classifier to 1x1, whatever the size, so that
// the number of parameters does not grow with the image.
#include <array>

#include "millrace/status.h"
#include "models/generators.h"
#include "models/layers.h"

namespace millrace {
namespace {

// Filters: 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5, pool projection.
using Filters = std::array<int64_t, 6>;

constexpr double kAuxiliaryWeight = 0.3;

Output ConvRelu(const Output& x, int64_t filters, int64_t size, int64_t stride, const std::string& name) {
  return ops::Relu(layers::Conv(x, filters, {.size = size, .stride = stride, .bias = true}, name));
}

Output MaxPool3(const Output& x, int64_t stride) { return ops::MaxPool(x, {3}, {.strides = {stride}}); }

Output Inception(const Output& x, const Filters& filters, const char* name) {
  if (!x.valid()) return x;
  NameScope scope(*x.builder(), name);
  const Output a = ConvRelu(x, filters[0], 1, 1, "conv1x1");
  const Output b = ConvRelu(ConvRelu(x, filters[1], 1, 1, "reduce3x3"), filters[2], 3, 1, "conv3x3");
  const Output c = ConvRelu(ConvRelu(x, filters[3], 1, 1, "reduce5x5"), filters[4], 5, 1, "conv5x5");
  const Output d = ConvRelu(MaxPool3(x, 1), filters[5], 1, 1, "project");
  return ops::Concat({a, b, c, d}, -1);
}

Output Loss(const Output& x, const ModelOptions& options, const Output& labels, const char* logits,
            const char* loss) {
  return layers::ClassificationLoss(ops::Identity(layers::Dense(x, options.classes, "classifier"), logits), labels,
                                    loss);
}

// 4x4 by average pooling, 1x1 convolution, two dense layers.
Output AuxiliaryLoss(const Output& x, const ModelOptions& options, const Output& labels, const char* name) {
  if (!x.valid()) return x;
  NameScope scope(*x.builder(), name);
  const int64_t stride = std::max<int64_t>(x.dim(1) / 4, 1), window = x.dim(1) - 3 * stride;
  Output y = ops::AvgPool(x, {window}, {.strides = {stride}, .padding = "VALID"});
  y = ops::Reshape(ConvRelu(y, 128, 1, 1, "conv"), {options.batch, -1});
  y = ops::Relu(layers::Dense(y, 1024, "dense", init::HeNormal()));
  return Loss(layers::Dropout(y, options.dropout > 0 ? 0.7 : 0), options, labels, "logits", "loss");
}

absl::StatusOr<Output> BuildGooglenet(GraphBuilder& b, const ModelOptions& options) {
  MR_RETURN_IF_ERROR(layers::ExpectAtLeast("googlenet", "image_size", options.image_size, 64));
  Output x = b.Placeholder("images", DataType::kFloat, {options.batch, options.image_size, options.image_size, 3});
  const Output labels = b.Placeholder("labels", DataType::kInt32, {options.batch});
  // Caffe's normalisation over 5 channels: alpha there is divided by the window.
  const auto normalize = [](const Output& y) { return ops::Lrn(y, 2, 1.0f, 1e-4f / 5, 0.75f); };
  x = normalize(MaxPool3(ConvRelu(x, 64, 7, 2, "conv1"), 2));
  x = ConvRelu(x, 64, 1, 1, "reduce2");
  x = MaxPool3(normalize(ConvRelu(x, 192, 3, 1, "conv2")), 2);
  x = Inception(x, {64, 96, 128, 16, 32, 32}, "inception3a");
  x = MaxPool3(Inception(x, {128, 128, 192, 32, 96, 64}, "inception3b"), 2);
  x = Inception(x, {192, 96, 208, 16, 48, 64}, "inception4a");
  const Output first = AuxiliaryLoss(x, options, labels, "auxiliary1");
  x = Inception(x, {160, 112, 224, 24, 64, 64}, "inception4b");
  x = Inception(x, {128, 128, 256, 24, 64, 64}, "inception4c");
  x = Inception(x, {112, 144, 288, 32, 64, 64}, "inception4d");
  const Output second = AuxiliaryLoss(x, options, labels, "auxiliary2");
  x = MaxPool3(Inception(x, {256, 160, 320, 32, 128, 128}, "inception4e"), 2);
  x = Inception(x, {256, 160, 320, 32, 128, 128}, "inception5a");
  x = Inception(x, {384, 192, 384, 48, 128, 128}, "inception5b");
  x = layers::Dropout(ops::Mean(x, {1, 2}), options.dropout);
  const Output main = Loss(x, options, labels, "logits", "main_loss");
  return ops::Add(main, (first + second) * kAuxiliaryWeight, "loss");
}

}  // namespace

ModelGenerator GooglenetGenerator() {
  ModelInfo info{.name = "googlenet",
                 .summary = "Inception v1 with LRN and two auxiliary heads, images up to 2240x2240 and beyond",
                 .defaults = {.batch = 32,
                              .image_size = 224,
                              .classes = 1000,
                              .dropout = 0.4,
                              .optimizer = "momentum",
                              .learning_rate = 0.01,
                              .weight_decay = 2e-4},
                 .options = {"image_size", "classes", "dropout"},
                 .variants = ""};
  return {std::move(info), BuildGooglenet};
}

}  // namespace millrace
