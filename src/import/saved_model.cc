#include "import/saved_model.h"

#include <google/protobuf/arena.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "files/mapped_file.h"
#include "files/model_files.h"
#include "glog/logging.h"
#include "graph/asset_file.h"
#include "graph/first_of.h"
#include "graph/one_line.h"
#include "graph/parameters.h"
#include "graph/variable_name.h"
#include "graph/with_message.h"
#include "import/bound_variables.h"
#include "import/graph_import.h"
#include "import/tensor_proto.h"
#include "millrace/op.h"
#include "millrace/status.h"
#include "ops/rules.h"
#include "passes/control_flow/control_flow_ops.h"
#include "passes/control_flow/kept_state.h"
#include "passes/control_flow/loop_ops.h"
#include "passes/kernel_oracle.h"
#include "passes/prepare.h"
#include "passes/rewrite/keep_tables.h"
#include "passes/rewrite/known_tables.h"
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

absl::Status AddInfo(const std::string& key, const std::string& tensor, DataType dtype, Shape shape, const Graph& graph, Infos& infos) {
  MR_ASSIGN_OR_RETURN(const OutputRef ref, graph.FindTensor(tensor));
  infos[key] = {graph.TensorName(ref), {dtype, std::move(shape)}};
  return absl::OkStatus();
}

// The parts of a sparse tensor.
absl::Status AddSparseInfos(const std::string& key, const proto::TensorInfo& info, const Shape& shape, const Graph& graph, Infos& infos) {
  const proto::TensorInfo::CooSparse& parts = info.coo_sparse();
  const int64_t rank = shape.unknown_rank() ? -1 : shape.rank();
  MR_RETURN_IF_ERROR(AddInfo(key + "/indices", parts.indices_tensor_name(), DataType::kInt64, Shape({-1, rank}), graph, infos));
  MR_RETURN_IF_ERROR(AddInfo(key + "/values", parts.values_tensor_name(), static_cast<DataType>(info.dtype()), Shape({-1}), graph, infos));
  return AddInfo(key + "/dense_shape", parts.dense_shape_tensor_name(), DataType::kInt64, Shape({rank}), graph, infos);
}

absl::Status ReadInfos(const RepeatedPtrField<proto::SignatureDef::InfoEntry>& entries, const Graph& graph, bool are_outputs,
                       SavedSignature& signature) {
  Infos& infos = are_outputs ? signature.outputs : signature.inputs;
  auto& unread = are_outputs ? signature.unread_outputs : signature.unread_inputs;
  for (const proto::SignatureDef::InfoEntry& entry : entries) {
    const proto::TensorInfo& info = entry.value();
    MR_ASSIGN_OR_RETURN(Shape shape, ShapeFromProto(info.tensor_shape()));
    if (info.encoding_case() == proto::TensorInfo::kCooSparse) {
      MR_RETURN_IF_ERROR(AddSparseInfos(entry.key(), info, shape, graph, infos));
    } else if (info.encoding_case() != proto::TensorInfo::kName) {
      unread[entry.key()] = absl::UnimplementedError(absl::StrCat("'", entry.key(), "' is neither a dense nor a sparse tensor"));
    } else if (are_outputs && info.dtype() == proto::DT_INVALID) {
      MR_ASSIGN_OR_RETURN(const OutputRef ref, graph.FindTensor(info.name()));
      signature.targets.push_back(graph.node(ref.node).name);
    } else {
      MR_RETURN_IF_ERROR(AddInfo(entry.key(), info.name(), static_cast<DataType>(info.dtype()), std::move(shape), graph, infos));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<SavedSignature> ReadSignature(const proto::SignatureDef& proto, const Graph& graph) {
  SavedSignature signature;
  MR_RETURN_IF_ERROR(ReadInfos(proto.inputs(), graph, /*are_outputs=*/false, signature));
  MR_RETURN_IF_ERROR(ReadInfos(proto.outputs(), graph, /*are_outputs=*/true, signature));
  return signature;
}

const proto::CollectionDef* FindCollection(const proto::MetaGraphDef& meta, const std::string& key) {
  for (const proto::MetaGraphDef::CollectionEntry& entry : meta.collection_def()) {
    if (entry.key() == key) return &entry.value();
  }
  return nullptr;
}

// TensorFlow 1 writes them into a collection.
absl::StatusOr<std::vector<proto::AssetFileDef>> AssetsOf(const proto::MetaGraphDef& meta) {
  std::vector<proto::AssetFileDef> assets(meta.asset_file_def().begin(), meta.asset_file_def().end());
  const proto::CollectionDef* const collection = FindCollection(meta, "saved_model_assets");
  if (!assets.empty() || collection == nullptr) return assets;
  for (const google::protobuf::Any& any : collection->any_list().value()) {
    if (!absl::EndsWith(any.type_url(), "AssetFileDef")) continue;
    if (!assets.emplace_back().ParseFromString(any.value())) return absl::InvalidArgumentError("an asset in collection saved_model_assets is corrupt");
  }
  return assets;
}

// The operation that initialises what a checkpoint does not hold, where TensorFlow's loaders look for it; empty where there is none.
std::string MainOp(const proto::MetaGraphDef& meta, const std::map<std::string, SavedSignature>& signatures) {
  const auto signature = signatures.find("__saved_model_init_op");
  if (signature != signatures.end() && signature->second.targets.size() == 1) return signature->second.targets[0];
  for (const char* key : {"saved_model_main_op", "legacy_init_op"}) {
    const proto::CollectionDef* const collection = FindCollection(meta, key);
    if (collection != nullptr && collection->node_list().value_size() == 1) return collection->node_list().value(0);
  }
  return "";
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

// What an operation and all that runs for it use.
struct InitUse {
  bool held = false;        // variables and tables that steps could change
  bool strings = false;     // the same of strings, which none holds here
  bool words = false;       // of these tables whose contents planning does not know
  std::string unsupported;  // an op

  // Whether that is more.
  bool Add(const InitUse& other) {
    const bool more = (other.held && !held) || (other.strings && !strings) || (other.words && !words) ||
                      (!other.unsupported.empty() && unsupported.empty());
    held = held || other.held;
    strings = strings || other.strings;
    words = words || other.words;
    if (unsupported.empty()) unsupported = other.unsupported;
    return more;
  }
};

// Computes nothing: of what is known when the graph is planned only its constants.
class NoKernels final : public KernelOracle {
 public:
  absl::StatusOr<int64_t> ScratchBytes(const OpInstance&) override { return absl::UnimplementedError("no kernels"); }
  absl::StatusOr<std::vector<Tensor>> Evaluate(const OpDef&, const OpInstance&, std::vector<Tensor>) override {
    return absl::UnimplementedError("no kernels");
  }
};

// Tables from words to numbers are kept, too (keep_tables.h), but those that are filled once are best left to planning.
InitUse UseOfTable(const Node& table, const KnownTables& tables) {
  InitUse use;
  use.held = CanKeepTable(table);
  if (use.held) return use;
  const bool known = tables.Of(table, table).ok();
  use.held = !known && CanKeepTableOfWords(table) && tables.CheckNotRestored(table, table).ok();
  use.strings = !use.held;
  use.words = !use.held && !known;
  return use;
}

InitUse UseOfNode(const Node& node, const KnownTables& tables) {
  InitUse use;
  if (IsVariable(node)) {
    (node.attrs.GetOr("dtype", DataType::kInvalid) != DataType::kString ? use.held : use.strings) = true;
  } else if (IsChangingTable(node)) {
    use = UseOfTable(node, tables);
  } else if (OpRegistry::Builtin().Find(node.op) == nullptr && !IsPlannedAway(node.op) && node.op != "RestoreV2") {  // whose values are fed
    use.unsupported = node.op;
  }
  return use;
}

// The node itself, or the call that a node stands in for: "call" of "call/node".
NodeId OriginOf(std::string name, const Graph& graph) {
  while (!graph.Find(name).valid() && name.find('/') != std::string::npos) name.resize(name.rfind('/'));
  return graph.Find(name);
}

// By node of the graph.
absl::StatusOr<std::vector<InitUse>> UsesIn(const Graph& graph, const Graph& whole) {
  NoKernels none;
  const absl::StatusOr<KnownTables> found = KnownTables::Find(whole, OpRegistry::Builtin(), none);
  const KnownTables tables = found.ok() ? *found : KnownTables();
  Graph expanded = graph.Clone();
  MR_RETURN_IF_ERROR(ExpandCalls(expanded, OpRegistry::Builtin()).status());
  std::vector<InitUse> uses(graph.num_ids());
  for (int32_t i = 0; i < expanded.num_ids(); ++i) {
    if (!expanded.alive(NodeId{i})) continue;
    const NodeId origin = OriginOf(expanded.node(NodeId{i}).name, graph);
    if (origin.valid()) uses[origin.value].Add(UseOfNode(expanded.node(NodeId{i}), tables));
  }
  for (bool changed = true; changed;) {  // once more where a node stands before what it takes
    changed = false;
    for (int32_t i = 0; i < graph.num_ids(); ++i) {
      const Node& node = graph.node(NodeId{i});
      if (node.removed) continue;
      for (const OutputRef& input : node.inputs) changed = uses[i].Add(uses[input.node.value]) || changed;
      for (const NodeId input : node.control_inputs) changed = uses[i].Add(uses[input.value]) || changed;
    }
  }
  return uses;
}

// What of the operation is to be run: not what fills tables that are filled once, which planning does, nor what sets strings (TensorFlow 2
// has the paths of assets in variables), nor what is not supported. It is run whole where it holds none of these, else what it groups is.
std::vector<std::string> InitTargets(const Graph& graph, const std::string& main_op, const std::string& dir) {
  if (main_op.empty()) return {};
  const auto leave_out = [&](const std::string& name, const std::string& why) {
    LOG(WARNING) << dir << ": the model's initialisation '" << name << "' is left out: " << why;
  };
  Signature signature;
  signature.targets.push_back(main_op);
  const absl::StatusOr<Graph> needed = Prune(graph, signature);
  const absl::StatusOr<std::vector<InitUse>> uses = needed.ok() ? UsesIn(*needed, graph) : needed.status();
  if (!uses.ok()) {
    leave_out(main_op, std::string(uses.status().message()));
    return {};
  }
  std::vector<std::string> targets;
  std::vector<NodeId> stack = {needed->Find(main_op)};
  std::set<NodeId> seen(stack.begin(), stack.end());
  while (!stack.empty()) {
    const Node& node = needed->node(stack.back());
    const InitUse& use = (*uses)[stack.back().value];
    stack.pop_back();
    if (use.unsupported.empty() && !use.held && !use.words) continue;
    if (use.unsupported.empty() && !use.strings) {
      targets.push_back(node.name);
    } else if (node.op == "NoOp") {
      for (const NodeId part : node.control_inputs) {
        if (seen.insert(part).second) stack.push_back(part);
      }
    } else {
      const char* const of_strings = use.words ? "it fills a table of strings" : "it sets strings, too";
      leave_out(node.name, use.unsupported.empty() ? of_strings : absl::StrCat("it uses ", use.unsupported, ", which is not supported"));
    }
  }
  return targets;
}

// By variable name the first of the nodes that are it.
std::map<std::string, NodeId> VariablesOf(const Graph& graph) {
  std::map<std::string, NodeId> variables;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (!node.removed && IsVariable(node)) variables.emplace(VariableName(node), NodeId{i});
  }
  return variables;
}

bool CanBeOne(const Node& a, const Node& b) {
  const auto dtype = [](const Node& node) { return node.attrs.GetOr("dtype", DataType::kInvalid); };
  const auto shape = [](const Node& node) { return node.attrs.GetOr("shape", Shape::UnknownRank()); };
  return a.op == b.op && dtype(a) == dtype(b) && MayBeEqual(shape(a), shape(b));
}

// What has a name of these is the variable of the other.
void RenameVariables(const std::map<std::string, std::string>& names, Graph& graph) {
  const std::map<std::string, NodeId> variables = VariablesOf(graph);
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed || !IsVariable(node)) continue;
    const auto name = names.find(VariableName(node));
    if (name == names.end()) continue;
    const Node& other = graph.node(variables.at(name->second));
    const std::string shared = other.attrs.GetOr<std::string>("shared_name", "");
    AttrMap& attrs = graph.mutable_node(NodeId{i}).attrs;
    attrs.Set("container", other.attrs.GetOr<std::string>("container", ""));
    attrs.Set("shared_name", shared.empty() ? other.name : shared);
  }
}

// Variables that have a key with one of `added` are one. What the saver restores and functions take keeps its name.
void JoinVariables(const std::string& prefix, const std::map<std::string, std::string>& added, SavedModel* model) {
  std::map<std::string, std::string>& keys = model->checkpoint_keys;
  std::set<std::string> joined;
  std::map<std::string, std::string> names;  // by key
  for (const auto& [variable, key] : added) joined.insert(key);
  for (const auto& [variable, key] : keys) {
    if (joined.count(key) > 0 && model->bound.objects.count(variable) > 0) names.emplace(key, variable);
  }
  for (const auto& [variable, key] : added) names.emplace(key, variable);
  keys.insert(added.begin(), added.end());
  const std::map<std::string, NodeId> variables = VariablesOf(model->graph);
  std::map<std::string, std::string> renamed;
  for (const auto& [variable, key] : keys) {
    const auto name = names.find(key);
    if (name == names.end() || name->second == variable) continue;
    const auto own = variables.find(variable), other = variables.find(name->second);
    if (own == variables.end() || other == variables.end()) continue;  // one in a function
    if (CanBeOne(model->graph.node(own->second), model->graph.node(other->second))) {
      renamed.emplace(variable, name->second);
    } else {
      LOG(WARNING) << prefix << ": variables '" << variable << "' and '" << name->second << "' are both of " << key
                   << ", but of different types, and stay apart";
    }
  }
  for (const auto& [variable, name] : renamed) keys.erase(variable);
  RenameVariables(renamed, model->graph);
}

absl::Status OpenVariables(const std::string& dir, SavedModel* model) {
  const std::string prefix = absl::StrCat(dir, "/variables/variables");
  std::error_code error;
  if (!std::filesystem::exists(absl::StrCat(prefix, kCheckpointIndex), error)) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(model->checkpoint, OpenCheckpointReader(prefix));
  const std::vector<std::string>& names = model->checkpoint->names();
  const auto holds = [&](const std::string& key) { return std::binary_search(names.begin(), names.end(), key); };
  for (const auto& [variable, key] : model->checkpoint_keys) {
    if (holds(key)) continue;
    return absl::InvalidArgumentError(absl::StrCat(prefix, ": no tensor '", key, "', which variable '", variable, "' is restored from"));
  }
  for (const auto& [table, keys] : model->checkpoint_tables) {
    for (const std::string& key : {keys.keys, keys.values}) {
      if (holds(key)) continue;
      return absl::InvalidArgumentError(absl::StrCat(prefix, ": no tensor '", key, "', which table '", table, "' is restored from"));
    }
  }
  if (holds(kObjectGraphKey)) {
    MR_ASSIGN_OR_RETURN(model->checkpoint_extras[kObjectGraphKey], model->checkpoint->Read(kObjectGraphKey));
  }
  return AddBoundKeys(prefix, *model->checkpoint, model);
}

// As TensorFlow's loader feeds them.
absl::Status SetAssetPaths(const std::vector<proto::AssetFileDef>& assets, const std::string& dir, Graph* graph) {
  for (const proto::AssetFileDef& asset : assets) {
    absl::StatusOr<OutputRef> ref = graph->FindTensor(asset.tensor_info().name());
    if (!ref.ok()) return WithPrefix(ref.status(), absl::StrCat("asset '", asset.filename(), "'"));
    Tensor path(DataType::kString, Shape());
    path.mutable_strings()[0] = absl::StrCat(dir, "/assets/", asset.filename());
    Node& node = graph->mutable_node(ref->node);
    node.op = "Const";
    node.inputs.clear();
    node.attrs = AttrMap();
    node.attrs.Set("dtype", DataType::kString);
    node.attrs.Set("value", std::move(path));
    node.attrs.Set(kAssetFile, asset.filename());
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
  MR_ASSIGN_OR_RETURN(const std::vector<proto::AssetFileDef> assets, AssetsOf(*meta));
  MR_RETURN_IF_ERROR(SetAssetPaths(assets, dir, &model.graph));
  for (const proto::MetaGraphDef::SignatureEntry& entry : meta->signature_def()) {
    absl::StatusOr<SavedSignature> signature = ReadSignature(entry.value(), model.graph);
    if (signature.ok()) {
      model.signatures[entry.key()] = *std::move(signature);
    } else {
      model.unread_signatures[entry.key()] = signature.status();
    }
  }
  MR_ASSIGN_OR_RETURN(CheckpointNames names, NamesOfSaver(model.graph, meta->saver_def()));
  model.checkpoint_keys = std::move(names.variables);
  model.checkpoint_tables = std::move(names.tables);
  model.init_targets = InitTargets(model.graph, MainOp(*meta, model.signatures), dir);
  model.bound = FindBoundVariables(model.graph, meta->object_graph_def());
  return model;
}

}  // namespace

CheckpointNames RestoredIn(const Graph& graph) {
  CheckpointNames names;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    const bool assigns = node.op == "AssignVariableOp" || node.op == "Assign";
    if (node.removed || node.inputs.size() < 2 || (!assigns && !IsTableInitializer(node))) continue;
    const Node& resource = graph.node(Source(graph, node.inputs[0]).node);
    const std::string key = RestoredKey(graph, node.inputs[1]);
    if (key.empty()) continue;
    if (assigns && IsVariable(resource)) names.variables[VariableName(resource)] = key;
    if (assigns || !IsChangingTable(resource) || node.inputs.size() != 3) continue;
    const std::string values = RestoredKey(graph, node.inputs[2]);
    if (!values.empty()) names.tables[NameOfResource(resource)] = {key, values};
  }
  return names;
}

absl::StatusOr<CheckpointNames> NamesOfSaver(const Graph& graph, const proto::SaverDef& saver) {
  CheckpointNames names;
  if (saver.restore_op_name().empty()) return names;
  Signature restore;
  restore.targets.push_back(saver.restore_op_name());
  if (!saver.filename_tensor_name().empty()) {
    restore.feeds[saver.filename_tensor_name()] = {DataType::kString, Shape()};
  }
  MR_ASSIGN_OR_RETURN(const Graph flat, PruneAndInline(graph, restore, OpRegistry::Builtin()));
  return RestoredIn(flat);
}

absl::StatusOr<SavedModel> SavedModelFromBytes(std::string_view bytes, const std::vector<std::string>& tags, const std::string& dir) {
  absl::StatusOr<SavedModel> model = FromBytes(bytes, tags, dir);
  if (!model.ok()) return OneLine(model.status());
  return model;
}

absl::Status AddBoundKeys(const std::string& prefix, TensorReader& checkpoint, SavedModel* model) {
  std::vector<std::string> open;
  for (const auto& [variable, object] : model->bound.objects) {
    if (model->checkpoint_keys.count(variable) == 0) open.push_back(variable);
  }
  if (open.empty()) return absl::OkStatus();
  const std::vector<std::string>& names = checkpoint.names();
  const auto holds = [&](const std::string& key) { return std::binary_search(names.begin(), names.end(), key); };
  std::map<std::string, std::string> keys;
  if (holds(kObjectGraphKey)) {
    MR_ASSIGN_OR_RETURN(const Tensor objects, checkpoint.Read(kObjectGraphKey));
    model->checkpoint_extras[kObjectGraphKey] = objects;
    absl::StatusOr<std::map<std::string, std::string>> read = KeysOfBound(model->bound, objects);
    LOG_IF(WARNING, !read.ok()) << prefix << ": tensor '" << kObjectGraphKey << "': " << OneLine(read.status()).message();
    if (read.ok()) keys = *std::move(read);
  }
  std::map<std::string, std::string> added;
  std::vector<std::string> missing;
  for (const std::string& variable : open) {
    const auto key = keys.find(variable);
    if (key != keys.end() && holds(key->second)) {
      added.insert(*key);
    } else if (!holds(variable)) {
      missing.push_back(variable);
    }
  }
  if (!missing.empty()) LOG(WARNING) << prefix << ": no value of " << FirstOf(std::move(missing)) << ", which functions of the SavedModel use";
  JoinVariables(prefix, added, model);
  return absl::OkStatus();
}

absl::StatusOr<SavedModel> LoadSavedModel(const std::string& dir, const std::vector<std::string>& tags) {
  const std::string path = SavedModelFile(dir);
  MR_ASSIGN_OR_RETURN(const std::shared_ptr<const MappedFile> file, MappedFile::Open(path));
  absl::StatusOr<SavedModel> model = FromBytes(file->bytes(), tags, dir);
  if (!model.ok()) return WithPrefix(OneLine(model.status()), path);
  MR_RETURN_IF_ERROR(OpenVariables(dir, &*model));
  return model;
}

}  // namespace millrace
