// ONNX models, opsets 13 to 28: as a graph of TensorFlow's ops, and made trainable.
//
//   absl::StatusOr<OnnxModel> model = LoadOnnx("resnet18.onnx", {.training = {{.loss = "cross_entropy:logits:labels"}}});
//   auto session = Session::Create(std::move(model->graph), options);
//   (*session)->Run({}, {}, model->init_targets, nullptr);
//   for (auto& [name, value] : model->variables) (*session)->SetVariable(name, value);
//   (*session)->Run({{model->inputs["images"], images}, {"labels", labels}}, {"loss:0"}, {"train"}, &out);
//
// Floating-point initialisers become variables of their names, so that they can train; integers and what only decides
// shapes (scales, bounds, ratios) become constants. Weights are not in the graph. Images stay NCHW. Shapes are static:
// inputs must have known shapes, from the model or the options. Functions read files on the caller's thread and may be
// called from any.
#ifndef MILLRACE_ONNX_H_
#define MILLRACE_ONNX_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/tensor.h"

namespace millrace {

struct OnnxTraining {
  // What to minimise: terms, separated by commas, which are added. A term is
  //   NAME                               a scalar output
  //   mean:NAME, sum:NAME                of an output's elements
  //   cross_entropy:LOGITS:LABELS[:AXIS] mean softmax cross entropy; LABELS are class numbers (int64, the shape of the
  //                                      logits without AXIS, the last axis unless given)
  //   mse:NAME:TARGET                    mean squared difference; TARGET has the shape of the output
  //   weighted_sum:NAME:WEIGHTS          sum of products: WEIGHTS is the gradient that flows into the output
  // LABELS, TARGET and WEIGHTS are tensors of the model; names that it does not have become placeholders.
  std::string loss = {};
  std::string optimizer = "sgd";  // optimizers.h's: sgd, momentum, adam, adamw, rmsprop or adagrad
  double learning_rate = 0.01;
  double weight_decay = 0;
};

struct OnnxOptions {
  // Shapes of inputs by name, where the model leaves dimensions open. A name that is no input is an error.
  std::map<std::string, Shape> input_shapes = {};
  // What will be fed, by name: shapes count like input_shapes. Inputs whose values decide shapes or attributes (the second
  // input of a Reshape) become constants of these values.
  std::map<std::string, Tensor> input_values = {};
  // Adds nodes `loss`, `train` and `init`, and the gradient of every trained variable as node gradient/VARIABLE. Moving
  // averages of batch normalisations in training mode are updated with the step. Nodes for tensors of the model with these three
  // names are called otherwise (loss_output, train_variable).
  std::optional<OnnxTraining> training = {};
};

struct OnnxModel {
  Graph graph;
  // The placeholder to feed for every input, by the input's name; inputs that became constants are not among them.
  std::map<std::string, std::string> inputs;
  std::vector<std::string> outputs;             // the model's, by name and in order
  std::map<std::string, std::string> tensors;   // everything that can be fetched, by ONNX's name: "node:0"
  std::map<std::string, Tensor> variables;      // initial values, by variable name: the initialiser's
  std::vector<std::string> init_targets;        // to run once, before the variables are set; empty without training
  std::vector<std::string> external_files;      // beside the model's own, with tensors of it
};

// The model in a file. External data is read from files in the model's folder, never from outside it. InvalidArgument
// says what does not hold and at which node; Unimplemented lists every op that is not supported, with counts.
absl::StatusOr<OnnxModel> LoadOnnx(const std::string& path, const OnnxOptions& options = {});

}  // namespace millrace

#endif  // MILLRACE_ONNX_H_
