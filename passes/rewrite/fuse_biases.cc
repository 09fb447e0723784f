#include "passes/rewrite/fuse_biases.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/fused_conv.h"
#include "millrace/guard.h"
#include "millrace/status.h"
#include "millrace/tensor.h"
#include "passes/rewrite/group_ops.h"
#include "passes/rewrite/positions.h"

namespace millrace {
namespace {

// Nodes that become one, in their order; invalid ids where there is none.
struct Chain {
  NodeId product, reshape, add, side, relu;
  OutputRef bias, beside;  // `side` adds `beside`
  NodeId last() const { return relu.valid() ? relu : side.valid() ? side : add; }
  std::array<NodeId, 5> nodes() const { return {product, reshape, add, side, relu}; }
};

bool IsConvolution(const std::string& op) { return op == "Conv2D" || op == "Conv3D"; }

bool ChannelsFirst(const Node& node) {
  const auto format = node.attrs.GetOr<std::string>("data_format", "NHWC");
  return format == "NCHW" || format == "NCDHW";
}

class BiasFuser {
 public:
  BiasFuser(Graph& graph, std::vector<uint64_t>& by_value)
      : graph_(graph), by_value_(by_value), fanout_(ComputeFanout(graph)), now_(graph.num_ids()) {}

  absl::StatusOr<int64_t> Run() {
    MR_ASSIGN_OR_RETURN(const std::vector<NodeId> order, CreationOrder(graph_));
    position_ = PositionsIn(order, graph_.num_ids());
    int64_t fused = 0;
    // Last ones first: of two convolutions whose results are added, the second takes the sum, so that less has to wait.
    for (auto id = order.rbegin(); id != order.rend(); ++id) {
      const std::optional<Chain> chain = IsConvolution(graph_.node(*id).op) ? ConvolutionChain(*id) : ProductChain(*id);
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

  // `value` with a vector added to its columns; to its channels, where these come first.
  std::optional<OutputRef> BiasOf(NodeId add, NodeId value) const {
    const Node& node = graph_.node(add);
    const bool named = node.op == "BiasAdd" || node.op == "BiasAddV1";
    if ((!named && !IsSum(node.op)) || node.inputs.size() != 2) return std::nullopt;
    const bool first = ChannelsFirst(graph_.node(value));
    if ((named && ChannelsFirst(node) != first) || (first && !named)) return std::nullopt;
    const OutputRef bias = node.inputs[0].node == value ? node.inputs[1] : node.inputs[0];
    if (named && bias == node.inputs[0]) return std::nullopt;
    const Shape &of_bias = graph_.type(bias).shape, &of_value = TypeOf(value).shape;
    const int channels = first ? 1 : of_value.rank() - 1;
    const bool row = of_bias.rank() == 1 && of_value.rank() >= 2 && of_bias.dim(0) == of_value.dim(channels);
    if (!row || graph_.type(bias).dtype != TypeOf(value).dtype || TypeOf(add).shape != of_value) return std::nullopt;
    return bias;
  }

  bool MayTakeBias(NodeId id) const {
    if (!IsStatic(id) || TypeOf(id).shape.num_elements() == 0 || graph_.node(id).attrs.GetOr(kGuarded, false)) return false;
    const DataType dtype = TypeOf(id).dtype;
    return dtype == DataType::kFloat || dtype == DataType::kHalf || dtype == DataType::kBfloat16;
  }

  // What `value` is added to, a tensor of its shape.
  std::optional<OutputRef> Beside(NodeId sum, NodeId value) const {
    const Node& node = graph_.node(sum);
    if (!IsSum(node.op) || !IsStatic(sum)) return std::nullopt;
    const OutputRef other = node.inputs[0].node == value ? node.inputs[1] : node.inputs[0];
    if (other.node == value || graph_.type(other) != TypeOf(value) || TypeOf(sum) != TypeOf(value)) return std::nullopt;
    return other;
  }

  // As much of a bias, a sum and a Relu behind it as may go with it.
  std::optional<Chain> ConvolutionChain(NodeId convolution) const {
    if (!MayTakeBias(convolution)) return std::nullopt;
    Chain chain;
    chain.product = convolution;
    chain.add = OnlyUser(convolution);
    if (!chain.add.valid() || !IsStatic(chain.add)) return std::nullopt;
    const std::optional<OutputRef> bias = BiasOf(chain.add, convolution);
    if (!bias) return std::nullopt;
    chain.bias = *bias;
    NodeId next = OnlyUser(chain.add);
    if (next.valid()) {
      if (const std::optional<OutputRef> beside = Beside(next, chain.add)) {
        chain.beside = *beside;
        chain.side = next;
        next = OnlyUser(next);
      }
    }
    if (next.valid() && graph_.node(next).op == "Relu" && IsStatic(next)) chain.relu = next;
    for (NodeId* end : {&chain.relu, &chain.side}) {
      if (MayMove(chain) && Saves(chain)) return chain;
      *end = NodeId{};
    }
    return MayMove(chain) && Saves(chain) ? std::optional<Chain>(chain) : std::nullopt;
  }

  // A bias alone goes with the elementwise ops behind it at no cost of its own.
  bool Saves(const Chain& chain) const {
    if (chain.last() != chain.add) return true;
    NodeId user;
    for (const Fanout::Use& use : fanout_.of(chain.add)) {
      if (use.input < 0) continue;
      if (user.valid() && user != use.consumer) return true;
      user = use.consumer;
    }
    return !user.valid() || graph_.node(user).removed || !IsElementwise(graph_.node(user).op);
  }

  std::optional<Chain> ProductChain(NodeId product) const {
    if (graph_.node(product).op != "MatMul" || !MayTakeBias(product)) return std::nullopt;
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
    for (NodeId id : chain.nodes()) {
      if (!id.valid()) continue;
      if (id != last && !AwaitedBehind(id, last)) return false;
      if (graph_.node(id).requested_device != product.requested_device) return false;
    }
    return true;
  }

  // The attributes of the node that takes the place of all, and why it is there.
  AttrMap AttrsOf(const Chain& chain) const {
    const Node& product = graph_.node(chain.product);
    AttrMap attrs({{"T", product.outputs[0].dtype}});
    if (IsConvolution(product.op)) {
      for (const char* name : {"strides", "padding", "explicit_paddings", "data_format", "dilations"}) {
        if (const AttrValue* value = product.attrs.Find(name); value != nullptr) attrs.Set(name, *value);
      }
    } else {
      for (const char* name : {"transpose_a", "transpose_b"}) attrs.Set(name, product.attrs.GetOr(name, false));
    }
    attrs.Set("num_args", int64_t{chain.side.valid() ? 2 : 1});
    attrs.Set("fused_ops", FusedOpsOf({.side = chain.side.valid(), .relu = chain.relu.valid()}));
    return attrs;
  }

  static std::string ReasonOf(const Chain& chain, bool convolution) {
    return absl::StrCat(convolution ? "a convolution" : "a product", " with its bias",
                        chain.side.valid() ? (chain.relu.valid() ? ", a sum" : " and a sum") : "",
                        chain.relu.valid() ? " and Relu" : "");
  }

  // The last node becomes the product; where there is a Reshape, that, and the product stays where it was in creation order.
  void Fuse(const Chain& chain) {
    const NodeId last = chain.last(), home = chain.reshape.valid() ? chain.product : last;
    absl::InlinedVector<NodeId, 2> controls;
    for (NodeId id : chain.nodes()) {
      if (!id.valid()) continue;
      for (NodeId control : graph_.node(id).control_inputs) {
        if (std::find(controls.begin(), controls.end(), control) == controls.end()) controls.push_back(control);
      }
    }
    const Node product = graph_.node(chain.product);
    const bool convolution = IsConvolution(product.op);
    AttrMap attrs = AttrsOf(chain);
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
    fused.op = convolution ? absl::StrCat("_Fused", product.op) : "_FusedMatMul";
    fused.inputs = product.inputs;
    fused.inputs.push_back(chain.bias);
    if (chain.side.valid()) fused.inputs.push_back(chain.beside);
    fused.attrs = std::move(attrs);
    fused.outputs = product.outputs;
    fused.control_inputs = std::move(controls);
    fused.reason = ReasonOf(chain, convolution);
    by_value_[home.value] = 0;
    for (NodeId id : chain.nodes()) {
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
