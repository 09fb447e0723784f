// Functions of the model: which of them are called, what a call's attributes make of their nodes.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "onnx/importer.h"

namespace millrace::onnx {
namespace {

using google::protobuf::RepeatedPtrField;
using onnx_proto::AttributeProto;
using onnx_proto::FunctionProto;
using onnx_proto::GraphProto;
using onnx_proto::NodeProto;

// One call of a function.
struct Call {
  const NodeProto& node;
  const FunctionProto& function;

  // The call's attribute of that name, the function's default where the call has none, else nullptr.
  const AttributeProto* Attribute(const std::string& name) const {
    for (const AttributeProto& given : node.attribute()) {
      if (given.name() == name) return &given;
    }
    for (const AttributeProto& standard : function.attribute_proto()) {
      if (standard.name() == name) return &standard;
    }
    return nullptr;
  }
};

void Specialize(const Call& call, std::set<std::string> absent, GraphProto* graph);

// The function's node as this call has it: its attributes stand for those that refer to them, and inputs that it leaves out are
// left out inside. In nested graphs, too.
void Specialize(const Call& call, const std::set<std::string>& absent, NodeProto* node) {
  for (std::string& input : *node->mutable_input()) {
    if (absent.count(input) > 0) input.clear();
  }
  RepeatedPtrField<AttributeProto> attributes;
  attributes.Swap(node->mutable_attribute());
  for (AttributeProto& attribute : attributes) {
    const bool refers = !attribute.ref_attr_name().empty();
    const AttributeProto* value = refers ? call.Attribute(attribute.ref_attr_name()) : &attribute;
    if (value == nullptr) continue;
    AttributeProto* added = node->add_attribute();
    *added = *value;
    added->set_name(attribute.name());
    if (refers) continue;
    if (added->has_g()) Specialize(call, absent, added->mutable_g());
    for (GraphProto& graph : *added->mutable_graphs()) Specialize(call, absent, &graph);
  }
}

void Specialize(const Call& call, std::set<std::string> absent, GraphProto* graph) {
  for (const onnx_proto::ValueInfoProto& input : graph->input()) absent.erase(input.name());
  for (NodeProto& node : *graph->mutable_node()) Specialize(call, absent, &node);
}

}  // namespace

const FunctionProto* Importer::FindFunction(const NodeProto& node) const {
  for (const FunctionProto& function : model_.functions()) {
    const bool named = function.name() == node.op_type() && function.domain() == node.domain();
    if (named && function.overload() == node.overload()) return &function;
  }
  return nullptr;
}

void Importer::CountUnsupported(const RepeatedPtrField<NodeProto>& nodes, std::map<std::string, int64_t>& counts,
                                std::vector<const FunctionProto*>& called) const {
  for (const NodeProto& node : nodes) {
    if (const FunctionProto* function = FindFunction(node); function != nullptr) {
      if (std::find(called.begin(), called.end(), function) == called.end()) called.push_back(function);
    } else if (LoweringTable::Builtin().Find(QualifiedOp(node)) == nullptr) {
      ++counts[QualifiedOp(node)];
    }
    for (const AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) CountUnsupported(attribute.g().node(), counts, called);
    }
  }
}

absl::Status Importer::CheckOps() const {
  std::map<std::string, int64_t> counts;
  std::vector<const FunctionProto*> called;
  CountUnsupported(model_.graph().node(), counts, called);
  // Functions of functions come behind.
  for (size_t i = 0; i < called.size(); ++i) CountUnsupported(called[i]->node(), counts, called);
  if (counts.empty()) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      "the model uses operators that are not supported: ",
      absl::StrJoin(counts, ", ", [](std::string* out, const auto& e) { absl::StrAppend(out, e.first, " (", e.second, "x)"); })));
}

const RepeatedPtrField<NodeProto>& Importer::BodyOf(const NodeProto& node, const FunctionProto& function) {
  const auto [kept, inserted] = bodies_.try_emplace(&node);
  RepeatedPtrField<NodeProto>& body = kept->second;
  if (!inserted) return body;
  std::set<std::string> absent;
  for (int i = 0; i < function.input_size(); ++i) {
    if (i >= node.input_size() || node.input(i).empty()) absent.insert(function.input(i));
  }
  for (const NodeProto& each : function.node()) {
    NodeProto* copy = body.Add();
    *copy = each;
    Specialize({node, function}, absent, copy);
    copy->set_name(absl::StrCat(node.name().empty() ? node.op_type() : node.name(), "/", each.name().empty() ? each.op_type() : each.name()));
  }
  return body;
}

absl::Status Importer::AddCall(const NodeProto& node, const FunctionProto& function) {
  const NodeContext context(b_, node, opset_, *this);
  if (++depth_ > kMostNested) return context.Error("functions call each other without end");
  Names inner;
  for (int i = 0; i < function.input_size(); ++i) {
    if (i >= node.input_size() || node.input(i).empty()) continue;
    const auto found = names_.find(node.input(i));
    if (found == names_.end()) return context.Error(absl::StrCat("input '", node.input(i), "' is not in the model"));
    inner[function.input(i)] = found->second;
  }
  Names outer = std::exchange(names_, std::move(inner));
  Shadowed* const shadowed = std::exchange(shadowed_, nullptr);
  const int64_t opset = std::exchange(opset_, MainOpset(function.opset_import(), opset_));
  const absl::Status status = AddNodes(BodyOf(node, function));
  Names results = std::exchange(names_, std::move(outer));
  shadowed_ = shadowed;
  opset_ = opset;
  --depth_;
  MR_RETURN_IF_ERROR(status);
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty()) continue;
    const auto found = i < function.output_size() ? results.find(function.output(i)) : results.end();
    if (found == results.end()) return context.Error(absl::StrCat("function has no output ", i));
    Bind(node.output(i), found->second);
  }
  return absl::OkStatus();
}

}  // namespace millrace::onnx
