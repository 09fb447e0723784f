#include "passes/rewrite/accumulate_reductions.h"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "millrace/tensor.h"
#include "passes/rewrite/positions.h"
#include "passes/shapes/variables.h"

namespace millrace {
namespace {

// What a tree of additions adds up.
struct Sum {
  NodeId root;
  std::vector<NodeId> inner;                         // additions below the root, there for it alone
  std::map<std::string, std::vector<NodeId>> terms;  // reductions by their form, in creation order once complete
  std::vector<OutputRef> rest;
};

class Accumulator {
 public:
  Accumulator(Graph& graph, const OpRegistry& ops, std::vector<uint64_t>& by_value)
      : graph_(graph), ops_(ops), by_value_(by_value), fanout_(ComputeFanout(graph)), settled_(graph.num_ids(), false) {}

  absl::StatusOr<int64_t> Run() {
    MR_ASSIGN_OR_RETURN(const std::vector<NodeId> order, CreationOrder(graph_));
    position_ = PositionsIn(order, graph_.num_ids());
    int64_t gone = 0;
    // Users first, so that a sum is seen before the sums that it takes in.
    for (auto id = order.rbegin(); id != order.rend(); ++id) {
      if (graph_.alive(*id) && !settled_[id->value] && IsSum(*id)) gone += Rewrite(*id);
    }
    return gone;
  }

 private:
  const TensorType& TypeOf(NodeId id) const { return graph_.node(id).outputs[0]; }

  bool IsStatic(NodeId id) const {
    const Node& node = graph_.node(id);
    return node.outputs.size() == 1 && node.dynamic_outputs == 0 && node.run_time_values == 0 &&
           (node.outputs[0].dtype == DataType::kFloat || node.outputs[0].dtype == DataType::kDouble) &&
           node.outputs[0].shape.fully_known() && std::none_of(node.inputs.begin(), node.inputs.end(), [&](OutputRef in) {
             return graph_.node(in.node).dynamic_output(in.index) || !graph_.type(in).shape.fully_known();
           });
  }

  bool IsSum(NodeId id) const {
    const Node& node = graph_.node(id);
    return (node.op == "AddN" || node.op == "AddV2" || node.op == "Add") && IsStatic(id) &&
           std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](OutputRef input) { return graph_.type(input).shape == node.outputs[0].shape; });
  }

  // Whether one node takes the value, and nobody waits for it or is waited for.
  bool ForOneUser(NodeId id) const {
    const auto uses = fanout_.of(id);
    return uses.size() == 1 && uses[0].input >= 0 && graph_.node(id).control_inputs.empty();
  }

  // A value that may change before the last of the reductions runs.
  bool IsVariable(NodeId id) const { return VariableBehind(graph_, ops_, id).valid(); }

  // What reductions have in common that can be one; empty for other nodes.
  std::string FormOf(NodeId id, const Node& root) const {
    const Node& node = graph_.node(id);
    if (!IsStatic(id) || !ForOneUser(id) || node.requested_device != root.requested_device) return "";
    const bool all = (node.op == "Sum" || node.op == "Mean") && TypeOf(id).shape.rank() == 0;
    const bool columns = node.op == "BiasAddGrad" && node.attrs.GetOr<std::string>("data_format", "NHWC") == "NHWC";
    const bool segments = node.op == "UnsortedSegmentSum";
    if ((!all && !columns && !segments) || IsVariable(node.inputs[0].node)) return "";
    if (segments && IsVariable(node.inputs[1].node)) return "";
    if (graph_.type(node.inputs[0]).shape.num_elements() == 0 || TypeOf(id).shape.num_elements() == 0) return "";
    std::string form = absl::StrCat(node.op, " ", graph_.type(node.inputs[0]).ToString());
    if (segments) absl::StrAppend(&form, " ", graph_.type(node.inputs[1]).ToString());
    return form;
  }

  Sum Collect(NodeId root) const {
    Sum sum{root, {}, {}, {}};
    std::vector<OutputRef> open(graph_.node(root).inputs.rbegin(), graph_.node(root).inputs.rend());
    while (!open.empty()) {
      const OutputRef input = open.back();
      open.pop_back();
      const NodeId value = input.node;
      const std::string form = FormOf(value, graph_.node(root));
      if (!form.empty()) {
        sum.terms[form].push_back(value);
      } else if (IsSum(value) && ForOneUser(value) &&
                 graph_.node(value).requested_device == graph_.node(root).requested_device) {
        sum.inner.push_back(value);
        open.insert(open.end(), graph_.node(value).inputs.rbegin(), graph_.node(value).inputs.rend());
      } else {
        sum.rest.push_back(input);
      }
    }
    for (auto& [form, terms] : sum.terms) {
      std::sort(terms.begin(), terms.end(), [&](NodeId a, NodeId b) { return position_[a.value] < position_[b.value]; });
    }
    return sum;
  }

  // Whether somebody else takes what `term` reduces at `position` or later, so that it is there anyway.
  bool StaysUntil(NodeId term, int32_t position) const { return LastTakes(graph_.node(term).inputs[0]) > position; }

  // The position of the last node that takes the value: an Unpack may have as many as the sum has terms.
  int32_t LastTakes(OutputRef value) const {
    const auto [of_node, added] = last_takes_.try_emplace(value.node.value);
    std::vector<int32_t>& last = of_node->second;
    if (added) {
      last.assign(graph_.node(value.node).outputs.size(), -1);
      for (const Fanout::Use& use : fanout_.of(value.node)) {
        if (use.input >= 0) last[use.output] = std::max(last[use.output], position_[use.consumer.value]);
      }
    }
    return last[value.index];
  }

  int64_t BytesOf(NodeId term) const { return graph_.type(graph_.node(term).inputs[0]).size_bytes(); }

  // In creation order, together as long as little waits for the last of them.
  std::vector<std::vector<NodeId>> Cut(const std::vector<NodeId>& terms) const {
    std::vector<std::vector<NodeId>> chunks;
    for (NodeId term : terms) {
      int64_t waiting = 0;
      if (!chunks.empty()) {
        for (NodeId before : chunks.back()) waiting += StaysUntil(before, position_[term.value]) ? 0 : BytesOf(before);
      }
      if (chunks.empty() || chunks.back().size() >= kMaxReducedTogether || waiting > kMaxWaitingBytes) chunks.emplace_back();
      chunks.back().push_back(term);
    }
    return chunks;
  }

  int64_t Rewrite(NodeId root) {
    const Sum sum = Collect(root);
    for (NodeId id : sum.inner) settled_[id.value] = true;
    if (sum.rest.size() > kMaxOtherTerms) return 0;
    std::vector<std::vector<std::vector<NodeId>>> forms;
    int64_t gone = 0;
    for (const auto& [form, terms] : sum.terms) {
      const bool segments = graph_.node(terms[0]).op == "UnsortedSegmentSum";
      forms.push_back(segments ? CutSegments(terms) : Cut(terms));
      if (forms.back().empty()) return 0;
      for (const auto& chunk : forms.back()) gone += static_cast<int64_t>(chunk.size()) - 1;
    }
    if (gone == 0) return 0;
    std::vector<OutputRef> results;
    for (const auto& chunks : forms) {
      const bool segments = graph_.node(chunks[0][0]).op == "UnsortedSegmentSum" && chunks[0].size() > 1;
      if (segments) {
        results.push_back(EmitSegments(chunks));
      } else {
        for (const auto& chunk : chunks) results.push_back({Emit(chunk), 0});
      }
    }
    for (NodeId id : sum.inner) graph_.RemoveNode(id);
    Finish(sum, std::move(results));
    return gone;
  }

  // As many together as have no more data than the sum; none where these are so few that it is not worth it.
  std::vector<std::vector<NodeId>> CutSegments(const std::vector<NodeId>& terms) const {
    if (terms.size() == 1) return {terms};
    constexpr size_t kFewest = 4;  // nodes of a chunk: two that pack, the sum, the addition to the sum before
    const Node& first = graph_.node(terms[0]);
    const int64_t bytes = graph_.type(first.inputs[0]).size_bytes() + graph_.type(first.inputs[1]).size_bytes();
    const auto most = static_cast<size_t>(TypeOf(terms[0]).size_bytes() / bytes);
    if (most < kFewest) return {};
    const size_t count = (terms.size() + most - 1) / most;
    if (terms.size() / count < (count > 1 ? kFewest : kFewest - 1)) return {};
    std::vector<std::vector<NodeId>> chunks(count);
    for (size_t i = 0; i < terms.size(); ++i) chunks[i * count / terms.size()].push_back(terms[i]);
    return chunks;
  }

  // The chunk's node, in the place of its last one.
  NodeId Emit(const std::vector<NodeId>& chunk) {
    const NodeId last = chunk.back();
    if (chunk.size() == 1) return last;
    const TensorType& input = graph_.type(graph_.node(last).inputs[0]);
    const int64_t columns = TypeOf(last).shape.num_elements(), rows = input.shape.num_elements() / columns;
    Node& node = graph_.mutable_node(last);
    const int64_t divisor = node.op == "Mean" ? rows : 1;
    absl::InlinedVector<OutputRef, 3> inputs;
    for (NodeId id : chunk) inputs.push_back(graph_.node(id).inputs[0]);
    node.attrs = AttrMap({{"T", input.dtype}, {"N", static_cast<int64_t>(chunk.size())}, {"columns", columns},
                          {"divisor", divisor}, {"shape", node.outputs[0].shape}});
    node.reason = absl::StrCat(chunk.size(), " of ", node.op, " summed");
    node.op = "_SumColumns";
    node.inputs = std::move(inputs);
    by_value_[last.value] = 0;
    for (size_t i = 0; i + 1 < chunk.size(); ++i) graph_.RemoveNode(chunk[i]);
    return last;
  }

  // A sum for every chunk in the place of its last one, which is added to those before at once. Other nodes of the chunk
  // become what puts data and indices together, and the addition.
  OutputRef EmitSegments(const std::vector<std::vector<NodeId>>& chunks) {
    OutputRef before;
    for (const std::vector<NodeId>& chunk : chunks) {
      const auto from_the_end = [&](size_t k) { return chunk[chunk.size() - 1 - k]; };
      const NodeId last = from_the_end(0);
      std::vector<OutputRef> packed[2];
      for (NodeId id : chunk) {
        for (int input : {0, 1}) packed[input].push_back(graph_.node(id).inputs[input]);
      }
      for (int input : {0, 1}) {
        const NodeId pack = from_the_end(1 + static_cast<size_t>(input));
        BecomePack(pack, packed[input]);
        graph_.mutable_node(last).inputs[input] = {pack, 0};
      }
      graph_.mutable_node(last).reason = absl::StrCat(chunk.size(), " segment sums as one");
      const size_t used = before.node.valid() ? 4 : 3;
      if (before.node.valid()) {
        BecomeAddition(from_the_end(3), before, {last, 0});
        before = {from_the_end(3), 0};
      } else {
        before = {last, 0};
      }
      for (size_t k = used; k < chunk.size(); ++k) graph_.RemoveNode(from_the_end(k));
    }
    return before;
  }

  void BecomePack(NodeId id, const std::vector<OutputRef>& parts) {
    const TensorType part = graph_.type(parts[0]);
    const auto count = static_cast<int64_t>(parts.size());
    Shape shape({count});
    for (int64_t dim : part.shape.dims()) shape.AddDim(dim);
    Node& node = graph_.mutable_node(id);
    node.op = "Pack";
    node.inputs.assign(parts.begin(), parts.end());
    node.attrs = AttrMap({{"T", part.dtype}, {"N", count}, {"axis", int64_t{0}}});
    node.outputs[0] = {part.dtype, std::move(shape)};
    node.reason = absl::StrCat("what ", count, " segment sums take");
    by_value_[id.value] = 0;
  }

  void BecomeAddition(NodeId id, OutputRef a, OutputRef b) {
    Node& node = graph_.mutable_node(id);
    node.op = "AddN";
    node.inputs = {a, b};
    node.attrs = AttrMap({{"T", node.outputs[0].dtype}, {"N", int64_t{2}}});
    node.reason = "segment sums of one chunk after another";
    by_value_[id.value] = 0;
  }

  // The root adds what is left.
  void Finish(const Sum& sum, std::vector<OutputRef> results) {
    Node& root = graph_.mutable_node(sum.root);
    results.insert(results.begin(), sum.rest.begin(), sum.rest.end());
    const DataType dtype = root.outputs[0].dtype;
    root.op = results.size() == 1 ? "Identity" : "AddN";
    root.inputs.assign(results.begin(), results.end());
    root.attrs = AttrMap({{"T", dtype}});
    if (results.size() > 1) root.attrs.Set("N", static_cast<int64_t>(results.size()));
    by_value_[sum.root.value] = 0;
  }

  Graph& graph_;
  const OpRegistry& ops_;
  std::vector<uint64_t>& by_value_;
  const Fanout fanout_;
  std::vector<int32_t> position_;
  mutable std::unordered_map<int32_t, std::vector<int32_t>> last_takes_;  // by node and output
  std::vector<bool> settled_;  // sums that another one takes in, by id
};

}  // namespace

absl::StatusOr<int64_t> AccumulateReductions(Graph& graph, const OpRegistry& ops, std::vector<uint64_t>& by_value) {
  return Accumulator(graph, ops, by_value).Run();
}

}  // namespace millrace
