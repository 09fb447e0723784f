// A perceptron: dense layers with ReLU, softmax cross entropy.
#include "absl/strings/str_cat.h"
#include "models/generators.h"
#include "models/layers.h"

namespace millrace {
namespace {

absl::StatusOr<Output> BuildMlp(GraphBuilder& b, const ModelOptions& options) {
  Output x = ops::Cast(b.Placeholder("inputs", DataType::kFloat, {options.batch, options.channels}), PrecisionOf(options));
  const Output labels = b.Placeholder("labels", DataType::kInt32, {options.batch});
  for (int64_t i = 1; i < options.layers; ++i) {
    x = ops::Relu(layers::Dense(x, options.hidden, absl::StrCat("layer", i), init::HeNormal()));
    x = layers::Dropout(x, options.dropout);
  }
  const Output logits = layers::Dense(x, options.classes, "classifier");
  return layers::ClassificationLoss(ops::Identity(logits, "logits"), labels, "loss");
}

}  // namespace

ModelGenerator MlpGenerator() {
  ModelInfo info{.name = "mlp",
                 .summary = "dense layers with ReLU",
                 .defaults = {.batch = 128,
                              .classes = 10,
                              .layers = 3,
                              .hidden = 512,
                              .channels = 784,
                              .dropout = 0,
                              .optimizer = "sgd",
                              .learning_rate = 0.1,
                              .weight_decay = 0},
                 .options = {"layers", "hidden", "channels", "classes", "dropout", "precision"},
                 .variants = ""};
  return {std::move(info), BuildMlp};
}

}  // namespace millrace
