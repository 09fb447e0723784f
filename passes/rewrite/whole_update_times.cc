#include "passes/rewrite/whole_update_times.h"

#include <set>
#include <utility>

#include "passes/rewrite/slice_updates.h"
#include "passes/shapes/infer_shapes.h"
#include "passes/shapes/parts.h"

namespace millrace {

WholeUpdateTimes::WholeUpdateTimes(const Graph& graph, const OpRegistry& ops, KernelOracle& oracle) : oracle_(oracle) {
  std::set<std::string> unknown;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    const OpDef* def = node.removed ? nullptr : ops.Find(node.op);
    if (def == nullptr || def->is_variable || !PartOf(node)) continue;
    const std::string whole = WholeUpdateName(node);
    const std::optional<double> seconds = oracle.MeasuredSeconds(MakeInstance(graph, NodeId{i}, 0));
    if (seconds.has_value()) seconds_[whole] += *seconds;
    else unknown.insert(whole);
  }
  for (const std::string& name : unknown) seconds_.erase(name);
}

std::optional<double> WholeUpdateTimes::MeasuredSeconds(const OpInstance& instance) {
  if (std::optional<double> seconds = oracle_.MeasuredSeconds(instance)) return seconds;
  const auto it = seconds_.find(instance.name);
  return it == seconds_.end() ? std::nullopt : std::optional<double>(it->second);
}

absl::StatusOr<std::vector<Tensor>> WholeUpdateTimes::Evaluate(const OpDef& def, const OpInstance& instance,
                                                               std::vector<Tensor> inputs) {
  return oracle_.Evaluate(def, instance, std::move(inputs));
}

}  // namespace millrace
