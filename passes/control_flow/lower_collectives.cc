#include "passes/control_flow/lower_collectives.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "passes/control_flow/control_flow_ops.h"
#include "passes/control_flow/creation_places.h"

namespace millrace {
namespace {

enum class Kind { kReduce, kReduceScatter, kGather, kBroadcast };

struct Form {
  const char* op;
  Kind kind;
  int first_key;  // the input that is the group's size, followed by its key and the instance's; -1: these are attributes
};

constexpr Form kForms[] = {
    {"CollectiveReduce", Kind::kReduce, -1},          {"CollectiveReduceV2", Kind::kReduce, 1},
    {"CollectiveReduceScatterV2", Kind::kReduceScatter, 1},
    {"CollectiveGather", Kind::kGather, -1},          {"CollectiveGatherV2", Kind::kGather, 1},
    {"CollectiveBcastSend", Kind::kBroadcast, -1},    {"CollectiveBcastSendV2", Kind::kBroadcast, 1},
    {"CollectiveBcastRecv", Kind::kBroadcast, -1},    {"CollectiveBcastRecvV2", Kind::kBroadcast, 0},
    {"NcclAllReduce", Kind::kReduce, -1},
};

const Form* FormOf(const std::string& op) {
  const auto* found = std::find_if(std::begin(kForms), std::end(kForms), [&](const Form& form) { return op == form.op; });
  return found == std::end(kForms) ? nullptr : found;
}

// The device's number: that of "/job:worker/task:1/device:GPU:3" is (1, 3).
std::pair<int, int> NumberOf(const std::string& device) {
  const auto after = [&](const std::string& word, size_t at) {
    return at == std::string::npos ? 0 : std::atoi(device.c_str() + at + word.size());
  };
  return {after("task:", device.find("task:")), after(":", device.rfind(':'))};
}

class CollectiveLowering {
 public:
  explicit CollectiveLowering(Graph& graph) : graph_(graph) {}

  absl::StatusOr<bool> Run() {
    bool changed = false;
    const int32_t nodes = graph_.num_ids();
    for (int32_t i = 0; i < nodes; ++i) {
      if (!graph_.alive(NodeId{i})) continue;
      const std::string& op = graph_.node(NodeId{i}).op;
      if (IsCollective(op)) {
        MR_RETURN_IF_ERROR(CheckLeastInputs(graph_.node(NodeId{i})));
      }
      if (op == "NcclReduce" || op == "NcclBroadcast") {
        LowerWithoutGroup(NodeId{i});
        changed = true;
      } else if (const Form* form = FormOf(op); form != nullptr) {
        Collect(NodeId{i}, *form);
      }
    }
    for (auto& [key, group] : groups_) {
      MR_RETURN_IF_ERROR(Lower(group));
      changed = true;
    }
    if (!places_.empty()) places_.Renumber(graph_);
    return changed;
  }

 private:
  struct Group {
    Kind kind = Kind::kReduce;
    int64_t size = 0;  // 0: as many as there are
    std::vector<NodeId> members;
  };

  OutputRef Source(OutputRef ref) const {
    while (graph_.node(ref.node).op == "Identity" && !graph_.node(ref.node).inputs.empty()) ref = graph_.node(ref.node).inputs[0];
    return ref;
  }

  // A key that is an input: its number where it is a constant, else "".
  std::string KeyOf(const Node& node, int input) const {
    if (input >= static_cast<int>(node.inputs.size())) return "";
    const auto value = graph_.node(Source(node.inputs[input]).node).attrs.Get<Tensor>("value");
    return value.ok() && value->num_elements() == 1 ? absl::StrCat(value->IntAt(0)) : "";
  }

  void Collect(NodeId id, const Form& form) {
    const Node& node = graph_.node(id);
    std::string size, group, instance;
    if (node.op == "NcclAllReduce") {
      size = absl::StrCat(node.attrs.GetOr<int64_t>("num_devices", 0));
      instance = node.attrs.GetOr<std::string>("shared_name", "");
    } else if (form.first_key < 0) {
      size = absl::StrCat(node.attrs.GetOr<int64_t>("group_size", 0));
      group = absl::StrCat(node.attrs.GetOr<int64_t>("group_key", 0));
      instance = absl::StrCat(node.attrs.GetOr<int64_t>("instance_key", 0));
    } else {
      size = KeyOf(node, form.first_key);
      group = KeyOf(node, form.first_key + 1);
      instance = KeyOf(node, form.first_key + 2);
    }
    const bool numbered = instance.empty();
    if (numbered) instance = absl::StrCat(met_[{form.kind, group, node.requested_device}]++);
    Group& of = groups_[{form.kind, group, numbered, instance}];
    of.kind = form.kind;
    of.size = std::max<int64_t>(of.size, std::atoll(size.c_str()));
    of.members.push_back(id);
  }

  absl::Status Lower(Group& group) {
    const int64_t count = static_cast<int64_t>(group.members.size());
    const Node& first = graph_.node(group.members[0]);
    if (group.size > count) {
      return absl::UnimplementedError(absl::StrCat("node '", first.name, "' (", first.op, "): its group has ", group.size,
                                                   " members, of which this graph has ", count,
                                                   "; what other processes take part in is not supported"));
    }
    // Where nodes were put, each on a device of its own, ranks are those of the devices.
    std::stable_sort(group.members.begin(), group.members.end(), [&](NodeId a, NodeId b) {
      return NumberOf(graph_.node(a).requested_device) < NumberOf(graph_.node(b).requested_device);
    });
    if (group.kind == Kind::kBroadcast) return LowerBroadcast(group);
    std::vector<OutputRef> inputs;
    for (NodeId member : group.members) inputs.push_back(graph_.node(member).inputs[0]);
    const OutputRef all = group.kind == Kind::kGather ? Joined(group.members[0], inputs) : Reduced(group.members[0], inputs);
    if (group.kind == Kind::kReduceScatter) {
      const OutputRef axis = Constant(group.members[0], Tensor::Scalar<int32_t>(0));
      const NodeId parts = Add(group.members[0], "parts", "Split", {axis, all}, {{"num_split", count}}).node;
      for (int32_t rank = 0; rank < count; ++rank) PassOn(group.members[rank], {parts, rank});
      return absl::OkStatus();
    }
    for (NodeId member : group.members) PassOn(member, all);
    return absl::OkStatus();
  }

  absl::Status LowerBroadcast(const Group& group) {
    const auto sends = [&](NodeId id) { return absl::StrContains(graph_.node(id).op, "Send"); };
    const auto sender = std::find_if(group.members.begin(), group.members.end(), sends);
    const Node& first = graph_.node(group.members[0]);
    if (sender == group.members.end() || std::count_if(group.members.begin(), group.members.end(), sends) > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("node '", first.name, "' (", first.op, "): its group has not exactly one member that sends"));
    }
    const OutputRef value = graph_.node(*sender).inputs[0];
    for (NodeId member : group.members) PassOn(member, value);
    return absl::OkStatus();
  }

  // Reductions and broadcasts of one node, which has the inputs of all devices.
  void LowerWithoutGroup(NodeId id) {
    const Node& node = graph_.node(id);
    const std::vector<OutputRef> inputs(node.inputs.begin(), node.inputs.end());
    PassOn(id, node.op == "NcclReduce" ? Reduced(id, inputs) : inputs[0]);
  }

  OutputRef Reduced(NodeId at, const std::vector<OutputRef>& inputs) {
    const AttrMap attrs = graph_.node(at).attrs;
    const int64_t count = static_cast<int64_t>(inputs.size());
    std::string merge = attrs.GetOr<std::string>("merge_op", attrs.GetOr<std::string>("reduction", "Add"));
    OutputRef all = inputs[0];
    if (merge == "Add" || merge == "sum") {
      if (count > 1) all = Add(at, "sum", "AddN", inputs, {{"N", count}});
    } else {
      const char* op = merge == "Max" || merge == "max" ? "Maximum" : merge == "Min" || merge == "min" ? "Minimum" : "Mul";
      for (int64_t i = 1; i < count; ++i) all = Add(at, "merge", op, {all, inputs[i]}, {});
    }
    if (attrs.GetOr<std::string>("final_op", "Id") != "Div") return all;
    OutputRef divisor = Constant(at, Tensor::Scalar<float>(static_cast<float>(count)));
    const DataType type = attrs.GetOr<DataType>("T", DataType::kFloat);
    divisor = Add(at, "count", "Cast", {divisor}, {{"SrcT", DataType::kFloat}, {"DstT", type}});
    return Add(at, "mean", "Div", {all, divisor}, {});
  }

  OutputRef Joined(NodeId at, std::vector<OutputRef> inputs) {
    const int64_t count = static_cast<int64_t>(inputs.size());
    inputs.push_back(Constant(at, Tensor::Scalar<int32_t>(0)));
    return Add(at, "join", "ConcatV2", inputs, {{"N", count}, {"Tidx", DataType::kInt32}});
  }

  OutputRef Constant(NodeId at, const Tensor& value) {
    Node node;
    node.name = absl::StrCat(graph_.node(at).name, "/const");
    node.op = "Const";
    node.attrs.Set("dtype", value.dtype());
    node.attrs.Set("value", value);
    return {places_.AddBefore(graph_, at, std::move(node)), 0};
  }

  OutputRef Add(NodeId at, const char* name, const char* op, const std::vector<OutputRef>& inputs, AttrMap attrs) {
    Node node;
    node.name = absl::StrCat(graph_.node(at).name, "/", name);
    node.op = op;
    node.requested_device = graph_.node(at).requested_device;
    node.inputs.assign(inputs.begin(), inputs.end());
    node.attrs = std::move(attrs);
    if (node.op != "Cast") node.attrs.Set("T", graph_.node(at).attrs.GetOr<DataType>("T", DataType::kFloat));
    node.reason = "of a collective";
    return {places_.AddBefore(graph_, at, std::move(node)), 0};
  }

  // The member gives `value`; who waited for it waits for what it waited for.
  void PassOn(NodeId member, OutputRef value) {
    Node& node = graph_.mutable_node(member);
    const DataType type = node.attrs.GetOr<DataType>("T", DataType::kFloat);
    node.op = "Identity";
    node.inputs = {value};
    node.attrs = AttrMap();
    node.attrs.Set("T", type);
  }

  Graph& graph_;
  CreationPlaces places_;
  std::map<std::tuple<Kind, std::string, bool, std::string>, Group> groups_;
  std::map<std::tuple<Kind, std::string, std::string>, int64_t> met_;  // without a known instance, by group and device
};

}  // namespace

bool IsCollective(const std::string& op) { return FormOf(op) != nullptr || op == "NcclReduce" || op == "NcclBroadcast"; }

absl::StatusOr<bool> LowerCollectives(Graph& graph) { return CollectiveLowering(graph).Run(); }

}  // namespace millrace
