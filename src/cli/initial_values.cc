#include "cli/initial_values.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/checkpoint_tables.h"
#include "cli/exit_status.h"
#include "cli/partitioned_variables.h"
#include "files/model_files.h"
#include "glog/logging.h"
#include "graph/first_of.h"
#include "graph/parameters.h"
#include "graph/variable_name.h"
#include "millrace/op.h"
#include "millrace/status.h"
#include "passes/control_flow/kept_state.h"
#include "passes/rewrite/known_words.h"
#include "passes/rewrite/prune.h"

namespace millrace::cli {
namespace {

std::function<absl::StatusOr<Tensor>()> ValueIn(std::shared_ptr<TensorReader> reader, std::string key) {
  return [reader = std::move(reader), key = std::move(key)] { return reader->Read(key); };
}

// Variables whose wholes the reader has, and not themselves.
std::map<std::string, VariablePart> PartsIn(const TensorReader& reader, const std::map<std::string, VariablePart>& parts) {
  const std::vector<std::string>& names = reader.names();
  const auto holds = [&](const std::string& key) { return std::binary_search(names.begin(), names.end(), key); };
  std::map<std::string, VariablePart> found;
  for (const auto& [name, part] : parts) {
    if (holds(part.key) && !holds(name)) found.emplace(name, part);
  }
  return found;
}

std::function<absl::StatusOr<Tensor>()> SliceIn(std::shared_ptr<TensorReader> reader, VariablePart part) {
  return [reader = std::move(reader), part = std::move(part)] { return reader->ReadSlice(part.key, part.slice); };
}

std::function<absl::StatusOr<Tensor>()> TableIn(std::shared_ptr<TensorReader> reader, CheckpointTable table) {
  return [reader = std::move(reader), table = std::move(table)]() -> absl::StatusOr<Tensor> {
    MR_ASSIGN_OR_RETURN(const Tensor keys, reader->Read(table.saved.keys));
    MR_ASSIGN_OR_RETURN(const Tensor values, reader->Read(table.saved.values));
    return TableFrom(table, keys, values);
  };
}

// Checkpoints go by the names of variables without their containers, where no two become one.
std::map<std::string, std::string> KeysWithoutContainers(const Graph& graph) {
  std::map<std::string, std::set<std::string>> variables;  // by key
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed || !IsVariable(node)) continue;
    Node alone = node;
    alone.attrs.Set("container", std::string());
    variables[VariableName(alone)].insert(VariableName(node));
  }
  std::map<std::string, std::string> keys;
  for (const auto& [key, names] : variables) {
    if (names.size() == 1 && *names.begin() != key) keys[*names.begin()] = key;
  }
  return keys;
}

// Values that no node of the graph goes by are kept and written again by --checkpoint_out, and variables without values may
// have an initializer; but a name may be misspelt.
void WarnOfStrangers(const std::string& prefix, const Workload& workload) {
  const Graph& graph = *workload.graph;
  std::set<std::string> names, variables;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed) continue;
    const OpDef* def = OpRegistry::Builtin().Find(node.op);
    names.insert(VariableName(node));
    names.insert(NameOfKeptState(node));
    if (def != nullptr && def->is_variable) variables.insert(VariableName(node));
  }
  for (const auto& [name, table] : workload.checkpoint_tables) variables.insert(name);
  std::vector<std::string> strangers, missing;
  for (const auto& [name, value] : workload.initial_values) {
    if (names.count(name) == 0) strangers.push_back(name);
  }
  for (const std::string& name : variables) {
    if (workload.initial_values.count(name) == 0) missing.push_back(name);
  }
  if (!strangers.empty()) LOG(WARNING) << prefix << ": the graph has no variable " << FirstOf(std::move(strangers)) << " of the checkpoint";
  if (missing.empty()) return;
  LOG(WARNING) << prefix << ": no value of " << FirstOf(std::move(missing)) << ", which "
               << (workload.init.targets.empty() && workload.model_init.targets.empty() ? "have none then" : "start as the init_targets leave them");
}

// Names of the variables that nodes of the graph assign, those of its functions apart.
std::set<std::string> Assigned(const Graph& graph, bool restored_too) {
  std::set<std::string> assigned;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed || node.inputs.size() < 2 || (node.op != "AssignVariableOp" && node.op != "Assign")) continue;
    const bool is_restored = graph.node(SourceOfHandle(graph, node.inputs[1]).node).op == "RestoreV2";
    if (restored_too || !is_restored) assigned.insert(VariableName(graph.node(SourceOfHandle(graph, node.inputs[0]).node)));
  }
  return assigned;
}

absl::StatusOr<std::set<std::string>> AssignedByStep(const Workload& workload) {
  Signature signature{.feeds = workload.feed_types, .fetches = workload.fetches, .targets = workload.targets};
  MR_ASSIGN_OR_RETURN(const Graph step, PruneAndInline(*workload.graph, signature, OpRegistry::Builtin()));
  return Assigned(step, /*restored_too=*/true);
}

// Names of the variables of strings that are there when the signature runs; none where it cannot, of which planning says why.
void AddVariablesOfWords(const Graph& graph, const Signature& signature, std::set<std::string>& names) {
  const absl::StatusOr<Graph> step = PruneAndInline(graph, signature, OpRegistry::Builtin());
  for (int32_t i = 0; step.ok() && i < step->num_ids(); ++i) {
    if (step->alive(NodeId{i}) && IsVariableOfWords(step->node(NodeId{i}))) names.insert(VariableName(step->node(NodeId{i})));
  }
}

}  // namespace

void NameForCheckpoints(const Graph& graph, const CheckpointNames& names, Workload& workload) {
  workload.checkpoint_keys = names.variables;
  workload.checkpoint_keys.merge(KeysWithoutContainers(graph));
  workload.checkpoint_parts = PartitionedVariables(graph);
  workload.checkpoint_tables = CheckpointTables(graph, names.tables, /*names_by_default=*/true);
}

void TakeValuesOf(const SavedModel& model, Workload& workload) {
  workload.checkpoint_keys = model.checkpoint_keys;
  workload.checkpoint_extras = model.checkpoint_extras;
  workload.checkpoint_parts = PartitionedVariables(model.graph);
  workload.checkpoint_tables = CheckpointTables(model.graph, model.checkpoint_tables, /*names_by_default=*/false);
  if (model.checkpoint == nullptr) return;
  for (const auto& [name, key] : model.checkpoint_keys) workload.initial_values[name] = ValueIn(model.checkpoint, key);
  for (const auto& [name, part] : PartsIn(*model.checkpoint, workload.checkpoint_parts)) {
    workload.initial_values[name] = SliceIn(model.checkpoint, part);
  }
  std::set<std::string> kept;
  for (const auto& [name, table] : workload.checkpoint_tables) {
    workload.initial_values[name] = TableIn(model.checkpoint, table);
    kept.insert(table.table);
  }
  // Of others, which no step can use, checkpoint_out writes what there is.
  for (const auto& [table, saved] : model.checkpoint_tables) {
    for (const std::string& key : {saved.keys, saved.values}) {
      if (kept.count(table) == 0) workload.initial_values[key] = ValueIn(model.checkpoint, key);
    }
  }
}

absl::StatusOr<std::shared_ptr<TensorReader>> OpenCheckpoint(const std::string& prefix, const Environment& environment) {
  const std::string index = absl::EndsWith(prefix, kCheckpointIndex) ? prefix : absl::StrCat(prefix, kCheckpointIndex);
  return ReadFrom(index, environment.open_checkpoint_reader(prefix));
}

absl::Status ReadCheckpoint(const std::string& prefix, bool of_saved_model, const Environment& environment, Workload& workload) {
  MR_ASSIGN_OR_RETURN(const std::shared_ptr<TensorReader> reader, OpenCheckpoint(prefix, environment));
  workload.initial_values.clear();
  workload.values_from = absl::StrCat("--checkpoint_in=", prefix);
  std::set<std::string> keys(reader->names().begin(), reader->names().end());
  for (const auto& [name, key] : workload.checkpoint_keys) {
    if (keys.erase(key) > 0) workload.initial_values[name] = ValueIn(reader, key);
  }
  // The own name: of a variable whose key an older version did not know.
  for (const auto& [name, key] : workload.checkpoint_keys) {
    if (!of_saved_model || workload.initial_values.count(name) > 0) continue;
    if (keys.erase(name) == 0) return absl::NotFoundError(absl::StrCat(prefix, ": no ", key, ", the value of variable ", name));
    workload.initial_values[name] = ValueIn(reader, name);
  }
  for (const auto& [name, part] : PartsIn(*reader, workload.checkpoint_parts)) {
    keys.erase(part.key);
    workload.initial_values[name] = SliceIn(reader, part);
  }
  for (const auto& [name, table] : workload.checkpoint_tables) {
    const bool exported = keys.count(table.saved.keys) > 0 && keys.count(table.saved.values) > 0;
    if (exported) {
      keys.erase(table.saved.keys);
      keys.erase(table.saved.values);
    }
    if (keys.erase(name) > 0) {
      workload.initial_values[name] = ValueIn(reader, name);
    } else if (exported) {
      workload.initial_values[name] = TableIn(reader, table);
    }
  }
  for (const std::string& key : reader->names()) {
    if (absl::StartsWith(key, kOwnNamePrefix) && keys.erase(key) > 0) workload.initial_values[key.substr(sizeof(kOwnNamePrefix) - 1)] = ValueIn(reader, key);
  }
  std::vector<std::string> named_otherwise;
  for (const std::string& key : keys) {
    if (workload.checkpoint_extras.count(key) > 0) continue;
    if (workload.initial_values.count(key) > 0) {
      named_otherwise.push_back(key);
      continue;
    }
    if (!absl::StartsWith(key, kNodeStatePrefix)) {
      workload.initial_values[key] = ValueIn(reader, key);
      continue;
    }
    MR_ASSIGN_OR_RETURN(workload.initial_states[key.substr(sizeof(kNodeStatePrefix) - 1)], reader->Read(key));
  }
  if (!named_otherwise.empty()) {
    LOG(WARNING) << prefix << ": what it holds under the name of " << FirstOf(std::move(named_otherwise))
                 << " is left out: the graph's saver restores such a variable from another key";
  }
  WarnOfStrangers(prefix, workload);
  return absl::OkStatus();
}

absl::Status DeclareShapes(Workload& workload) {
  const std::set<std::string> initialised = Assigned(*workload.graph, /*restored_too=*/false);
  std::map<NodeId, std::string> open;
  for (int32_t i = 0; i < workload.graph->num_ids(); ++i) {
    const Node& node = workload.graph->node(NodeId{i});
    if (node.removed || !IsVariable(node) || node.attrs.GetOr("shape", Shape::UnknownRank()).fully_known()) continue;
    const std::string name = VariableName(node);
    if (workload.initial_values.count(name) > 0 && initialised.count(name) == 0) open[NodeId{i}] = name;
  }
  if (open.empty()) return absl::OkStatus();
  const absl::StatusOr<std::set<std::string>> assigned = AssignedByStep(workload);
  if (!assigned.ok()) return absl::OkStatus();  // planning says why
  Graph graph = workload.graph->Clone();
  for (const auto& [id, name] : open) {
    if (assigned->count(name) > 0) continue;
    MR_ASSIGN_OR_RETURN(const Tensor value, workload.initial_values.at(name)());
    graph.mutable_node(id).attrs.Set("shape", value.shape());
  }
  workload.graph = std::make_shared<const Graph>(std::move(graph));
  return absl::OkStatus();
}

absl::Status DeclareWords(Workload& workload) {
  std::map<NodeId, std::string> open;
  for (int32_t i = 0; i < workload.graph->num_ids(); ++i) {
    const Node& node = workload.graph->node(NodeId{i});
    if (node.removed || !IsVariableOfWords(node)) continue;
    if (const std::string name = VariableName(node); workload.initial_values.count(name) > 0) open[NodeId{i}] = name;
  }
  if (open.empty()) return absl::OkStatus();
  std::set<std::string> used;
  AddVariablesOfWords(*workload.graph, {.feeds = workload.feed_types, .fetches = workload.fetches, .targets = workload.targets}, used);
  for (const Initialiser* init : {&workload.init, &workload.model_init}) {
    if (!init->targets.empty()) AddVariablesOfWords(*workload.graph, {.feeds = init->feed_types, .targets = init->targets}, used);
  }
  std::map<NodeId, Tensor> words;
  for (const auto& [id, name] : open) {
    if (used.count(name) == 0) continue;
    MR_ASSIGN_OR_RETURN(const Tensor value, workload.initial_values.at(name)());
    if (value.dtype() == DataType::kString) words[id] = value;
  }
  if (words.empty()) return absl::OkStatus();
  Graph graph = workload.graph->Clone();
  for (const auto& [id, value] : words) graph.mutable_node(id).attrs.Set(kRestoredWords, value);
  workload.graph = std::make_shared<const Graph>(std::move(graph));
  return absl::OkStatus();
}

}  // namespace millrace::cli
