#include "testlib/graph_interpreter.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/register.h"
#include "graph/with_message.h"
#include "millrace/status.h"
#include "runtime/op_evaluator.h"

namespace millrace::testing {
namespace {

Tensor Copy(const Tensor& from) {
  Tensor to(from.dtype(), from.shape());
  std::memcpy(to.mutable_data(), from.data(), from.size_bytes());
  return to;
}

// Nodes that fetches and targets need, in creation order. Fed nodes need nothing.
absl::StatusOr<std::vector<NodeId>> NeededNodes(const Graph& graph, const std::map<std::string, Tensor>& feeds,
                                                const std::vector<std::string>& fetches,
                                                const std::vector<std::string>& targets) {
  std::vector<bool> needed(graph.num_ids(), false);
  std::vector<NodeId> stack;
  const auto need = [&](NodeId id) {
    if (needed[id.value]) return;
    needed[id.value] = true;
    stack.push_back(id);
  };
  for (const std::vector<std::string>* names : {&fetches, &targets}) {
    for (const std::string& name : *names) {
      MR_ASSIGN_OR_RETURN(const OutputRef ref, graph.FindTensor(name));
      need(ref.node);
    }
  }
  while (!stack.empty()) {
    const Node& node = graph.node(stack.back());
    stack.pop_back();
    if (feeds.count(node.name) > 0) continue;
    for (const OutputRef& input : node.inputs) need(input.node);
    for (NodeId control : node.control_inputs) need(control);
  }
  MR_ASSIGN_OR_RETURN(const std::vector<NodeId> order, CreationOrder(graph));
  std::vector<NodeId> result;
  for (NodeId id : order) {
    if (needed[id.value]) result.push_back(id);
  }
  return result;
}

}  // namespace

const KernelRegistry& CpuKernels() {
  static const KernelRegistry& registry = *[] {
    auto* built = new KernelRegistry();
    cpu::RegisterCpuKernels(*built);
    return built;
  }();
  return registry;
}

std::string GraphInterpreter::VariableName(OutputRef ref) const {
  const Node& node = graph_.node(ref.node);
  const OpDef* def = ops_.Find(node.op);
  if (def == nullptr || ref.index != 0) return "";
  if (def->returns_variable) return VariableName(node.inputs[0]);
  if (!def->is_variable) return "";
  const std::string shared = node.attrs.GetOr<std::string>("shared_name", "");
  return shared.empty() ? node.name : shared;
}

absl::Status GraphInterpreter::GatherInputs(const Node& node, const OpDef& def, const Values& values,
                                            std::vector<Tensor>& inputs, std::vector<bool>& is_variable) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const std::string variable = VariableName(node.inputs[i]);
    is_variable.push_back(!variable.empty());
    if (variable.empty()) {
      inputs.push_back(values.at(node.inputs[i]));
      continue;
    }
    const auto found = variables_.find(variable);
    if (found != variables_.end()) {
      inputs.push_back(found->second);
      continue;
    }
    bool overwrites = false;
    for (const VariableUse& use : def.variables) {
      overwrites = overwrites || (use.input == static_cast<int>(i) && use.access == VariableAccess::kWrite);
    }
    if (!overwrites) {
      return absl::FailedPreconditionError(
          absl::StrCat("node '", node.name, "' reads variable '", variable, "' before it has a value"));
    }
    const TensorType& type = graph_.type(node.inputs[i]);
    inputs.push_back(variables_.emplace(variable, Tensor(type.dtype, type.shape)).first->second);
  }
  return absl::OkStatus();
}

absl::Status GraphInterpreter::RunNode(NodeId id, Values& values) {
  const Node& node = graph_.node(id);
  const OpDef* def = ops_.Find(node.op);
  if (def == nullptr) return absl::NotFoundError(absl::StrCat("node '", node.name, "': unknown op '", node.op, "'"));
  if (def->is_no_op || def->is_variable) return absl::OkStatus();
  if (node.op == "Const") {
    MR_ASSIGN_OR_RETURN(const Tensor value, node.attrs.Get<Tensor>("value"));
    values[OutputRef{id, 0}] = value;
    return absl::OkStatus();
  }
  std::vector<Tensor> inputs;
  std::vector<bool> is_variable;
  MR_RETURN_IF_ERROR(GatherInputs(node, *def, values, inputs, is_variable));
  OpInstance instance{.name = node.name, .op = node.op, .attrs = node.attrs};
  std::vector<const Tensor*> known;
  for (size_t i = 0; i < inputs.size(); ++i) {
    instance.inputs.push_back(inputs[i].type());
    known.push_back(is_variable[i] ? nullptr : &inputs[i]);
  }
  InferenceContext context(node.name, node.op, node.attrs, instance.inputs, known);
  MR_RETURN_IF_ERROR(def->InferShapes(context));
  instance.outputs.assign(context.outputs().begin(), context.outputs().end());
  instance.input_values.resize(inputs.size());
  for (size_t i = 0; i < inputs.size() && i < 64; ++i) {
    if ((context.by_value() >> i & 1) != 0 && known[i] != nullptr) instance.input_values[i] = inputs[i];
  }
  // A view of a variable is a read: it keeps the value of this moment.
  if (def->is_view && is_variable[0]) inputs[0] = Copy(inputs[0]);
  MR_ASSIGN_OR_RETURN(std::vector<Tensor> outputs, EvaluateOp(*def, kernels_, instance, std::move(inputs)));
  for (size_t i = 0; i < outputs.size(); ++i) values[OutputRef{id, static_cast<int32_t>(i)}] = outputs[i];
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> GraphInterpreter::Run(const std::map<std::string, Tensor>& feeds,
                                                          const std::vector<std::string>& fetches,
                                                          const std::vector<std::string>& targets) {
  MR_ASSIGN_OR_RETURN(const std::vector<NodeId> order, NeededNodes(graph_, feeds, fetches, targets));
  Values values;
  for (NodeId id : order) {
    const auto fed = feeds.find(graph_.node(id).name);
    if (fed != feeds.end()) {
      values[OutputRef{id, 0}] = fed->second;
      continue;
    }
    const absl::Status status = RunNode(id, values);
    if (!status.ok()) return WithPrefix(status, absl::StrCat("node '", graph_.node(id).name, "'"));
  }
  std::vector<Tensor> fetched;
  for (const std::string& fetch : fetches) {
    MR_ASSIGN_OR_RETURN(const OutputRef ref, graph_.FindTensor(fetch));
    const std::string variable = VariableName(ref);
    fetched.push_back(variable.empty() ? values.at(ref) : Copy(variables_.at(variable)));
  }
  return fetched;
}

}  // namespace millrace::testing
