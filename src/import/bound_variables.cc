#include "import/bound_variables.h"

#include <google/protobuf/arena.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/function.h"
#include "graph/parameters.h"
#include "graph/variable_name.h"
#include "millrace/status.h"
#include "passes/control_flow/control_flow_ops.h"
#include "proto/parse.h"

namespace millrace {
namespace {

using google::protobuf::Arena;

// What an object calls the tensor that is a variable's value.
constexpr const char* kValueOfVariable = "VARIABLE_VALUE";

constexpr int32_t kNone = -1;

bool Holds(const proto::TrackableObjectGraph& objects, int32_t id) { return id >= 0 && id < objects.nodes_size(); }

// By object of one graph that of the other that the same names lead to from the root, or the same slots of the same variables.
class SameObjects {
 public:
  SameObjects(const proto::TrackableObjectGraph& from, const proto::TrackableObjectGraph& to) : from_(from), to_(to), same_(from.nodes_size(), kNone) {
    if (Holds(from, 0) && Holds(to, 0)) Are(0, 0);
    for (size_t i = 0; i < found_.size(); ++i) GoOnAt(found_[i]);
    for (size_t i = 0; i < found_.size(); ++i) AddSlots(found_[i]);
  }

  int32_t Of(int32_t id) const { return Holds(from_, id) ? same_[id] : kNone; }

 private:
  void Are(int32_t id, int32_t other) {
    if (!Holds(from_, id) || !Holds(to_, other) || same_[id] != kNone) return;
    same_[id] = other;
    found_.push_back(id);
  }

  void GoOnAt(int32_t id) {
    std::map<std::string, int32_t> others;
    for (const auto& child : to_.nodes(same_[id]).children()) others.emplace(child.local_name(), child.node_id());
    for (const auto& child : from_.nodes(id).children()) {
      if (const auto other = others.find(child.local_name()); other != others.end()) Are(child.node_id(), other->second);
    }
  }

  void AddSlots(int32_t id) {
    std::map<std::pair<int32_t, std::string>, int32_t> others;
    for (const auto& slot : to_.nodes(same_[id]).slot_variables()) {
      others.emplace(std::pair(slot.original_variable_node_id(), slot.slot_name()), slot.slot_variable_node_id());
    }
    for (const auto& slot : from_.nodes(id).slot_variables()) {
      const auto other = others.find({Of(slot.original_variable_node_id()), slot.slot_name()});
      if (other != others.end()) Are(slot.slot_variable_node_id(), other->second);
    }
  }

  const proto::TrackableObjectGraph& from_;
  const proto::TrackableObjectGraph& to_;
  std::vector<int32_t> same_, found_;
};

std::string ObjectsOf(const proto::SavedObjectGraph& objects) {
  Arena arena;
  auto* graph = Arena::CreateMessage<proto::TrackableObjectGraph>(&arena);
  for (const proto::SavedObject& object : objects.nodes()) {
    auto& node = *graph->add_nodes();
    *node.mutable_children() = object.children();
    *node.mutable_slot_variables() = object.slot_variables();
  }
  return graph->SerializeAsString();
}

}  // namespace

BoundVariables FindBoundVariables(const Graph& graph, const proto::SavedObjectGraph& objects) {
  std::map<std::string, const proto::SavedConcreteFunction*> functions;
  for (const auto& entry : objects.concrete_functions()) functions[entry.key()] = &entry.value();
  const auto is_variable = [&](int32_t id) { return id >= 0 && id < objects.nodes_size() && objects.nodes(id).has_variable(); };
  BoundVariables bound;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& call = graph.node(NodeId{i});
    // A gradient takes its function's arguments, and behind these the outputs' gradients.
    if (call.removed || !IsPartitionedCall(call) || call.op == kSymbolicGradientOp) continue;
    const auto function = functions.find(call.attrs.GetOr<FunctionRef>("f", {}).name);
    if (function == functions.end()) continue;
    const auto& taken = function->second->bound_inputs();
    const auto arguments = static_cast<int>(call.inputs.size()) - taken.size();
    for (int k = 0; arguments >= 0 && k < taken.size(); ++k) {
      const Node& variable = graph.node(call.inputs[arguments + k].node);
      if (IsVariable(variable) && is_variable(taken[k])) bound.objects.emplace(VariableName(variable), taken[k]);
    }
  }
  if (!bound.objects.empty()) bound.object_graph = ObjectsOf(objects);
  return bound;
}

absl::StatusOr<std::map<std::string, std::string>> KeysOfBound(const BoundVariables& bound, const Tensor& object_graph) {
  if (object_graph.dtype() != DataType::kString || object_graph.num_elements() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("is ", object_graph.type().ToString(), ", expected string[]"));
  }
  Arena arena;
  auto* own = Arena::CreateMessage<proto::TrackableObjectGraph>(&arena);
  auto* saved = Arena::CreateMessage<proto::TrackableObjectGraph>(&arena);
  MR_RETURN_IF_ERROR(ParseBinary(bound.object_graph, own));
  MR_RETURN_IF_ERROR(ParseBinary(object_graph.strings()[0], saved));
  const SameObjects same(*own, *saved);
  std::map<std::string, std::string> keys;
  for (const auto& [variable, object] : bound.objects) {
    if (same.Of(object) == kNone) continue;
    for (const auto& attribute : saved->nodes(same.Of(object)).attributes()) {
      if (attribute.name() == kValueOfVariable) keys[variable] = attribute.checkpoint_key();
    }
  }
  return keys;
}

}  // namespace millrace
