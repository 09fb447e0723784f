#include "import/saved_model.h"

#include <google/protobuf/arena.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "files/mapped_file.h"
#include "graph/one_line.h"
#include "graph/parameters.h"
#include "graph/variable_name.h"
#include "import/graph_import.h"
#include "import/tensor_proto.h"
#include "millrace/op.h"
#include "millrace/options.h"
#include "millrace/status.h"
#include "passes/control_flow/inline_functions.h"
#include "passes/rewrite/prune.h"
#include "proto/parse.h"

namespace millrace {
namespace {

using google::protobuf::Arena;
using google::protobuf::RepeatedPtrField;
using Infos = std::map<std::string, SavedSignature::Info>;

constexpr const char* kObjectGraphKey = "_CHECKPOINTABLE_OBJECT_GRAPH";

std::string TagText(std::vector<std::string> tags) {
  std::sort(tags.begin(), tags.end());
  return absl::StrCat("{", absl::StrJoin(tags, ", "), "}");
}

absl::StatusOr<const proto::MetaGraphDef*> ChooseGraph(const proto::SavedModel& model,
                                                       const std::vector<std::string>& tags) {
  std::vector<std::string> found;
  for (const proto::MetaGraphDef& graph : model.meta_graphs()) {
    const auto& names = graph.meta_info_def().tags();
    found.push_back(TagText({names.begin(), names.end()}));
    if (found.back() == TagText(tags)) return &graph;
  }
  if (found.empty()) return absl::InvalidArgumentError("no graphs, expected a TensorFlow SavedModel");
  return absl::NotFoundError(absl::StrCat("no graph with tags ", TagText(tags), ", there are ",
                                          absl::StrJoin(found, ", ")));
}

absl::Status ReadInfos(const RepeatedPtrField<proto::SignatureDef::InfoEntry>& entries, const Graph& graph,
                       Infos* infos, std::vector<std::string>* operations) {
  for (const proto::SignatureDef::InfoEntry& entry : entries) {
    const std::string& tensor = entry.value().name();
    if (entry.value().encoding_case() != proto::TensorInfo::kName) {
      return absl::UnimplementedError(absl::StrCat("'", entry.key(), "' is not a dense tensor"));
    }
    MR_ASSIGN_OR_RETURN(const OutputRef ref, graph.FindTensor(tensor));
    MR_ASSIGN_OR_RETURN(Shape shape, ShapeFromProto(entry.value().tensor_shape()));
    if (operations != nullptr && entry.value().dtype() == proto::DT_INVALID) {
      operations->push_back(graph.node(ref.node).name);
    } else {
      (*infos)[entry.key()] = {graph.TensorName(ref), {static_cast<DataType>(entry.value().dtype()), std::move(shape)}};
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<SavedSignature> ReadSignature(const proto::SignatureDef& proto, const Graph& graph) {
  SavedSignature signature;
  MR_RETURN_IF_ERROR(ReadInfos(proto.inputs(), graph, &signature.inputs, nullptr));
  MR_RETURN_IF_ERROR(ReadInfos(proto.outputs(), graph, &signature.outputs, &signature.targets));
  return signature;
}

// Follows views back to what they show.
OutputRef Source(const Graph& graph, OutputRef ref) {
  while (graph.node(ref.node).op == "Identity" && graph.node(ref.node).inputs.size() == 1) {
    ref = graph.node(ref.node).inputs[0];
  }
  return ref;
}

// The key that output `ref` restores: an element of RestoreV2's constant list of names; empty when it is none.
std::string RestoredKey(const Graph& graph, OutputRef ref) {
  const OutputRef source = Source(graph, ref);
  const Node& restore = graph.node(source.node);
  if (restore.op != "RestoreV2" || restore.inputs.size() != 3) return "";
  auto element = [&](int input) -> std::string {
    const Node& names = graph.node(Source(graph, restore.inputs[input]).node);
    const Tensor value = names.attrs.GetOr<Tensor>("value", Tensor());
    if (value.dtype() != DataType::kString || source.index >= value.num_elements()) return "";
    return value.strings()[source.index];
  };
  const bool is_slice = !element(2).empty();
  return is_slice ? "" : element(1);
}

// Of what cannot be looked at, opening it says why.
bool IsThere(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

absl::Status OpenVariables(const std::string& dir, SavedModel* model) {
  const std::string prefix = absl::StrCat(dir, "/variables/variables");
  if (!IsThere(absl::StrCat(prefix, ".index"))) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(model->checkpoint, OpenCheckpointReader(prefix));
  const std::vector<std::string>& names = model->checkpoint->names();
  const auto holds = [&](const std::string& key) { return std::binary_search(names.begin(), names.end(), key); };
  for (const auto& [variable, key] : model->checkpoint_keys) {
    if (holds(key)) continue;
    return absl::InvalidArgumentError(absl::StrCat(prefix, ": no tensor '", key, "', which variable '", variable, "' is restored from"));
  }
  if (!holds(kObjectGraphKey)) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(model->checkpoint_extras[kObjectGraphKey], model->checkpoint->Read(kObjectGraphKey));
  return absl::OkStatus();
}

// As TensorFlow's loader feeds them.
absl::Status SetAssetPaths(const RepeatedPtrField<proto::AssetFileDef>& assets, const std::string& dir, Graph* graph) {
  for (const proto::AssetFileDef& asset : assets) {
    absl::StatusOr<OutputRef> ref = graph->FindTensor(asset.tensor_info().name());
    if (!ref.ok()) return absl::Status(ref.status().code(), absl::StrCat("asset '", asset.filename(), "': ", ref.status().message()));
    Tensor path(DataType::kString, Shape());
    path.mutable_strings()[0] = absl::StrCat(dir, "/assets/", asset.filename());
    Node& node = graph->mutable_node(ref->node);
    node.op = "Const";
    node.inputs.clear();
    node.attrs = AttrMap();
    node.attrs.Set("dtype", DataType::kString);
    node.attrs.Set("value", std::move(path));
  }
  return absl::OkStatus();
}

absl::StatusOr<SavedModel> FromBytes(std::string_view bytes, const std::vector<std::string>& tags, const std::string& dir) {
  Arena arena;
  proto::SavedModel* proto = Arena::CreateMessage<proto::SavedModel>(&arena);
  if (LooksLikeText(bytes)) {
    MR_RETURN_IF_ERROR(ParseText(bytes, /*skip_unknown_fields=*/true, proto));
  } else {
    MR_RETURN_IF_ERROR(ParseBinary(bytes, proto));
  }
  MR_ASSIGN_OR_RETURN(const proto::MetaGraphDef* meta, ChooseGraph(*proto, tags));
  SavedModel model;
  MR_ASSIGN_OR_RETURN(model.graph, GraphFromProto(meta->graph_def()));
  MR_RETURN_IF_ERROR(SetAssetPaths(meta->asset_file_def(), dir, &model.graph));
  for (const proto::MetaGraphDef::SignatureEntry& entry : meta->signature_def()) {
    absl::StatusOr<SavedSignature> signature = ReadSignature(entry.value(), model.graph);
    if (signature.ok()) {
      model.signatures[entry.key()] = *std::move(signature);
    } else {
      model.unread_signatures[entry.key()] = signature.status();
    }
  }
  MR_ASSIGN_OR_RETURN(model.checkpoint_keys, CheckpointKeys(model.graph, meta->saver_def()));
  return model;
}

}  // namespace

absl::StatusOr<std::map<std::string, std::string>> CheckpointKeys(const Graph& graph, const proto::SaverDef& saver) {
  std::map<std::string, std::string> keys;
  if (saver.restore_op_name().empty()) return keys;
  Signature restore;
  restore.targets.push_back(saver.restore_op_name());
  if (!saver.filename_tensor_name().empty()) {
    restore.feeds[saver.filename_tensor_name()] = {DataType::kString, Shape()};
  }
  MR_ASSIGN_OR_RETURN(Graph flat, Prune(graph, restore));
  MR_RETURN_IF_ERROR(InlineFunctions(flat, OpRegistry::Builtin(), MostInlinedNodes(flat, PlanningOptions().max_unrolled_nodes)).status());
  for (int32_t i = 0; i < flat.num_ids(); ++i) {
    const Node& assign = flat.node(NodeId{i});
    if ((assign.op != "AssignVariableOp" && assign.op != "Assign") || assign.inputs.size() != 2) continue;
    const Node& variable = flat.node(Source(flat, assign.inputs[0]).node);
    const std::string key = RestoredKey(flat, assign.inputs[1]);
    if (!key.empty() && IsVariable(variable)) keys[VariableName(variable)] = key;
  }
  return keys;
}

absl::StatusOr<SavedModel> SavedModelFromBytes(std::string_view bytes, const std::vector<std::string>& tags, const std::string& dir) {
  absl::StatusOr<SavedModel> model = FromBytes(bytes, tags, dir);
  if (!model.ok()) return OneLine(model.status());
  return model;
}

absl::StatusOr<SavedModel> LoadSavedModel(const std::string& dir, const std::vector<std::string>& tags) {
  std::string path = absl::StrCat(dir, "/saved_model.pb");
  if (!IsThere(path) && IsThere(absl::StrCat(path, "txt"))) path += "txt";
  MR_ASSIGN_OR_RETURN(const std::shared_ptr<const MappedFile> file, MappedFile::Open(path));
  absl::StatusOr<SavedModel> model = SavedModelFromBytes(file->bytes(), tags, dir);
  if (!model.ok()) {
    return absl::Status(model.status().code(), absl::StrCat(path, ": ", model.status().message()));
  }
  MR_RETURN_IF_ERROR(OpenVariables(dir, &*model));
  return model;
}

}  // namespace millrace
