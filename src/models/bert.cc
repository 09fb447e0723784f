// BERT pre-training: masked words at given positions (decoded with the embedding table) and next-sentence prediction.
#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "models/generators.h"
#include "models/layers.h"
#include "models/transformer.h"

namespace millrace {
namespace {

constexpr int64_t kMaxPositions = 512;
constexpr double kNormEpsilon = 1e-12;

// One word in seven is masked, as in the paper (15 %).
int64_t MaskedWords(int64_t steps) { return std::max<int64_t>(1, steps * 15 / 100); }

Output EncoderLayer(const Output& x, const transformer::Dimensions& dims) {
  const Output attention = layers::Dropout(transformer::SelfAttention(x, dims, false, "attention"), dims.dropout);
  const Output y = layers::LayerNorm(x + attention, "attention_norm", kNormEpsilon);
  const Output forward = layers::Dropout(
      transformer::FeedForward(y, 4 * dims.width, transformer::Activation::kGeluErf, "feed_forward"), dims.dropout);
  return layers::LayerNorm(y + forward, "output_norm", kNormEpsilon);
}

Output MaskedWordLoss(GraphBuilder& b, const Output& x, const Variable& table, const Output& positions,
                      const Output& words, const transformer::Dimensions& dims) {
  NameScope scope(b, "masked_words");
  // Row of word j of example i: i * steps + its position.
  const Output first_rows = ops::Range(b.Int(0), b.Int(dims.batch * dims.steps), b.Int(dims.steps));
  const Output rows = ops::Reshape(positions + ops::ExpandDims(first_rows, 1), {-1});
  Output y = transformer::GeluErf(layers::Dense(ops::Gather(x, rows), dims.width, "transform",
                                                transformer::WeightInit()));
  y = layers::LayerNorm(y, "norm", kNormEpsilon);
  const Variable bias = b.AddVariable("bias", {table.shape().dim(0)}, init::Zeros());
  const Output logits = ops::BiasAdd(ops::MatMul(y, table, {.b = true}), bias, "logits");
  return layers::ClassificationLoss(logits, ops::Reshape(words, {-1}), "loss");
}

Output NextSentenceLoss(GraphBuilder& b, const Output& x, const Output& labels, const transformer::Dimensions& dims) {
  NameScope scope(b, "next_sentence");
  const Output first = ops::Index(ops::Reshape(x, {dims.batch, dims.steps, dims.width}), 0, 1);
  const Output pooled = ops::Tanh(layers::Dense(first, dims.width, "pooler", transformer::WeightInit()));
  const Output logits = layers::Dense(pooled, 2, "classifier", transformer::WeightInit());
  return layers::ClassificationLoss(logits, labels, "loss");
}

absl::StatusOr<Output> BuildBert(GraphBuilder& b, const ModelOptions& options) {
  const transformer::Dimensions dims{options.batch, options.steps_unrolled, options.hidden, options.heads,
                                     options.dropout};
  MR_RETURN_IF_ERROR(transformer::CheckDimensions("bert", dims));
  const int64_t masked = MaskedWords(dims.steps);
  const Output ids = b.Placeholder("token_ids", DataType::kInt32, {dims.batch, dims.steps});
  const Output segments = b.Placeholder("segment_ids", DataType::kInt32, {dims.batch, dims.steps});
  const Output positions = b.Placeholder("masked_positions", DataType::kInt32, {dims.batch, masked});
  const Output words = b.Placeholder("masked_words_ids", DataType::kInt32, {dims.batch, masked});
  const Output next = b.Placeholder("next_sentence_labels", DataType::kInt32, {dims.batch});

  const Variable table = b.AddVariable("embedding/words", {options.vocab, dims.width}, transformer::WeightInit());
  const Variable places = b.AddVariable("embedding/positions", {std::max(kMaxPositions, dims.steps), dims.width},
                                        transformer::WeightInit());
  const Variable kinds = b.AddVariable("embedding/segments", {2, dims.width}, transformer::WeightInit());
  Output x = transformer::EmbedTokens(ids, table, places, dims);
  // Two rows: a product with one-hot rows is cheaper than a gather, and so is its gradient.
  x = x + ops::MatMul(ops::OneHot(ops::Reshape(segments, {-1}), 2), kinds);
  x = layers::Dropout(layers::LayerNorm(x, "embedding/norm", kNormEpsilon), dims.dropout);
  for (int64_t layer = 1; layer <= options.layers; ++layer) {
    NameScope scope(b, absl::StrCat("layer", layer));
    x = EncoderLayer(x, dims);
  }
  return ops::Add(MaskedWordLoss(b, x, table, positions, words, dims), NextSentenceLoss(b, x, next, dims), "loss");
}

}  // namespace

ModelGenerator BertGenerator() {
  ModelInfo info{.name = "bert",
                 .summary = "BERT pre-training, base by default (layers=24, hidden=1024, heads=16: large)",
                 .defaults = {.batch = 32,
                              .layers = 12,
                              .hidden = 768,
                              .heads = 12,
                              .steps_unrolled = 128,
                              .vocab = 30522,
                              .dropout = 0.1,
                              .optimizer = "adamw",
                              .learning_rate = 1e-4,
                              .weight_decay = 0.01},
                 .options = {"layers", "hidden", "heads", "steps_unrolled", "vocab", "dropout"},
                 .variants = ""};
  return {std::move(info), BuildBert};
}

}  // namespace millrace
