#include "random/random_graph.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace millrace {
namespace {

using conformance::Case;

constexpr int64_t kMostBytes = 64 << 10;  // of a case's inputs: many graphs rather than large ones

bool IsUsable(const Case& one) {
  if (one.error.has_value() || one.outputs.empty()) return false;
  int64_t bytes = 0;
  for (const Tensor& input : one.inputs) {
    if (DataTypeSize(input.dtype()) == 0) return false;
    bytes += input.size_bytes();
  }
  for (const auto& [index, output] : one.outputs) {
    if (DataTypeSize(output.type.dtype) == 0) return false;
    bytes += output.type.size_bytes();
  }
  return bytes <= kMostBytes;
}

// Whether the op takes its variables as resource handles.
bool TakesResources(const std::string& op) {
  return absl::StartsWith(op, "Resource") || absl::StrContains(op, "VariableOp") || absl::StartsWith(op, "Rng") ||
         absl::StartsWith(op, "Stateful") || op == "VariableShape" || op == "VarIsInitializedOp";
}

class Builder {
 public:
  Builder(int ops, std::mt19937_64& random) : ops_(ops), random_(random) {}

  TrainingGraph Build(const std::vector<Case>& cases) {
    sum_ = Variable("sum", Tensor::Scalar(0.0f), /*resource=*/false);
    for (int k = 0; k < ops_; ++k) {
      const Case& one = cases[random_() % cases.size()];
      absl::StrAppend(&result_.made_of, k == 0 ? "" : ", ", one.family, ".", one.name);
      AddCase(one, absl::StrCat("n", k));
    }
    Group("init", initialisers_);
    Group("train", updates_);
    return std::move(result_);
  }

 private:
  NodeId Add(std::string name, std::string op, std::vector<OutputRef> inputs, AttrMap attrs) {
    Node node;
    node.name = std::move(name);
    node.op = std::move(op);
    node.inputs.assign(inputs.begin(), inputs.end());
    node.attrs = std::move(attrs);
    const absl::StatusOr<NodeId> id = result_.graph.AddNode(std::move(node));
    CHECK(id.ok()) << id.status();
    return *id;
  }
  OutputRef Const(const std::string& name, const Tensor& value) {
    return {Add(name, "Const", {}, {{"dtype", value.dtype()}, {"value", value}}), 0};
  }
  OutputRef Variable(const std::string& name, const Tensor& value, bool resource) {
    const OutputRef variable{Add(name, resource ? "VarHandleOp" : "VariableV2", {},
                                 {{"dtype", value.dtype()}, {"shape", value.shape()}, {"shared_name", name}}), 0};
    const OutputRef initial = Const(name + "/initial", value);
    initialisers_.push_back(Add(name + "/assign", resource ? "AssignVariableOp" : "Assign", {variable, initial},
                                {{resource ? "dtype" : "T", value.dtype()}}));
    return variable;
  }
  void Group(const std::string& name, const std::vector<NodeId>& nodes) {
    const NodeId group = Add(name, "NoOp", {}, {});
    for (NodeId node : nodes) result_.graph.mutable_node(group).control_inputs.push_back(node);
  }

  // Floats come out of variables, perhaps with something of an earlier result in them; shapes, indices and the like
  // stay constants, which a rule may want to know.
  OutputRef Input(const std::string& name, const Case& one, size_t i) {
    const Tensor& value = one.inputs[i];
    if (one.is_variable[i]) return Variable(name, value, TakesResources(one.op));
    if (value.dtype() != DataType::kFloat || random_() % 4 == 0) return Const(name, value);
    const OutputRef variable = Variable(name, value, /*resource=*/false);
    if (numbers_.empty() || random_() % 2 == 0) return variable;
    const OutputRef number = numbers_[random_() % numbers_.size()];
    return {Add(name + "/with_number", "AddV2", {variable, number}, {{"T", DataType::kFloat}}), 0};
  }

  void AddCase(const Case& one, const std::string& name) {
    std::vector<OutputRef> inputs;
    for (size_t i = 0; i < one.inputs.size(); ++i) inputs.push_back(Input(absl::StrCat(name, "/in", i), one, i));
    const NodeId op = Add(name + "/" + one.op, one.op, inputs, one.attrs);
    updates_.push_back(op);
    for (const auto& [index, output] : one.outputs) {
      const OutputRef tensor{op, index};
      result_.fetches.push_back(result_.graph.TensorName(tensor));
      if (output.type.dtype == DataType::kFloat) AddNumber(absl::StrCat(name, "/number", index), tensor, output.type.shape);
    }
  }

  // A small number made of the tensor, for later cases, and the sum of all of them.
  void AddNumber(const std::string& name, OutputRef tensor, const Shape& shape) {
    Tensor axes(DataType::kInt32, Shape({shape.rank()}));
    for (int d = 0; d < shape.rank(); ++d) axes.mutable_as<int32_t>()[d] = d;
    const OutputRef total{Add(name + "/total", "Sum", {tensor, Const(name + "/axes", axes)},
                              {{"T", DataType::kFloat}, {"Tidx", DataType::kInt32}}), 0};
    const OutputRef bounded{Add(name + "/bounded", "Tanh", {total}, {{"T", DataType::kFloat}}), 0};
    const OutputRef number{Add(name, "Mul", {bounded, Const(name + "/small", Tensor::Scalar(1e-3f))},
                               {{"T", DataType::kFloat}}), 0};
    numbers_.push_back(number);
    updates_.push_back(Add(name + "/add", "AssignAdd", {sum_, number}, {{"T", DataType::kFloat}}));
  }

  const int ops_;
  std::mt19937_64& random_;
  TrainingGraph result_;
  OutputRef sum_;
  std::vector<OutputRef> numbers_;
  std::vector<NodeId> initialisers_, updates_;
};

}  // namespace

std::vector<Case> UsableCases(const std::string& folder) {
  const absl::StatusOr<std::vector<Case>> cases = conformance::LoadAllCases(folder);
  CHECK(cases.ok()) << cases.status();
  std::vector<Case> usable;
  std::copy_if(cases->begin(), cases->end(), std::back_inserter(usable), IsUsable);
  return usable;
}

TrainingGraph MakeGraphOfCases(const std::vector<Case>& cases, int ops, std::mt19937_64& random) {
  return Builder(ops, random).Build(cases);
}

}  // namespace millrace
