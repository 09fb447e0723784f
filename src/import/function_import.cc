// FunctionDef -> Function: arguments and results become nodes, "node:output:index" becomes an output number.
#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "graph/function.h"
#include "graph/verify.h"
#include "graph/with_message.h"
#include "import/graph_import.h"
#include "import/op_outputs.h"
#include "import/tensor_proto.h"
#include "millrace/status.h"

namespace millrace {
namespace {

AttrValue TypeOf(const proto::OpDef::ArgDef& arg) {
  if (!arg.type_attr().empty()) return AttrParameter{arg.type_attr()};
  return static_cast<DataType>(arg.type());
}

class FunctionImporter {
 public:
  FunctionImporter(const proto::FunctionDef& proto, const Graph::Library& signatures)
      : proto_(proto), signatures_(signatures) {}

  absl::StatusOr<Function> Import() {
    body_.Reserve(proto_.node_def_size() + proto_.signature().input_arg_size() + proto_.signature().output_arg_size());
    MR_RETURN_IF_ERROR(AddArguments());
    for (const proto::NodeDef& node : proto_.node_def()) {
      MR_ASSIGN_OR_RETURN(Node added, NodeFromProto(node));
      MR_RETURN_IF_ERROR(body_.AddNode(std::move(added)).status());
    }
    for (const proto::NodeDef& node : proto_.node_def()) MR_RETURN_IF_ERROR(AddInputs(node));
    MR_RETURN_IF_ERROR(AddResults());
    MR_RETURN_IF_ERROR(VerifyGraph(body_));
    std::vector<std::string> control_rets;
    for (const proto::FunctionDef::NameEntry& entry : proto_.control_ret()) control_rets.push_back(entry.value());
    std::sort(control_rets.begin(), control_rets.end());  // entries of a map come in any order
    MR_ASSIGN_OR_RETURN(AttrMap attrs, AttrMapFromProto(proto_.attr()));
    MR_ASSIGN_OR_RETURN(Function function, MakeFunction(proto_.signature().name(), std::move(attrs), std::move(body_),
                                                        std::move(control_rets)));
    // A result's node may have another name where a node of the body has its name.
    for (int i = 0; i < proto_.signature().output_arg_size(); ++i) {
      function.ret_names[i] = proto_.signature().output_arg(i).name();
    }
    return function;
  }

 private:
  absl::Status AddArguments();
  absl::Status AddResults();
  absl::Status AddInputs(const proto::NodeDef& proto);
  // "argument" or "node:output:index".
  absl::StatusOr<OutputRef> Resolve(const std::string& tensor, const std::string& user) const;

  const proto::FunctionDef& proto_;
  const Graph::Library& signatures_;
  Graph body_;
};

absl::Status FunctionImporter::AddArguments() {
  for (int i = 0; i < proto_.signature().input_arg_size(); ++i) {
    const proto::OpDef::ArgDef& arg = proto_.signature().input_arg(i);
    if (!arg.number_attr().empty() || !arg.type_list_attr().empty()) {
      return absl::UnimplementedError(absl::StrCat("argument '", arg.name(), "' is a list, expected one tensor"));
    }
    Node node;
    for (const proto::FunctionDef::ArgAttrEntry& entry : proto_.arg_attr()) {
      if (entry.key() != static_cast<uint32_t>(i)) continue;
      MR_ASSIGN_OR_RETURN(node.attrs, AttrMapFromProto(entry.value().attr()));
    }
    for (const proto::FunctionDef::UniqueIdEntry& entry : proto_.resource_arg_unique_id()) {
      if (entry.key() == static_cast<uint32_t>(i)) {
        node.attrs.Set("_resource_arg_unique_id", static_cast<int64_t>(entry.value()));
      }
    }
    node.name = arg.name();
    node.op = kArgOp;
    node.attrs.Set("T", TypeOf(arg));
    node.attrs.Set("index", static_cast<int64_t>(i));
    MR_RETURN_IF_ERROR(body_.AddNode(std::move(node)).status());
  }
  return absl::OkStatus();
}

absl::Status FunctionImporter::AddResults() {
  for (int i = 0; i < proto_.signature().output_arg_size(); ++i) {
    const proto::OpDef::ArgDef& result = proto_.signature().output_arg(i);
    if (!result.number_attr().empty() || !result.type_list_attr().empty()) {
      return absl::UnimplementedError(absl::StrCat("result '", result.name(), "' is a list, expected one tensor"));
    }
    const auto entry = std::find_if(proto_.ret().begin(), proto_.ret().end(),
                                    [&](const auto& ret) { return ret.key() == result.name(); });
    if (result.name().empty() || entry == proto_.ret().end()) {
      return absl::InvalidArgumentError(absl::StrCat("result '", result.name(), "' has no tensor of the body"));
    }
    Node node;
    MR_ASSIGN_OR_RETURN(const OutputRef value, Resolve(entry->value(), result.name()));
    node.inputs.push_back(value);
    node.name = result.name();
    node.op = kRetvalOp;
    node.attrs.Set("T", TypeOf(result));
    node.attrs.Set("index", static_cast<int64_t>(i));
    body_.AddUnique(std::move(node));
  }
  return absl::OkStatus();
}

absl::StatusOr<OutputRef> FunctionImporter::Resolve(const std::string& tensor, const std::string& user) const {
  const std::vector<std::string> parts = absl::StrSplit(tensor, ':');
  OutputRef ref{body_.Find(parts[0]), 0};
  if (!ref.node.valid()) {
    return absl::InvalidArgumentError(absl::StrCat("'", user, "' takes input '", absl::CHexEscape(tensor),
                                                   "', but there is no node or argument '",
                                                   absl::CHexEscape(parts[0]), "'"));
  }
  if (parts.size() == 1) return ref;
  const bool plain = parts.size() == 2 && absl::SimpleAtoi(parts[1], &ref.index);
  int32_t index = 0;
  const bool named = parts.size() == 2 || (parts.size() == 3 && absl::SimpleAtoi(parts[2], &index));
  if (!named || index < 0 || ref.index < 0) {
    return absl::InvalidArgumentError(absl::StrCat("'", user, "' takes input '", absl::CHexEscape(tensor),
                                                   "', expected 'argument' or 'node:output:number'"));
  }
  if (!plain) {
    MR_ASSIGN_OR_RETURN(ref.index, OutputNumber(body_.node(ref.node), signatures_, parts[1], index));
  }
  return ref;
}

absl::Status FunctionImporter::AddInputs(const proto::NodeDef& proto) {
  Node& node = body_.mutable_node(body_.Find(proto.name()));
  for (const std::string& input : proto.input()) {
    if (input.empty() || input[0] != '^') {
      MR_ASSIGN_OR_RETURN(const OutputRef ref, Resolve(input, proto.name()));
      node.inputs.push_back(ref);
      continue;
    }
    const NodeId control = body_.Find(input.substr(1));
    if (!control.valid()) {
      return absl::InvalidArgumentError(absl::StrCat("node '", proto.name(), "' takes input '",
                                                     absl::CHexEscape(input), "', but there is no such node"));
    }
    node.control_inputs.push_back(control);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Graph::Library>> LibraryFromProto(const proto::FunctionDefLibrary& proto) {
  // A function's nodes may call another by its name: its results must be known before any body is read.
  Graph::Library signatures;
  for (const proto::FunctionDef& function : proto.function()) {
    Function& signature = signatures[function.signature().name()];
    for (const proto::OpDef::ArgDef& result : function.signature().output_arg()) {
      signature.ret_names.push_back(result.name());
    }
  }
  auto library = std::make_shared<Graph::Library>();
  for (const proto::FunctionDef& function : proto.function()) {
    const std::string& name = function.signature().name();
    absl::StatusOr<Function> imported = FunctionImporter(function, signatures).Import();
    if (!imported.ok()) return WithPrefix(imported.status(), absl::StrCat("function '", absl::CHexEscape(name), "'"));
    if (name.empty() || !library->emplace(name, *std::move(imported)).second) {
      return absl::InvalidArgumentError(name.empty() ? "a function without a name"
                                                     : absl::StrCat("two functions are named '", name, "'"));
    }
  }
  for (const proto::GradientDef& gradient : proto.gradient()) {
    const auto function = library->find(gradient.function_name());
    if (function != library->end()) function->second.attrs.Set(kGradientFunctionAttr, FunctionRef{gradient.gradient_func()});
  }
  return std::shared_ptr<const Graph::Library>(std::move(library));
}

}  // namespace millrace
