#include "passes/rewrite/choose_layouts.h"

#include <algorithm>
#include <limits>
#include <string>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>

#include "passes/rewrite/group_ops.h"

namespace millrace {
namespace {

// A copy's launch, as the bytes that a device moves meanwhile.
constexpr int64_t kLaunchBytes = 4 << 20;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max() / 4;

int64_t CopyBytes(const TensorType& type) { return 2 * type.size_bytes() + kLaunchBytes; }
// Dearer by an eighth than a copy in a convolution's scratch: what it makes is a tensor more.
int64_t TransposeBytes(const TensorType& type) { return CopyBytes(type) + CopyBytes(type) / 8; }

// Vertices are numbered as they are needed. Capacities are integers, so the cut is exact.
class CutGraph {
  using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
  struct Vertex {
    boost::default_color_type color = boost::default_color_type::black_color;
    Traits::edge_descriptor predecessor;
    int64_t distance = 0;
  };
  struct Edge {
    int64_t capacity = 0, residual = 0;
    Traits::edge_descriptor reverse;
  };
  using Flow = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, Vertex, Edge>;

 public:
  static constexpr size_t kFirst = 0, kLast = 1;  // source and sink
  CutGraph() : flow_(2) {}

  size_t AddVertex() { return boost::add_vertex(flow_); }

  // Costs `capacity` where `from` is first and `to` last.
  void AddEdge(size_t from, size_t to, int64_t capacity) {
    const Traits::edge_descriptor edge = boost::add_edge(from, to, Edge{capacity, 0, {}}, flow_).first;
    const Traits::edge_descriptor back = boost::add_edge(to, from, Edge{}, flow_).first;
    flow_[edge].reverse = back;
    flow_[back].reverse = edge;
  }

  void Cut() {
    boost::boykov_kolmogorov_max_flow(flow_, boost::get(&Edge::capacity, flow_), boost::get(&Edge::residual, flow_),
                                      boost::get(&Edge::reverse, flow_), boost::get(&Vertex::predecessor, flow_),
                                      boost::get(&Vertex::color, flow_), boost::get(&Vertex::distance, flow_),
                                      boost::get(boost::vertex_index, flow_), kFirst, kLast);
    // What still has capacity left from the source: the fewest that may be first.
    first_.assign(boost::num_vertices(flow_), false);
    std::vector<size_t> waiting{kFirst};
    first_[kFirst] = true;
    while (!waiting.empty()) {
      const size_t vertex = waiting.back();
      waiting.pop_back();
      for (auto [edge, end] = boost::out_edges(vertex, flow_); edge != end; ++edge) {
        const size_t next = boost::target(*edge, flow_);
        if (flow_[*edge].residual == 0 || first_[next]) continue;
        first_[next] = true;
        waiting.push_back(next);
      }
    }
  }

  bool IsFirst(size_t vertex) const { return first_[vertex]; }

 private:
  Flow flow_;
  std::vector<bool> first_;
};

class Chooser {
 public:
  Chooser(const Graph& graph, const Fanout& fanout, const std::vector<std::optional<LayoutForm>>& forms)
      : graph_(graph), fanout_(fanout), forms_(forms), vertex_(graph.num_ids(), CutGraph::kLast) {}

  std::vector<bool> Run() {
    std::vector<bool> first(graph_.num_ids(), false);
    if (!AnyGains()) return first;
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      if (forms_[i]) vertex_[i] = cut_.AddVertex();
    }
    for (int32_t i = 0; i < graph_.num_ids(); ++i) AddNode(NodeId{i});
    cut_.Cut();
    for (int32_t i = 0; i < graph_.num_ids(); ++i) first[i] = forms_[i] && cut_.IsFirst(vertex_[i]);
    return first;
  }

 private:
  // Bytes that copies of input and output move when the channels are last, less those when they are first. Of float32's
  // gradients of filters one in four copies, by the bytes of ResNet-50's.
  int64_t SavedBytes(const Node& node, const LayoutForm& form) const {
    const bool filter = node.op == "Conv2DBackpropFilter" || node.op == "Conv3DBackpropFilterV2";
    const bool image = node.op == "Conv2D" || node.op == "Conv3D" || node.op == "Conv2DBackpropInput" || node.op == "Conv3DBackpropInputV2";
    if (!filter && !image) return 0;
    const TensorType& other = filter ? graph_.type(node.inputs[2]) : node.outputs[0];
    const int64_t moved = CopyBytes(graph_.type(node.inputs[form.images[0]])) + CopyBytes(other);
    if (node.outputs[0].dtype != DataType::kFloat) return -moved;
    return image ? moved : -moved / 4;
  }

  bool AnyGains() const {
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      if (forms_[i] && SavedBytes(graph_.node(NodeId{i}), *forms_[i]) > 0) return true;
    }
    return false;
  }

  void AddNode(NodeId id) {
    const Node& node = graph_.node(id);
    if (node.removed) return;
    if (const std::optional<LayoutForm>& form = forms_[id.value]) {
      const int64_t saved = SavedBytes(node, *form);
      if (saved > 0) cut_.AddEdge(CutGraph::kFirst, vertex_[id.value], saved);
      if (saved < 0) cut_.AddEdge(vertex_[id.value], CutGraph::kLast, -saved);
    }
    for (int32_t k = 0; k < static_cast<int32_t>(node.outputs.size()); ++k) AddImage({id, k});
  }

  // One Transpose before all who take it first where it is made last, and one behind where somebody takes it last.
  void AddImage(OutputRef image) {
    const bool either = MadeEitherWay(forms_, image);
    const size_t maker = either ? vertex_[image.node.value] : CutGraph::kLast;
    std::vector<size_t> takers;
    bool any = false;
    for (const Fanout::Use& use : fanout_.of(image.node)) {
      if (use.input < 0 || use.output != image.index) continue;
      const bool as_image = IsImageOf(forms_, use.consumer, use.input);
      any = any || as_image;
      takers.push_back(as_image ? vertex_[use.consumer.value] : CutGraph::kLast);
    }
    if (takers.empty() || (!any && !either) || TurnsInPlace(graph_.type(image).shape)) return;
    const int64_t apart = IsOneWithItsTaker(image) ? CopyBytes(graph_.type(image)) : 0;
    const int64_t bytes = TransposeBytes(graph_.type(image)) + apart;
    std::sort(takers.begin(), takers.end());
    takers.erase(std::unique(takers.begin(), takers.end()), takers.end());
    AddCrossing(maker, takers, bytes);
  }

  // Whether maker and taker would be one kernel without a Transpose between them (fuse_biases.h, fuse_elementwise.h).
  bool IsOneWithItsTaker(OutputRef image) const {
    const auto uses = fanout_.of(image.node);
    const std::string& maker = graph_.node(image.node).op;
    if (uses.size() != 1 || (maker != "Conv2D" && maker != "Conv3D" && !IsElementwise(maker))) return false;
    return IsElementwise(graph_.node(uses[0].consumer).op);
  }

  void AddCrossing(size_t maker, const std::vector<size_t>& takers, int64_t bytes) {
    if (takers.size() == 1) {
      if (takers[0] != CutGraph::kLast) cut_.AddEdge(takers[0], maker, bytes);
      if (maker != CutGraph::kLast) cut_.AddEdge(maker, takers[0], bytes);
      return;
    }
    const size_t any_first = cut_.AddVertex();
    cut_.AddEdge(any_first, maker, bytes);
    for (size_t taker : takers) {
      if (taker != CutGraph::kLast) cut_.AddEdge(taker, any_first, kNever);
    }
    if (maker == CutGraph::kLast) return;
    const size_t all_first = takers[0] == CutGraph::kLast ? CutGraph::kLast : cut_.AddVertex();
    cut_.AddEdge(maker, all_first, bytes);
    if (all_first == CutGraph::kLast) return;
    for (size_t taker : takers) cut_.AddEdge(all_first, taker, kNever);
  }

  const Graph& graph_;
  const Fanout& fanout_;
  const std::vector<std::optional<LayoutForm>>& forms_;
  std::vector<size_t> vertex_;  // by node id; the sink for nodes that compute one way alone
  CutGraph cut_;
};

}  // namespace

std::vector<bool> ChooseChannelsFirst(const Graph& graph, const Fanout& fanout, const std::vector<std::optional<LayoutForm>>& forms) {
  return Chooser(graph, fanout, forms).Run();
}

}  // namespace millrace
