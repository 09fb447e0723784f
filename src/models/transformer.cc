#include "models/transformer.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "millrace/graph_ops.h"
#include "models/layers.h"

namespace millrace::transformer {
namespace {

// [batch * steps, width] -> [batch, heads, steps, width / heads]
Output SplitHeads(const Output& x, const Dimensions& dims) {
  const Output by_head = ops::Reshape(x, {dims.batch, dims.steps, dims.heads, dims.width / dims.heads});
  return ops::Transpose(by_head, {0, 2, 1, 3});
}

// scores [batch, heads, steps, steps], no token looks ahead.
Output Mask(const Output& scores, int64_t steps) {
  if (!scores.valid()) return scores;
  GraphBuilder& b = *scores.builder();
  const Output positions = ops::Range(b.Int(0), b.Int(steps), b.Int(1));
  const Output visible = ops::Binary("GreaterEqual", ops::ExpandDims(positions, 1), positions);
  return ops::Select(visible, scores, b.Scalar(scores.dtype(), -1e9));
}

}  // namespace

absl::Status CheckDimensions(std::string_view model, const Dimensions& dims) {
  if (dims.width % dims.heads == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("model ", std::string(model), ": hidden ", dims.width,
                                                 " is not divisible by ", dims.heads, " heads"));
}

Initializer WeightInit() { return init::TruncatedNormal(0.02); }

Output SelfAttention(const Output& x, const Dimensions& dims, bool causal, std::string_view name) {
  if (!x.valid()) return x;
  NameScope scope(*x.builder(), name);
  const Output query = SplitHeads(layers::Dense(x, dims.width, "query", WeightInit()), dims);
  const Output key = SplitHeads(layers::Dense(x, dims.width, "key", WeightInit()), dims);
  const Output value = SplitHeads(layers::Dense(x, dims.width, "value", WeightInit()), dims);
  const double scale = 1 / std::sqrt(static_cast<double>(dims.width) / static_cast<double>(dims.heads));
  Output scores = ops::BatchMatMul(query * scale, key, {.b = true});
  if (causal) scores = Mask(scores, dims.steps);
  const Output weights = layers::Dropout(ops::Softmax(scores), dims.dropout);
  const Output heads = ops::Transpose(ops::BatchMatMul(weights, value), {0, 2, 1, 3});
  const Output joined = ops::Reshape(heads, {dims.batch * dims.steps, dims.width});
  return layers::Dense(joined, dims.width, "output", WeightInit());
}

Output EmbedTokens(const Output& ids, const Variable& table, const Variable& positions, const Dimensions& dims) {
  const Output tokens = layers::Embedding(table, ids);
  const Output used = positions.shape().dim(0) == dims.steps
                          ? positions.Read()
                          : ops::Slice(positions, {0, 0}, {dims.steps, dims.width});
  return ops::Reshape(tokens + used, {dims.batch * dims.steps, dims.width});
}

Output GeluErf(const Output& x) { return x * ((ops::Erf(x * std::sqrt(0.5)) + 1.0) * 0.5); }

Output GeluTanh(const Output& x) {
  const Output inner = (x + x * ops::Square(x) * 0.044715) * std::sqrt(2 / M_PI);
  return x * ((ops::Tanh(inner) + 1.0) * 0.5);
}

Output FeedForward(const Output& x, int64_t hidden, Activation activation, std::string_view name) {
  if (!x.valid()) return x;
  NameScope scope(*x.builder(), name);
  Output y = layers::Dense(x, hidden, "expand", WeightInit());
  switch (activation) {
    case Activation::kGeluErf: y = GeluErf(y); break;
    case Activation::kGeluTanh: y = GeluTanh(y); break;
    case Activation::kRelu: y = ops::Relu(y); break;
  }
  return layers::Dense(y, x.dim(-1), "contract", WeightInit());
}

}  // namespace millrace::transformer
