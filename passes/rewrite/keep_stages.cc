#include "passes/rewrite/keep_stages.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/queue_layout.h"
#include "millrace/status.h"
#include "passes/control_flow/control_flow_ops.h"
#include "passes/control_flow/creation_places.h"
#include "passes/control_flow/kept_state.h"
#include "passes/rewrite/known_tables.h"
#include "passes/shapes/infer_shapes.h"

namespace millrace {
namespace {

// Types of what is staged first, by the area's name.
using StagedTypes = std::map<std::string, std::vector<TensorType>>;

bool IsStage(const Node& node) { return node.op == "Stage"; }
bool IsUserOfArea(const Node& node) { return IsStagingOp(node) && node.op != kStagingArea; }

void AddTypes(const Graph& graph, const Node& stage, StagedTypes& types) {
  std::vector<TensorType> own;
  for (OutputRef input : stage.inputs) {
    const auto& outputs = graph.node(input.node).outputs;
    if (static_cast<size_t>(input.index) >= outputs.size() || graph.node(input.node).dynamic_output(input.index)) return;
    own.push_back(outputs[input.index]);
  }
  if (!own.empty()) types.emplace(NameOfResource(stage), std::move(own));
}

bool PassesTypesOn(const Node& node) { return IsSwitch(node) || IsMerge(node) || IsEnter(node) || IsExit(node); }

// What conditionals and loops pass on is of the type of what they take.
void DeclarePassedOn(const Graph& graph, NodeId id, ShapeTracker& tracker) {
  const Node& node = graph.node(id);
  for (OutputRef input : node.inputs) {
    const auto& outputs = graph.node(input.node).outputs;
    if (static_cast<size_t>(input.index) >= outputs.size()) continue;
    const TensorType type = outputs[input.index];
    return tracker.Declare(id, {type, IsMerge(node) ? TensorType{DataType::kInt32, Shape()} : type}, {});
  }
}

absl::StatusOr<StagedTypes> TypesIn(Graph graph, const OpRegistry& ops, KernelOracle& oracle) {
  StagedTypes types;
  MR_ASSIGN_OR_RETURN(const std::vector<NodeId> order, CreationOrder(graph));
  const std::map<std::string, TensorType> no_variables;
  ShapeTracker tracker(graph, ops, oracle, no_variables);
  for (NodeId id : order) {
    const Node& node = graph.node(id);
    if (IsStage(node)) {
      AddTypes(graph, node, types);
    } else if (PassesTypesOn(node)) {
      DeclarePassedOn(graph, id, tracker);
    } else if (ops.Find(node.op) != nullptr) {
      tracker.Track(id, false);
    }
  }
  return types;
}

absl::StatusOr<StagedTypes> TypesInWhole(const Graph& whole, const OpRegistry& ops, KernelOracle& oracle) {
  MR_ASSIGN_OR_RETURN(Graph graph, WhatRunsFor(whole, ops, IsStage));
  CutLoops(graph);
  return TypesIn(std::move(graph), ops, oracle);
}

absl::Status AreaError(absl::StatusCode code, const Node& user, const std::string& what) {
  return absl::Status(code, absl::StrCat("node '", user.name, "' (", user.op, "): staging area '", NameOfResource(user), "' ", what));
}

absl::Status CheckTypesTaken(const Node& user, const std::vector<TensorType>& staged) {
  if (user.op != "Unstage" && user.op != "StagePeek") return absl::OkStatus();
  const auto taken = user.attrs.GetOr<std::vector<DataType>>("dtypes", {});
  const auto same = [](const TensorType& type, DataType dtype) { return type.dtype == dtype; };
  if (std::equal(staged.begin(), staged.end(), taken.begin(), taken.end(), same)) return absl::OkStatus();
  return AreaError(absl::StatusCode::kInvalidArgument, user,
                 absl::StrCat("has elements of ", staged.size(), " components, expected the ", taken.size(), " of attribute 'dtypes'"));
}

// What limits the elements together limits their number.
absl::StatusOr<Node> AreaOf(const Node& user, const std::vector<TensorType>& staged) {
  QueueLayout layout;
  for (const TensorType& type : staged) {
    layout.dtypes.push_back(type.dtype);
    layout.shapes.push_back(type.shape);
  }
  if (!layout.sized()) {
    const auto not_kept = [](const TensorType& type) { return DataTypeSize(type.dtype) <= 0 || !type.shape.fully_known(); };
    const auto other = std::find_if(staged.begin(), staged.end(), not_kept);
    const TensorType& shown = other != staged.end() ? *other : staged[0];
    return AreaError(absl::StatusCode::kUnimplemented, user, absl::StrCat("has elements of ", shown.ToString(), "; only numbers of known shapes are kept"));
  }
  int64_t capacity = user.attrs.GetOr<int64_t>("capacity", 0);
  const int64_t limit = user.attrs.GetOr<int64_t>("memory_limit", 0), bytes = layout.element_bytes();
  if (limit > 0 && bytes > limit) {
    return AreaError(absl::StatusCode::kInvalidArgument, user,
                   absl::StrCat("has elements of ", bytes, " bytes, expected at most its memory limit of ", limit));
  }
  if (limit > 0) capacity = capacity > 0 ? std::min(capacity, limit / bytes) : limit / bytes;
  Node area;
  area.name = absl::StrCat(NameOfResource(user), "/area");
  area.op = kStagingArea;
  area.requested_device = user.requested_device;
  area.attrs.Set("component_types", layout.dtypes);
  area.attrs.Set("shapes", layout.shapes);
  area.attrs.Set("capacity", capacity > 0 ? capacity : -1);
  area.attrs.Set("shared_name", NameOfResource(user));
  return area;
}

}  // namespace

absl::Status DeclareStagingAreas(Graph& graph, const Graph& whole, const OpRegistry& ops, KernelOracle& oracle) {
  std::vector<NodeId> users;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    if (graph.alive(NodeId{i}) && IsUserOfArea(graph.node(NodeId{i}))) users.push_back(NodeId{i});
  }
  if (users.empty()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(StagedTypes types, TypesIn(graph.Clone(), ops, oracle));
  const auto is_known = [&](NodeId user) { return types.count(NameOfResource(graph.node(user))) > 0; };
  if (!std::all_of(users.begin(), users.end(), is_known)) {
    MR_ASSIGN_OR_RETURN(StagedTypes elsewhere, TypesInWhole(whole, ops, oracle));
    types.merge(elsewhere);
  }
  std::map<std::string, NodeId> areas;
  CreationPlaces places;
  for (NodeId id : users) {
    const std::string name = NameOfResource(graph.node(id));
    const auto staged = types.find(name);
    if (staged == types.end()) {
      return AreaError(absl::StatusCode::kUnimplemented, graph.node(id), "is filled by no Stage of the graph whose inputs have shapes that are known; "
                                                                       "declare those of its placeholders");
    }
    MR_RETURN_IF_ERROR(CheckTypesTaken(graph.node(id), staged->second));
    if (areas.count(name) == 0) {
      MR_ASSIGN_OR_RETURN(Node area, AreaOf(graph.node(id), staged->second));
      areas[name] = places.AddBefore(graph, id, std::move(area));
    }
    Node& user = graph.mutable_node(id);
    user.inputs.insert(user.inputs.begin(), OutputRef{areas[name], 0});
  }
  places.Renumber(graph);
  return absl::OkStatus();
}

}  // namespace millrace
