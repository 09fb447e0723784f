#include "import/graph_export.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/fused_norm.h"
#include "import/op_outputs.h"
#include "import/tensor_proto.h"
#include "millrace/status.h"

namespace millrace {
namespace {

void SetAttr(const char* name, const AttrValue& value, proto::NodeDef* proto) {
  for (proto::AttrEntry& entry : *proto->mutable_attr()) {
    if (entry.key() != name) continue;
    entry.clear_value();
    AttrToProto(value, entry.mutable_value());
    return;
  }
  proto::AttrEntry* entry = proto->add_attr();
  entry->set_key(name);
  AttrToProto(value, entry->mutable_value());
}

void AddDecisions(const Node& node, proto::NodeDef* proto) {
  if (node.partition != kNoPartition) SetAttr("_partition", int64_t{node.partition}, proto);
  if (node.device != 0) SetAttr("_device", int64_t{node.device}, proto);
  if (!node.reason.empty()) SetAttr("_reason", node.reason.str(), proto);
  // Of a handle we know the variable's type; TensorFlow means the handle's own, a scalar.
  if (!node.outputs.empty() && node.op != "VarHandleOp") {
    std::vector<Shape> shapes;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      shapes.push_back(node.outputs[i].shape);
      // TensorFlow would take a bound for the shape.
      if (!node.dynamic_output(static_cast<int>(i))) continue;
      for (int d = 0; d < shapes.back().rank(); ++d) shapes.back().set_dim(d, -1);
    }
    SetAttr("_output_shapes", shapes, proto);
  }
}

void NodeHeadToProto(const Node& node, proto::NodeDef* proto) {
  proto->set_name(node.name);
  proto->set_op(node.op);
  proto->set_device(node.requested_device.str());
  AttrMapToProto(node.attrs, proto->mutable_attr());
}

void TypeToArg(const Node& node, proto::OpDef::ArgDef* arg) {
  const AttrValue* type = node.attrs.Find("T");
  if (type == nullptr) return;
  if (const AttrParameter* parameter = std::get_if<AttrParameter>(type)) {
    arg->set_type_attr(parameter->name);
  } else if (const DataType* dtype = std::get_if<DataType>(type)) {
    arg->set_type(static_cast<proto::DataType>(*dtype));
  }
}

class FunctionExporter {
 public:
  FunctionExporter(const Function& function, const Graph::Library& library, proto::FunctionDef* proto)
      : function_(function), body_(*function.body), library_(library), proto_(proto) {}

  absl::Status Export() {
    proto::OpDef* signature = proto_->mutable_signature();
    signature->set_name(function_.name);
    for (size_t i = 0; i < function_.arg_names.size(); ++i) signature->add_input_arg()->set_name(function_.arg_names[i]);
    for (size_t i = 0; i < function_.ret_names.size(); ++i) {
      signature->add_output_arg()->set_name(function_.ret_names[i]);
      proto_->add_ret();
    }
    AttrMapToProto(function_.attrs, proto_->mutable_attr());
    for (int32_t i = 0; i < body_.num_ids(); ++i) {
      if (!body_.alive(NodeId{i})) continue;
      const Node& node = body_.node(NodeId{i});
      if (node.op == kArgOp) {
        AddArgument(node);
      } else if (node.op == kRetvalOp) {
        MR_RETURN_IF_ERROR(AddResult(node));
      } else {
        MR_RETURN_IF_ERROR(AddNode(node));
      }
    }
    for (const std::string& control : function_.control_rets) {
      signature->add_control_output(control);
      proto::FunctionDef::NameEntry* entry = proto_->add_control_ret();
      entry->set_key(control);
      entry->set_value(control);
    }
    signature->set_is_stateful(!function_.control_rets.empty());
    return absl::OkStatus();
  }

 private:
  void AddArgument(const Node& node) {
    const int64_t index = node.attrs.GetOr<int64_t>("index", 0);
    TypeToArg(node, proto_->mutable_signature()->mutable_input_arg(static_cast<int>(index)));
    AttrMap attrs = node.attrs;
    if (attrs.Has("_resource_arg_unique_id")) {
      proto::FunctionDef::UniqueIdEntry* entry = proto_->add_resource_arg_unique_id();
      entry->set_key(static_cast<uint32_t>(index));
      entry->set_value(static_cast<uint32_t>(attrs.GetOr<int64_t>("_resource_arg_unique_id", 0)));
    }
    for (const char* name : {"T", "index", "_resource_arg_unique_id"}) attrs.Erase(name);
    if (attrs.empty()) return;
    proto::FunctionDef::ArgAttrEntry* entry = proto_->add_arg_attr();
    entry->set_key(static_cast<uint32_t>(index));
    AttrMapToProto(attrs, entry->mutable_value()->mutable_attr());
  }

  absl::Status AddResult(const Node& node) {
    const int index = static_cast<int>(node.attrs.GetOr<int64_t>("index", 0));
    TypeToArg(node, proto_->mutable_signature()->mutable_output_arg(index));
    proto::FunctionDef::NameEntry* entry = proto_->mutable_ret(index);
    entry->set_key(function_.ret_names[index]);
    MR_ASSIGN_OR_RETURN(*entry->mutable_value(), TensorName(node.inputs[0]));
    return absl::OkStatus();
  }

  absl::Status AddNode(const Node& node) {
    proto::NodeDef* proto = proto_->add_node_def();
    NodeHeadToProto(node, proto);
    for (const OutputRef& input : node.inputs) {
      MR_ASSIGN_OR_RETURN(*proto->add_input(), TensorName(input));
    }
    for (NodeId control : node.control_inputs) proto->add_input(absl::StrCat("^", body_.node(control).name));
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> TensorName(OutputRef ref) const {
    const Node& producer = body_.node(ref.node);
    if (producer.op == kArgOp) return producer.name;
    MR_ASSIGN_OR_RETURN(const std::string output, OutputName(producer, library_, ref.index));
    return absl::StrCat(producer.name, ":", output);
  }

  const Function& function_;
  const Graph& body_;
  const Graph::Library& library_;
  proto::FunctionDef* proto_;
};

// What TensorFlow's batch norm saves for its gradient is not the variance on every device: it computes its statistics again.
Node WithoutStatistics(const Graph& graph, Node node) {
  node.attrs.Set("is_training", true);
  node.attrs.Erase(kGivenStatistics);
  for (const int k : kNormStatistics) node.inputs[k] = graph.node(node.inputs[k].node).inputs[k];
  return node;
}

}  // namespace

int32_t ProducerVersion(const Graph& graph) {
  constexpr int32_t kTensorFlow = 2000;
  return graph.producer_version != 0 ? graph.producer_version : kTensorFlow;
}

void NodeToProto(const Graph& graph, NodeId id, proto::NodeDef* proto) {
  const Node& own = graph.node(id);
  const Node node = own.attrs.Has(kGivenStatistics) ? WithoutStatistics(graph, own) : own;
  NodeHeadToProto(node, proto);
  for (const OutputRef& input : node.inputs) {
    std::string* name = proto->add_input();
    *name = graph.node(input.node).name;
    if (input.index != 0) absl::StrAppend(name, ":", input.index);
  }
  for (NodeId control : node.control_inputs) proto->add_input(absl::StrCat("^", graph.node(control).name));
  AddDecisions(node, proto);
}

absl::Status LibraryToProto(const Graph::Library& library, proto::FunctionDefLibrary* proto) {
  std::vector<const Function*> functions;
  for (const auto& [name, function] : library) functions.push_back(&function);
  std::sort(functions.begin(), functions.end(),
            [](const Function* a, const Function* b) { return a->name < b->name; });
  for (const Function* function : functions) {
    MR_RETURN_IF_ERROR(FunctionExporter(*function, library, proto->add_function()).Export());
  }
  return absl::OkStatus();
}

absl::StatusOr<proto::GraphDef> GraphToProto(const Graph& graph) {
  proto::GraphDef proto;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    if (graph.alive(NodeId{i})) NodeToProto(graph, NodeId{i}, proto.add_node());
  }
  if (graph.library() != nullptr) MR_RETURN_IF_ERROR(LibraryToProto(*graph.library(), proto.mutable_library()));
  proto.mutable_versions()->set_producer(ProducerVersion(graph));
  return proto;
}

}  // namespace millrace
