// A language model of LSTM layers, unrolled in time: embedding, 1 to 4 layers, softmax over the vocabulary per step.
//
// The defaults are those of the papers' memory experiments (1000 units); layers=2, hidden=1500, steps_unrolled=35,
// batch=20 is Zaremba's large model with its 66 million parameters.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/generators.h"
#include "models/layers.h"

namespace millrace {
namespace {

struct Cell {
  Output kernel;  // [inputs + hidden, 4 hidden], read once for all steps
  Output bias;
};

struct State {
  Output c, h;
};

Cell MakeCell(GraphBuilder& b, int64_t inputs, int64_t hidden, const std::string& name) {
  NameScope scope(b, name);
  const Variable kernel = b.AddVariable("kernel", {inputs + hidden, 4 * hidden}, init::GlorotUniform());
  const Variable bias = b.AddVariable("bias", {4 * hidden}, init::Zeros());
  return {kernel.Read(), bias.Read()};
}

// Gates: input, candidate, forget (biased by 1), output.
State Step(const Output& x, const State& before, const Cell& cell) {
  const Output gates = ops::BiasAdd(ops::MatMul(ops::Concat({x, before.h}, 1), cell.kernel), cell.bias);
  const std::vector<Output> parts = ops::Split(gates, 4, 1);
  State after;
  after.c = before.c * ops::Sigmoid(parts[2] + 1.0) + ops::Sigmoid(parts[0]) * ops::Tanh(parts[1]);
  after.h = ops::Tanh(after.c) * ops::Sigmoid(parts[3]);
  return after;
}

absl::StatusOr<Output> BuildLstm(GraphBuilder& b, const ModelOptions& options) {
  const int64_t hidden = options.hidden, steps = options.steps_unrolled;
  const Output tokens = b.Placeholder("tokens", DataType::kInt32, {options.batch, steps});
  const Output labels = b.Placeholder("labels", DataType::kInt32, {options.batch, steps});
  const Variable table = b.AddVariable("embedding", {options.vocab, hidden}, init::Uniform(-0.1, 0.1));
  std::vector<Cell> cells;
  for (int64_t layer = 0; layer < options.layers; ++layer) {
    cells.push_back(MakeCell(b, hidden, hidden, absl::StrCat("layer", layer + 1)));
  }
  const Output kernel = b.AddVariable("softmax/kernel", {hidden, options.vocab}, init::GlorotUniform());
  const Output bias = b.AddVariable("softmax/bias", {options.vocab}, init::Zeros());
  const Output zeros = ops::Full(b, {DataType::kFloat, Shape({options.batch, hidden})}, 0);
  std::vector<State> states(options.layers, State{zeros, zeros});
  const std::vector<Output> step_tokens = ops::Unpack(tokens, 1, "step_tokens");
  const std::vector<Output> step_labels = ops::Unpack(labels, 1, "step_labels");
  const Output weights = table.Read();
  std::vector<Output> losses;
  for (int64_t t = 0; t < steps && b.ok(); ++t) {
    NameScope scope(b, absl::StrCat("step", t + 1));
    Output x = layers::Dropout(ops::Gather(weights, step_tokens[t]), options.dropout);
    for (int64_t layer = 0; layer < options.layers; ++layer) {
      NameScope layer_scope(b, absl::StrCat("layer", layer + 1));
      states[layer] = Step(x, states[layer], cells[layer]);
      x = layers::Dropout(states[layer].h, options.dropout);
    }
    const Output logits = ops::BiasAdd(ops::MatMul(x, kernel), bias);
    losses.push_back(layers::ClassificationLoss(logits, step_labels[t], "loss"));
  }
  return ops::Mul(ops::AddN(losses), b.Scalar(DataType::kFloat, 1.0 / static_cast<double>(steps)), "loss");
}

}  // namespace

ModelGenerator LstmGenerator() {
  ModelInfo info{.name = "lstm",
                 .summary = "LSTM language model unrolled over 100 to 1000 steps, 1 to 4 layers",
                 .defaults = {.batch = 64,
                              .layers = 1,
                              .hidden = 1000,
                              .steps_unrolled = 100,
                              .vocab = 10000,
                              .dropout = 0,
                              .optimizer = "sgd",
                              .learning_rate = 1.0,
                              .weight_decay = 0},
                 .options = {"layers", "hidden", "steps_unrolled", "vocab", "dropout"},
                 .variants = ""};
  return {std::move(info), BuildLstm};
}

}  // namespace millrace
