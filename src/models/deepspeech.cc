// Deep Speech 2: two convolutions over the spectrogram, bidirectional recurrent layers unrolled in time with
// sequence-wise batch norm, CTC loss over 28 characters and the blank.
//
// steps_unrolled counts recurrent steps; the first convolution halves the rate, so the spectrogram has twice as many
// frames of 161 frequencies. variant: rnn (the paper's, clipped ReLU) or gru.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "models/generators.h"
#include "models/layers.h"

namespace millrace {
namespace {

constexpr int64_t kFrequencies = 161;
constexpr int64_t kStepsPerCharacter = 8;
constexpr int64_t kMostCharacters = 1 << 24;  // of all examples: the graph holds their places
constexpr double kClip = 20;

// [time, frequency] windows.
Output ConvNormClip(const Output& x, int64_t filters, ops::IntList window, ops::IntList strides,
                    const std::string& name) {
  if (!x.valid()) return x;
  NameScope scope(*x.builder(), name);
  const Variable kernel =
      x.builder()->AddVariable("kernel", {window[0], window[1], x.dim(-1), filters}, init::HeNormal());
  const Output y = ops::Conv2D(x, kernel, {.strides = std::move(strides)});
  return layers::ClippedRelu(layers::BatchNorm(y, "norm"), kClip);
}

// Rows of all steps, [steps * batch, inputs] -> one [batch, gates] per step, normalised over all steps.
std::vector<Output> ProjectedSteps(const Output& x, int64_t steps, int64_t gates) {
  GraphBuilder& b = *x.builder();
  const Variable kernel = b.AddVariable("input_kernel", {x.dim(-1), gates}, init::GlorotUniform());
  const int64_t rows = x.dim(0);
  const Output projected = ops::Reshape(ops::MatMul(x, kernel), {rows, 1, 1, gates});
  return ops::Split(ops::Reshape(layers::BatchNorm(projected, "norm"), {rows, gates}), steps, 0);
}

Output RnnStep(const Output& x, const Output& h, const Output& kernel) {
  return layers::ClippedRelu(x + ops::MatMul(h, kernel), kClip);
}

// Gates: update, reset, candidate; the reset gate acts behind the recurrent product.
Output GruStep(const Output& x, const Output& h, const Output& kernel) {
  const std::vector<Output> from_x = ops::Split(x, 3, 1), from_h = ops::Split(ops::MatMul(h, kernel), 3, 1);
  const Output update = ops::Sigmoid(from_x[0] + from_h[0]);
  const Output reset = ops::Sigmoid(from_x[1] + from_h[1]);
  const Output candidate = ops::Tanh(from_x[2] + reset * from_h[2]);
  return candidate + update * (h - candidate);
}

// One direction: the hidden states by step.
std::vector<Output> Direction(const Output& x, const ModelOptions& options, bool backward, const char* name) {
  GraphBuilder& b = *x.builder();
  NameScope scope(b, name);
  const bool gru = options.variant == "gru";
  const int64_t gates = gru ? 3 * options.hidden : options.hidden, steps = options.steps_unrolled;
  const std::vector<Output> inputs = ProjectedSteps(x, steps, gates);
  const Output kernel =
      b.AddVariable("recurrent_kernel", {options.hidden, gates}, init::Uniform(-0.05, 0.05)).Read();
  Output h = ops::Full(b, {DataType::kFloat, Shape({options.batch, options.hidden})}, 0);
  std::vector<Output> states(steps);
  for (int64_t i = 0; i < steps; ++i) {
    if (!b.ok()) break;
    const int64_t t = backward ? steps - 1 - i : i;
    NameScope step_scope(b, absl::StrCat("step", t + 1));
    h = gru ? GruStep(inputs[t], h, kernel) : RnnStep(inputs[t], h, kernel);
    states[t] = h;
  }
  return states;
}

// The sum of both directions, [steps * batch, hidden].
Output BidirectionalLayer(const Output& x, const ModelOptions& options, const std::string& name) {
  if (!x.valid()) return x;
  NameScope scope(*x.builder(), name);
  const std::vector<Output> forward = Direction(x, options, false, "forward");
  const std::vector<Output> backward = Direction(x, options, true, "backward");
  std::vector<Output> sums;
  for (size_t t = 0; t < forward.size(); ++t) sums.push_back(forward[t] + backward[t]);
  return ops::Concat(sums, 0);
}

// Labels of one length for every example, as the sparse tensor that CTCLoss takes.
Output Ctc(GraphBuilder& b, const Output& logits, const Output& labels, const ModelOptions& options) {
  const int64_t length = labels.dim(1);
  Tensor positions(DataType::kInt64, Shape({options.batch * length, 2}));
  Tensor steps(DataType::kInt32, Shape({options.batch}));
  for (int64_t i = 0; i < options.batch * length; ++i) {
    positions.mutable_as<int64_t>()[2 * i] = i / length;
    positions.mutable_as<int64_t>()[2 * i + 1] = i % length;
  }
  for (int64_t i = 0; i < options.batch; ++i) {
    steps.mutable_as<int32_t>()[i] = static_cast<int32_t>(options.steps_unrolled);
  }
  const Operation loss = b.Op("CTCLoss",
                              {logits, b.Const(std::move(positions), "label_positions"),
                               ops::Reshape(labels, {-1}), b.Const(std::move(steps), "steps")},
                              {{"T", logits.dtype()},
                               {"preprocess_collapse_repeated", false},
                               {"ctc_merge_repeated", true},
                               {"ignore_longer_outputs_than_inputs", false}},
                              "ctc");
  return loss.output(0);
}

absl::StatusOr<Output> BuildDeepspeech(GraphBuilder& b, const ModelOptions& options) {
  if (options.variant != "rnn" && options.variant != "gru") {
    return absl::InvalidArgumentError(
        absl::StrCat("model deepspeech: variant '", options.variant, "', expected rnn or gru"));
  }
  const int64_t steps = options.steps_unrolled;
  MR_RETURN_IF_ERROR(layers::ExpectAtLeast("deepspeech", "steps_unrolled", steps, kStepsPerCharacter));
  const int64_t most = kMostCharacters / (steps / kStepsPerCharacter);
  if (options.batch > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("model deepspeech: batch is ", options.batch, ", expected 1 to ", most, " for ", steps, " steps"));
  }
  const Output spectrogram =
      b.Placeholder("spectrogram", DataType::kFloat, {options.batch, 2 * steps, kFrequencies, 1});
  const Output labels = b.Placeholder("labels", DataType::kInt32, {options.batch, steps / kStepsPerCharacter});
  Output x = ConvNormClip(spectrogram, options.channels, {11, 41}, {2, 2}, "conv1");
  x = ConvNormClip(x, options.channels, {11, 21}, {1, 2}, "conv2");
  const int64_t features = x.dim(2) * x.dim(3);
  x = ops::Transpose(ops::Reshape(x, {options.batch, steps, features}), {1, 0, 2});
  x = ops::Reshape(x, {steps * options.batch, features});
  for (int64_t layer = 1; layer <= options.layers; ++layer) {
    x = BidirectionalLayer(x, options, absl::StrCat("recurrent", layer));
  }
  if (x.valid()) {
    x = ops::Reshape(x, {steps * options.batch, 1, 1, options.hidden});
    x = ops::Reshape(layers::BatchNorm(x, "last_norm"), {steps * options.batch, options.hidden});
  }
  x = layers::Dense(x, options.classes, "classifier");
  const Output logits = ops::Identity(ops::Reshape(x, {steps, options.batch, options.classes}), "logits");
  return ops::Mean(Ctc(b, logits, labels, options), {}, "loss");
}

}  // namespace

ModelGenerator DeepspeechGenerator() {
  ModelInfo info{.name = "deepspeech",
                 .summary = "Deep Speech 2 unrolled over 400 or 800 steps, CTC loss",
                 .defaults = {.batch = 16,
                              .classes = 29,
                              .layers = 5,
                              .hidden = 800,
                              .steps_unrolled = 400,
                              .channels = 32,
                              .variant = "gru",
                              .optimizer = "adam",
                              .learning_rate = 5e-4,
                              .weight_decay = 0},
                 .options = {"variant", "layers", "hidden", "steps_unrolled", "channels", "classes"},
                 .variants = "rnn, gru"};
  return {std::move(info), BuildDeepspeech};
}

}  // namespace millrace
