#include "passes/rewrite/lower_prints.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "passes/control_flow/text_source.h"

namespace millrace {
namespace {

// A text that is made of values to be printed needs the values alone, and what the text waited for; a guard stays the last input.
void PrintValues(Graph& graph, NodeId id) {
  Node& print = graph.mutable_node(id);
  if (print.inputs.empty()) return;
  auto waits = print.control_inputs;
  const Node& text = graph.node(SourceOfText(graph, print.inputs[0], waits));
  if (text.op != "StringFormat") return;
  for (const char* name : {"template", "placeholder", "summarize"}) {
    if (const AttrValue* value = text.attrs.Find(name); value != nullptr) print.attrs.Set(name, *value);
  }
  print.op = "_PrintFormatted";
  print.inputs.erase(print.inputs.begin());
  print.inputs.insert(print.inputs.begin(), text.inputs.begin(), text.inputs.end());
  print.control_inputs = std::move(waits);
}

// Texts that one op makes of numbers.
bool MakesText(const std::string& op) {
  constexpr std::string_view kMaking[] = {"AsString", "EncodeJpeg", "EncodeJpegVariableQuality", "EncodePng", "EncodeWav", "SerializeTensor", "StringFormat"};
  return std::find(std::begin(kMaking), std::end(kMaking), op) != std::end(kMaking);
}

// The same of a file and its contents.
void WriteValues(Graph& graph, NodeId id) {
  Node& write = graph.mutable_node(id);
  if (write.inputs.size() < 2) return;
  auto waits = write.control_inputs;
  const Node& text = graph.node(SourceOfText(graph, write.inputs[1], waits));
  if (!MakesText(text.op)) return;
  for (const auto& [name, value] : text.attrs) write.attrs.Set(name, value);
  write.attrs.Set("text_op", text.op);
  write.op = "_WriteFileMade";
  write.inputs.erase(write.inputs.begin() + 1);
  write.inputs.insert(write.inputs.begin() + 1, text.inputs.begin(), text.inputs.end());
  write.control_inputs = std::move(waits);
}

template <typename Change>
void ForEach(Graph& graph, const char* op, Change change) {
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    if (graph.alive(NodeId{i}) && graph.node(NodeId{i}).op == op) change(NodeId{i});
  }
}

}  // namespace

void LowerPrints(Graph& graph) {
  ForEach(graph, "PrintV2", [&](NodeId id) { PrintValues(graph, id); });
  ForEach(graph, "WriteFile", [&](NodeId id) { WriteValues(graph, id); });
}

void SilencePrints(Graph& graph) {
  for (const char* op : {"PrintV2", "WriteFile"}) {
    ForEach(graph, op, [&](NodeId id) {
      Node& print = graph.mutable_node(id);
      print.op = "NoOp";
      print.inputs.clear();
      print.attrs = AttrMap();
    });
  }
  ForEach(graph, "Print", [&](NodeId id) {
    Node& print = graph.mutable_node(id);
    if (print.inputs.empty()) return;
    const DataType type = print.attrs.GetOr<DataType>("T", DataType::kFloat);
    print.op = "Identity";
    print.inputs.resize(1);
    print.attrs = AttrMap();
    print.attrs.Set("T", type);
  });
}

}  // namespace millrace
