// Residual networks of any depth.
//
// v1.5 (default up to 152 layers) and preact (default beyond): ImageNet form, 7x7 stem, max pool, four stages of
// bottleneck blocks. Blocks per stage:
//    50: 3 4 6 3    101: 3 4 23 3    152: 3 8 36 3    more: 6 32 n 6, or 3 8 n 3 where that is too many
// so that what is added lies in the third stage. cifar: 3x3 stem, three stages of pre-activation bottlenecks of 16, 32
// and 64 channels, as many blocks in each as go (164 and 1001 layers are the published ones).
//
// With --devices=N consecutive blocks ask for the same device, about as many for each; the stem goes with the first,
// the classifier with the last.
//
// A depth counts convolutions on the main path and the classifier: 3 per bottleneck, 2 for stem and classifier. Depths
// that leave a remainder get one or two blocks of two 3x3 convolutions at the end of the last but one stage, so that
// every depth from the smallest on exists exactly.
#include <numeric>
#include <optional>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "models/generators.h"
#include "models/layers.h"

namespace millrace {
namespace {

constexpr int64_t kExpansion = 4;

struct Plan {
  std::vector<int64_t> blocks;     // per stage, all kinds
  int64_t two_layer_blocks = 0;    // the last blocks of the last but one stage
  bool preact = false;
  bool cifar = false;
};

absl::StatusOr<Plan> MakePlan(const ModelOptions& options) {
  Plan plan;
  std::string variant = options.variant;
  if (variant == "auto") variant = options.depth <= 152 ? "v1.5" : "preact";
  if (variant != "v1.5" && variant != "preact" && variant != "cifar") {
    return absl::InvalidArgumentError(
        absl::StrCat("model resnet: variant '", variant, "', expected auto, v1.5, preact or cifar"));
  }
  plan.cifar = variant == "cifar";
  plan.preact = variant != "v1.5";
  const int64_t stages = plan.cifar ? 3 : 4;
  MR_RETURN_IF_ERROR(layers::ExpectAtLeast("resnet", "depth", options.depth, 3 * stages + 2));
  // 3 bottlenecks + 2 two_layer = depth - 2, with as few two-layer blocks as possible.
  const int64_t convolutions = options.depth - 2;
  plan.two_layer_blocks = convolutions % 3 == 0 ? 0 : convolutions % 3 == 2 ? 1 : 2;
  const int64_t total = (convolutions - 2 * plan.two_layer_blocks) / 3 + plan.two_layer_blocks;
  if (plan.cifar) {
    plan.blocks = {total / 3, total / 3, total - total / 3 * 2};
    std::swap(plan.blocks[1], plan.blocks[2]);
    return plan;
  }
  switch (options.depth) {
    case 50: plan.blocks = {3, 4, 6, 3}; return plan;
    case 101: plan.blocks = {3, 4, 23, 3}; return plan;
    case 152: plan.blocks = {3, 8, 36, 3}; return plan;
    default: break;
  }
  if (total >= 6 + 32 + 32 + 6) {
    plan.blocks = {6, 32, total - 44, 6};
  } else if (total >= 3 + 8 + 8 + 3) {
    plan.blocks = {3, 8, total - 14, 3};
  } else if (total >= 3 + 4 + 4 + 3) {
    plan.blocks = {3, 4, total - 10, 3};
  } else {
    plan.blocks = {1, 1, total - 3, 1};
  }
  return plan;
}

struct BlockShape {
  int64_t width = 0;    // of the bottleneck
  int64_t stride = 1;
  bool two_layers = false;
  bool project = false; // the shortcut needs a convolution
};

// Convolution, norm, ReLU; the stride sits in the 3x3 convolution.
Output V15Block(const Output& x, const BlockShape& block) {
  Output shortcut = x, y = x;
  if (block.project) {
    shortcut = layers::BatchNorm(layers::PaddedConv(x, kExpansion * block.width, 1, block.stride, "shortcut"),
                                 "shortcut_norm");
  }
  if (block.two_layers) {
    y = ops::Relu(layers::BatchNorm(layers::PaddedConv(x, block.width, 3, block.stride, "conv1"), "norm1"));
    y = layers::BatchNorm(layers::Conv(y, kExpansion * block.width, {}, "conv2"), "norm2", 0);
  } else {
    y = ops::Relu(layers::BatchNorm(layers::Conv(x, block.width, {.size = 1}, "conv1"), "norm1"));
    y = ops::Relu(layers::BatchNorm(layers::PaddedConv(y, block.width, 3, block.stride, "conv2"), "norm2"));
    y = layers::BatchNorm(layers::Conv(y, kExpansion * block.width, {.size = 1}, "conv3"), "norm3", 0);
  }
  return ops::Relu(y + shortcut);
}

// Norm, ReLU, convolution; a projection takes the activated input.
Output PreactBlock(const Output& x, const BlockShape& block) {
  const Output active = ops::Relu(layers::BatchNorm(x, "norm1"));
  const Output shortcut =
      block.project ? layers::PaddedConv(active, kExpansion * block.width, 1, block.stride, "shortcut") : x;
  Output y;
  if (block.two_layers) {
    y = layers::PaddedConv(active, block.width, 3, block.stride, "conv1");
    y = layers::Conv(ops::Relu(layers::BatchNorm(y, "norm2")), kExpansion * block.width, {}, "conv2");
  } else {
    y = layers::Conv(active, block.width, {.size = 1}, "conv1");
    y = layers::PaddedConv(ops::Relu(layers::BatchNorm(y, "norm2")), block.width, 3, block.stride, "conv2");
    y = layers::Conv(ops::Relu(layers::BatchNorm(y, "norm3")), kExpansion * block.width, {.size = 1}, "conv3");
  }
  return y + shortcut;
}

Output Stem(const Output& images, const Plan& plan) {
  if (plan.cifar) return layers::Conv(images, 16, {}, "stem");
  Output x = layers::PaddedConv(images, 64, 7, 2, "stem");
  if (!plan.preact) x = ops::Relu(layers::BatchNorm(x, "stem_norm"));
  return ops::MaxPool(x, {3}, {.strides = {2}});
}

absl::StatusOr<Output> BuildResnet(GraphBuilder& b, const ModelOptions& options) {
  MR_ASSIGN_OR_RETURN(const Plan plan, MakePlan(options));
  const Output images = ops::Cast(
      b.Placeholder("images", DataType::kFloat, {options.batch, options.image_size, options.image_size, 3}), PrecisionOf(options));
  const Output labels = b.Placeholder("labels", DataType::kInt32, {options.batch});
  // Over several devices: consecutive blocks, about as many on each.
  const int64_t total = std::accumulate(plan.blocks.begin(), plan.blocks.end(), int64_t{0});
  const auto device = [&](int64_t block) {
    return options.devices > 1 ? absl::StrCat("/device:GPU:", block * options.devices / total) : std::string();
  };
  std::optional<DeviceScope> place(std::in_place, b, device(0));
  Output x = Stem(images, plan);
  int64_t blocks = 0;
  const int stages = static_cast<int>(plan.blocks.size());
  for (int stage = 0; stage < stages; ++stage) {
    for (int64_t i = 0; i < plan.blocks[stage]; ++i) {
      BlockShape block;
      block.width = (plan.cifar ? 16 : 64) << stage;
      block.stride = stage > 0 && i == 0 ? 2 : 1;
      block.two_layers = stage == stages - 2 && i >= plan.blocks[stage] - plan.two_layer_blocks;
      block.project = i == 0;
      place.reset();
      place.emplace(b, device(blocks++));
      NameScope scope(b, absl::StrCat("stage", stage + 1, "_block", i + 1));
      x = plan.preact ? PreactBlock(x, block) : V15Block(x, block);
    }
  }
  if (plan.preact) x = ops::Relu(layers::BatchNorm(x, "last_norm"));
  const Output logits = layers::Dense(ops::Mean(x, {1, 2}), options.classes, "classifier");
  return layers::ClassificationLoss(ops::Identity(logits, "logits"), labels, "loss");
}

}  // namespace

ModelGenerator ResnetGenerator() {
  ModelInfo info{.name = "resnet",
                 .summary = "residual network of any depth (50, 101, 152, 504, 1001, 1916, ...)",
                 .defaults = {.batch = 32,
                              .image_size = 224,
                              .classes = 1000,
                              .depth = 50,
                              .devices = 1,
                              .variant = "auto",
                              .optimizer = "momentum",
                              .learning_rate = 0.01,
                              .weight_decay = 1e-4},
                 .options = {"depth", "image_size", "classes", "variant", "devices", "precision"},
                 .variants = "auto, v1.5, preact, cifar"};
  return {std::move(info), BuildResnet};
}

}  // namespace millrace
