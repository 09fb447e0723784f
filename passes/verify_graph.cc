#include "passes/verify_graph.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/variable_name.h"
#include "graph/verify.h"
#include "millrace/status.h"
#include "passes/control_flow/control_flow_ops.h"
#include "passes/control_flow/expand_ops.h"
#include "passes/control_flow/loop_ops.h"
#include "passes/control_flow/xla_ops.h"
#include "passes/shapes/per_op.h"

namespace millrace {
namespace {

std::string NameOf(const Node& node) { return absl::StrCat("'", node.name, "' (", node.op, ")"); }

// Of an op: what nodes of it may be.
struct KnownOp {
  const OpDef* def = nullptr;
  bool goes_away = false;  // before types
};

class NodeVerifier {
 public:
  NodeVerifier(const Graph& graph, const OpRegistry& ops, GraphPhase phase, int32_t num_devices)
      : graph_(graph), placed_(phase >= GraphPhase::kPlaced), num_devices_(num_devices), known_(Find{&ops}) {}

  absl::Status Run() {
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      const Node& node = graph_.node(NodeId{i});
      if (node.removed) continue;
      const KnownOp& op = known_(node.op);
      MR_RETURN_IF_ERROR(VerifyOp(node, op));
      MR_RETURN_IF_ERROR(VerifyOutputs(node));
      MR_RETURN_IF_ERROR(VerifyInputs(node));
      if (placed_) MR_RETURN_IF_ERROR(VerifyDevice(node, *op.def));
    }
    return absl::OkStatus();
  }

 private:
  struct Find {
    const OpRegistry* ops;
    KnownOp operator()(const std::string& op) const {
      Node node;
      node.op = op;
      const OpDef* def = ops->Find(op);
      const bool made_again = def != nullptr && (IsExpanded(op) || IsXlaOp(op));  // by fusing, or a program's own
      return {def, (IsPlannedAway(op) && !made_again) || IsPartitionedCall(node)};
    }
  };

  static absl::Status VerifyOp(const Node& node, const KnownOp& op) {
    if (op.goes_away) return absl::InternalError(absl::StrCat(NameOf(node), " is still there, expected other ops in its place"));
    if (op.def == nullptr) return absl::InternalError(absl::StrCat(NameOf(node), " is of an op that is not known"));
    return absl::OkStatus();
  }

  static absl::Status VerifyOutputs(const Node& node) {
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const TensorType& type = node.outputs[o];
      if (type.dtype != DataType::kInvalid && type.shape.fully_known()) continue;
      return absl::InternalError(absl::StrCat(NameOf(node), " has output ", o, " of type ", type.ToString(), ", expected one of known size or bound"));
    }
    return absl::OkStatus();
  }

  absl::Status VerifyInputs(const Node& node) const {
    for (const OutputRef input : node.inputs) {
      const Node& producer = graph_.node(input.node);
      if (static_cast<size_t>(input.index) < producer.outputs.size()) continue;
      return absl::InternalError(
          absl::StrCat(NameOf(node), " takes output ", input.index, " of ", NameOf(producer), ", which has ", producer.outputs.size()));
    }
    if (node.op != "_Fetch" || node.inputs.size() == 1) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(NameOf(node), " has ", node.inputs.size(), " inputs, expected one"));
  }

  absl::Status VerifyDevice(const Node& node, const OpDef& def) const {
    const bool at_home = def.is_variable || node.op == "Const" || node.op == "_Feed";
    if (at_home ? node.device == kHostDevice : node.device >= 0 && node.device < num_devices_) return absl::OkStatus();
    const std::string expected = at_home ? absl::StrCat("host memory, ", kHostDevice) : absl::StrCat("one of ", num_devices_);
    return absl::InternalError(absl::StrCat(NameOf(node), " is on device ", node.device, ", expected ", expected));
  }

  const Graph& graph_;
  const bool placed_;
  const int32_t num_devices_;
  PerOp<KnownOp, Find> known_;
};

// What output 0 of a node is of a variable.
struct Memory {
  int32_t variable = -1;
  bool handle = false;     // the variable itself, not what was read of it
  bool reference = false;  // what was read is the variable's memory, whatever is written there later
  int32_t version = 0;     // of what was read: writes before it
};

class AccessVerifier {
 public:
  AccessVerifier(const Graph& graph, const OpRegistry& ops) : graph_(graph), def_of_(ops), memory_(graph.num_ids()), mark_(graph.num_ids(), 0) {}

  absl::Status Run() {
    MR_ASSIGN_OR_RETURN(order_, CreationOrder(graph_));
    position_.resize(graph_.num_ids());
    for (size_t k = 0; k < order_.size(); ++k) position_[order_[k].value] = k;
    for (const NodeId id : order_) MR_RETURN_IF_ERROR(Visit(id));
    return absl::OkStatus();
  }

 private:
  struct Variable {
    std::string name;
    int32_t version = 0;
    NodeId last_writer;
    std::vector<NodeId> readers;  // since then
  };

  absl::Status Visit(NodeId id) {
    const Node& node = graph_.node(id);
    const OpDef& def = *def_of_(node.op);
    if (def.is_variable) {
      memory_[id.value] = {VariableOf(node), true, node.op == "VariableV2" || node.op == "Variable"};
      return absl::OkStatus();
    }
    // Of each variable that it accesses, whether it writes.
    absl::InlinedVector<std::pair<int32_t, bool>, 2> accesses;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Memory& memory = MemoryOf(node.inputs[i]);
      if (memory.variable < 0) continue;
      // A view for itself looks at nothing; who takes it does.
      if (i == 0 && def.is_view && def.variables.empty()) continue;
      MR_RETURN_IF_ERROR(VerifyVersion(node, memory));
      const bool writes = memory.handle && def.Writes(static_cast<int>(i));
      const auto known = std::find_if(accesses.begin(), accesses.end(), [&](const auto& access) { return access.first == memory.variable; });
      if (known != accesses.end()) {
        known->second = known->second || writes;
      } else {
        accesses.emplace_back(memory.variable, writes);
      }
    }
    for (const auto& [variable, writes] : accesses) MR_RETURN_IF_ERROR(Access(id, variables_[variable], writes));
    PassOn(node, def, memory_[id.value]);
    return absl::OkStatus();
  }

  const Memory& MemoryOf(OutputRef ref) const {
    static const Memory none;
    return ref.index == 0 ? memory_[ref.node.value] : none;
  }

  absl::Status VerifyVersion(const Node& node, const Memory& memory) const {
    const Variable& variable = variables_[memory.variable];
    if (memory.handle || memory.reference || memory.version == variable.version) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(NameOf(node), " takes what was read of variable '", variable.name, "' before ",
                                            NameOf(graph_.node(variable.last_writer)), " wrote it"));
  }

  absl::Status Access(NodeId id, Variable& variable, bool writes) {
    before_.clear();
    if (variable.last_writer.valid()) before_.push_back(variable.last_writer);
    if (writes) before_.insert(before_.end(), variable.readers.begin(), variable.readers.end());
    if (const NodeId free = OneNotBefore(id); free.valid()) {
      return absl::InternalError(absl::StrCat("no edges order ", NameOf(graph_.node(free)), " and ", NameOf(graph_.node(id)),
                                              ", which access variable '", variable.name, "'"));
    }
    if (!writes) {
      variable.readers.push_back(id);
      return absl::OkStatus();
    }
    variable.last_writer = id;
    variable.readers.clear();
    ++variable.version;
    return absl::OkStatus();
  }

  // One of `before_` that no path leads from to the node; invalid where all lead there. Mostly by a single edge.
  NodeId OneNotBefore(NodeId id) {
    if (before_.empty()) return NodeId();
    ++stamp_;
    reached_.clear();
    Reach(id);
    const auto is_free = [&](NodeId other) { return mark_[other.value] != stamp_; };
    auto free = std::find_if(before_.begin(), before_.end(), is_free);
    if (free == before_.end()) return NodeId();
    size_t first = position_[free->value];
    for (auto other = free; other != before_.end(); ++other) {
      if (is_free(*other)) first = std::min(first, position_[other->value]);
    }
    for (size_t k = 0; k < reached_.size(); ++k) {
      if (position_[reached_[k].value] > first) Reach(reached_[k]);
    }
    free = std::find_if(free, before_.end(), is_free);
    return free == before_.end() ? NodeId() : *free;
  }

  // Marks what leads to the node by a single edge.
  void Reach(NodeId id) {
    const auto mark = [&](NodeId from) {
      if (std::exchange(mark_[from.value], stamp_) != stamp_) reached_.push_back(from);
    };
    for (const OutputRef input : graph_.node(id).inputs) mark(input.node);
    for (const NodeId control : graph_.node(id).control_inputs) mark(control);
  }

  void PassOn(const Node& node, const OpDef& def, Memory& memory) const {
    if (node.inputs.empty() || node.outputs.empty() || !(def.returns_variable || def.is_view)) return;
    memory = MemoryOf(node.inputs[0]);
    if (memory.variable < 0 || def.returns_variable || !memory.handle) return;
    memory.handle = !memory.reference && def.variables.empty();
    memory.version = variables_[memory.variable].version;
  }

  int32_t VariableOf(const Node& node) {
    const auto [it, inserted] = index_.emplace(VariableName(node), static_cast<int32_t>(variables_.size()));
    if (inserted) variables_.push_back({it->first, 0, {}, {}});
    return it->second;
  }

  const Graph& graph_;
  OpFinder def_of_;
  std::vector<Memory> memory_;  // per node
  std::vector<NodeId> order_;
  std::vector<size_t> position_;  // in it, per node
  std::unordered_map<std::string, int32_t> index_;
  std::vector<Variable> variables_;
  std::vector<NodeId> before_, reached_;
  std::vector<int32_t> mark_;  // per node: the search that reached it last
  int32_t stamp_ = 0;
};

absl::Status Verify(const Graph& graph, const OpRegistry& ops, GraphPhase phase, int32_t num_devices) {
  MR_RETURN_IF_ERROR(VerifyGraph(graph));
  MR_RETURN_IF_ERROR(NodeVerifier(graph, ops, phase, num_devices).Run());
  if (phase >= GraphPhase::kOrdered) MR_RETURN_IF_ERROR(AccessVerifier(graph, ops).Run());
  return absl::OkStatus();
}

}  // namespace

absl::Status VerifyPhase(const Graph& graph, const OpRegistry& ops, GraphPhase phase, const char* after, int32_t num_devices) {
  const absl::Status status = Verify(graph, ops, phase, num_devices);
  if (status.ok()) return status;
  return absl::InternalError(absl::StrCat("after '", after, "': ", status.message()));
}

}  // namespace millrace
