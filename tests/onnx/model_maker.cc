#include "model_maker.h"

#include <algorithm>

#include "millrace/status.h"
#include "onnx/importer.h"

namespace millrace::testing {

using onnx_proto::AttributeProto;
using onnx_proto::TensorProto;

ModelMaker::ModelMaker(int64_t opset) {
  model_.set_ir_version(8);
  model_.add_opset_import()->set_version(opset);
  model_.mutable_graph()->set_name("test");
}

ModelMaker& ModelMaker::Input(const std::string& name, std::vector<int64_t> dims, int type, const std::string& symbol) {
  auto* input = graph().add_input();
  input->set_name(name);
  auto* tensor = input->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type);
  tensor->mutable_shape();
  for (int64_t dim : dims) {
    auto* added = tensor->mutable_shape()->add_dim();
    if (dim >= 0) {
      added->set_dim_value(dim);
    } else {
      added->set_dim_param(symbol);
    }
  }
  return *this;
}

ModelMaker& ModelMaker::Initializer(const std::string& name, std::vector<int64_t> dims, std::vector<float> values) {
  TensorProto* tensor = graph().add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(TensorProto::FLOAT);
  for (int64_t dim : dims) tensor->add_dims(dim);
  for (float value : values) tensor->add_float_data(value);
  return *this;
}

ModelMaker& ModelMaker::IntInitializer(const std::string& name, std::vector<int64_t> dims, std::vector<int64_t> values) {
  TensorProto* tensor = graph().add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(TensorProto::INT64);
  for (int64_t dim : dims) tensor->add_dims(dim);
  for (int64_t value : values) tensor->add_int64_data(value);
  return *this;
}

onnx_proto::NodeProto& ModelMaker::Node(const std::string& op, std::vector<std::string> inputs,
                                        std::vector<std::string> outputs) {
  auto* node = graph().add_node();
  node->set_op_type(op);
  node->set_name(outputs.empty() ? op : "make_" + outputs[0]);
  for (const std::string& input : inputs) node->add_input(input);
  for (const std::string& output : outputs) node->add_output(output);
  return *node;
}

ModelMaker& ModelMaker::Output(const std::string& name) {
  graph().add_output()->set_name(name);
  return *this;
}

onnx_proto::FunctionProto& ModelMaker::Function(const std::string& name, std::vector<std::string> inputs,
                                                std::vector<std::string> outputs, const ModelMaker& body) {
  onnx_proto::FunctionProto* function = model_.add_functions();
  function->set_domain("mine");
  function->set_name(name);
  for (const std::string& input : inputs) function->add_input(input);
  for (const std::string& output : outputs) function->add_output(output);
  *function->mutable_node() = body.proto().graph().node();
  return *function;
}

onnx_proto::NodeProto& ModelMaker::Call(const std::string& function, std::vector<std::string> inputs, std::vector<std::string> outputs) {
  onnx_proto::NodeProto& call = Node(function, std::move(inputs), std::move(outputs));
  call.set_domain("mine");
  return call;
}

absl::StatusOr<OnnxModel> ModelMaker::Import(const OnnxOptions& options) const {
  return onnx::OnnxFromBytes(bytes(), "", options);
}

void SetInt(onnx_proto::NodeProto& node, const std::string& name, int64_t value) {
  AttributeProto* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(AttributeProto::INT);
  attribute->set_i(value);
}

void SetInts(onnx_proto::NodeProto& node, const std::string& name, std::vector<int64_t> values) {
  AttributeProto* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(AttributeProto::INTS);
  for (int64_t value : values) attribute->add_ints(value);
}

void SetGraph(onnx_proto::NodeProto& node, const std::string& name, const ModelMaker& body) {
  AttributeProto* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(AttributeProto::GRAPH);
  *attribute->mutable_g() = body.proto().graph();
}

Tensor Floats(Shape shape, std::vector<float> values) {
  Tensor tensor(DataType::kFloat, std::move(shape));
  std::copy(values.begin(), values.end(), tensor.mutable_as<float>().begin());
  return tensor;
}

Tensor Ints(Shape shape, std::vector<int64_t> values) {
  Tensor tensor(DataType::kInt64, std::move(shape));
  std::copy(values.begin(), values.end(), tensor.mutable_as<int64_t>().begin());
  return tensor;
}

namespace {
// A session with the model's variables set.
absl::StatusOr<std::unique_ptr<Session>> Start(OnnxModel& model) {
  SessionOptions options;
  options.planning.strategy = "baseline";
  options.threads = 1;
  MR_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Create(std::move(model.graph), options));
  if (!model.init_targets.empty()) MR_RETURN_IF_ERROR(session->Run({}, {}, model.init_targets, nullptr));
  for (const auto& [name, value] : model.variables) MR_RETURN_IF_ERROR(session->SetVariable(name, value));
  return session;
}

Session::Feeds FeedsOf(const OnnxModel& model, const Arrays& feeds) {
  Session::Feeds by_node;
  for (const auto& [name, value] : feeds) {
    const auto input = model.inputs.find(name);
    if (input != model.inputs.end()) by_node[input->second] = value;
  }
  return by_node;
}
}  // namespace

namespace {

absl::StatusOr<std::vector<Arrays>> RunModel(OnnxModel model, const std::vector<Arrays>& feeds) {
  std::vector<std::string> fetches;
  for (const std::string& output : model.outputs) fetches.push_back(model.tensors.at(output));
  const std::vector<std::string> outputs = model.outputs;
  std::vector<Session::Feeds> by_node;
  for (const Arrays& of_run : feeds) by_node.push_back(FeedsOf(model, of_run));
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Start(model));
  std::vector<Arrays> results;
  for (const Session::Feeds& of_run : by_node) {
    std::vector<Tensor> fetched;
    MR_RETURN_IF_ERROR(session->Run(of_run, fetches, {}, &fetched));
    results.emplace_back();
    for (size_t i = 0; i < outputs.size(); ++i) results.back()[outputs[i]] = fetched[i];
  }
  return results;
}

}  // namespace

absl::StatusOr<Arrays> RunOnce(const std::string& bytes, const Arrays& feeds) {
  MR_ASSIGN_OR_RETURN(OnnxModel model, onnx::OnnxFromBytes(bytes, "", {.input_values = feeds}));
  MR_ASSIGN_OR_RETURN(const std::vector<Arrays> results, RunModel(std::move(model), {feeds}));
  return results[0];
}

absl::StatusOr<std::vector<Arrays>> RunWithEach(const std::string& bytes, const std::vector<Arrays>& feeds) {
  MR_ASSIGN_OR_RETURN(OnnxModel model, onnx::OnnxFromBytes(bytes, "", {}));
  return RunModel(std::move(model), feeds);
}

absl::StatusOr<std::vector<float>> TrainFor(OnnxModel model, const Arrays& feeds, int steps,
                                            std::unique_ptr<Session>* kept) {
  const Session::Feeds by_node = FeedsOf(model, feeds);
  MR_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Start(model));
  std::vector<float> losses;
  for (int i = 0; i < steps; ++i) {
    std::vector<Tensor> fetched;
    MR_RETURN_IF_ERROR(session->Run(by_node, {"loss:0"}, {"train"}, &fetched));
    losses.push_back(fetched[0].as<float>()[0]);
  }
  if (kept != nullptr) *kept = std::move(session);
  return losses;
}

}  // namespace millrace::testing
