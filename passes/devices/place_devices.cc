#include "passes/devices/place_devices.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "graph/device_spec.h"
#include "graph/variable_name.h"
#include "millrace/status.h"
#include "passes/rewrite/order_variable_accesses.h"
#include "passes/shapes/per_op.h"

namespace millrace {
namespace {

constexpr int32_t kUnplaced = -2;

class Placer {
 public:
  Placer(Graph& graph, const OpRegistry& ops, const PlaceOptions& options)
      : graph_(graph),
        ops_(ops),
        def_of_(ops),
        options_(options),
        leader_(graph.num_ids()),
        device_(graph.num_ids(), kUnplaced) {
    std::iota(leader_.begin(), leader_.end(), 0);
  }

  absl::StatusOr<DevicePlacement> Run() {
    MR_RETURN_IF_ERROR(MatchRequests());
    if (options_.devices.size() > 1) {
      MR_ASSIGN_OR_RETURN(order_, CreationOrder(graph_));
      Colocate();
      PlaceRequested();
      PlaceByNeighbours();
      MoveToKernels();
    } else {
      device_.assign(graph_.num_ids(), 0);
    }
    Write();
    return std::move(result_);
  }

 private:
  const OpDef& Def(int32_t id) const { return *def_of_(graph_.node(NodeId{id}).op); }
  bool Alive(int32_t id) const { return graph_.alive(NodeId{id}); }

  // Const, feed or variable: its home is host memory.
  bool AtHome(int32_t id) const {
    const std::string& op = graph_.node(NodeId{id}).op;
    return op == "Const" || op == "_Feed" || Def(id).is_variable;
  }
  // Takes no decision of its own: follows the memory of its input.
  bool FollowsInput(int32_t id) const {
    const Node& node = graph_.node(NodeId{id});
    return !node.inputs.empty() && (Def(id).is_view || node.op == "_Fetch" || node.op == "DeepCopy");
  }

  absl::Status MatchRequests() {
    std::map<std::string, int64_t> requests;  // how many nodes ask for it
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      const Node& node = graph_.node(NodeId{i});
      if (node.removed || node.requested_device.empty()) continue;
      const auto [it, inserted] = requests.emplace(node.requested_device, 0);
      if (inserted && !ParseDeviceSpec(node.requested_device).ok()) {
        return absl::InvalidArgumentError(absl::StrCat("node '", node.name, "': ",
                                                       ParseDeviceSpec(node.requested_device).status().message()));
      }
      ++it->second;
    }
    if (requests.empty()) return absl::OkStatus();
    std::vector<std::string> texts;
    for (const auto& [text, count] : requests) texts.push_back(text);
    MR_ASSIGN_OR_RETURN(matcher_, DeviceMatcher::Create(options_.devices, texts));
    for (const auto& [text, count] : requests) {
      if (!matcher_.IsSoft(text)) continue;
      result_.notes.push_back(absl::StrCat("device ", text, " is not there: its nodes are placed on ",
                                           options_.devices[matcher_.Find(text)]));
    }
    return absl::OkStatus();
  }

  int32_t Leader(int32_t id) {
    while (leader_[id] != id) id = leader_[id] = leader_[leader_[id]];
    return id;
  }
  // The lowest id leads, so that nothing depends on the order of joining.
  void Join(int32_t a, int32_t b) {
    a = Leader(a);
    b = Leader(b);
    leader_[std::max(a, b)] = std::min(a, b);
  }

  void Colocate() {
    std::map<std::string, int32_t> classes;  // "loc:@x" whose x is not (any more) in the graph
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      const Node& node = graph_.node(NodeId{i});
      if (node.removed) continue;
      for (const std::string& name : node.attrs.GetOr<std::vector<std::string>>("_class", {})) {
        constexpr std::string_view kPrefix = "loc:@";
        if (std::string_view(name).substr(0, kPrefix.size()) != kPrefix) continue;
        const NodeId with = graph_.Find(std::string_view(name).substr(kPrefix.size()));
        Join(i, with.valid() && graph_.alive(with) ? with.value : classes.emplace(name, i).first->second);
      }
      for (const VariableUse& use : Def(i).variables) {
        if (use.input >= static_cast<int>(node.inputs.size())) continue;
        const NodeId variable = VariableOf(graph_, ops_, node.inputs[use.input]);
        if (variable.valid()) Join(i, variable.value);
      }
    }
    // Handles of one shared variable are one memory.
    std::map<std::string, int32_t> handles;
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      if (!Alive(i) || !Def(i).is_variable) continue;
      const auto [it, inserted] = handles.emplace(VariableName(graph_.node(NodeId{i})), i);
      if (!inserted) Join(i, it->second);
    }
  }

  // A variable's own string speaks for its group, then the lowest id's that has one.
  void PlaceRequested() {
    for (const bool variables : {true, false}) {
      for (int32_t i = 0; i < graph_.num_ids(); ++i) {
        if (!Alive(i) || Def(i).is_variable != variables) continue;
        const int32_t asked = matcher_.Find(graph_.node(NodeId{i}).requested_device);
        int32_t& device = device_[Leader(i)];
        if (asked >= 0 && device == kUnplaced) device = asked;
      }
    }
  }

  void PlaceByNeighbours() {
    const Fanout fanout = ComputeFanout(graph_);
    for (size_t k = order_.size(); k-- > 0;) {
      const int32_t id = order_[k].value;
      int32_t& device = device_[Leader(id)];
      if (device != kUnplaced) continue;
      for (const Fanout::Use& use : fanout.of(NodeId{id})) {
        const int32_t consumer = device_[Leader(use.consumer.value)];
        if (use.input < 0 || consumer == kUnplaced) continue;
        device = consumer;
        SetReason(id, "with its consumer", use.consumer);
        break;
      }
    }
    for (const NodeId id : order_) {
      int32_t& device = device_[Leader(id.value)];
      if (device != kUnplaced) continue;
      for (const OutputRef input : graph_.node(id).inputs) {
        if (AtHome(input.node.value)) continue;
        device = device_[Leader(input.node.value)];
        SetReason(id.value, "with its input", input.node);
        break;
      }
      if (device == kUnplaced) device = 0;
    }
  }

  void SetReason(int32_t id, const char* why, NodeId other) {
    Node& node = graph_.mutable_node(NodeId{id});
    if (node.reason.empty()) node.reason = absl::StrCat(why, " '", graph_.node(other).name, "'");
  }

  void MoveToKernels() {
    if (!options_.supports) return;
    std::map<int32_t, std::set<std::string>> ops;  // of each group
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      if (Alive(i) && !AtHome(i) && !FollowsInput(i) && !Def(i).is_no_op) ops[Leader(i)].insert(graph_.node(NodeId{i}).op);
    }
    for (const auto& [leader, names] : ops) {
      const auto has_all = [&names = names, this](int32_t device) {
        return std::all_of(names.begin(), names.end(),
                           [&](const std::string& op) { return options_.supports(op, device); });
      };
      if (has_all(device_[leader])) continue;
      for (int32_t d = 0; d < static_cast<int32_t>(options_.devices.size()); ++d) {
        if (!has_all(d)) continue;
        graph_.mutable_node(NodeId{leader}).reason =
            absl::StrCat(options_.devices[device_[leader]], " has no kernel for it");
        device_[leader] = d;
        break;
      }
    }
  }

  void Write() {
    const SharedText at_home = "its home is in host memory";
    result_.variable_device.assign(graph_.num_ids(), -1);
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      if (!Alive(i)) continue;
      const int32_t device = device_[Leader(i)];
      if (Def(i).is_variable) result_.variable_device[i] = device;
      Node& node = graph_.mutable_node(NodeId{i});
      node.device = AtHome(i) ? kHostDevice : device;
      if (AtHome(i) && node.reason.empty()) node.reason = at_home;
    }
    for (const NodeId id : order_) {
      if (!FollowsInput(id.value)) continue;
      Node& node = graph_.mutable_node(id);
      const int32_t source = node.inputs[0].node.value;
      const int32_t memory = Def(source).is_variable ? result_.variable_device[source] : graph_.node(node.inputs[0].node).device;
      if (memory != kHostDevice) node.device = memory;
    }
  }

  Graph& graph_;
  const OpRegistry& ops_;
  mutable OpFinder def_of_;
  const PlaceOptions& options_;
  DeviceMatcher matcher_;
  std::vector<NodeId> order_;
  std::vector<int32_t> leader_;  // union-find
  std::vector<int32_t> device_;  // of a group, at its leader
  DevicePlacement result_;
};

}  // namespace

absl::StatusOr<DevicePlacement> PlaceDevices(Graph& graph, const OpRegistry& ops, const PlaceOptions& options) {
  return Placer(graph, ops, options).Run();
}

}  // namespace millrace
