// Loops that go by their count alone, and whose bodies tell otherwise.
#include <map>

#include "onnx/importer.h"
#include "onnx/tensors.h"

namespace millrace::onnx {
namespace {

using onnx_proto::GraphProto;
using onnx_proto::NodeProto;
using google::protobuf::RepeatedPtrField;

bool IsTrue(const onnx_proto::TensorProto& tensor) {
  const absl::StatusOr<Tensor> value = TensorFromOnnx(tensor, "");
  return value.ok() && value->dtype() == DataType::kBool && value->num_elements() == 1 && value->IntAt(0) != 0;
}

// What gives a name: an initialiser or a node.
struct Source {
  const onnx_proto::TensorProto* initializer = nullptr;
  const NodeProto* node = nullptr;
};

std::map<std::string, Source> SourcesOf(const GraphProto& graph) {
  std::map<std::string, Source> sources;
  for (const onnx_proto::TensorProto& initializer : graph.initializer()) sources[initializer.name()].initializer = &initializer;
  for (const NodeProto& node : graph.node()) {
    for (const std::string& output : node.output()) sources[output].node = &node;
  }
  return sources;
}

// Whether the body's condition is neither the one it is given nor a constant.
bool ComputesCondition(const GraphProto& body) {
  if (body.output_size() < 1 || body.input_size() < 2) return false;
  const std::map<std::string, Source> sources = SourcesOf(body);
  std::string name = body.output(0).name();
  // Behind Identities, of which none comes twice.
  for (int i = 0; i <= body.node_size(); ++i) {
    if (name == body.input(1).name()) return false;
    const auto source = sources.find(name);
    if (source == sources.end()) return false;  // of a graph around it
    if (source->second.initializer != nullptr) return !IsTrue(*source->second.initializer);
    const NodeProto& node = *source->second.node;
    const std::string op = QualifiedOp(node);
    if (op == "Constant") return node.attribute_size() != 1 || !IsTrue(node.attribute(0).t());
    if (op != "Identity" || node.input_size() != 1) return true;
    name = node.input(0);
  }
  return false;
}

std::string CalledIn(const NodeProto& node) {
  if (!node.name().empty()) return node.name();
  for (const std::string& output : node.output()) {
    if (!output.empty()) return output;
  }
  return "(unnamed)";
}

std::string FindIn(const RepeatedPtrField<NodeProto>& nodes, int depth) {
  if (depth > kMostNested) return "";
  for (const NodeProto& node : nodes) {
    const bool counts_alone = QualifiedOp(node) == "Loop" && node.input_size() > 0 && !node.input(0).empty() &&
                              (node.input_size() < 2 || node.input(1).empty());
    for (const onnx_proto::AttributeProto& attribute : node.attribute()) {
      if (!attribute.has_g()) continue;
      if (counts_alone && ComputesCondition(attribute.g())) return CalledIn(node);
      if (std::string inner = FindIn(attribute.g().node(), depth + 1); !inner.empty()) return inner;
    }
  }
  return "";
}

}  // namespace

std::string LoopPastItsCondition(const onnx_proto::ModelProto& model) {
  std::string found = FindIn(model.graph().node(), 0);
  for (const onnx_proto::FunctionProto& function : model.functions()) {
    if (found.empty()) found = FindIn(function.node(), 0);
  }
  return found;
}

}  // namespace millrace::onnx
