// Recurrent layers as cuDNN has them: graphs that were made where a GPU is. All layers and directions are one op, their weights one
// vector: of every layer and direction the matrices of the gates, first for the input, then for the state, each [units, from]; behind
// all of them the biases in the same order.
#include <string>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "ops/rare.h"
#include "ops/rules.h"

namespace millrace {
namespace {

struct Layers {
  static constexpr double kMostWeights = 1e18;  // beyond, the products are no int64
  int64_t count = 0, directions = 1, gates = 1, inputs = 0, units = 0;

  int64_t width(int64_t layer) const { return layer == 0 ? inputs : directions * units; }
  int64_t weights() const {
    if (count < 1 || units < 1) return 0;
    const double u = static_cast<double>(units), first = static_cast<double>(inputs) + u + 2, other = static_cast<double>(directions) * u + u + 2;
    if (static_cast<double>(directions * gates) * u * (first + static_cast<double>(count - 1) * other) > kMostWeights) return INT64_MAX;
    return directions * gates * units * (inputs + units + 2 + (count - 1) * (width(1) + units + 2));
  }
};

// What the attributes say.
absl::StatusOr<Layers> LayersOf(const InferenceContext& context, int64_t inputs, int64_t units) {
  const AttrMap& attrs = context.attrs();
  const auto mode = attrs.GetOr<std::string>("rnn_mode", "lstm"), input_mode = attrs.GetOr<std::string>("input_mode", "linear_input");
  Layers layers;
  layers.gates = mode == "lstm" ? 4 : mode == "gru" ? 3 : 1;
  layers.directions = attrs.GetOr<std::string>("direction", "unidirectional") == "bidirectional" ? 2 : 1;
  layers.inputs = inputs;
  layers.units = units;
  if (layers.gates == 1 && mode != "rnn_relu" && mode != "rnn_tanh") return context.Error(absl::StrCat("rnn_mode '", mode, "' is not known"));
  if (input_mode == "skip_input" || (input_mode == "auto_select" && inputs == units)) {
    return context.Error(absl::StrCat("input_mode ", input_mode, " is not supported: inputs without weights"));
  }
  if (attrs.GetOr<int64_t>("num_proj", 0) != 0) return context.Error("projections (num_proj) are not supported");
  return layers;
}

bool IsLstm(const InferenceContext& context) { return context.attrs().GetOr<std::string>("rnn_mode", "lstm") == "lstm"; }

// Inputs 0 to 3: input [steps, batch, inputs], state h [layers and directions, batch, units], state c of LSTMs, weights; where
// time_major is false the first two dimensions are exchanged in each.
absl::StatusOr<Layers> LayersOfInputs(const InferenceContext& context) {
  const Shape &input = context.shape(0), &state = context.shape(1), &weights = context.shape(3);
  for (int i = 1; i < 4; ++i) MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, i}));
  if (!input.fully_known() || !state.fully_known()) return context.Error("needs the shapes of input and input_h when planning");
  if (input.rank() != 3 || state.rank() != 3) {
    return context.Error(absl::StrCat("input is ", input.ToString(), " and input_h ", state.ToString(), ", expected three dimensions each"));
  }
  const bool time_major = context.attrs().GetOr("time_major", true);
  MR_ASSIGN_OR_RETURN(Layers layers, LayersOf(context, input.dim(2), state.dim(2)));
  const int64_t stacked = state.dim(time_major ? 0 : 1), batch = state.dim(time_major ? 1 : 0);
  layers.count = stacked / layers.directions;
  if (stacked < 1 || stacked % layers.directions != 0 || batch != input.dim(time_major ? 1 : 0)) {
    return context.Error(absl::StrCat("input_h ", state.ToString(), " does not fit input ", input.ToString()));
  }
  if (IsLstm(context) && context.shape(2).fully_known() && context.shape(2) != state) {
    return context.Error(absl::StrCat("input_c is ", context.shape(2).ToString(), ", expected ", state.ToString()));
  }
  if (weights.fully_known() && weights.num_elements() != layers.weights()) {
    return context.Error(absl::StrCat("params has ", weights.num_elements(), " elements, expected ", layers.weights()));
  }
  return layers;
}

absl::Status ExpectLengths(const InferenceContext& context) {
  const int64_t batch = context.shape(0).dim(context.attrs().GetOr("time_major", true) ? 1 : 0);
  const Shape& lengths = context.shape(4);
  if (context.dtype(4) == DataType::kInt32 && (!lengths.fully_known() || lengths == Shape({batch}))) return absl::OkStatus();
  return context.Error(absl::StrCat("sequence_lengths are ", context.input(4).ToString(), ", expected int32[", batch, "]"));
}

// -> output, output_h, output_c, what the gradient needs again[, nothing]
absl::Status ForwardShape(InferenceContext& context) {
  const bool third = context.op() == "CudnnRNNV3";
  MR_RETURN_IF_ERROR(context.ExpectInputs(third ? 5 : 4));
  MR_ASSIGN_OR_RETURN(const Layers layers, LayersOfInputs(context));
  if (third) MR_RETURN_IF_ERROR(ExpectLengths(context));
  const Shape &input = context.shape(0), &state = context.shape(1);
  Shape output = input;
  output.set_dim(2, layers.directions * layers.units);
  const int64_t rows = input.dim(0) * input.dim(1), wide = layers.directions * layers.units;
  // Per layer the output, from the second on what dropout left of its input; per direction the gates and one more number of each unit.
  const int64_t dropped = context.attrs().GetOr<float>("dropout", 0.0f) > 0 ? layers.count - 1 : 0;
  const int64_t kept = rows * wide * (layers.count * (2 + layers.gates) + dropped);
  const DataType type = context.dtype(0);
  context.AddOutput(type, output);
  context.AddOutput(type, state);
  context.AddOutput(type, IsLstm(context) ? state : Shape());
  context.AddOutput(type, Shape({context.attrs().GetOr("is_training", true) ? kept : 0}));
  if (context.op() != "CudnnRNN") context.AddOutput(DataType::kInt8, Shape({0}));
  return absl::OkStatus();
}

// (the inputs, the outputs, gradients of output, output_h and output_c, what was kept[, nothing]) -> gradients of input, states, weights
absl::Status BackwardShape(InferenceContext& context) {
  const bool third = context.op() == "CudnnRNNBackpropV3";
  MR_RETURN_IF_ERROR(context.ExpectInputs(third ? 13 : context.op() == "CudnnRNNBackpropV2" ? 12 : 11));
  MR_ASSIGN_OR_RETURN(const Layers layers, LayersOfInputs(context));
  if (third) MR_RETURN_IF_ERROR(ExpectLengths(context));
  const int outputs = third ? 5 : 4;
  // What the forward op made, and the gradients of that; without LSTMs there is no third.
  for (int i = 0; i < (IsLstm(context) ? 3 : 2); ++i) {
    Shape expected = context.shape(i == 0 ? 0 : 1);
    if (i == 0) expected.set_dim(2, layers.directions * layers.units);
    for (int input : {outputs + i, outputs + 3 + i}) {
      const Shape& shape = context.shape(input);
      if (!shape.fully_known() || shape == expected) continue;
      return context.Error(absl::StrCat("input ", input, " is ", shape.ToString(), ", expected ", expected.ToString()));
    }
  }
  for (int i = 0; i < 4; ++i) context.AddOutput(context.dtype(0), context.shape(i));
  return absl::OkStatus();
}

// (layers, units, inputs, ...)
absl::StatusOr<Layers> KnownLayers(const InferenceContext& context) {
  constexpr int64_t kMostLayers = 1 << 16;  // a corrupt file must not make us list outputs without end
  MR_ASSIGN_OR_RETURN(const int64_t count, KnownSize(context, 0));
  if (count > kMostLayers) return context.Error(absl::StrCat("num_layers is ", count, ", expected at most ", kMostLayers));
  MR_ASSIGN_OR_RETURN(const int64_t units, KnownSize(context, 1));
  MR_ASSIGN_OR_RETURN(const int64_t inputs, KnownSize(context, 2));
  MR_ASSIGN_OR_RETURN(Layers layers, LayersOf(context, inputs, units));
  layers.count = count;
  return layers;
}

absl::Status ParamsSizeShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_RETURN_IF_ERROR(LayersOf(context, 0, 1).status());
  MR_RETURN_IF_ERROR(ExpectScalar(context, 0, "num_layers"));
  MR_RETURN_IF_ERROR(ExpectScalar(context, 1, "num_units"));
  MR_RETURN_IF_ERROR(ExpectScalar(context, 2, "input_size"));
  MR_ASSIGN_OR_RETURN(const DataType type, IndexTypeAttr(context, "S", DataType::kInt32));
  context.AddOutput(type, Shape({1}));
  return absl::OkStatus();
}

// -> the matrices, then the biases
absl::Status ToCanonicalShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(4));
  MR_ASSIGN_OR_RETURN(const Layers layers, KnownLayers(context));
  const int64_t parts = layers.count * layers.directions * 2 * layers.gates;
  const bool second = context.op() == "CudnnRNNParamsToCanonicalV2";
  for (const char* name : {second ? "num_params_weights" : "num_params", second ? "num_params_biases" : "num_params"}) {
    MR_ASSIGN_OR_RETURN(const int64_t asked, RequiredAttr<int64_t>(context, name));
    if (asked != parts) return context.Error(absl::StrCat("asks for ", asked, " parts, the layers have ", parts));
  }
  const Shape& params = context.shape(3);
  if (params.fully_known() && params.num_elements() != layers.weights()) {
    return context.Error(absl::StrCat("params has ", params.num_elements(), " elements, expected ", layers.weights()));
  }
  for (int64_t l = 0; l < layers.count; ++l) {
    for (int64_t k = 0; k < layers.directions * 2 * layers.gates; ++k) {
      context.AddOutput(context.dtype(3), Shape({layers.units, k % (2 * layers.gates) < layers.gates ? layers.width(l) : layers.units}));
    }
  }
  for (int64_t k = 0; k < parts; ++k) context.AddOutput(context.dtype(3), Shape({layers.units}));
  return absl::OkStatus();
}

absl::Status ToParamsShape(InferenceContext& context) {
  MR_ASSIGN_OR_RETURN(const Layers layers, KnownLayers(context));
  MR_RETURN_IF_ERROR(context.ExpectInputs(static_cast<int>(3 + layers.count * layers.directions * 4 * layers.gates)));
  int64_t elements = 0;
  for (int i = 3; i < context.num_inputs(); ++i) {
    MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {3, i}));
    if (!context.shape(i).fully_known()) return context.Error(absl::StrCat("input ", i, " has no known shape"));
    elements += context.shape(i).num_elements();
  }
  if (elements != layers.weights()) return context.Error(absl::StrCat("the parts have ", elements, " elements, expected ", layers.weights()));
  context.AddOutput(context.dtype(3), Shape({elements}));
  return absl::OkStatus();
}

// Two flops a weight and row; the gradient takes twice that.
Cost LayersCost(const OpInstance& node) {
  Cost cost;
  for (const TensorType& type : node.inputs) cost.bytes += type.size_bytes();
  for (const TensorType& type : node.outputs) cost.bytes += type.size_bytes();
  const Shape& input = node.inputs[0].shape;
  const bool backward = node.op.find("Backprop") != std::string::npos;
  cost.flops = (backward ? 4.0 : 2.0) * input.dim(0) * input.dim(1) * node.inputs[3].shape.num_elements();
  return cost;
}

}  // namespace

void RegisterCudnnRnnOps(OpRegistry& registry) {
  for (const char* name : {"CudnnRNN", "CudnnRNNV2", "CudnnRNNV3"}) {
    AddOp(registry, {.name = name, .shape = ForwardShape, .cost = LayersCost, .stateful = true, .state_bytes = sizeof(int64_t)});
  }
  for (const char* name : {"CudnnRNNBackprop", "CudnnRNNBackpropV2", "CudnnRNNBackpropV3"}) {
    AddOp(registry, {.name = name, .shape = BackwardShape, .cost = LayersCost});
  }
  AddOp(registry, {.name = "CudnnRNNParamsSize", .shape = ParamsSizeShape, .cost = NoCost});
  for (const char* name : {"CudnnRNNParamsToCanonical", "CudnnRNNParamsToCanonicalV2"}) {
    AddOp(registry, {.name = name, .shape = ToCanonicalShape, .cost = MoveCost});
  }
  for (const char* name : {"CudnnRNNCanonicalToParams", "CudnnRNNCanonicalToParamsV2"}) {
    AddOp(registry, {.name = name, .shape = ToParamsShape, .cost = MoveCost});
  }
}

}  // namespace millrace
