// DenseNet-BC: every layer's input is the concatenation of all outputs before it in its block.
#include <vector>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "models/generators.h"
#include "models/layers.h"

namespace millrace {
namespace {

struct Configuration {
  std::vector<int64_t> layers;  // of each dense block
  int64_t growth = 32;
};

// Published depths, and any 4 + 2n from 12 on with n layers spread over the blocks.
absl::StatusOr<Configuration> Configure(const ModelOptions& options) {
  Configuration configuration;
  switch (options.depth) {
    case 121: configuration.layers = {6, 12, 24, 16}; break;
    case 161: configuration = {{6, 12, 36, 24}, 48}; break;
    case 169: configuration.layers = {6, 12, 32, 32}; break;
    case 201: configuration.layers = {6, 12, 48, 32}; break;
    case 264: configuration.layers = {6, 12, 64, 48}; break;
    default: {
      const int64_t layers = (options.depth - 5) / 2;
      if (options.depth < 13 || options.depth % 2 == 0) {
        return absl::InvalidArgumentError(absl::StrCat("model densenet: depth is ", options.depth,
                                                       ", expected 121, 161, 169, 201, 264 or an odd number from 13"));
      }
      configuration.layers.assign(4, layers / 4);
      for (int64_t i = 0; i < layers % 4; ++i) ++configuration.layers[2 - i % 2];
      break;
    }
  }
  if (options.channels > 0) configuration.growth = options.channels;
  return configuration;
}

Output NormRelu(const Output& x, const char* name) { return ops::Relu(layers::BatchNorm(x, name)); }

Output DenseLayer(const Output& x, int64_t growth) {
  const Output y = layers::Conv(NormRelu(x, "norm1"), 4 * growth, {.size = 1}, "conv1");
  return layers::Conv(NormRelu(y, "norm2"), growth, {}, "conv2");
}

absl::StatusOr<Output> BuildDensenet(GraphBuilder& b, const ModelOptions& options) {
  MR_ASSIGN_OR_RETURN(const Configuration configuration, Configure(options));
  MR_RETURN_IF_ERROR(layers::ExpectAtLeast("densenet", "image_size", options.image_size, 32));
  Output x = ops::Cast(b.Placeholder("images", DataType::kFloat, {options.batch, options.image_size, options.image_size, 3}),
                       PrecisionOf(options));
  const Output labels = b.Placeholder("labels", DataType::kInt32, {options.batch});
  x = NormRelu(layers::PaddedConv(x, 2 * configuration.growth, 7, 2, "stem"), "stem_norm");
  x = ops::MaxPool(x, {3}, {.strides = {2}});
  for (size_t block = 0; block < configuration.layers.size(); ++block) {
    for (int64_t i = 0; i < configuration.layers[block]; ++i) {
      NameScope scope(b, absl::StrCat("block", block + 1, "_layer", i + 1));
      x = ops::Concat({x, DenseLayer(x, configuration.growth)}, -1);
    }
    if (block + 1 == configuration.layers.size()) break;
    NameScope scope(b, absl::StrCat("transition", block + 1));
    x = layers::Conv(NormRelu(x, "norm"), x.dim(-1) / 2, {.size = 1}, "conv");
    x = ops::AvgPool(x, {2}, {.strides = {2}, .padding = "VALID"});
  }
  x = ops::Mean(NormRelu(x, "last_norm"), {1, 2});
  const Output logits = layers::Dense(x, options.classes, "classifier");
  return layers::ClassificationLoss(ops::Identity(logits, "logits"), labels, "loss");
}

}  // namespace

ModelGenerator DensenetGenerator() {
  ModelInfo info{.name = "densenet",
                 .summary = "DenseNet-121, 161, 169, 201, 264; channels is the growth rate",
                 .defaults = {.batch = 32,
                              .image_size = 224,
                              .classes = 1000,
                              .depth = 121,
                              .optimizer = "momentum",
                              .learning_rate = 0.01,
                              .weight_decay = 1e-4},
                 .options = {"depth", "image_size", "classes", "channels", "precision"},
                 .variants = ""};
  return {std::move(info), BuildDensenet};
}

}  // namespace millrace
