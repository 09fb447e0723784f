// A causal transformer whose feed-forward layers are mixtures of experts: top-2 routing with a capacity per expert, so
// that every shape is static. Tokens beyond an expert's capacity pass by on the residual path.
//
// Six layers of width 1024 with 4096 hidden units per expert: 12 experts are 0.66 billion parameters, 48 are 2.5.
// With --devices=N expert e asks for device e * N / experts; everything else is placed freely.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "models/generators.h"
#include "models/layers.h"
#include "models/transformer.h"

namespace millrace {
namespace {

constexpr double kCapacityFactor = 1.25;
constexpr double kBalanceWeight = 0.01;

struct Route {
  Output slots;  // [tokens] int32: place in the experts' buffers, -1 when the expert is full
  Output gate;   // [tokens, 1]
};

struct Routing {
  Route routes[2];  // first and second choice
  Output balance_loss;
};

int64_t Capacity(int64_t tokens, int64_t experts) {
  const double each = 2.0 * static_cast<double>(tokens) / static_cast<double>(experts);
  return std::min<int64_t>(tokens, static_cast<int64_t>(each * kCapacityFactor) + 1);
}

// `chosen` is one-hot [tokens, experts]; `earlier` tokens of each expert are ahead of them [1, experts].
Output Slots(const Output& chosen, const Output& earlier, const Output& expert, int64_t capacity) {
  const Output place = ops::Cumsum(chosen, 0, true) + earlier;
  const Output position = ops::Cast(ops::Sum(place * chosen, {1}), DataType::kInt32);
  GraphBuilder& b = *chosen.builder();
  const Output slot = expert * b.Int(capacity) + position;
  return ops::Select(ops::Binary("Less", position, b.Int(capacity)), slot, b.Int(-1));
}

Routing RouteTokens(const Output& x, int64_t experts, int64_t capacity) {
  GraphBuilder& b = *x.builder();
  NameScope scope(b, "router");
  const Variable kernel = b.AddVariable("kernel", {x.dim(1), experts}, transformer::WeightInit());
  const Output probabilities = ops::Softmax(ops::MatMul(layers::Wide(x), kernel));
  const ops::TopKResult top = ops::TopK(probabilities, 2);
  const std::vector<Output> values = ops::Split(top.values, 2, 1), choices = ops::Unpack(top.indices, 1);
  const Output total = values[0] + values[1];
  const Output first = ops::OneHot(choices[0], experts), second = ops::OneHot(choices[1], experts);
  const Output first_counts = ops::Sum(first, {0}, true);
  Routing routing;
  routing.routes[0] = {Slots(first, ops::ZerosLike(first_counts), choices[0], capacity), values[0] / total};
  routing.routes[1] = {Slots(second, first_counts, choices[1], capacity), values[1] / total};
  // Fraction of tokens times mean probability, per expert: least when both are even.
  const Output load = ops::Mean(first, {0}) * ops::Mean(probabilities, {0});
  routing.balance_loss = ops::Sum(load, {}) * static_cast<double>(experts);
  return routing;
}

Output Expert(const Output& x, int64_t hidden, const std::string& name, const std::string& device) {
  if (!x.valid()) return x;
  DeviceScope place(*x.builder(), device);
  return transformer::FeedForward(x, hidden, transformer::Activation::kRelu, name);
}

// Each token's slot of the experts' outputs times its gate; a token without a slot gets nothing.
Output Combined(const Output& outputs, const Route& route) {
  GraphBuilder& b = *outputs.builder();
  const Output has_slot = ops::Binary("GreaterEqual", route.slots, b.Int(0));
  const Output rows = ops::Gather(outputs, ops::Maximum(route.slots, b.Int(0)));
  const Output gate = route.gate * ops::ExpandDims(ops::Cast(has_slot, route.gate.dtype()), 1);
  return rows * ops::Cast(gate, rows.dtype());
}

struct MixtureResult {
  Output y, balance_loss;
};

MixtureResult Mixture(const Output& x, const ModelOptions& options) {
  if (!x.valid()) return {x, x};
  GraphBuilder& b = *x.builder();
  NameScope scope(b, "mixture");
  const int64_t experts = options.experts, capacity = Capacity(x.dim(0), experts);
  const Routing routing = RouteTokens(x, experts, capacity);
  const int64_t slots = experts * capacity;
  const Output dispatched = ops::UnsortedSegmentSum(x, routing.routes[0].slots, slots) +
                            ops::UnsortedSegmentSum(x, routing.routes[1].slots, slots);
  const std::vector<Output> inputs = ops::Split(dispatched, experts, 0);
  std::vector<Output> outputs;
  for (int64_t e = 0; e < experts; ++e) {
    const std::string device =
        options.devices > 1 ? absl::StrCat("/device:GPU:", e * options.devices / experts) : "";
    outputs.push_back(Expert(inputs[e], 4 * options.hidden, absl::StrCat("expert", e + 1), device));
  }
  const Output joined = ops::Concat(outputs, 0);
  if (!joined.valid()) return {joined, joined};
  return {Combined(joined, routing.routes[0]) + Combined(joined, routing.routes[1]), routing.balance_loss};
}

absl::StatusOr<Output> BuildMoeTransformer(GraphBuilder& b, const ModelOptions& options) {
  const transformer::Dimensions dims{options.batch, options.steps_unrolled, options.hidden, options.heads,
                                     options.dropout};
  MR_RETURN_IF_ERROR(transformer::CheckDimensions("moe_transformer", dims));
  MR_RETURN_IF_ERROR(layers::ExpectAtLeast("moe_transformer", "experts", options.experts, 2));
  const Output tokens = b.Placeholder("tokens", DataType::kInt32, {dims.batch, dims.steps});
  const Output labels = b.Placeholder("labels", DataType::kInt32, {dims.batch, dims.steps});
  const Variable table = b.AddVariable("embedding/tokens", {options.vocab, dims.width}, transformer::WeightInit());
  const Variable places = b.AddVariable("embedding/positions", {dims.steps, dims.width}, transformer::WeightInit());
  const Output embedded = ops::Cast(transformer::EmbedTokens(tokens, table, places, dims), PrecisionOf(options));
  Output x = layers::Dropout(embedded, dims.dropout);
  std::vector<Output> balance;
  for (int64_t layer = 1; layer <= options.layers; ++layer) {
    if (!b.ok()) return b.status();
    NameScope scope(b, absl::StrCat("layer", layer));
    x = x + layers::Dropout(
                transformer::SelfAttention(layers::LayerNorm(x, "attention_norm"), dims, true, "attention"),
                dims.dropout);
    const MixtureResult mixture = Mixture(layers::LayerNorm(x, "mixture_norm"), options);
    x = x + layers::Dropout(mixture.y, dims.dropout);
    balance.push_back(mixture.balance_loss);
  }
  const Output logits = ops::MatMul(layers::LayerNorm(x, "last_norm"), ops::Cast(table, x.dtype()), {.b = true}, "logits");
  const Output words = layers::ClassificationLoss(logits, ops::Reshape(labels, {-1}), "word_loss");
  return ops::Add(words, ops::AddN(balance) * kBalanceWeight, "loss");
}

}  // namespace

ModelGenerator MoeTransformerGenerator() {
  ModelInfo info{.name = "moe_transformer",
                 .summary = "transformer with 12 to 48 experts per layer, on one or several devices",
                 .defaults = {.batch = 8,
                              .layers = 6,
                              .hidden = 1024,
                              .heads = 16,
                              .steps_unrolled = 256,
                              .vocab = 32000,
                              .experts = 12,
                              .devices = 1,
                              .dropout = 0.1,
                              .optimizer = "adam",
                              .learning_rate = 1e-4,
                              .weight_decay = 0},
                 .options = {"experts", "devices", "layers", "hidden", "heads", "steps_unrolled", "vocab", "dropout", "precision"},
                 .variants = ""};
  return {std::move(info), BuildMoeTransformer};
}

}  // namespace millrace
