// What makes a forward model trainable: a loss from its outputs, gradients, an optimizer.
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "millrace/optimizers.h"
#include "onnx/importer.h"

namespace millrace::onnx {
namespace {

// Gives every gradient a node of a name that can be fetched.
class NamedGradients final : public Optimizer {
 public:
  NamedGradients(std::unique_ptr<Optimizer> inner, std::map<std::string, std::string>& tensors)
      : inner_(std::move(inner)), tensors_(tensors) {}

  Operation Apply(GraphBuilder& b, const Variable& variable, const Output& gradient) override {
    const std::string name = absl::StrCat("gradient/", variable.name());
    const Output named = ops::Identity(gradient, absl::StrCat("/", name));
    const Node& handle = b.graph().node(variable.handle().node());
    tensors_[absl::StrCat("gradient/", handle.attrs.GetOr<std::string>("shared_name", variable.name()))] = b.TensorName(named);
    return inner_->Apply(b, variable, named);
  }
  std::vector<Operation> Finish(GraphBuilder& b, absl::Span<const Operation> updates) override {
    return inner_->Finish(b, updates);
  }

 private:
  const std::unique_ptr<Optimizer> inner_;
  std::map<std::string, std::string>& tensors_;
};

}  // namespace

absl::StatusOr<Output> Importer::FindTensor(const std::string& name) {
  if (names_.count(name) > 0) return Use(name);
  if (name.ends_with(":0") && names_.count(name.substr(0, name.size() - 2)) > 0) return Use(name.substr(0, name.size() - 2));
  std::vector<std::string> outputs;
  for (const auto& output : model_.graph().output()) outputs.push_back(output.name());
  return absl::NotFoundError(absl::StrCat("loss: the model has no tensor '", name, "', its outputs are ", absl::StrJoin(outputs, ", ")));
}

absl::StatusOr<Output> Importer::LossInput(const std::string& name, TensorType type) {
  if (names_.count(name) > 0) {
    const Output found = Use(name);
    if (found.valid() && found.shape() != type.shape) {
      return absl::InvalidArgumentError(absl::StrCat("loss: '", name, "' is ", found.type().ToString(), ", expected ",
                                                     type.shape.ToString()));
    }
    return ops::Cast(found, type.dtype);
  }
  // Numbers of classes may come as any integer; what is fed decides.
  const auto value = options_.input_values.find(name);
  const DataType given = value == options_.input_values.end() ? type.dtype : value->second.dtype();
  const DataType fed = type.dtype == DataType::kInt64 && given == DataType::kInt32 ? given : type.dtype;
  Entry entry;
  entry.output = b_.Placeholder(NameOutsideScopes(name, "input"), fed, type.shape);
  MR_RETURN_IF_ERROR(b_.status());
  inputs_[name] = b_.graph().node(entry.output.node()).name;
  placeholders_[entry.output.node().value] = name;
  names_[name] = entry;
  return ops::Cast(entry.output, type.dtype);
}

// Where the longest name of a tensor that `text` begins with ends, before a colon: names may hold colons, as TensorFlow's do. The
// first colon where there is none.
size_t Importer::EndOfTensorName(const std::string& text) const {
  for (size_t colon = text.rfind(':'); colon != std::string::npos && colon > 0; colon = text.rfind(':', colon - 1)) {
    const std::string name = text.substr(0, colon);
    if (names_.count(name) > 0 || (name.ends_with(":0") && names_.count(name.substr(0, name.size() - 2)) > 0)) return colon;
  }
  return text.find(':');
}

absl::StatusOr<Output> Importer::LossTerm(const std::string& text) {
  // Tensor names may hold colons: the form is told by the kind in front.
  std::vector<std::string> parts = absl::StrSplit(text, ':');
  const std::string& kind = parts[0];
  const bool known = kind == "mean" || kind == "sum" || kind == "cross_entropy" || kind == "mse" || kind == "weighted_sum";
  if (!known || parts.size() == 1 || names_.count(text) > 0) {
    MR_ASSIGN_OR_RETURN(const Output scalar, FindTensor(text));
    if (scalar.valid() && (scalar.shape().num_elements() != 1 || !IsFloating(scalar.dtype()))) {
      return absl::InvalidArgumentError(absl::StrCat("loss: '", text, "' is ", scalar.type().ToString(), ", expected one number; ",
                                                     "mean:NAME, cross_entropy:LOGITS:LABELS and mse:NAME:TARGET make one"));
    }
    return ops::Reshape(scalar, {});
  }
  if (kind == "mean" || kind == "sum") {
    MR_ASSIGN_OR_RETURN(const Output x, FindTensor(text.substr(kind.size() + 1)));
    return ops::Reduce(kind == "mean" ? "Mean" : "Sum", x, {});
  }
  const bool entropy = kind == "cross_entropy";
  const std::string rest = text.substr(kind.size() + 1);
  const size_t end = EndOfTensorName(rest);
  std::string input = end == std::string::npos ? "" : rest.substr(end + 1);
  int64_t axis = -1;
  const size_t last_colon = input.rfind(':');
  const bool known_input = names_.count(input) > 0;
  if (entropy && last_colon != std::string::npos && !known_input) {
    const std::string number = input.substr(last_colon + 1);
    if (!absl::SimpleAtoi(number, &axis)) {
      return absl::InvalidArgumentError(absl::StrCat("loss '", text, "': expected a number for AXIS, not '", number, "'"));
    }
    input.resize(last_colon);
  }
  if (input.empty() || (absl::StrContains(input, ':') && !known_input)) {
    return absl::InvalidArgumentError(absl::StrCat("loss '", text, "': expected ", kind, ":OUTPUT:INPUT", entropy ? "[:AXIS]" : ""));
  }
  const std::string output = rest.substr(0, end);
  MR_ASSIGN_OR_RETURN(Output x, FindTensor(output));
  if (!x.valid()) return b_.status();
  if (!IsFloating(x.dtype())) return absl::InvalidArgumentError(absl::StrCat("loss: '", output, "' is ", x.type().ToString()));
  if (!entropy) {
    MR_ASSIGN_OR_RETURN(const Output other, LossInput(input, x.type()));
    return kind == "mse" ? ops::Mean(ops::Square(x - other)) : ops::Reduce("Sum", x * other, {});
  }
  if (axis < 0) axis += x.rank();
  if (x.rank() < 1 || axis < 0 || axis >= x.rank()) {
    return absl::InvalidArgumentError(absl::StrCat("loss '", text, "': no such axis of ", x.type().ToString()));
  }
  IntList dims = Dims(x), last = Iota(x.rank());
  last.erase(last.begin() + axis);
  last.push_back(axis);
  const int64_t classes = dims[axis];
  dims.erase(dims.begin() + axis);
  MR_ASSIGN_OR_RETURN(const Output labels, LossInput(input, {DataType::kInt64, Shape(dims)}));
  if (last != Iota(x.rank())) x = ops::Transpose(x, last);
  const int64_t rows = Product(dims);
  return ops::Mean(ops::SparseSoftmaxCrossEntropy(ops::Reshape(x, {rows, classes}), ops::Reshape(labels, {rows})).loss);
}

absl::Status Importer::AddTraining(OnnxModel& result) {
  const OnnxTraining& training = *options_.training;
  NameScope scope(b_, "/training");
  MR_ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer,
                      MakeOptimizer(training.optimizer, training.learning_rate, training.weight_decay));
  Output loss;
  for (const std::string& term : std::vector<std::string>(absl::StrSplit(training.loss, ',', absl::SkipWhitespace()))) {
    MR_ASSIGN_OR_RETURN(const Output value, LossTerm(term));
    MR_RETURN_IF_ERROR(b_.status());
    loss = loss.valid() ? ops::Add(loss, ops::Cast(value, loss.dtype())) : value;
  }
  if (!loss.valid()) return absl::InvalidArgumentError("loss: nothing to minimise was named");
  loss = ops::Identity(loss, "/loss");
  Minimize(b_, std::make_unique<NamedGradients>(std::move(optimizer), result.tensors), loss, "/train");
  b_.AddInit("/init");
  result.init_targets = {"init"};
  return b_.status();
}

}  // namespace millrace::onnx
