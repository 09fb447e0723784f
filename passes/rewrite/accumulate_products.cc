#include "passes/rewrite/accumulate_products.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "millrace/tensor.h"
#include "passes/rewrite/bypass.h"
#include "passes/rewrite/positions.h"
#include "passes/shapes/variables.h"

namespace millrace {
namespace {

bool Adds(const Node& node) {
  return node.op == "AddN" || node.op == "AddV2" || node.op == "Add" || node.op == "AccumulateNV2";
}

// Products that become one node: nodes of the same sizes, in creation order.
using Chunk = std::vector<NodeId>;

// What a tree of additions adds up.
struct Sum {
  NodeId root;
  std::vector<NodeId> inner;     // additions below the root that nobody else uses, and names of such values (Identity)
  std::vector<NodeId> products;  // in creation order
  std::vector<OutputRef> rest;
  bool waits = false;            // an addition has control inputs
};

class Accumulator {
 public:
  Accumulator(Graph& graph, const OpRegistry& ops, std::vector<uint64_t>& by_value)
      : graph_(graph), ops_(ops), by_value_(by_value), fanout_(ComputeFanout(graph)) {}

  absl::StatusOr<int64_t> Run() {
    MR_ASSIGN_OR_RETURN(const std::vector<NodeId> order, CreationOrder(graph_));
    position_ = PositionsIn(order, graph_.num_ids());
    settled_.assign(graph_.num_ids(), false);
    int64_t added = 0;
    // Users first, so that a sum is seen before the sums that it takes in.
    for (auto id = order.rbegin(); id != order.rend(); ++id) {
      if (graph_.alive(*id) && !settled_[id->value] && IsSum(*id)) added += Rewrite(*id);
    }
    RedirectUsers();
    return added;
  }

 private:
  bool IsStatic(NodeId id) const {
    const Node& node = graph_.node(id);
    return node.outputs.size() == 1 && node.dynamic_outputs == 0 && node.run_time_values == 0 &&
           (node.outputs[0].dtype == DataType::kFloat || node.outputs[0].dtype == DataType::kDouble) &&
           node.outputs[0].shape.fully_known() &&
           std::none_of(node.inputs.begin(), node.inputs.end(),
                        [&](OutputRef in) { return graph_.node(in.node).dynamic_output(in.index); });
  }

  // An addition without broadcasting.
  bool IsSum(NodeId id) const {
    const Node& node = graph_.node(id);
    return Adds(node) && IsStatic(id) && std::all_of(node.inputs.begin(), node.inputs.end(), [&](OutputRef input) {
             return graph_.type(input).shape == node.outputs[0].shape;
           });
  }

  // Whether the value goes into one node, which may then make it itself.
  bool UsedOnce(NodeId id) const {
    int data_uses = 0;
    for (const Fanout::Use& use : fanout_.of(id)) data_uses += use.input >= 0;
    return data_uses == 1;
  }
  bool IsAwaited(NodeId id) const {
    const auto uses = fanout_.of(id);
    return std::any_of(uses.begin(), uses.end(), [](const Fanout::Use& use) { return use.input < 0; });
  }

  bool IsTerm(NodeId id, const Node& root) const {
    const Node& node = graph_.node(id);
    return node.op == "MatMul" && IsStatic(id) && UsedOnce(id) && node.outputs[0].shape.num_elements() > 0 &&
           Depth(id) > 0 && node.requested_device == root.requested_device &&
           FactorBytes(id) <= node.outputs[0].size_bytes();
  }

  // An addition, or a name for a value, that is there for the sum alone.
  bool IsInner(NodeId id, const Node& root) const {
    return (IsSum(id) || (graph_.node(id).op == "Identity" && IsStatic(id))) && UsedOnce(id) && !IsAwaited(id) &&
           graph_.node(id).requested_device == root.requested_device;
  }

  // The value behind its names; these are added to `names`.
  NodeId BehindNames(NodeId id, const Node& root, std::vector<NodeId>& names) const {
    while (graph_.node(id).op == "Identity" && IsInner(id, root)) {
      names.push_back(id);
      id = graph_.node(id).inputs[0].node;
    }
    return id;
  }

  void Collect(Sum& sum) const {
    const Node& root = graph_.node(sum.root);
    std::vector<OutputRef> open;  // a chain of additions may be as long as the graph: no recursion
    const auto enter = [&](const Node& node) {
      sum.waits = sum.waits || !node.control_inputs.empty();
      open.insert(open.end(), node.inputs.rbegin(), node.inputs.rend());
    };
    enter(root);
    while (!open.empty()) {
      const OutputRef input = open.back();
      open.pop_back();
      std::vector<NodeId> names;
      const NodeId value = BehindNames(input.node, root, names);
      const bool term = IsTerm(value, root);
      if (!term && !(IsSum(value) && IsInner(value, root))) {
        sum.rest.push_back(input);
        continue;
      }
      sum.inner.insert(sum.inner.end(), names.begin(), names.end());
      if (term) {
        sum.products.push_back(value);
      } else {
        sum.inner.push_back(value);
        enter(graph_.node(value));
      }
    }
  }

  // A sum that stays as it is settles those below it, but the one that takes in its only product: that one may start
  // from what else it adds.
  void SettleInner(const Sum& sum) {
    for (NodeId id : sum.inner) {
      const auto inputs = graph_.node(id).inputs;
      std::vector<NodeId> names;
      settled_[id.value] = std::none_of(inputs.begin(), inputs.end(), [&](OutputRef input) {
        const NodeId value = BehindNames(input.node, graph_.node(sum.root), names);
        return std::find(sum.products.begin(), sum.products.end(), value) != sum.products.end();
      });
    }
  }

  int64_t Depth(NodeId id) const {
    const Node& node = graph_.node(id);
    return graph_.type(node.inputs[0]).shape.dim(node.attrs.GetOr("transpose_a", false) ? 0 : 1);
  }
  int64_t FactorBytes(NodeId id) const {
    const Node& node = graph_.node(id);
    return graph_.type(node.inputs[0]).size_bytes() + graph_.type(node.inputs[1]).size_bytes();
  }
  bool SameForm(NodeId a, NodeId b) const {
    const AttrMap &x = graph_.node(a).attrs, &y = graph_.node(b).attrs;
    return Depth(a) == Depth(b) && x.GetOr("transpose_a", false) == y.GetOr("transpose_a", false) &&
           x.GetOr("transpose_b", false) == y.GetOr("transpose_b", false);
  }

  bool IsVariablesMemory(NodeId id) const { return VariableBehind(graph_, ops_, id).valid(); }

  // Variables may change before the chunk runs.
  bool FactorsAreVariables(NodeId id) const {
    const auto inputs = graph_.node(id).inputs;
    return std::any_of(inputs.begin(), inputs.end(), [&](OutputRef input) { return IsVariablesMemory(input.node); });
  }

  // A chunk runs where its last product was. The factors are together smaller than a sum, so that memory is won and not
  // lost.
  std::vector<Chunk> Cut(const std::vector<NodeId>& products) const {
    std::vector<Chunk> chunks;
    int64_t factor_bytes = 0;
    for (NodeId id : products) {
      const bool joins = !chunks.empty() && SameForm(chunks.back()[0], id) && !FactorsAreVariables(chunks.back().back()) &&
                         factor_bytes + FactorBytes(id) <= graph_.node(id).outputs[0].size_bytes() &&
                         static_cast<int64_t>(chunks.back().size() + 1) * Depth(id) <= kMaxSummedDepth;
      if (!joins) {
        chunks.emplace_back();
        factor_bytes = 0;
      }
      chunks.back().push_back(id);
      factor_bytes += FactorBytes(id);
    }
    return chunks;
  }

  // What the first product is added onto, when that is there before it, nobody else needs it, and it will still be the same.
  bool StartsFromRest(const Sum& sum, const Chunk& first) const {
    if (sum.rest.size() != 1 || sum.waits) return false;
    const Node& node = graph_.node(sum.rest[0].node);
    return !node.inputs.empty() && !IsVariablesMemory(sum.rest[0].node) && UsedOnce(sum.rest[0].node) && node.outputs.size() == 1 &&
           node.requested_device == graph_.node(sum.root).requested_device &&
           position_[sum.rest[0].node.value] < position_[first.back().value];
  }

  int64_t Rewrite(NodeId root) {
    Sum sum{root, {}, {}, {}, false};
    Collect(sum);
    if (sum.products.empty()) {
      SettleInner(sum);
      return 0;
    }
    std::sort(sum.products.begin(), sum.products.end(),
              [&](NodeId a, NodeId b) { return position_[a.value] < position_[b.value]; });
    const std::vector<Chunk> chunks = Cut(sum.products);
    OutputRef before;
    if (StartsFromRest(sum, chunks[0])) {
      before = sum.rest[0];
      sum.rest.clear();
    } else if (sum.products.size() == 1) {
      SettleInner(sum);
      return 0;
    }
    for (const Chunk& chunk : chunks) before = Emit(chunk, before);
    for (NodeId id : sum.inner) {
      for (NodeId control : graph_.node(id).control_inputs) AddControl(graph_.mutable_node(root), control);
      graph_.RemoveNode(id);
    }
    Finish(sum, before);
    return static_cast<int64_t>(sum.products.size());
  }

  // The chunk's node, in the place of its last product; adds onto `before` where that is valid.
  OutputRef Emit(const Chunk& chunk, OutputRef before) {
    Node& node = graph_.mutable_node(chunk.back());
    if (chunk.size() == 1 && !before.node.valid()) return {chunk.back(), 0};
    absl::InlinedVector<OutputRef, 3> inputs;
    if (before.node.valid()) inputs.push_back(before);
    for (NodeId id : chunk) {
      const Node& product = graph_.node(id);
      inputs.insert(inputs.end(), product.inputs.begin(), product.inputs.end());
      for (NodeId control : product.control_inputs) AddControl(node, control);
    }
    node.op = before.node.valid() ? "_AddProducts" : "_SumProducts";
    node.inputs = std::move(inputs);
    node.reason = absl::StrCat(chunk.size(), chunk.size() == 1 ? " product" : " products",
                               before.node.valid() ? " added onto a sum" : " summed");
    by_value_[chunk.back().value] = 0;
    // They had no effect but their values, and the chunk that makes these may come later than those who waited for them.
    for (size_t i = 0; i + 1 < chunk.size(); ++i) bypass_.Remove(graph_, chunk[i]);
    return {chunk.back(), 0};
  }

  static void AddControl(Node& node, NodeId control) {
    if (std::find(node.control_inputs.begin(), node.control_inputs.end(), control) == node.control_inputs.end()) {
      node.control_inputs.push_back(control);
    }
  }

  // The sum of the products stands for the root, or is what is left for the root to add.
  void Finish(const Sum& sum, OutputRef total) {
    Node& root = graph_.mutable_node(sum.root);
    if (sum.rest.empty() && root.control_inputs.empty()) {
      replaced_.push_back({sum.root, total.node});
      return;
    }
    const DataType dtype = root.outputs[0].dtype;
    root.op = sum.rest.empty() ? "Identity" : "AddN";
    root.inputs.assign(sum.rest.begin(), sum.rest.end());
    root.inputs.push_back(total);
    root.attrs = AttrMap({{"T", dtype}});
    if (!sum.rest.empty()) root.attrs.Set("N", static_cast<int64_t>(root.inputs.size()));
    by_value_[sum.root.value] = 0;
  }

  // Once, at the end: until then users are where the graph had them.
  void RedirectUsers() {
    bypass_.Redirect(graph_);
    if (replaced_.empty()) return;
    std::vector<NodeId> now(graph_.num_ids());
    for (const auto& [root, total] : replaced_) now[root.value] = total;
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      Node& node = graph_.mutable_node(NodeId{i});
      for (OutputRef& input : node.inputs) {
        if (now[input.node.value].valid()) input.node = now[input.node.value];
      }
      for (NodeId& control : node.control_inputs) {
        if (now[control.value].valid()) control = now[control.value];
      }
    }
    for (const auto& [root, total] : replaced_) {
      std::string name = graph_.node(root).name;
      graph_.RemoveNode(root);
      graph_.Rename(total, std::move(name));
    }
  }

  Graph& graph_;
  const OpRegistry& ops_;
  std::vector<uint64_t>& by_value_;
  const Fanout fanout_;
  std::vector<int32_t> position_;
  std::vector<bool> settled_;  // sums that are not worth a look, by id
  std::vector<std::pair<NodeId, NodeId>> replaced_;  // sums that are gone, and the nodes that stand for them
  Bypass bypass_;  // of products that are gone
};

}  // namespace

absl::StatusOr<int64_t> AccumulateProducts(Graph& graph, const OpRegistry& ops, std::vector<uint64_t>& by_value) {
  return Accumulator(graph, ops, by_value).Run();
}

}  // namespace millrace
