#include "passes/rewrite/pack_rows.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "millrace/tensor.h"
#include "passes/control_flow/creation_places.h"
#include "passes/rewrite/row_packs.h"

namespace millrace {
namespace {

// Makes the packs' nodes, in their order.
class Packer {
 public:
  Packer(Graph& graph, std::vector<uint64_t>& by_value, const std::vector<RowPack>& packs)
      : graph_(graph), by_value_(by_value), packs_(packs), part_of_(graph.num_ids()), packed_(packs.size()) {
    by_value_.resize(graph.num_ids(), 0);
    for (size_t p = 0; p < packs.size(); ++p) {
      for (size_t m = 0; m < packs[p].members.size(); ++m) {
        part_of_[packs[p].members[m].value] = {static_cast<int32_t>(p), static_cast<int32_t>(m)};
      }
    }
  }

  // Returns how many nodes went into packs.
  int64_t Run(const std::vector<PackedPlace>& places) {
    AddAxis();
    int64_t gone = 0;
    for (const PackedPlace& place : places) {
      if (place.pack < 0) {
        for (size_t i = 0; i < graph_.node(place.node).inputs.size(); ++i) {
          const OutputRef part = Part(graph_.node(place.node).inputs[i]);  // may add a node, and so move all
          graph_.mutable_node(place.node).inputs[i] = part;
        }
        order_.push_back({place.node});
        continue;
      }
      Pack(static_cast<size_t>(place.pack));
      gone += static_cast<int64_t>(packs_[static_cast<size_t>(place.pack)].members.size());
    }
    for (const RowPack& pack : packs_) {
      for (NodeId id : pack.members) graph_.RemoveNode(id);
    }
    std::vector<NodeId> order = {axis_};
    for (const std::vector<NodeId>& nodes : order_) order.insert(order.end(), nodes.begin(), nodes.end());
    RenumberAs(graph_, order, by_value_);
    return gone;
  }

 private:
  struct PartOf {
    int32_t pack = -1, member = 0;
  };
  struct Packed {
    NodeId node;
    size_t place = 0;                  // in order_
    std::map<int32_t, NodeId> splits;  // by output
  };

  NodeId Add(Node node, uint64_t by_value = 0) {
    const NodeId id = graph_.AddUnique(std::move(node));
    by_value_.resize(graph_.num_ids(), 0);
    by_value_[id.value] = by_value;
    return id;
  }

  NodeId AddConst(std::string name, Tensor value) {
    Node node;
    node.name = std::move(name);
    node.op = "Const";
    node.outputs = {{value.dtype(), value.shape()}};
    node.attrs = AttrMap({{"dtype", value.dtype()}, {"value", std::move(value)}});
    return Add(std::move(node));
  }

  void AddAxis() {
    Tensor zero(DataType::kInt32, Shape());
    zero.mutable_as<int32_t>()[0] = 0;
    axis_ = AddConst("rows/axis", std::move(zero));
  }

  static TensorType Times(TensorType type, int64_t count) {
    type.shape.set_dim(0, type.shape.dim(0) * count);
    return type;
  }

  // What stands for a result now.
  OutputRef Part(OutputRef ref) {
    if (ref.node.value >= static_cast<int32_t>(part_of_.size())) return ref;
    const PartOf part = part_of_[ref.node.value];
    if (part.pack < 0) return ref;
    Packed& packed = packed_[static_cast<size_t>(part.pack)];
    const auto [split, added] = packed.splits.try_emplace(ref.index);
    if (added) {
      split->second = AddSplit({packed.node, ref.index}, static_cast<int64_t>(packs_[static_cast<size_t>(part.pack)].members.size()));
      order_[packed.place].push_back(split->second);
    }
    return {split->second, part.member};
  }

  NodeId AddSplit(OutputRef whole, int64_t count) {
    const Node& packed = graph_.node(whole.node);
    const TensorType type = packed.outputs[whole.index];
    Node node;
    node.name = absl::StrCat(packed.name, "/parts");
    node.op = "Split";
    node.requested_device = packed.requested_device;
    node.inputs = {{axis_, 0}, whole};
    node.attrs = AttrMap({{"T", type.dtype}, {"num_split", count}});
    TensorType part = type;
    part.shape.set_dim(0, type.shape.dim(0) / count);
    node.outputs.assign(static_cast<size_t>(count), part);
    node.reason = absl::StrCat("rows of ", count, " nodes");
    return Add(std::move(node), 1);
  }

  // What the members take by rows, as one tensor.
  OutputRef Together(const RowPack& pack, size_t input) {
    std::vector<OutputRef> operands;
    for (NodeId id : pack.members) operands.push_back(graph_.node(id).inputs[input]);
    const PartOf first = part_of_[operands[0].node.value];
    bool whole = first.pack >= 0 && packs_[static_cast<size_t>(first.pack)].members.size() == operands.size();
    for (size_t m = 0; m < operands.size() && whole; ++m) {
      const PartOf part = part_of_[operands[m].node.value];
      whole = part.pack == first.pack && part.member == static_cast<int32_t>(m) && operands[m].index == operands[0].index;
    }
    if (whole) return {packed_[static_cast<size_t>(first.pack)].node, operands[0].index};
    const bool known = std::all_of(operands.begin(), operands.end(), [&](OutputRef each) { return graph_.node(each.node).op == "Const"; });
    return {known ? JoinConstants(operands) : Concatenate(operands, graph_.node(pack.members[0]).requested_device), 0};
  }

  NodeId JoinConstants(const std::vector<OutputRef>& constants) {
    const TensorType type = graph_.type(constants[0]);
    const TensorType all = Times(type, static_cast<int64_t>(constants.size()));
    Tensor value(all.dtype, all.shape);
    auto* to = static_cast<char*>(value.mutable_data());
    for (OutputRef constant : constants) {
      const auto part = graph_.node(constant.node).attrs.GetOr<Tensor>("value", Tensor());
      std::memcpy(to, part.data(), static_cast<size_t>(type.size_bytes()));
      to += type.size_bytes();
    }
    const NodeId id = AddConst(absl::StrCat(graph_.node(constants[0].node).name, "/rows"), std::move(value));
    order_.back().push_back(id);
    return id;
  }

  NodeId Concatenate(const std::vector<OutputRef>& operands, const SharedText& device) {
    const TensorType type = graph_.type(operands[0]);
    const auto count = static_cast<int64_t>(operands.size());
    Node node;
    node.name = absl::StrCat(graph_.node(operands[0].node).name, "/rows");
    node.op = "ConcatV2";
    node.requested_device = device;
    for (OutputRef operand : operands) node.inputs.push_back(Part(operand));
    node.inputs.push_back({axis_, 0});
    node.attrs = AttrMap({{"T", type.dtype}, {"Tidx", DataType::kInt32}, {"N", count}});
    node.outputs = {Times(type, count)};
    node.reason = absl::StrCat("rows for ", count, " nodes");
    const NodeId id = Add(std::move(node), uint64_t{1} << count);
    order_.back().push_back(id);
    return id;
  }

  void Pack(size_t p) {
    const RowPack& pack = packs_[p];
    const auto count = static_cast<int64_t>(pack.members.size());
    order_.emplace_back();
    Node node = graph_.node(pack.members[0]);
    node.name += "/rows";
    for (size_t i = 0; i < node.inputs.size(); ++i) node.inputs[i] = pack.by_rows[i] ? Together(pack, i) : Part(node.inputs[i]);
    for (TensorType& type : node.outputs) type = Times(type, count);
    node.reason = absl::StrCat("rows of ", count, " ", node.op);
    const NodeId id = Add(std::move(node), by_value_[pack.members[0].value]);
    order_.back().push_back(id);
    packed_[p].node = id;
    packed_[p].place = order_.size() - 1;
  }

  Graph& graph_;
  std::vector<uint64_t>& by_value_;
  const std::vector<RowPack>& packs_;
  std::vector<PartOf> part_of_;  // by id of the nodes that were there from the beginning
  std::vector<Packed> packed_;   // by pack
  std::vector<std::vector<NodeId>> order_;  // each node, or a pack's with those that bring together and part
  NodeId axis_;
};

}  // namespace

absl::StatusOr<int64_t> PackRows(Graph& graph, const OpRegistry& ops, const std::vector<std::string>& targets,
                                 std::vector<uint64_t>& by_value) {
  MR_ASSIGN_OR_RETURN(const std::vector<NodeId> order, CreationOrder(graph));
  std::vector<RowPack> packs = FindRowPacks(graph, ops, order, targets);
  if (packs.empty()) return 0;
  const std::vector<PackedPlace> places = OrderPacked(graph, ops, order, packs);
  if (std::all_of(packs.begin(), packs.end(), [](const RowPack& pack) { return pack.members.empty(); })) return 0;
  return Packer(graph, by_value, packs).Run(places);
}

}  // namespace millrace
