#include "passes/rewrite/fuse_biases.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "millrace/status.h"
#include "millrace/tensor.h"
#include "passes/rewrite/positions.h"

namespace millrace {
namespace {

// Nodes that become one; invalid ids where there is none.
struct Chain {
  NodeId product, reshape, add, relu;
  OutputRef bias;
  NodeId last() const { return relu.valid() ? relu : add; }
};

class BiasFuser {
 public:
  BiasFuser(Graph& graph, std::vector<uint64_t>& by_value)
      : graph_(graph), by_value_(by_value), fanout_(ComputeFanout(graph)), now_(graph.num_ids()) {}

  absl::StatusOr<int64_t> Run() {
    MR_ASSIGN_OR_RETURN(const std::vector<NodeId> order, CreationOrder(graph_));
    position_ = PositionsIn(order, graph_.num_ids());
    int64_t fused = 0;
    for (NodeId id : order) {
      const std::optional<Chain> chain = ChainOf(id);
      if (!chain) continue;
      Fuse(*chain);
      ++fused;
    }
    if (fused > 0) RedirectControls();
    return fused;
  }

 private:
  const TensorType& TypeOf(NodeId id) const { return graph_.node(id).outputs[0]; }

  bool IsStatic(NodeId id) const {
    const Node& node = graph_.node(id);
    return !node.removed && node.outputs.size() == 1 && node.dynamic_outputs == 0 && node.run_time_values == 0 &&
           node.outputs[0].shape.fully_known() &&
           std::none_of(node.inputs.begin(), node.inputs.end(),
                        [&](OutputRef in) { return graph_.node(in.node).dynamic_output(in.index); });
  }

  // The only node that takes the value; invalid where several do, or none.
  NodeId OnlyUser(NodeId id) const {
    NodeId user;
    for (const Fanout::Use& use : fanout_.of(id)) {
      if (use.input < 0) continue;
      if (user.valid()) return NodeId{};
      user = use.consumer;
    }
    return user;
  }

  // Whether those that wait for the node come behind `last`, so that they can wait for that.
  bool AwaitedBehind(NodeId id, NodeId last) const {
    const auto uses = fanout_.of(id);
    return std::all_of(uses.begin(), uses.end(), [&](const Fanout::Use& use) {
      return use.input >= 0 || position_[use.consumer.value] > position_[last.value];
    });
  }

  // `value` with a vector added to its columns.
  std::optional<OutputRef> BiasOf(NodeId add, NodeId value) const {
    const Node& node = graph_.node(add);
    const bool named = node.op == "BiasAdd" || node.op == "BiasAddV1";
    if (!named && node.op != "Add" && node.op != "AddV2") return std::nullopt;
    if (node.attrs.GetOr<std::string>("data_format", "NHWC") != "NHWC" || node.inputs.size() != 2) return std::nullopt;
    const OutputRef bias = node.inputs[0].node == value ? node.inputs[1] : node.inputs[0];
    if (named && bias == node.inputs[0]) return std::nullopt;
    const Shape &of_bias = graph_.type(bias).shape, &of_value = TypeOf(value).shape;
    const bool row = of_bias.rank() == 1 && of_value.rank() >= 2 && of_bias.dim(0) == of_value.dim(of_value.rank() - 1);
    if (!row || graph_.type(bias).dtype != TypeOf(value).dtype || TypeOf(add).shape != of_value) return std::nullopt;
    return bias;
  }

  std::optional<Chain> ChainOf(NodeId product) const {
    const Node& node = graph_.node(product);
    if (node.removed || node.op != "MatMul" || !IsStatic(product) || TypeOf(product).shape.num_elements() == 0) return std::nullopt;
    const DataType dtype = TypeOf(product).dtype;
    if (dtype != DataType::kFloat && dtype != DataType::kHalf && dtype != DataType::kBfloat16) return std::nullopt;
    Chain chain;
    chain.product = product;
    NodeId value = product, next = OnlyUser(product);
    if (next.valid() && Keeps(next, product)) {
      chain.reshape = value = next;
      next = OnlyUser(next);
    }
    if (!next.valid() || !IsStatic(next)) return std::nullopt;
    const std::optional<OutputRef> bias = BiasOf(next, value);
    if (!bias) return std::nullopt;
    chain.add = next;
    chain.bias = *bias;
    const NodeId behind = OnlyUser(next);
    if (behind.valid() && graph_.node(behind).op == "Relu" && IsStatic(behind)) chain.relu = behind;
    if (!MayMove(chain)) {
      if (!chain.relu.valid()) return std::nullopt;
      chain.relu = NodeId{};
      if (!MayMove(chain)) return std::nullopt;
    }
    return chain;
  }

  // A Reshape that leaves the columns as they are.
  bool Keeps(NodeId id, NodeId product) const {
    if (graph_.node(id).op != "Reshape" || !IsStatic(id) || graph_.node(id).inputs[0].node != product) return false;
    const Shape& shape = TypeOf(id).shape;
    return shape.rank() >= 2 && shape.dim(shape.rank() - 1) == TypeOf(product).shape.dim(1);
  }

  bool MayMove(const Chain& chain) const {
    const NodeId last = chain.last();
    const Node& product = graph_.node(chain.product);
    if (position_[last.value] - position_[chain.product.value] > kMaxBiasDistance) return false;
    for (NodeId id : {chain.product, chain.reshape, chain.add, chain.relu}) {
      if (!id.valid() || id == last) continue;
      if (!AwaitedBehind(id, last)) return false;
    }
    for (NodeId id : {chain.reshape, chain.add, chain.relu}) {
      if (id.valid() && graph_.node(id).requested_device != product.requested_device) return false;
    }
    return true;
  }

  // The last node becomes the product; where there is a Reshape, that, and the product stays where it was in creation order.
  void Fuse(const Chain& chain) {
    const NodeId last = chain.last(), home = chain.reshape.valid() ? chain.product : last;
    absl::InlinedVector<NodeId, 2> controls;
    for (NodeId id : {chain.product, chain.reshape, chain.add, chain.relu}) {
      if (!id.valid()) continue;
      for (NodeId control : graph_.node(id).control_inputs) {
        if (std::find(controls.begin(), controls.end(), control) == controls.end()) controls.push_back(control);
      }
    }
    const Node product = graph_.node(chain.product);
    AttrMap attrs({{"T", product.outputs[0].dtype}, {"num_args", int64_t{1}}});
    for (const char* name : {"transpose_a", "transpose_b"}) attrs.Set(name, product.attrs.GetOr(name, false));
    std::vector<std::string> ops{"BiasAdd"};
    if (chain.relu.valid()) ops.push_back("Relu");
    attrs.Set("fused_ops", std::move(ops));
    if (chain.reshape.valid()) {
      Node& shaped = graph_.mutable_node(last);
      const Node& reshape = graph_.node(chain.reshape);
      shaped.op = reshape.op;
      shaped.attrs = reshape.attrs;
      shaped.inputs = reshape.inputs;
      shaped.control_inputs.clear();
      by_value_[last.value] = by_value_[chain.reshape.value];
    }
    Node& fused = graph_.mutable_node(home);
    fused.op = "_FusedMatMul";
    fused.inputs = product.inputs;
    fused.inputs.push_back(chain.bias);
    fused.attrs = std::move(attrs);
    fused.outputs = product.outputs;
    fused.control_inputs = std::move(controls);
    fused.reason = chain.relu.valid() ? "a product with its bias and Relu" : "a product with its bias";
    by_value_[home.value] = 0;
    for (NodeId id : {chain.product, chain.reshape, chain.add}) {
      if (!id.valid() || id == home || id == last) continue;
      now_[id.value] = last;
      graph_.RemoveNode(id);
    }
  }

  // Those that waited for what is gone wait for what runs in its place.
  void RedirectControls() {
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      Node& node = graph_.mutable_node(NodeId{i});
      if (node.removed) continue;
      absl::InlinedVector<NodeId, 2> controls;
      for (NodeId control : node.control_inputs) {
        const NodeId id = now_[control.value].valid() ? now_[control.value] : control;
        if (std::find(controls.begin(), controls.end(), id) == controls.end()) controls.push_back(id);
      }
      node.control_inputs = std::move(controls);
    }
  }

  Graph& graph_;
  std::vector<uint64_t>& by_value_;
  const Fanout fanout_;
  std::vector<int32_t> position_;
  std::vector<NodeId> now_;  // of nodes that are gone, what runs in their place
};

}  // namespace

absl::StatusOr<int64_t> FuseBiases(Graph& graph, std::vector<uint64_t>& by_value) {
  return BiasFuser(graph, by_value).Run();
}

}  // namespace millrace
