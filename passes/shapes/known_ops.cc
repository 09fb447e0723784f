#include "passes/shapes/known_ops.h"

#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "passes/shapes/per_op.h"

namespace millrace {

absl::Status CheckOpsKnown(const Graph& graph, const OpRegistry& ops) {
  std::map<std::string, std::pair<int, std::string>> unknown;
  std::string read_by_known;  // what such a node makes for others: no handle, which only its own kind takes
  OpFinder def_of(ops);
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed) continue;
    if (def_of(node.op) == nullptr) {
      ++unknown.emplace(node.op, std::make_pair(0, node.name)).first->second.first;
      continue;
    }
    if (node.op == "_Fetch") continue;  // takes anything
    for (OutputRef ref : node.inputs) {
      if (read_by_known.empty() && def_of(graph.node(ref.node).op) == nullptr) read_by_known = absl::StrCat(graph.node(ref.node).name, ":", ref.index);
    }
  }
  if (unknown.empty()) return absl::OkStatus();
  std::string text = absl::StrJoin(unknown, ", ", [](std::string* out, const auto& entry) {
    absl::StrAppend(out, entry.first, " (", entry.second.first, "x, first at '", entry.second.second, "')");
  });
  absl::StrAppend(&text, "; `millrace inspect --ops` lists those that are");
  if (!read_by_known.empty()) {
    absl::StrAppend(&text, ". What such a node makes for others can be fed in its place, as arrays '", read_by_known, "' and so on");
  }
  if (unknown.count("XlaCallModule") > 0) {
    absl::StrAppend(&text, ". XlaCallModule holds a whole program as StableHLO: jax2tf.convert writes ops with native_serialization=False");
  }
  return absl::UnimplementedError(absl::StrCat("the graph uses ops that are not supported: ", text));
}

}  // namespace millrace
