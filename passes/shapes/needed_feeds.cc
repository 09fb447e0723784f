#include "passes/shapes/needed_feeds.h"

#include <set>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "passes/shapes/infer_shapes.h"

namespace millrace {
namespace {

// Walks back from what a shape lacks.
class FeedSearch {
 public:
  FeedSearch(const Graph& graph, const OpRegistry& ops, absl::FunctionRef<const Tensor*(OutputRef)> known)
      : graph_(graph), ops_(ops), known_(known) {}

  void NeedValue(OutputRef ref) {
    if (known_(ref) == nullptr) pending_.push_back({ref, false});
  }
  void NeedShape(OutputRef ref) {
    if (graph_.node(ref.node).dynamic_output(ref.index)) pending_.push_back({ref, true});
  }

  // Empty where feeds alone do not decide.
  std::set<std::string> Run() {
    std::set<std::pair<OutputRef, bool>> seen;
    while (!pending_.empty()) {
      const auto [ref, shape] = pending_.back();
      pending_.pop_back();
      if (!seen.insert({ref, shape}).second) continue;
      if (!(shape ? VisitShape(graph_.node(ref.node)) : VisitValue(ref))) return {};
    }
    return std::move(feeds_);
  }

 private:
  bool VisitValue(OutputRef ref) {
    const Node& node = graph_.node(ref.node);
    if (node.op == "_Feed") {
      feeds_.insert(node.attrs.GetOr<std::string>("tensor", node.name));
      return true;
    }
    const OpDef* def = ops_.Find(node.op);
    if (def == nullptr || node.inputs.empty()) return false;
    if (def->from_types) {
      for (OutputRef input : node.inputs) NeedShape(input);
      return true;
    }
    if (def->stateful || def->is_variable || def->returns_variable || !def->variables.empty()) return false;
    if (static_cast<size_t>(ref.index) >= node.outputs.size()) return false;
    const bool dynamic = node.dynamic_output(ref.index);
    if (!dynamic && graph_.type(ref).size_bytes() > kMaxFoldedBytes) return false;
    for (OutputRef input : node.inputs) NeedValue(input);
    return true;
  }

  // Of a node with an output whose shape is known only when running.
  bool VisitShape(const Node& node) {
    const size_t before = pending_.size();
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      NeedShape(node.inputs[i]);
      // Where a Slice begins is asked for once its size is known to be -1.
      if (i < 64 && (node.run_time_values >> i & 1) != 0 && (node.op != "Slice" || i == 2)) NeedValue(node.inputs[i]);
    }
    if (pending_.size() > before) return true;
    // It counts what it is given (Where, Unique).
    for (OutputRef input : node.inputs) NeedValue(input);
    return pending_.size() > before;
  }

  const Graph& graph_;
  const OpRegistry& ops_;
  const absl::FunctionRef<const Tensor*(OutputRef)> known_;
  std::vector<std::pair<OutputRef, bool>> pending_;  // with whether only its shape matters
  std::set<std::string> feeds_;
};

}  // namespace

std::vector<std::string> NeededFeeds(const absl::Status& status) {
  const auto payload = status.GetPayload(kNeededFeeds);
  if (!payload.has_value()) return {};
  return absl::StrSplit(std::string(*payload), '\n');
}

absl::Status AskForFeeds(const Graph& graph, const OpRegistry& ops, NodeId id, uint64_t by_value,
                         absl::FunctionRef<const Tensor*(OutputRef)> known, absl::Status refusal) {
  const Node& node = graph.node(id);
  FeedSearch search(graph, ops, known);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const OutputRef input = node.inputs[i];
    if (static_cast<size_t>(input.index) >= graph.node(input.node).outputs.size()) return refusal;
    search.NeedShape(input);
    if (TakenByValue(node, i, by_value)) search.NeedValue(input);
  }
  const std::set<std::string> feeds = search.Run();
  if (!feeds.empty()) refusal.SetPayload(kNeededFeeds, absl::Cord(absl::StrJoin(feeds, "\n")));
  return refusal;
}

}  // namespace millrace
