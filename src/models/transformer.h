// Parts of transformers. Activations are matrices: one row per token, [batch * steps, width].
#ifndef MILLRACE_SRC_MODELS_TRANSFORMER_H_
#define MILLRACE_SRC_MODELS_TRANSFORMER_H_

#include <string_view>

#include "absl/status/status.h"
#include "millrace/graph_builder.h"

namespace millrace::transformer {

struct Dimensions {
  int64_t batch = 0;
  int64_t steps = 0;
  int64_t width = 0;
  int64_t heads = 0;
  double dropout = 0;
};

// InvalidArgument when the heads do not divide the width.
absl::Status CheckDimensions(std::string_view model, const Dimensions& dims);

// Normal of standard deviation 0.02, cut: what BERT and GPT-2 start from.
Initializer WeightInit();

// softmax(Q K^T / sqrt(width / heads)) V over the heads, with the four projections. `causal`: a token sees no later
// ones.
Output SelfAttention(const Output& x, const Dimensions& dims, bool causal, std::string_view name);

// [batch, steps] ids -> rows of the table plus rows of `positions` [at least steps, width].
Output EmbedTokens(const Output& ids, const Variable& table, const Variable& positions, const Dimensions& dims);

Output GeluErf(const Output& x);
Output GeluTanh(const Output& x);
// width -> hidden -> width.
enum class Activation { kGeluErf, kGeluTanh, kRelu };
Output FeedForward(const Output& x, int64_t hidden, Activation activation, std::string_view name);

}  // namespace millrace::transformer

#endif  // MILLRACE_SRC_MODELS_TRANSFORMER_H_
