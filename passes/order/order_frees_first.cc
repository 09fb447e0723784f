#include "passes/order/order_frees_first.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <queue>

#include "passes/shapes/per_op.h"

namespace millrace {
namespace {

// Values are the outputs of nodes that are no views; a view's readers read the value behind it.
class Reorderer {
 public:
  Reorderer(const Graph& graph, const OpRegistry& ops, const std::vector<NodeId>& base)
      : graph_(graph), base_(base), fanout_(ComputeFanout(graph)) {
    const size_t ids = graph.num_ids();
    is_view_.assign(ids, false);
    takes_none_.assign(ids, false);
    position_.assign(ids, 0);
    pending_.assign(ids, 0);
    done_.assign(ids, false);
    first_value_.assign(ids + 1, 0);
    OpFinder def_of(ops);
    for (size_t i = 0; i < ids; ++i) {
      const Node& node = graph.node(NodeId{static_cast<int32_t>(i)});
      first_value_[i + 1] = first_value_[i] + (node.removed ? 0 : static_cast<int64_t>(node.outputs.size()));
      if (node.removed) continue;
      const OpDef* def = def_of(node.op);
      is_view_[i] = def != nullptr && def->is_view && !node.inputs.empty();
      takes_none_[i] = is_view_[i] || node.device == kHostDevice || node.op == "_Fetch" ||
                       (def != nullptr && def->returns_variable);
      pending_[i] = static_cast<int32_t>(node.inputs.size() + node.control_inputs.size());
    }
    for (size_t k = 0; k < base.size(); ++k) position_[base[k].value] = static_cast<int32_t>(k);
    FindReaders();
  }

  std::vector<NodeId> Run() {
    for (NodeId id : base_) {
      if (pending_[id.value] == 0) Ready(id);
    }
    while (!ready_.empty()) {
      Queue& queue = freeing_.empty() ? ready_ : freeing_;
      const NodeId id = base_[queue.top()];
      queue.pop();
      if (!done_[id.value]) Take(id);
    }
    return std::move(order_);
  }

 private:
  using Queue = std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>>;  // positions in base_

  // -1: nothing on the device.
  int64_t ValueBehind(OutputRef ref) const {
    while (is_view_[ref.node.value]) ref = graph_.node(ref.node).inputs[0];
    const Node& node = graph_.node(ref.node);
    if (node.device == kHostDevice || static_cast<size_t>(ref.index) >= node.outputs.size()) return -1;
    return first_value_[ref.node.value] + ref.index;
  }

  std::vector<int64_t> ValuesReadBy(NodeId id) const {
    std::vector<int64_t> values;
    if (is_view_[id.value]) return values;
    for (OutputRef input : graph_.node(id).inputs) {
      const int64_t value = ValueBehind(input);
      if (value >= 0) values.push_back(value);
    }
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    return values;
  }

  void FindReaders() {
    bytes_.assign(first_value_.back(), 0);
    first_reader_.assign(first_value_.back() + 1, 0);
    for (NodeId id : base_) {
      const Node& node = graph_.node(id);
      for (size_t o = 0; o < node.outputs.size(); ++o) {
        const TensorType& type = node.outputs[o];
        const bool counts = !takes_none_[id.value] && type.shape.fully_known();
        bytes_[first_value_[id.value] + static_cast<int64_t>(o)] = counts ? type.size_bytes() : 0;
      }
      for (int64_t value : ValuesReadBy(id)) ++first_reader_[value + 1];
    }
    std::partial_sum(first_reader_.begin(), first_reader_.end(), first_reader_.begin());
    readers_.resize(first_reader_.back());
    left_.assign(bytes_.size(), 0);
    for (NodeId id : base_) {
      for (int64_t value : ValuesReadBy(id)) readers_[first_reader_[value] + left_[value]++] = id;
    }
  }

  // Bytes that are held after the node more than before it.
  int64_t Growth(NodeId id) const {
    int64_t growth = 0;
    for (int64_t value = first_value_[id.value]; value < first_value_[id.value + 1]; ++value) growth += bytes_[value];
    for (int64_t value : ValuesReadBy(id)) growth -= left_[value] == 1 ? bytes_[value] : 0;
    return growth;
  }

  void Ready(NodeId id) {
    const int32_t position = position_[id.value];
    ready_.push(position);
    if (is_view_[id.value] || Growth(id) < 0) freeing_.push(position);
  }

  void Take(NodeId id) {
    done_[id.value] = true;
    order_.push_back(id);
    for (int64_t value : ValuesReadBy(id)) {
      if (--left_[value] == 1) LastReader(value);
    }
    for (const Fanout::Use& use : fanout_.of(id)) {
      if (--pending_[use.consumer.value] == 0) Ready(use.consumer);
    }
  }

  void LastReader(int64_t value) {
    for (int64_t r = first_reader_[value]; r < first_reader_[value + 1]; ++r) {
      const NodeId reader = readers_[r];
      if (!done_[reader.value] && pending_[reader.value] == 0 && Growth(reader) < 0) {
        freeing_.push(position_[reader.value]);
      }
    }
  }

  const Graph& graph_;
  const std::vector<NodeId>& base_;
  const Fanout fanout_;
  std::vector<bool> is_view_, takes_none_, done_;
  std::vector<int32_t> position_, pending_;
  std::vector<int64_t> first_value_, bytes_;
  std::vector<int64_t> first_reader_;
  std::vector<NodeId> readers_;
  std::vector<int32_t> left_;  // per value: readers that have not run
  Queue ready_, freeing_;
  std::vector<NodeId> order_;
};

}  // namespace

Partitioning FreesFirst(Graph& graph, const OpRegistry& ops, const std::vector<NodeId>& base) {
  Partitioning result{Reorderer(graph, ops, base).Run(), 1};
  for (NodeId id : result.order) {
    Node& node = graph.mutable_node(id);
    node.partition = node.device == kHostDevice ? kNoPartition : 0;
  }
  return result;
}

}  // namespace millrace
