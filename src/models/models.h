// Generated training graphs for experiments: the networks of the papers at any size.
//
// Every graph has placeholders with full shapes, nodes `loss` (float, scalar), `train` and `init`, seeds in its
// initial values and no weights in the file.
#ifndef MILLRACE_SRC_MODELS_MODELS_H_
#define MILLRACE_SRC_MODELS_MODELS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "millrace/graph.h"

namespace millrace {

// 0 and "" mean the model's default (ModelInfo::defaults). A model ignores what it does not list.
struct ModelOptions {
  int64_t batch = 0;
  int64_t image_size = 0;      // height, width (and depth of a volume)
  int64_t classes = 0;
  int64_t depth = 0;           // layers with weights
  int64_t layers = 0;          // recurrent, transformer or dense layers
  int64_t hidden = 0;          // units of a layer, width of a model
  int64_t heads = 0;
  int64_t steps_unrolled = 0;  // time steps, sequence length
  int64_t vocab = 0;
  int64_t experts = 0;
  int64_t devices = 0;         // that the experts or stages are spread over
  int64_t channels = 0;        // of the first level
  int64_t levels = 0;
  double dropout = -1;         // -1: the model's default
  std::string variant;
  std::string precision;       // of activations and products: float32, bfloat16, float16; weights and losses are float32
  std::string optimizer;       // sgd, momentum, adam, adamw, rmsprop, adagrad
  double learning_rate = 0;
  double weight_decay = -1;    // -1: the model's default
  int64_t seed = 0;
};

struct ModelInfo {
  std::string name;
  std::string summary;               // one line
  ModelOptions defaults;
  std::vector<std::string> options;  // names of the fields that the model uses, as the command line's flags
  std::string variants;              // what `variant` may be, "" when the model has one form
};

// All models, in the order in which they are listed.
absl::Span<const ModelInfo> Models();

// InvalidArgument names the model or option and what was expected.
absl::StatusOr<Graph> BuildModel(std::string_view name, const ModelOptions& options);

// Elements of the variables that an optimizer updates: the model's parameters, without slots and moving averages.
// Of a graph without optimizer: of all its variables.
int64_t CountParameters(const Graph& graph);

}  // namespace millrace

#endif  // MILLRACE_SRC_MODELS_MODELS_H_
