#include "graph/dot.h"

#include <map>

#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') quoted.push_back('\\');
    if (c == '\n') {
      quoted.append("\\n");
    } else {
      quoted.push_back(c);
    }
  }
  return quoted + "\"";
}

// Colours that colour-blind readers and grey printers tell apart.
const char* FillColor(const Node& node) {
  if (node.op == "SwapOut") return "#e69f00";
  if (node.op == "SwapIn") return "#56b4e9";
  if (node.op == "_Send" || node.op == "_Recv") return "#cc79a7";
  if (node.device == kHostDevice) return "#dddddd";
  return "#ffffff";
}

void AppendNode(const Graph& graph, NodeId id, const char* indent, std::string* out) {
  const Node& node = graph.node(id);
  std::string tooltip = node.reason.empty() ? node.name : absl::StrCat(node.name, ": ", node.reason.str());
  if (!node.requested_device.empty()) absl::StrAppend(&tooltip, "\non ", node.requested_device.str());
  absl::StrAppend(out, indent, "n", id.value, " [label=", Quoted(absl::StrCat(node.name, "\n", node.op)),
                  ", fillcolor=\"", FillColor(node), "\", tooltip=", Quoted(tooltip), "];\n");
}

void AppendEdges(const Graph& graph, NodeId id, std::string* out) {
  const Node& node = graph.node(id);
  for (const OutputRef& input : node.inputs) {
    const Node& producer = graph.node(input.node);
    absl::StrAppend(out, "  n", input.node.value, " -> n", id.value);
    if (static_cast<size_t>(input.index) < producer.outputs.size()) {
      absl::StrAppend(out, " [label=", Quoted(producer.outputs[input.index].ToString()), "]");
    }
    out->append(";\n");
  }
  for (NodeId control : node.control_inputs) {
    absl::StrAppend(out, "  n", control.value, " -> n", id.value, " [style=dashed];\n");
  }
}

}  // namespace

std::string GraphToDot(const Graph& graph) {
  std::map<int32_t, std::vector<NodeId>> partitions;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    if (graph.alive(NodeId{i})) partitions[graph.node(NodeId{i}).partition].push_back(NodeId{i});
  }
  std::string out =
      "digraph millrace {\n"
      "  rankdir=TB;\n"
      "  node [shape=box, style=filled, fontname=\"Helvetica\", fontsize=10];\n"
      "  edge [fontname=\"Helvetica\", fontsize=8];\n";
  for (const auto& [partition, nodes] : partitions) {
    const bool cluster = partition != kNoPartition;
    if (cluster) {
      absl::StrAppend(&out, "  subgraph cluster_", partition, " {\n    label=\"partition ", partition, "\";\n");
    }
    for (NodeId id : nodes) AppendNode(graph, id, cluster ? "    " : "  ", &out);
    if (cluster) out.append("  }\n");
  }
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    if (graph.alive(NodeId{i})) AppendEdges(graph, NodeId{i}, &out);
  }
  out.append("}\n");
  return out;
}

}  // namespace millrace
