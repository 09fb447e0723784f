#include "passes/unroll/straight_graph.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "passes/control_flow/control_flow_ops.h"
#include "passes/control_flow/kept_state.h"
#include "passes/control_flow/text_source.h"
#include "passes/shapes/effects.h"

namespace millrace {

StraightGraph::StraightGraph(const Graph& original, const OpRegistry& ops, KernelOracle& oracle,
                             const std::map<std::string, TensorType>& variable_types, int64_t max_nodes,
                             const QuestionOptions& questions)
    : ops_(ops), oracle_(oracle), tracker_(graph_, ops, oracle, variable_types), max_nodes_(max_nodes), questions_(questions) {
  graph_.producer_version = original.producer_version;
  graph_.set_library(original.library());
}

absl::StatusOr<NodeId> StraightGraph::Add(Node node) {
  MR_RETURN_IF_ERROR(oracle_.MayGoOn());
  if (graph_.num_ids() >= max_nodes_) {
    return absl::OutOfRangeError(absl::StrCat("node '", node.name, "' (", node.op, "): its loop makes the graph larger ",
                                                     "than ", max_nodes_, " nodes (--max_unrolled_nodes)"));
  }
  const auto is_guarded = [&](NodeId id) { return guarded_[id.value]; };
  // A ControlTrigger runs whichever of those that it waits for do.
  const bool guarded =
      IsSwitch(node) || IsMerge(node) ||
      std::any_of(node.inputs.begin(), node.inputs.end(), [&](OutputRef input) { return is_guarded(input.node); }) ||
      (node.op != "ControlTrigger" && std::any_of(node.control_inputs.begin(), node.control_inputs.end(), is_guarded));
  const NodeId id = graph_.AddUnique(std::move(node));
  guarded_.resize(graph_.num_ids(), false);
  guarded_[id.value] = guarded;
  const NodeId written = WrittenBy(id);
  // A constant in the place of a guarded node would have lost its guard.
  if (!tracker_.Track(id, !guarded)) TypeByHand(id);
  guarded_.resize(graph_.num_ids(), false);
  beyond_feeds_.resize(graph_.num_ids(), false);
  beyond_feeds_[id.value] = FollowsFromMoreThanFeeds(graph_.node(id));
  written_.resize(graph_.num_ids(), written);
  return id;
}

// Of a node that was just added.
NodeId StraightGraph::WrittenBy(NodeId id) const {
  const Node& node = graph_.node(id);
  if (WritesVariables(ops_, node.op)) return id;
  NodeId only;
  bool several = false;
  const auto look_at = [&](NodeId before) {
    const NodeId write = written_[before.value];
    several |= write.valid() && only.valid() && write != only;
    if (write.valid()) only = write;
  };
  for (const OutputRef input : node.inputs) look_at(input.node);
  for (const NodeId control : node.control_inputs) look_at(control);
  // What waits for one in a branch does not run where the branch is not taken.
  return several || (only.valid() && guarded_[only.value]) ? id : only;
}

// From what the nodes before it are known to follow from: a search behind each turn would pass all turns before it.
bool StraightGraph::FollowsFromMoreThanFeeds(const Node& node) const {
  if (node.op == "_Feed") return false;
  const OpDef* def = ops_.Find(node.op);
  if (node.inputs.empty() || (def != nullptr && (!def->variables.empty() || def->state_bytes > 0))) return true;
  const auto beyond = [&](OutputRef ref) { return Known(ref) == nullptr && beyond_feeds_[ref.node.value]; };
  const absl::Span<const OutputRef> inputs = InputsOfUnknown(node);
  return std::any_of(inputs.begin(), inputs.end(), [&](OutputRef input) {
    if (beyond(input)) return true;
    // Which of a Merge's constants comes is told by what they wait for.
    const auto& controls = graph_.node(input.node).control_inputs;
    return IsMerge(node) && std::any_of(controls.begin(), controls.end(), [&](NodeId control) { return beyond({control, 0}); });
  });
}

absl::Span<const OutputRef> StraightGraph::InputsOfUnknown(const Node& node) {
  const absl::Span<const OutputRef> inputs = absl::MakeConstSpan(node.inputs);
  return IsTableFind(node) && node.outputs.empty() && !inputs.empty() ? inputs.subspan(1) : inputs;
}

absl::StatusOr<NodeId> StraightGraph::AddWaiter(const char* op, const std::string& name, const std::vector<NodeId>& controls) {
  Node waiter;
  waiter.name = name;
  waiter.op = op;
  waiter.control_inputs.assign(controls.begin(), controls.end());
  return Add(std::move(waiter));
}

const TensorType* StraightGraph::TypeOrNull(OutputRef ref) const {
  const Node& from = graph_.node(ref.node);
  return static_cast<size_t>(ref.index) < from.outputs.size() ? &from.outputs[ref.index] : nullptr;
}

// What passes after this one lower has no rule: Switch and Merge, what reads tables, hashes of numbers' texts.
bool StraightGraph::TypeByHand(NodeId id) {
  const Node& node = graph_.node(id);
  if (IsTableFind(node)) return TypeFound(id);
  if (IsTableSize(node)) {
    tracker_.Declare(id, {{DataType::kInt64, Shape()}}, {Tensor()});
    return true;
  }
  if (absl::StartsWith(node.op, "StringToHashBucket")) return TypeHash(id);
  const auto type = [&](OutputRef ref) { return TypeOrNull(ref); };
  const auto value = [&](OutputRef ref) { return Known(ref) == nullptr ? Tensor() : *Known(ref); };
  if (IsSwitch(node)) {
    const TensorType* data = type(node.inputs[0]);
    if (data == nullptr) return false;
    const TensorType of = *data;
    const Tensor known = value(node.inputs[0]);
    const OutputRef source = node.inputs[0];
    tracker_.Declare(id, {of, of}, {known, known});
    for (const int32_t side : {0, 1}) tracker_.DeclarePassed(id, side, {source});
    return true;
  }
  if (IsMerge(node)) {
    const TensorType* a = type(node.inputs[0]);
    const TensorType* b = node.inputs.size() == 2 ? type(node.inputs[1]) : nullptr;
    if (a == nullptr || b == nullptr || !(*a == *b)) return false;
    const TensorType of = *a;
    const Tensor first = value(node.inputs[0]), second = value(node.inputs[1]);
    const bool same = !first.empty() && !second.empty() && first.BitEqual(second);
    const OutputRef sources[] = {node.inputs[0], node.inputs[1]};
    tracker_.Declare(id, {of, {DataType::kInt32, Shape()}}, {same ? first : Tensor(), Tensor()});
    tracker_.DeclarePassed(id, 0, sources);
    return true;
  }
  return false;
}

// A value of the table, which the default is one of, for every key.
bool StraightGraph::TypeFound(NodeId id) {
  const Node& node = graph_.node(id);
  if (node.inputs.size() != 3) return false;
  const Node& table = graph_.node(SourceOfHandle(graph_, node.inputs[0]).node);
  const TensorType *keys = TypeOrNull(node.inputs[1]), *otherwise = TypeOrNull(node.inputs[2]);
  const TensorType* key = IsDenseTable(table) && !table.inputs.empty() ? TypeOrNull(table.inputs[0]) : nullptr;
  if (keys == nullptr || otherwise == nullptr || (IsDenseTable(table) && key == nullptr)) return false;
  const int key_rank = key == nullptr ? 0 : key->shape.rank();
  const bool of_numbers = key_rank == 0 && otherwise->shape.rank() == 0;
  const bool known = !graph_.node(node.inputs[1].node).dynamic_output(node.inputs[1].index) &&
                     !graph_.node(node.inputs[2].node).dynamic_output(node.inputs[2].index);
  if ((!of_numbers && !known) || keys->shape.rank() < key_rank) return false;
  TensorType found{otherwise->dtype, Shape()};
  for (int d = 0; d + key_rank < keys->shape.rank(); ++d) found.shape.AddDim(keys->shape.dim(d));
  for (int64_t dim : otherwise->shape.dims()) found.shape.AddDim(dim);
  const OutputRef source = node.inputs[1];
  tracker_.Declare(id, {std::move(found)}, {Tensor()});
  if (of_numbers) tracker_.DeclarePassed(id, 0, {source});
  return true;
}

bool StraightGraph::TypeHash(NodeId id) {
  const Node& node = graph_.node(id);
  absl::InlinedVector<NodeId, 2> waits;
  const TensorType* text = node.inputs.empty() ? nullptr : TypeOrNull(node.inputs[0]);
  if (text == nullptr || !HashedNumbers(graph_, node, waits).valid()) return false;
  const OutputRef source = node.inputs[0];
  tracker_.Declare(id, {{DataType::kInt64, text->shape}}, {Tensor()});
  tracker_.DeclarePassed(id, 0, {source});
  return true;
}

std::optional<TensorType> StraightGraph::Type(OutputRef ref) const {
  const Node& node = graph_.node(ref.node);
  if (static_cast<size_t>(ref.index) >= node.outputs.size() || node.dynamic_output(ref.index)) return std::nullopt;
  const TensorType& type = node.outputs[ref.index];
  if (!type.shape.fully_known()) return std::nullopt;
  return type;
}

std::vector<OutputRef> StraightGraph::UntypedInputs(NodeId id) const {
  std::vector<OutputRef> untyped;
  const Node& node = graph_.node(id);
  for (const OutputRef& input : node.inputs) {
    if (node.outputs.empty() && TypeOrNull(input) == nullptr) untyped.push_back(input);
  }
  return untyped;
}

std::optional<size_t> StraightGraph::MissingValue(NodeId id) const {
  const Node& node = graph_.node(id);
  if (!node.outputs.empty()) return std::nullopt;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!TakenByValue(node, i, tracker_.by_value(id)) || Known(node.inputs[i]) != nullptr) continue;
    const std::optional<TensorType> type = Type(node.inputs[i]);
    if (type && type->size_bytes() <= kMaxFoldedBytes) return i;
  }
  return std::nullopt;
}

bool StraightGraph::FreeConstant(NodeId id) {
  Node& node = graph_.mutable_node(id);
  if (node.op != "Const" || guarded_[id.value]) return false;
  node.control_inputs.clear();
  written_[id.value] = NodeId();
  return true;
}

Graph StraightGraph::Take() {
  for (int32_t i = 0; i < graph_.num_ids(); ++i) {
    Node& node = graph_.mutable_node(NodeId{i});
    node.outputs.clear();
    node.dynamic_outputs = node.run_time_values = 0;
  }
  return std::move(graph_);
}

absl::StatusOr<OutputRef> StraightGraph::Constant(const Tensor& value) {
  std::string key = value.type().ToString();
  if (value.dtype() == DataType::kString) {
    for (const std::string& text : value.strings()) absl::StrAppend(&key, text.size(), ":", text);
  } else {
    key.append(static_cast<const char*>(value.data()), value.size_bytes());
  }
  const auto found = constants_.find(key);
  if (found != constants_.end()) return found->second;
  Node node;
  node.name = "unrolled/const";
  node.op = "Const";
  node.attrs.Set("dtype", value.dtype());
  node.attrs.Set("value", value);
  MR_ASSIGN_OR_RETURN(const NodeId id, Add(std::move(node)));
  const OutputRef ref{id, 0};
  constants_.emplace(std::move(key), ref);
  return ref;
}

absl::StatusOr<OutputRef> StraightGraph::Zeros(const TensorType& type) {
  const auto found = zeros_.find(type.ToString());
  if (found != zeros_.end()) return found->second;
  OutputRef ref;
  if (type.size_bytes() <= 1024) {
    MR_ASSIGN_OR_RETURN(ref, Constant(Tensor(type.dtype, type.shape)));
  } else {
    std::vector<int64_t> dims(type.shape.dims().begin(), type.shape.dims().end());
    MR_ASSIGN_OR_RETURN(const OutputRef shape, Constant(Tensor::Vector<int64_t>(absl::MakeConstSpan(dims))));
    MR_ASSIGN_OR_RETURN(const OutputRef zero, Constant(Tensor(type.dtype, Shape())));
    MR_ASSIGN_OR_RETURN(ref, Op({"unrolled/zeros", "", nullptr}, "Fill", {shape, zero},
                                {{"T", type.dtype}, {"index_type", DataType::kInt64}}));
  }
  zeros_.emplace(type.ToString(), ref);
  zeros_refs_.insert(ref);
  return ref;
}

absl::StatusOr<OutputRef> StraightGraph::Op(const Origin& origin, const char* op, std::vector<OutputRef> inputs,
                                            AttrMap attrs) {
  Node node;
  node.name = origin.name;
  node.op = op;
  node.requested_device = origin.device;
  node.inputs.assign(inputs.begin(), inputs.end());
  node.attrs = std::move(attrs);
  if (origin.waits != nullptr) node.control_inputs.assign(origin.waits->begin(), origin.waits->end());
  MR_ASSIGN_OR_RETURN(const NodeId id, Add(std::move(node)));
  return Current({id, 0});
}

namespace {

DataType TypeOr(const std::optional<TensorType>& type) { return type ? type->dtype : DataType::kFloat; }

}  // namespace

absl::StatusOr<OutputRef> StraightGraph::Slice(const Origin& origin, OutputRef tensor, int64_t begin, int64_t end,
                                               bool drop_dimension) {
  const auto one_number = [&](int64_t number) { return Constant(Tensor::Vector<int64_t>({number})); };
  MR_ASSIGN_OR_RETURN(const OutputRef first, one_number(begin));
  MR_ASSIGN_OR_RETURN(const OutputRef last, one_number(end));
  MR_ASSIGN_OR_RETURN(const OutputRef stride, one_number(1));
  AttrMap attrs{{"T", TypeOr(Type(tensor))}, {"Index", DataType::kInt64}, {"shrink_axis_mask", int64_t{drop_dimension}}};
  for (const char* mask : {"begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask"}) attrs.Set(mask, int64_t{0});
  return Op(origin, "StridedSlice", {tensor, first, last, stride}, std::move(attrs));
}

absl::StatusOr<OutputRef> StraightGraph::Row(OutputRef tensor, int64_t index) {
  const auto found = rows_.find({tensor, index});
  if (found != rows_.end()) return found->second;
  const Node& from = graph_.node(tensor.node);
  const Origin origin{absl::StrCat(from.name, "/row_", index), from.requested_device, nullptr};
  MR_ASSIGN_OR_RETURN(const OutputRef row, Slice(origin, tensor, index, index + 1, true));
  rows_[{tensor, index}] = row;
  return row;
}

absl::StatusOr<OutputRef> StraightGraph::Rows(const Origin& origin, OutputRef tensor, int64_t begin, int64_t end) {
  return Slice(origin, tensor, begin, end, false);
}

absl::StatusOr<OutputRef> StraightGraph::Pack(const Origin& origin, const std::vector<OutputRef>& rows, DataType dtype) {
  const std::optional<TensorType> type = Type(rows[0]);
  return Op(origin, "Pack", rows,
            {{"T", type ? type->dtype : dtype}, {"N", static_cast<int64_t>(rows.size())}, {"axis", int64_t{0}}});
}

}  // namespace millrace
