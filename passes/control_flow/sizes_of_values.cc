#include "passes/control_flow/sizes_of_values.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "passes/control_flow/harmless_inputs.h"

namespace millrace {
namespace {

// Ops whose rules give bounds (InferenceContext::MarkBound), by the beginnings of their names.
bool GivesBounds(const std::string& op) {
  static const auto& kinds = *new std::vector<std::string>{
      "CTC",       "CombinedNonMaxSuppression", "ComputeAccidentalHits", "DenseCount", "DenseToDenseSet", "DenseToSparseSet", "DynamicPartition",
      "DynamicStitch", "EditDistance",           "ListDiff",              "NonMaxSuppression",    "ParallelDynamicStitch",   "Ragged",
      "Segment",   "Sparse",                    "Unique",                "Where"};
  return std::any_of(kinds.begin(), kinds.end(), [&](const std::string& kind) { return absl::StartsWith(op, kind); });
}

// Inputs whose values are sizes, by op.
const std::map<std::string, std::vector<size_t>>& SizeInputs() {
  static const auto& inputs = *new std::map<std::string, std::vector<size_t>>{
      {"BroadcastTo", {1}}, {"Fill", {0}}, {"OneHot", {1}},          {"Range", {0, 1, 2}}, {"Reshape", {1}},
      {"Slice", {1, 2}},    {"SplitV", {1}}, {"StridedSlice", {1, 2}}, {"Tile", {1}}};
  return inputs;
}

bool GivesSizes(const Graph& graph, const OpRegistry& ops) {
  KnownWhenPlanned known(graph, ops);
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed) continue;
    if (GivesBounds(node.op)) return true;
    const auto found = SizeInputs().find(node.op);
    if (found == SizeInputs().end()) continue;
    for (size_t input : found->second) {
      if (input < node.inputs.size() && !known.Holds(node.inputs[input])) return true;
    }
  }
  return false;
}

}  // namespace

bool MayHaveSizesOfValues(const Graph& graph, const OpRegistry& ops) {
  if (GivesSizes(graph, ops)) return true;
  if (graph.library() == nullptr) return false;
  return std::any_of(graph.library()->begin(), graph.library()->end(),
                     [&](const auto& entry) { return GivesSizes(*entry.second.body, ops); });
}

}  // namespace millrace
