// GPT-2: a causal transformer with norms before attention and feed-forward, output tied to the embedding table.
#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "models/generators.h"
#include "models/layers.h"
#include "models/transformer.h"

namespace millrace {
namespace {

absl::StatusOr<Output> BuildGpt(GraphBuilder& b, const ModelOptions& options) {
  const transformer::Dimensions dims{options.batch, options.steps_unrolled, options.hidden, options.heads,
                                     options.dropout};
  MR_RETURN_IF_ERROR(transformer::CheckDimensions("gpt", dims));
  const Output tokens = b.Placeholder("tokens", DataType::kInt32, {dims.batch, dims.steps});
  const Output labels = b.Placeholder("labels", DataType::kInt32, {dims.batch, dims.steps});
  const Variable table = b.AddVariable("embedding/tokens", {options.vocab, dims.width}, transformer::WeightInit());
  const Variable places = b.AddVariable("embedding/positions", {dims.steps, dims.width}, transformer::WeightInit());
  const Output embedded = ops::Cast(transformer::EmbedTokens(tokens, table, places, dims), PrecisionOf(options));
  Output x = layers::Dropout(embedded, dims.dropout);
  for (int64_t layer = 1; layer <= options.layers; ++layer) {
    NameScope scope(b, absl::StrCat("layer", layer));
    const Output attention =
        transformer::SelfAttention(layers::LayerNorm(x, "attention_norm"), dims, true, "attention");
    x = x + layers::Dropout(attention, dims.dropout);
    const Output forward = transformer::FeedForward(layers::LayerNorm(x, "feed_forward_norm"), 4 * dims.width,
                                                    transformer::Activation::kGeluTanh, "feed_forward");
    x = x + layers::Dropout(forward, dims.dropout);
  }
  const Output logits = ops::MatMul(layers::LayerNorm(x, "last_norm"), ops::Cast(table, x.dtype()), {.b = true}, "logits");
  return layers::ClassificationLoss(logits, ops::Reshape(labels, {-1}), "loss");
}

}  // namespace

ModelGenerator GptGenerator() {
  ModelInfo info{.name = "gpt",
                 .summary = "GPT-2, small by default (layers=48, hidden=1600, heads=25: XL)",
                 .defaults = {.batch = 8,
                              .layers = 12,
                              .hidden = 768,
                              .heads = 12,
                              .steps_unrolled = 1024,
                              .vocab = 50257,
                              .dropout = 0.1,
                              .optimizer = "adamw",
                              .learning_rate = 3e-4,
                              .weight_decay = 0.1},
                 .options = {"layers", "hidden", "heads", "steps_unrolled", "vocab", "dropout", "precision"},
                 .variants = ""};
  return {std::move(info), BuildGpt};
}

}  // namespace millrace
