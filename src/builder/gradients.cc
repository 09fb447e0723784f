#include "millrace/gradients.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <queue>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "builder/emit.h"
#include "builder/gradient_rules.h"
#include "glog/logging.h"
#include "graph/exceptions.h"
#include "graph/with_message.h"
#include "millrace/graph_ops.h"
#include "millrace/status.h"
#include "ops/op_attrs.h"

namespace millrace {

void GradientTable::Add(std::string_view op, Rule rule) {
  CHECK(rules_.emplace(std::string(op), std::move(rule)).second) << op << " has two gradient rules";
}

void GradientTable::AddNone(std::initializer_list<std::string_view> ops) {
  Add(ops, [](GradientContext&) { return absl::OkStatus(); });
  for (std::string_view op : ops) none_.emplace(op);
}

const GradientTable& GradientTable::Builtin() {
  static const GradientTable& table = *[] {
    auto* built = new GradientTable();
    AddMathGradients(*built);
    AddActivationGradients(*built);
    AddReductionGradients(*built);
    AddMatMulGradients(*built);
    AddEinsumGradients(*built);
    AddArrayGradients(*built);
    AddGatherGradients(*built);
    AddConvGradients(*built);
    AddPoolGradients(*built);
    AddNormGradients(*built);
    AddLayoutGradients(*built);
    AddSegmentGradients(*built);
    AddSpecialGradients(*built);
    AddLossGradients(*built);
    AddLinalgGradients(*built);
    AddSparseGradients(*built);
    AddImageGradients(*built);
    AddRareGradients(*built);
    AddComplexGradients(*built);
    return built;
  }();
  return table;
}

const GradientTable::Rule* GradientTable::Find(const std::string& op) const {
  auto it = rules_.find(op);
  return it == rules_.end() ? nullptr : &it->second;
}

GradientContext::GradientContext(GraphBuilder& builder, NodeId node) : builder_(builder), node_(node) {
  const Node& from = builder.graph().node(node);
  name_ = from.name;
  op_ = from.op;
  attrs_ = KnownAttrs(from.op, from.attrs);
  for (const OutputRef& input : from.inputs) inputs_.push_back(builder.OutputOf(input));
  for (size_t i = 0; i < from.outputs.size(); ++i) {
    outputs_.push_back(builder.OutputOf(OutputRef{node, static_cast<int32_t>(i)}));
  }
  gradients_.resize(outputs_.size());
  results_.resize(inputs_.size());
  wanted_.resize(inputs_.size());
}

absl::StatusOr<std::vector<int64_t>> GradientContext::ConstantInts(int input) const {
  if (!Has("input", input, inputs_)) return Error(absl::StrCat("the node has no input ", input));
  const Tensor* value = builder_.ConstantValue(inputs_[input]);
  if (value == nullptr || !IsInteger(value->dtype())) {
    return Error(absl::StrCat("input ", input, " is computed, expected an integer constant"));
  }
  std::vector<int64_t> ints(value->num_elements());
  for (size_t i = 0; i < ints.size(); ++i) ints[i] = value->IntAt(i);
  return ints;
}

const Output& GradientContext::NoTensor() {
  static const Output& none = *new Output();
  return none;
}

Output GradientContext::gradient(int i) {
  if (!Has("output", i, outputs_)) return Output();
  if (!gradients_[i].valid()) {
    gradients_[i] = HasKnownShape(outputs_[i]) ? ops::Full(builder_, outputs_[i].type(), 0) : ops::ZerosLike(outputs_[i]);
  }
  return gradients_[i];
}

absl::Status GradientContext::Error(std::string_view message) const {
  return absl::InvalidArgumentError(absl::StrCat("gradient of node '", name_, "' (", op_, "): ", std::string(message)));
}

namespace {

// Whether tensors of these types can be of one type when running.
bool MayBeAlike(const TensorType& a, const TensorType& b) {
  if (a.dtype != b.dtype) return false;
  if (a.shape.unknown_rank() || b.shape.unknown_rank()) return true;
  if (a.shape.rank() != b.shape.rank()) return false;
  for (int i = 0; i < a.shape.rank(); ++i) {
    if (a.shape.dim(i) != b.shape.dim(i) && a.shape.dim(i) >= 0 && b.shape.dim(i) >= 0) return false;
  }
  return true;
}

}  // namespace

// One backward pass. A node is *active* when a path of differentiable tensors leads from an x through it to a y.
class GradientBuilder {
 public:
  GradientBuilder(GraphBuilder& builder, absl::Span<const Output> ys, absl::Span<const Output> xs,
                  const GradientOptions& options)
      : builder_(builder), ys_(ys), xs_(xs), options_(options), num_nodes_(builder.graph().num_ids()) {}

  absl::StatusOr<std::vector<Output>> Run();

 private:
  struct NodeState {
    bool from_x = false;
    bool to_y = false;
    int32_t pending = 0;   // active consumer edges that have not been differentiated
    int32_t priority = 0;  // the ready node with the highest goes first
  };

  bool active(NodeId id) const { return states_[id.value].from_x && states_[id.value].to_y; }
  bool Differentiable(OutputRef ref) const { return IsDifferentiable(graph().type(ref).dtype); }
  const Graph& graph() const { return builder_.graph(); }
  bool Holds(const Output& output) const;
  bool IsOwn(const Output& output) const;
  absl::Status CheckArguments() const;
  absl::Status FindActive();
  void SetPriorities(const std::vector<int32_t>& position);
  absl::Status Seed();
  absl::Status Visit(NodeId id);
  absl::Status Differentiate(NodeId id, std::vector<Output> gradients);
  void AddContribution(OutputRef ref, const Output& gradient);
  Output Accumulated(OutputRef ref);
  absl::Status Finish(NodeId id, const std::vector<Output>& gradients);

  static constexpr size_t kMaxContributions = 4;

  GraphBuilder& builder_;
  absl::Span<const Output> ys_;
  absl::Span<const Output> xs_;
  const GradientOptions& options_;
  const int32_t num_nodes_;  // before any gradient was added
  std::vector<NodeState> states_;
  std::vector<NodeId> order_;
  // Contributions to each tensor, in the order in which they came.
  std::map<OutputRef, std::vector<Output>> contributions_;
  std::map<OutputRef, std::vector<int>> wanted_xs_;
  std::priority_queue<std::pair<int32_t, int32_t>> ready_;
  std::vector<Output> results_;
};

// Whether it is a tensor of the graph.
bool GradientBuilder::Holds(const Output& output) const {
  if (output.builder() != &builder_ || !output.valid() || output.node().value >= graph().num_ids() || !graph().alive(output.node())) return false;
  return output.ref().index >= 0 && output.ref().index < static_cast<int32_t>(graph().node(output.node()).outputs.size());
}

// Whether it was one before any gradient was added.
bool GradientBuilder::IsOwn(const Output& output) const { return Holds(output) && output.node().value < num_nodes_; }

absl::Status GradientBuilder::CheckArguments() const {
  MR_RETURN_IF_ERROR(builder_.status());
  for (const Output& y : ys_) {
    if (!IsOwn(y)) return absl::InvalidArgumentError(absl::StrCat("AddGradients: a y", WhyNotOwn(y)));
    if (!IsDifferentiable(y.dtype())) {
      return absl::InvalidArgumentError(absl::StrCat("AddGradients: '", builder_.TensorName(y), "' is ",
                                                     y.type().ToString(), ", expected a floating-point tensor"));
    }
    if (IsComplex(y.dtype()) && options_.y_gradients.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("AddGradients: '", builder_.TensorName(y), "' is ",
                                                     y.type().ToString(), ": complex ys need y_gradients"));
    }
  }
  for (const Output& x : xs_) {
    if (!IsOwn(x)) return absl::InvalidArgumentError(absl::StrCat("AddGradients: an x", WhyNotOwn(x)));
  }
  for (const Output& gradient : options_.y_gradients) {
    if (!IsOwn(gradient)) return absl::InvalidArgumentError(absl::StrCat("AddGradients: a y_gradient", WhyNotOwn(gradient)));
  }
  if (!options_.y_gradients.empty() && options_.y_gradients.size() != ys_.size()) {
    return absl::InvalidArgumentError(absl::StrCat("AddGradients: ", options_.y_gradients.size(),
                                                   " y_gradients for ", ys_.size(), " ys"));
  }
  return absl::OkStatus();
}

absl::Status GradientBuilder::FindActive() {
  MR_ASSIGN_OR_RETURN(order_, CreationOrder(graph()));
  states_.resize(num_nodes_);
  for (size_t i = 0; i < xs_.size(); ++i) {
    wanted_xs_[xs_[i].ref()].push_back(static_cast<int>(i));
    states_[xs_[i].node().value].from_x = true;
  }
  const GradientTable& table = GradientTable::Builtin();
  for (NodeId id : order_) {
    if (table.PassesNone(graph().node(id).op)) continue;
    for (const OutputRef& input : graph().node(id).inputs) {
      if (Differentiable(input) && states_[input.node.value].from_x) states_[id.value].from_x = true;
    }
  }
  for (const Output& y : ys_) states_[y.node().value].to_y = true;
  std::vector<int32_t> position(num_nodes_, 0);
  for (size_t i = order_.size(); i-- > 0;) {
    const NodeId id = order_[i];
    position[id.value] = static_cast<int32_t>(i);
    if (!active(id)) continue;
    for (const OutputRef& input : graph().node(id).inputs) {
      if (!Differentiable(input) || !states_[input.node.value].from_x) continue;
      states_[input.node.value].to_y = true;
      ++states_[input.node.value].pending;
    }
  }
  SetPriorities(position);
  return absl::OkStatus();
}

// Backward nodes come in reverse creation order, with one exception: a node that leads to nothing but xs (the read of
// a variable, the L2Loss of a weight decay made at the end of the program) waits for the first use of its x, which is
// the last to be differentiated. So the gradient of every x is complete as early as it can be, and its parts do not
// pile up before.
void GradientBuilder::SetPriorities(const std::vector<int32_t>& position) {
  std::vector<bool> leaf(num_nodes_, false);  // leads to xs only
  for (const Output& x : xs_) leaf[x.node().value] = true;
  for (NodeId id : order_) {
    if (!active(id)) continue;
    bool only_xs = true, any = false;
    for (const OutputRef& input : graph().node(id).inputs) {
      if (!Differentiable(input) || !active(input.node)) continue;
      any = true;
      only_xs = only_xs && leaf[input.node.value];
    }
    if (any) leaf[id.value] = only_xs;
  }
  constexpr int32_t kNone = std::numeric_limits<int32_t>::max();
  std::vector<int32_t> first_use(num_nodes_, kNone);  // of a leaf by nodes that are none
  for (size_t i = order_.size(); i-- > 0;) {
    const NodeId id = order_[i];
    if (!active(id)) continue;
    const int32_t use = leaf[id.value] ? first_use[id.value] : position[id.value];
    for (const OutputRef& input : graph().node(id).inputs) {
      if (leaf[input.node.value]) first_use[input.node.value] = std::min(first_use[input.node.value], use);
    }
  }
  for (NodeId id : order_) {
    NodeState& state = states_[id.value];
    state.priority = position[id.value];
    if (!active(id) || !leaf[id.value]) continue;
    for (const OutputRef& input : graph().node(id).inputs) {
      if (leaf[input.node.value]) first_use[id.value] = std::min(first_use[id.value], first_use[input.node.value]);
    }
    if (first_use[id.value] != kNone) state.priority = first_use[id.value];
  }
  for (const Output& x : xs_) states_[x.node().value].priority = kNone;  // nothing is gained by waiting
}

absl::Status GradientBuilder::Seed() {
  for (size_t i = 0; i < ys_.size(); ++i) {
    const Output& y = ys_[i];
    Output gradient;
    if (!options_.y_gradients.empty()) {
      gradient = options_.y_gradients[i];
      if (!MayBeAlike(gradient.type(), y.type())) {
        return absl::InvalidArgumentError(absl::StrCat("AddGradients: '", builder_.TensorName(y), "' is ",
                                                       y.type().ToString(), ", its gradient ",
                                                       gradient.type().ToString()));
      }
    } else {
      gradient = HasKnownShape(y) ? ops::Full(builder_, y.type(), 1) : ops::OnesLike(y);
    }
    contributions_[y.ref()].push_back(gradient);
  }
  for (const Output& y : ys_) {
    NodeState& state = states_[y.node().value];
    if (!active(y.node()) || state.pending != 0) continue;
    state.pending = -1;  // queued
    ready_.push({state.priority, y.node().value});
  }
  return builder_.status();
}

// Adds up every few contributions, so that the many of a weight that an unrolled loop shares are not held all at once.
void GradientBuilder::AddContribution(OutputRef ref, const Output& gradient) {
  std::vector<Output>& parts = contributions_[ref];
  parts.push_back(gradient);
  if (parts.size() == kMaxContributions && states_[ref.node.value].pending > 1) parts = {ops::AddN(parts, "sum")};
}

Output GradientBuilder::Accumulated(OutputRef ref) {
  auto it = contributions_.find(ref);
  if (it == contributions_.end()) return Output();
  const Output sum = ops::AddN(it->second, "sum");
  contributions_.erase(it);
  return sum;
}

absl::Status GradientBuilder::Finish(NodeId id, const std::vector<Output>& gradients) {
  for (size_t i = 0; i < gradients.size(); ++i) {
    auto it = wanted_xs_.find(OutputRef{id, static_cast<int32_t>(i)});
    if (it == wanted_xs_.end() || !gradients[i].valid()) continue;
    for (int index : it->second) {
      results_[index] = gradients[i];
      if (!options_.on_ready) continue;
      absl::Status ready = WithoutExceptions([&] { return options_.on_ready(index, gradients[i]); });
      if (absl::IsInternal(ready)) ready = WithPrefix(ready, absl::StrCat("AddGradients: on_ready of '", builder_.TensorName(xs_[index]), "'"));
      MR_RETURN_IF_ERROR(ready);
    }
  }
  return absl::OkStatus();
}

absl::Status GradientBuilder::Differentiate(NodeId id, std::vector<Output> gradients) {
  // Where the node runs its gradient runs, too: its inputs are there.
  std::optional<DeviceScope> place;
  if (!graph().node(id).requested_device.empty()) place.emplace(builder_, graph().node(id).requested_device);
  GradientContext context(builder_, id);
  context.gradients_ = std::move(gradients);
  bool any_wanted = false;
  for (int i = 0; i < context.num_inputs(); ++i) {
    const OutputRef input = context.inputs_[i].ref();
    context.wanted_[i] = Differentiable(input) && active(input.node);
    any_wanted = any_wanted || context.wanted_[i];
  }
  if (!any_wanted) return absl::OkStatus();

  const OpDef* def = builder_.ops().Find(context.op());
  const GradientTable::Rule* rule = def != nullptr && def->gradient ? &def->gradient : nullptr;
  if (rule == nullptr) rule = GradientTable::Builtin().Find(context.op());
  bool any_gradient = false;
  for (const Output& gradient : context.gradients_) any_gradient = any_gradient || gradient.valid();
  if (any_gradient) {
    if (rule == nullptr) {
      const char* reason = GradientTable::NotDifferentiable(context.op());
      return absl::UnimplementedError(absl::StrCat("node '", context.name(), "': op '", context.op(), "' has no gradient",
                                                   reason == nullptr ? "" : ": ", reason == nullptr ? "" : reason));
    }
    NameScope scope(builder_, absl::StrCat(context.name(), "_grad"));
    absl::Status ruled = WithoutExceptions([&] { return (*rule)(context); });
    if (absl::IsInternal(ruled)) {
      ruled = absl::InternalError(absl::StrCat("node '", context.name(), "' (", context.op(), "): the gradient rule ", ruled.message()));
    }
    if (context.missing_.has_value()) {
      return context.Error(absl::StrCat("the node has no ", context.missing_->first, " ", context.missing_->second));
    }
    if (!ruled.ok() && !absl::StrContains(ruled.message(), absl::StrCat("'", context.name(), "'"))) {
      return WithMessage(ruled, std::string(context.Error(std::string(ruled.message())).message()));
    }
    MR_RETURN_IF_ERROR(ruled);
    MR_RETURN_IF_ERROR(builder_.status());
  }
  for (int i = 0; i < context.num_inputs(); ++i) {
    if (!context.wanted_[i]) continue;
    const Output& input = context.inputs_[i];
    const Output& result = context.results_[i];
    if (result.valid()) {
      if (!Holds(result)) return context.Error(absl::StrCat("the gradient of input ", i, WhyNotOwn(result)));
      if (!MayBeAlike(result.type(), input.type())) {
        return context.Error(absl::StrCat("input ", i, " is ", input.type().ToString(), ", its gradient ",
                                          result.type().ToString()));
      }
      AddContribution(input.ref(), result.node().value < num_nodes_ ? result : Alike(result, input));
    }
    NodeState& state = states_[input.node().value];
    if (--state.pending == 0) ready_.push({state.priority, input.node().value});
  }
  return absl::OkStatus();
}

absl::Status GradientBuilder::Visit(NodeId id) {
  std::vector<Output> gradients;
  const int32_t count = static_cast<int32_t>(graph().node(id).outputs.size());
  {
    NameScope scope(builder_, absl::StrCat(graph().node(id).name, "_grad"));
    for (int32_t i = 0; i < count; ++i) gradients.push_back(Accumulated(OutputRef{id, i}));
  }
  MR_RETURN_IF_ERROR(builder_.status());
  MR_RETURN_IF_ERROR(Finish(id, gradients));
  return Differentiate(id, std::move(gradients));
}

absl::StatusOr<std::vector<Output>> GradientBuilder::Run() {
  MR_RETURN_IF_ERROR(CheckArguments());
  results_.assign(xs_.size(), Output());
  MR_RETURN_IF_ERROR(FindActive());
  NameScope scope(builder_, options_.scope);
  MR_RETURN_IF_ERROR(Seed());
  while (!ready_.empty()) {
    const NodeId id{ready_.top().second};
    ready_.pop();
    MR_RETURN_IF_ERROR(Visit(id));
  }
  return results_;
}

absl::StatusOr<std::vector<Output>> AddGradients(GraphBuilder& builder, absl::Span<const Output> ys,
                                                 absl::Span<const Output> xs, const GradientOptions& options) {
  absl::StatusOr<std::vector<Output>> gradients = GradientBuilder(builder, ys, xs, options).Run();
  if (!gradients.ok()) builder.Fail(gradients.status());
  return gradients;
}

}  // namespace millrace
