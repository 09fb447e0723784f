#include "passes/swaps/tflms_values.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "millrace/types.h"
#include "passes/access/access_lists.h"

namespace millrace {
namespace {

// Ops whose tensors the original neither swaps out nor in: data as it comes, variables, fillers.
constexpr std::string_view kNeverSwapped[] = {
    "Assign", "AssignAdd", "AssignAddVariableOp", "AssignSub", "AssignSubVariableOp", "AssignVariableOp", "Const",
    "Identity", "Placeholder", "PlaceholderWithDefault", "RandomUniform", "Range", "Read", "ReadVariableOp",
    "ResourceGather", "ResourceScatterAdd", "ResourceScatterDiv", "ResourceScatterMax", "ResourceScatterMin",
    "ResourceScatterMul", "ResourceScatterNdAdd", "ResourceScatterNdUpdate", "ResourceScatterSub",
    "ResourceScatterUpdate", "ScatterAdd", "ScatterSub", "ScatterUpdate", "TruncatedNormal", "VarHandleOp",
    "VarIsInitializedOp", "VariableShape", "VariableV2"};

bool NeverSwapped(const std::string& op) {
  return std::binary_search(std::begin(kNeverSwapped), std::end(kNeverSwapped), std::string_view(op));
}

bool Names(const TflmsOptions::Filter& filter, const Node& node) {
  for (const std::string& scope : filter.scopes) {
    if (absl::StartsWith(node.name, scope)) return true;
  }
  return std::find(filter.types.begin(), filter.types.end(), node.op) != filter.types.end();
}

bool Allowed(const TflmsOptions::Filter& include, const TflmsOptions::Filter& exclude, const Node& node) {
  return !NeverSwapped(node.op) && (include.empty() || Names(include, node)) && !Names(exclude, node);
}

// Whether nodes of this node's name and more may come of it: bodies of loops, of branches, of what it calls.
bool HasBody(const Graph& graph, const Node& node) {
  if (graph.library() == nullptr) return false;
  if (graph.library()->count(node.op) > 0) return true;
  return std::any_of(node.attrs.begin(), node.attrs.end(), [](const auto& attr) {
    return std::holds_alternative<FunctionRef>(attr.second) || std::holds_alternative<std::vector<FunctionRef>>(attr.second);
  });
}

// Plans of one session share the filters, and not every plan needs (or takes apart) what they name.
absl::Status CheckFilter(const Graph& whole, const Graph& prepared, const char* flag, const TflmsOptions::Filter& filter) {
  std::vector<const Graph*> graphs = {&prepared, &whole};
  if (whole.library() != nullptr) {
    for (const auto& [name, function] : *whole.library()) graphs.push_back(function.body.get());
  }
  const auto any = [&](auto matches) {
    for (const Graph* graph : graphs) {
      for (int32_t i = 0; graph != nullptr && i < graph->num_ids(); ++i) {
        if (!graph->node(NodeId{i}).removed && matches(graph->node(NodeId{i}))) return true;
      }
    }
    return false;
  };
  for (const std::string& scope : filter.scopes) {
    const auto names = [&](const Node& node) {
      return absl::StartsWith(node.name, scope) || (absl::StartsWith(scope, absl::StrCat(node.name, "/")) && HasBody(whole, node));
    };
    if (any(names)) continue;
    return absl::InvalidArgumentError(absl::StrCat("--", flag, ": no node's name begins with \"", scope, "\""));
  }
  for (const std::string& type : filter.types) {
    if (any([&](const Node& node) { return node.op == type; })) continue;
    return absl::InvalidArgumentError(absl::StrCat("--", flag, ": no node is a ", type));
  }
  return absl::OkStatus();
}

class Finder {
 public:
  explicit Finder(const SwapRequest& request) : request_(request), lists_(ListAccesses(request.graph)) {
    result_.graph = &request.graph;
  }

  TflmsGraph Run() {
    const AccessGraph& graph = request_.graph;
    const int32_t n = graph.num_operations();
    std::vector<int64_t> change(n + 1, 0);
    for (size_t s = 0; s < graph.storages.size(); ++s) {
      const absl::Span<const TimedAccess> accesses = lists_.of(s);
      if (accesses.empty()) continue;
      const int32_t storage = static_cast<int32_t>(s);
      const StorageKind kind = graph.storages[s].kind;
      if (kind == StorageKind::kVariable || kind == StorageKind::kConstant) {
        result_.resident_bytes += result_.bytes(storage);
        continue;
      }
      change[kind == StorageKind::kFeed ? 0 : accesses.front().operation] += result_.bytes(storage);
      change[accesses.back().operation + 1] -= result_.bytes(storage);
      if (kind == StorageKind::kActivation) AddValues(storage, accesses);
    }
    int64_t live = 0;
    for (int32_t i = 0; i < n; ++i) {
      live += change[i];
      result_.profile.push_back(live + graph.scratch_bytes[i]);
    }
    const int32_t levels = n == 0 ? 0 : graph.partition.back() + 1;
    for (int32_t level = 0; level <= levels; ++level) {
      result_.first_operation.push_back(static_cast<int32_t>(
          std::lower_bound(graph.partition.begin(), graph.partition.end(), level) - graph.partition.begin()));
    }
    return std::move(result_);
  }

 private:
  void AddValues(int32_t storage, absl::Span<const TimedAccess> accesses) {
    size_t current = result_.values.size();
    bool made = false;
    for (const TimedAccess& access : accesses) {
      if (access.access.reads && made) result_.values[current].uses.push_back({access.operation, MayTake(storage, access.operation)});
      if (!access.access.writes) continue;
      current = result_.values.size();
      made = true;
      result_.values.push_back({storage, access.operation, MayLeave(storage, access.operation), {}});
    }
  }

  bool MayLeave(int32_t storage, int32_t operation) const {
    const TflmsOptions& options = request_.options.tflms;
    for (const OperationNode& made : request_.device.operations[operation].nodes) {
      const Node& node = request_.nodes.node(made.node);
      for (int32_t o = 0; o < static_cast<int32_t>(node.outputs.size()); ++o) {
        if (request_.device.storage({made.node, o}) != storage) continue;
        return node.outputs[o].shape.rank() > 1 && Allowed(options.include_outputs, options.exclude_outputs, node);
      }
    }
    return false;
  }

  bool MayTake(int32_t storage, int32_t operation) const {
    const TflmsOptions& options = request_.options.tflms;
    const DeviceOperation& taker = request_.device.operations[operation];
    for (const OperationNode& node : taker.nodes) {
      if (std::find(node.input_storages.begin(), node.input_storages.end(), storage) == node.input_storages.end()) continue;
      if (!Allowed(options.include_inputs, options.exclude_inputs, request_.nodes.node(node.node))) return false;
    }
    return !taker.is_fetch;
  }

  const SwapRequest& request_;
  const AccessLists lists_;
  TflmsGraph result_;
};

}  // namespace

int64_t TflmsGraph::bytes(int32_t storage) const { return graph->aligned_bytes(storage); }

TflmsGraph FindTflmsValues(const SwapRequest& request) { return Finder(request).Run(); }

absl::Status CheckTflmsFilters(const Graph& whole, const Graph& prepared, const TflmsOptions& options) {
  MR_RETURN_IF_ERROR(CheckFilter(whole, prepared, "exclude_outputs", options.exclude_outputs));
  MR_RETURN_IF_ERROR(CheckFilter(whole, prepared, "exclude_inputs", options.exclude_inputs));
  MR_RETURN_IF_ERROR(CheckFilter(whole, prepared, "include_outputs", options.include_outputs));
  return CheckFilter(whole, prepared, "include_inputs", options.include_inputs);
}

}  // namespace millrace
