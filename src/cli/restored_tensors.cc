#include "cli/restored_tensors.h"

#include <map>
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "cli/partitioned_variables.h"
#include "graph/with_message.h"
#include "passes/rewrite/prune.h"

namespace millrace::cli {
namespace {

bool Restores(const Node& node) { return !node.removed && node.op == "RestoreV2" && node.inputs.size() == 3; }

absl::StatusOr<Tensor> Read(TensorReader& reader, const std::string& key, const std::string& slice) {
  if (slice.empty()) return reader.Read(key);
  const std::optional<TensorSlice> part = SliceFromText(slice);
  if (!part.has_value()) return absl::InvalidArgumentError(absl::StrCat("a slice '", slice, "' of ", key));
  return reader.ReadSlice(key, *part);
}

// Outputs of such nodes that others take.
std::map<int32_t, std::set<int32_t>> Taken(const Graph& graph) {
  std::map<int32_t, std::set<int32_t>> taken;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    if (!graph.alive(NodeId{i})) continue;
    for (const OutputRef& input : graph.node(NodeId{i}).inputs) {
      if (Restores(graph.node(input.node))) taken[input.node.value].insert(input.index);
    }
  }
  return taken;
}

}  // namespace

absl::StatusOr<Session::Feeds> RestoredTensors(const Graph& graph, const std::vector<std::string>& targets, const Environment& environment) {
  Session::Feeds feeds;
  bool any = false;
  for (int32_t i = 0; !any && i < graph.num_ids(); ++i) any = Restores(graph.node(NodeId{i}));
  if (!any || targets.empty()) return feeds;
  Signature signature;
  signature.targets = targets;
  const absl::StatusOr<Graph> needed = Prune(graph, signature);
  if (!needed.ok()) return feeds;  // planning says why
  std::map<std::string, std::unique_ptr<TensorReader>> readers;
  for (const auto& [id, outputs] : Taken(*needed)) {
    const Node& node = needed->node(NodeId{id});
    const Tensor prefix = StringsAt(*needed, node.inputs[0]), keys = StringsAt(*needed, node.inputs[1]), slices = StringsAt(*needed, node.inputs[2]);
    const auto at_node = [&](const absl::Status& status) {
      return WithMessage(status, absl::StrCat("node '", node.name, "' (RestoreV2): ", status.message(),
                                              "; --checkpoint_in=PREFIX in place of --init_targets starts from a checkpoint elsewhere"));
    };
    if (prefix.empty() || keys.empty() || slices.empty() || prefix.num_elements() != 1 || keys.num_elements() != slices.num_elements()) {
      return at_node(absl::UnimplementedError("prefix, names and slices must be constants"));
    }
    std::unique_ptr<TensorReader>& reader = readers[prefix.strings()[0]];
    if (reader == nullptr) {
      absl::StatusOr<std::unique_ptr<TensorReader>> opened = environment.open_checkpoint_reader(prefix.strings()[0]);
      if (!opened.ok()) return at_node(opened.status());
      reader = *std::move(opened);
    }
    for (const int32_t output : outputs) {
      if (output >= keys.num_elements()) return at_node(absl::InvalidArgumentError(absl::StrCat("has no output ", output)));
      absl::StatusOr<Tensor> value = Read(*reader, keys.strings()[output], slices.strings()[output]);
      if (!value.ok()) return at_node(value.status());
      feeds[absl::StrCat(node.name, ":", output)] = *std::move(value);
    }
  }
  return feeds;
}

}  // namespace millrace::cli
