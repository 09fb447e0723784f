#include "session/gap_feeds.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

// The inputs of a node that holds ids which size its output: none of most.
std::vector<OutputRef> IdsOf(const Node& node) {
  if (node.op == "DynamicStitch" || node.op == "ParallelDynamicStitch") {
    return {node.inputs.begin(), node.inputs.begin() + static_cast<int64_t>(node.inputs.size() / 2)};
  }
  const bool sparse = node.op == "SparseSegmentSum" || node.op == "SparseSegmentMean" || node.op == "SparseSegmentSqrtN";
  if (sparse && node.inputs.size() > 2) return {node.inputs[2]};
  if (absl::StartsWith(node.op, "Segment") && node.inputs.size() > 1) return {node.inputs[1]};
  return {};
}

bool PassesOn(const Node& node) {
  return (node.op == "Identity" || node.op == "Cast" || node.op == "Reshape" || node.op == "StopGradient") && !node.inputs.empty();
}

// What is known of the ids of one node before it runs.
struct KnownIds {
  std::map<std::string, Tensor> fed;
  int64_t count = 0, largest = -1;
  bool all = true;

  void Add(const Tensor& ids) {
    count += ids.num_elements();
    for (int64_t i = 0; i < ids.num_elements(); ++i) largest = std::max(largest, ids.IntAt(i));
  }
};

void AddKnown(const Graph& graph, OutputRef ref, const std::map<std::string, Tensor>& values, KnownIds& known) {
  while (true) {
    const Node& node = graph.node(ref.node);
    const auto fed = values.find(absl::StrCat(node.name, ":", ref.index));
    if (fed != values.end()) {
      known.all = known.all && IsInteger(fed->second.dtype());
      if (!known.all) return;
      known.fed.insert(*fed);
      return known.Add(fed->second);
    }
    if (!PassesOn(node)) {
      const Tensor value = node.op == "Const" ? node.attrs.GetOr<Tensor>("value", Tensor()) : Tensor();
      known.all = known.all && node.op == "Const" && IsInteger(value.dtype());
      if (known.all) known.Add(value);
      return;
    }
    ref = node.inputs[0];
  }
}

}  // namespace

GapFeeds::GapFeeds(const Graph& graph) : graph_(graph) {
  for (int32_t id = 0; id < graph.num_ids(); ++id) {
    if (!graph.alive(NodeId{id})) continue;
    std::vector<OutputRef> ids = IdsOf(graph.node(NodeId{id}));
    if (!ids.empty()) ids_.push_back(std::move(ids));
  }
}

std::map<std::string, Tensor> GapFeeds::Of(const std::map<std::string, Tensor>& values) const {
  std::map<std::string, Tensor> gaps;
  for (const std::vector<OutputRef>& ids : ids_) {
    KnownIds known;
    for (const OutputRef ref : ids) AddKnown(graph_, ref, values, known);
    if (known.all && known.largest >= known.count) gaps.insert(known.fed.begin(), known.fed.end());
  }
  return gaps;
}

}  // namespace millrace
