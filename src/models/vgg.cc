// VGG: 11, 13, 16 or 19 layers (configurations A, B, D and E of Simonyan and Zisserman).
#include <vector>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "models/generators.h"
#include "models/layers.h"

namespace millrace {
namespace {

absl::StatusOr<std::vector<int64_t>> ConvolutionsPerStage(int64_t depth) {
  switch (depth) {
    case 11: return std::vector<int64_t>{1, 1, 2, 2, 2};
    case 13: return std::vector<int64_t>{2, 2, 2, 2, 2};
    case 16: return std::vector<int64_t>{2, 2, 3, 3, 3};
    case 19: return std::vector<int64_t>{2, 2, 4, 4, 4};
    default:
      return absl::InvalidArgumentError(absl::StrCat("model vgg: depth is ", depth, ", expected 11, 13, 16 or 19"));
  }
}

absl::StatusOr<Output> BuildVgg(GraphBuilder& b, const ModelOptions& options) {
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> stages, ConvolutionsPerStage(options.depth));
  MR_RETURN_IF_ERROR(layers::ExpectAtLeast("vgg", "image_size", options.image_size, 32));
  Output x = ops::Cast(b.Placeholder("images", DataType::kFloat, {options.batch, options.image_size, options.image_size, 3}),
                       PrecisionOf(options));
  const Output labels = b.Placeholder("labels", DataType::kInt32, {options.batch});
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    NameScope scope(b, absl::StrCat("stage", stage + 1));
    const int64_t filters = std::min<int64_t>(options.channels << stage, 8 * options.channels);
    for (int64_t i = 0; i < stages[stage]; ++i) {
      x = ops::Relu(layers::Conv(x, filters, {.bias = true}, absl::StrCat("conv", i + 1)));
    }
    x = ops::MaxPool(x, {2}, {.strides = {2}, .padding = "VALID"});
  }
  x = ops::Reshape(x, {options.batch, -1});
  for (const char* name : {"dense1", "dense2"}) {
    x = layers::Dropout(ops::Relu(layers::Dense(x, options.hidden, name, init::HeNormal())), options.dropout);
  }
  const Output logits = layers::Dense(x, options.classes, "classifier");
  return layers::ClassificationLoss(ops::Identity(logits, "logits"), labels, "loss");
}

}  // namespace

ModelGenerator VggGenerator() {
  ModelInfo info{.name = "vgg",
                 .summary = "VGG-11, 13, 16 or 19",
                 .defaults = {.batch = 32,
                              .image_size = 224,
                              .classes = 1000,
                              .depth = 16,
                              .hidden = 4096,
                              .channels = 64,
                              .dropout = 0.5,
                              .optimizer = "momentum",
                              .learning_rate = 0.001,
                              .weight_decay = 5e-4},
                 .options = {"depth", "image_size", "classes", "hidden", "channels", "dropout", "precision"},
                 .variants = ""};
  return {std::move(info), BuildVgg};
}

}  // namespace millrace
