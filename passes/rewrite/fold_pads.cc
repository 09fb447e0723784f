#include "passes/rewrite/fold_pads.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/window.h"
#include "millrace/guard.h"
#include "millrace/tensor.h"
#include "passes/control_flow/creation_places.h"
#include "passes/rewrite/bypass.h"
#include "passes/rewrite/layout_forms.h"
#include "passes/rewrite/order_variable_accesses.h"

namespace millrace {
namespace {

using Ints = std::vector<int64_t>;
constexpr int kRank = 4;

class PadFolder {
 public:
  PadFolder(Graph& graph, const OpRegistry& ops, const std::vector<std::string>& targets, std::vector<uint64_t>& by_value)
      : graph_(graph), ops_(ops), targets_(targets.begin(), targets.end()), by_value_(by_value), fanout_(ComputeFanout(graph)) {}

  int64_t Run() {
    const int32_t before = graph_.num_ids();
    by_value_.resize(before, 0);
    int64_t folded = 0;
    // A Pad may be of what a Slice was.
    for (int32_t i = 0; i < before; ++i) {
      if (graph_.node(NodeId{i}).op == "Conv2DBackpropInput") folded += FoldSlice(NodeId{i});
    }
    for (int32_t i = 0; i < before; ++i) {
      if (graph_.node(NodeId{i}).op == "Pad") folded += FoldPad(NodeId{i});
    }
    bypass_.Redirect(graph_);
    if (!places_.empty()) places_.Renumber(graph_, by_value_);
    return folded;
  }

 private:
  const Shape& ShapeOf(OutputRef ref) const { return graph_.type(ref).shape; }

  bool IsStatic(NodeId id) const {
    const Node& node = graph_.node(id);
    const auto dynamic = [&](OutputRef in) { return graph_.node(in.node).dynamic_output(in.index); };
    return !node.removed && node.outputs.size() == 1 && node.dynamic_outputs == 0 && node.run_time_values == 0 &&
           node.outputs[0].shape.rank() == kRank && node.outputs[0].shape.fully_known() &&
           std::none_of(node.inputs.begin(), node.inputs.end(), dynamic) && !node.attrs.GetOr(kGuarded, false);
  }
  // Who takes what it gives would not wait for what it waits for.
  bool MayGo(NodeId id) const {
    return IsStatic(id) && graph_.node(id).control_inputs.empty() && targets_.count(graph_.node(id).name) == 0;
  }

  // The paddings of a convolution by `filter` with `more` zeros before and behind each dimension; none where that is no padding
  // of it.
  std::optional<Ints> Padded(const Node& node, const Shape& filter, const Ints& more) const {
    const auto layout = ParseDataFormat(node.attrs.GetOr<std::string>("data_format", "NHWC"));
    const std::string padding = node.attrs.GetOr<std::string>("padding", "");
    if (!layout.ok() || layout->rank != kRank || more.size() != 2 * kRank || filter.rank() != kRank ||
        (padding != "VALID" && padding != "EXPLICIT")) {
      return std::nullopt;
    }
    Ints pads = node.attrs.GetOr<Ints>("explicit_paddings", {}), dilations = node.attrs.GetOr<Ints>("dilations", {});
    pads.resize(2 * kRank, 0);
    dilations.resize(kRank, 1);
    Ints most(kRank, 0);
    for (int i = 0; i < layout->num_spatial(); ++i) {
      most[layout->spatial(i)] = (filter.dim(i) - 1) * dilations[layout->spatial(i)];
    }
    for (int k = 0; k < 2 * kRank; ++k) {
      pads[k] += more[k];
      if (more[k] < 0 || pads[k] > most[k / 2]) return std::nullopt;
    }
    return pads;
  }

  // What becomes of a convolution that takes the padded images; none where something else does.
  std::optional<Ints> PadsOfTaker(const Fanout::Use& use, const Node& pad, const Ints& more) const {
    const Node& taker = graph_.node(use.consumer);
    const bool forward = taker.op == "Conv2D", gradient = taker.op == "Conv2DBackpropFilter";
    if (use.input != 0 || !(forward || gradient) || !IsStatic(use.consumer) || taker.requested_device != pad.requested_device) {
      return std::nullopt;
    }
    return Padded(taker, forward ? ShapeOf(taker.inputs[1]) : taker.outputs[0].shape, more);
  }

  int64_t FoldPad(NodeId id) {
    const Node& pad = graph_.node(id);
    if (!MayGo(id) || ShapeOf(pad.inputs[0]).num_elements() == 0 || ReferenceOf(graph_, ops_, pad.inputs[0]).valid()) return 0;
    const std::optional<Ints> more = NumbersOf(graph_, pad.inputs[1]);
    if (!more) return 0;
    std::vector<std::pair<NodeId, Ints>> takers;
    for (const Fanout::Use& use : fanout_.of(id)) {
      if (use.input < 0) continue;
      std::optional<Ints> pads = PadsOfTaker(use, pad, *more);
      if (!pads) return 0;
      takers.push_back({use.consumer, *std::move(pads)});
    }
    if (takers.empty()) return 0;
    const OutputRef images = pad.inputs[0];
    for (auto& [taker, pads] : takers) {
      graph_.mutable_node(taker).inputs[0] = images;
      SetPads(taker, std::move(pads));
    }
    bypass_.Remove(graph_, id);
    return 1;
  }

  // The only node that takes the value.
  NodeId OnlyTaker(NodeId id) const {
    NodeId taker;
    for (const Fanout::Use& use : fanout_.of(id)) {
      if (use.input < 0) continue;
      if (taker.valid() || use.input != 0) return NodeId{};
      taker = use.consumer;
    }
    return taker;
  }

  int64_t FoldSlice(NodeId id) {
    const NodeId cut = OnlyTaker(id);
    if (!cut.valid() || graph_.node(cut).op != "Slice" || !MayGo(cut) || !IsStatic(id)) return 0;
    const Node &gradient = graph_.node(id), &slice = graph_.node(cut);
    const Shape whole = gradient.outputs[0].shape, part = slice.outputs[0].shape;
    const std::optional<Ints> begin = NumbersOf(graph_, slice.inputs[1]);
    if (!begin || begin->size() != kRank || part.num_elements() == 0 || slice.requested_device != gradient.requested_device) {
      return 0;
    }
    Ints more;
    for (int d = 0; d < kRank; ++d) {
      more.push_back((*begin)[d]);
      more.push_back(whole.dim(d) - (*begin)[d] - part.dim(d));
    }
    std::optional<Ints> pads = Padded(gradient, ShapeOf(gradient.inputs[1]), more);
    if (!pads) return 0;
    SetPads(id, *std::move(pads));
    const OutputRef sizes{AddSizes(id, part), 0};
    Node& now = graph_.mutable_node(id);
    now.inputs[0] = sizes;
    now.outputs[0].shape = part;
    for (const Fanout::Use& use : fanout_.of(cut)) {
      if (use.input >= 0) graph_.mutable_node(use.consumer).inputs[use.input] = {id, 0};
    }
    bypass_.Remove(graph_, cut);
    return 1;
  }

  void SetPads(NodeId id, Ints pads) {
    Node& node = graph_.mutable_node(id);
    node.reason = absl::StrCat("pads by ", absl::StrJoin(pads, ","));
    node.attrs.Set("padding", std::string("EXPLICIT"));
    node.attrs.Set("explicit_paddings", std::move(pads));
  }

  NodeId AddSizes(NodeId gradient, const Shape& shape) {
    Tensor value(DataType::kInt32, Shape({kRank}));
    for (int d = 0; d < kRank; ++d) value.mutable_as<int32_t>()[d] = static_cast<int32_t>(shape.dim(d));
    Node node;
    node.name = absl::StrCat(graph_.node(gradient).name, "/sizes");
    node.op = "Const";
    node.outputs = {value.type()};
    node.attrs = AttrMap({{"dtype", DataType::kInt32}, {"value", std::move(value)}});
    by_value_.push_back(0);
    return places_.AddBefore(graph_, gradient, std::move(node));
  }

  Graph& graph_;
  const OpRegistry& ops_;
  const std::set<std::string> targets_;
  std::vector<uint64_t>& by_value_;
  const Fanout fanout_;
  Bypass bypass_;
  CreationPlaces places_;
};

}  // namespace

absl::StatusOr<int64_t> FoldPads(Graph& graph, const OpRegistry& ops, const std::vector<std::string>& targets, std::vector<uint64_t>& by_value) {
  return PadFolder(graph, ops, targets, by_value).Run();
}

}  // namespace millrace
