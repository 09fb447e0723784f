#include "passes/control_flow/inline_functions.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/function.h"
#include "millrace/status.h"
#include "passes/control_flow/control_flow_ops.h"
#include "passes/control_flow/symbolic_gradients.h"

namespace millrace {
namespace {

constexpr int kMaxCallDepth = 100;  // of calls in calls: more is recursion
constexpr const char* kImplementsAttr = "api_implements";             // what functions that may stand for one another share
constexpr const char* kPreferredDeviceAttr = "api_preferred_device";  // the kind of device that one of them is for

// One graph being copied into the result: the main one, or a function's body for one call.
struct Frame {
  const Graph* graph = nullptr;
  const Function* function = nullptr;  // nullptr for the main graph
  const Frame* caller = nullptr;
  NodeId call;              // in caller->graph
  AttrMap parameters;       // of the function, from the call
  int depth = 0;
  NodeId enter;             // in the result; invalid when the call waits for nothing but its arguments, which always come
  // In a graph of Switches arguments may not come, and then nothing of the body runs: `enter` waits for them, and for nothing else.
  bool enters_by_arguments = false;
  bool holds_switches = false;
  // Per node of `graph`: its node in the result (of a call: the NoOp that stands for it), and a call's own frame.
  std::vector<NodeId> copies;
  std::vector<const Frame*> calls;
  std::vector<NodeId> results;  // the body's kRetvalOp nodes by index
};

class Inliner {
 public:
  Inliner(const Graph& graph, const OpRegistry& ops, int64_t max_nodes)
      : ops_(ops), max_nodes_(max_nodes), library_(graph.library()) {
    result_.producer_version = graph.producer_version;
    result_.set_library(library_);
    result_.Reserve(graph.num_nodes());
    Frame& main = frames_.emplace_back();
    main.graph = &graph;
  }

  absl::StatusOr<InlineResult> Run() {
    // Nodes first, edges second: a node may use one that comes after it.
    MR_RETURN_IF_ERROR(CopyNodes(frames_.front(), ""));
    for (const Frame& frame : frames_) {
      for (int32_t i = 0; i < frame.graph->num_ids(); ++i) {
        if (frame.graph->alive(NodeId{i})) MR_RETURN_IF_ERROR(CopyEdges(frame, NodeId{i}));
      }
    }
    for (const Frame& frame : frames_) MR_RETURN_IF_ERROR(AddEntries(frame));
    return std::move(inlined_);
  }

  bool has_calls() const { return frames_.size() > 1; }
  Graph TakeResult() { return std::move(result_); }

 private:
  // The function that the node calls, or nullptr; `attrs` gets where the call's parameters are.
  absl::StatusOr<const Function*> CalledFunction(const Frame& frame, const Node& node, const AttrMap** attrs) const;
  absl::Status CopyNodes(Frame& frame, const std::string& prefix);
  absl::Status CopyCall(Frame& frame, NodeId id, const Function& function, const AttrMap& attrs,
                        const std::string& prefix);
  absl::StatusOr<AttrMap> Substitute(const Frame& frame, const Node& node) const;
  absl::Status SubstituteValue(const Frame& frame, const Node& node, AttrValue& value) const;
  absl::Status CopyEdges(const Frame& frame, NodeId id);
  // The tensor of the result that `ref` of the frame's graph stands for.
  absl::StatusOr<OutputRef> Resolve(const Frame* frame, OutputRef ref) const;
  // The node of the result whose end `id` of the frame's graph stands for; invalid for an argument's own.
  absl::StatusOr<NodeId> ResolveControl(const Frame& frame, NodeId id) const;
  absl::Status AddEntries(const Frame& frame);
  bool Prints(const Node& node);
  absl::Status WaitForArguments(const Frame& frame);
  NodeId Pivot(std::string name, OutputRef predicate, int32_t side);

  const OpRegistry& ops_;
  const int64_t max_nodes_;
  int64_t added_ = 0;  // nodes of bodies, and calls
  std::shared_ptr<const Graph::Library> library_;
  std::deque<Frame> frames_;  // addresses are kept; a caller comes before its calls
  Graph result_;
  std::map<std::pair<OutputRef, int32_t>, NodeId> pivots_;
  std::map<std::string, bool> prints_;  // by function
  InlineResult inlined_;
};

absl::Status AtCall(const Node& call, const std::string& message) {
  return absl::InvalidArgumentError(absl::StrCat("node '", call.name, "' (", call.op, "): ", message));
}

// TensorFlow's choice among functions that stand for one another: the one for CPUs, whose bits ours are compared with. A forward
// function stays, since its gradient is called with what that very one gave.
const Function* ForCpu(const Graph::Library& library, const Function& called) {
  const auto device_of = [](const Function& function) { return function.attrs.GetOr<std::string>(kPreferredDeviceAttr, ""); };
  const auto interface_of = [](const Function& function) { return function.attrs.GetOr<std::string>(kImplementsAttr, ""); };
  const auto has_gradient = [](const Function& function) {
    return function.attrs.Find("forward_function_name") != nullptr || function.attrs.Find("backward_function_name") != nullptr;
  };
  if (interface_of(called).empty() || device_of(called) == "CPU" || has_gradient(called)) return &called;
  for (const auto& [name, other] : library) {
    if (interface_of(other) == interface_of(called) && device_of(other) == "CPU" && !has_gradient(other) &&
        other.arg_types == called.arg_types && other.ret_types == called.ret_types) {
      return &other;
    }
  }
  return &called;
}

absl::StatusOr<const Function*> Inliner::CalledFunction(const Frame& frame, const Node& node,
                                                        const AttrMap** attrs) const {
  const bool by_attr = IsPartitionedCall(node);
  if (!by_attr) {
    if (library_ == nullptr || ops_.Find(node.op) != nullptr) return nullptr;
    const auto found = library_->find(node.op);
    *attrs = &node.attrs;
    return found == library_->end() ? nullptr : &found->second;
  }
  const AttrValue* value = node.attrs.Find("f");
  if (value != nullptr && std::holds_alternative<AttrParameter>(*value)) {
    value = frame.parameters.Find(std::get<AttrParameter>(*value).name);
  }
  const FunctionRef* ref = value == nullptr ? nullptr : std::get_if<FunctionRef>(value);
  if (ref == nullptr) return AtCall(node, "has no attribute 'f' that names a function");
  const auto in_library = [&](const std::string& name) { return library_ == nullptr ? Graph::Library::const_iterator() : library_->find(name); };
  auto found = in_library(ref->name);
  if (library_ == nullptr || found == library_->end()) {
    return AtCall(node, absl::StrCat("calls function '", ref->name, "', which the graph's library does not hold"));
  }
  if (node.op == kSymbolicGradientOp) {
    found = in_library(found->second.attrs.GetOr<FunctionRef>(kGradientFunctionAttr, {}).name);
    if (found == library_->end()) {
      const std::string why = in_library(ref->name)->second.attrs.GetOr<std::string>(kWhyNoGradientAttr, "");
      return absl::UnimplementedError(absl::StrCat("node '", node.name, "' (", node.op, ") is the gradient of function '", ref->name,
                                                   "', for which the graph's library names none", why.empty() ? "" : ": ", why,
                                                   "; differentiate a tf.function instead, or the ops themselves"));
    }
  }
  static const AttrMap& no_attrs = *new AttrMap();
  *attrs = ref->attrs == nullptr ? &no_attrs : ref->attrs.get();
  return ForCpu(*library_, found->second);
}

absl::Status Inliner::SubstituteValue(const Frame& frame, const Node& node, AttrValue& value) const {
  if (const AttrParameter* parameter = std::get_if<AttrParameter>(&value)) {
    const AttrValue* given = frame.parameters.Find(parameter->name);
    if (given == nullptr) {
      return AtCall(frame.caller == nullptr ? node : frame.caller->graph->node(frame.call),
                    absl::StrCat("gives no value for parameter '", parameter->name, "', which node '", node.name,
                                 "' needs"));
    }
    AttrValue copy = *given;
    value = std::move(copy);
    return absl::OkStatus();
  }
  auto substitute_in = [&](FunctionRef& function) -> absl::Status {
    if (function.attrs == nullptr) return absl::OkStatus();
    AttrMap attrs;
    for (const auto& [name, inner] : *function.attrs) {
      AttrValue substituted = inner;
      MR_RETURN_IF_ERROR(SubstituteValue(frame, node, substituted));
      attrs.Set(name, std::move(substituted));
    }
    function.attrs = std::make_shared<const AttrMap>(std::move(attrs));
    return absl::OkStatus();
  };
  if (FunctionRef* function = std::get_if<FunctionRef>(&value)) return substitute_in(*function);
  if (auto* functions = std::get_if<std::vector<FunctionRef>>(&value)) {
    for (FunctionRef& function : *functions) MR_RETURN_IF_ERROR(substitute_in(function));
  }
  return absl::OkStatus();
}

absl::StatusOr<AttrMap> Inliner::Substitute(const Frame& frame, const Node& node) const {
  AttrMap attrs;
  attrs.Reserve(node.attrs.size());
  for (const auto& [name, value] : node.attrs) {
    AttrValue substituted = value;
    MR_RETURN_IF_ERROR(SubstituteValue(frame, node, substituted));
    attrs.Set(name, std::move(substituted));
  }
  return attrs;
}

// "loc:@node" of a body means the node's copy.
void RenameColocation(const Graph& body, const std::string& prefix, AttrMap& attrs) {
  constexpr absl::string_view kLocation = "loc:@";
  auto classes = attrs.GetOr<std::vector<std::string>>("_class", {});
  bool renamed = false;
  for (std::string& name : classes) {
    if (!absl::StartsWith(name, kLocation) || !body.Find(name.substr(kLocation.size())).valid()) continue;
    name = absl::StrCat(kLocation, prefix, name.substr(kLocation.size()));
    renamed = true;
  }
  if (renamed) attrs.Set("_class", std::move(classes));
}

// Every call has loops of its own: frames of one name in one place are one loop.
void RenameFrame(const std::string& prefix, Node& copy) {
  if (!IsEnter(copy)) return;
  copy.attrs.Set("frame_name", absl::StrCat(prefix, copy.attrs.GetOr<std::string>("frame_name", "")));
}

absl::Status Inliner::CopyCall(Frame& frame, NodeId id, const Function& function, const AttrMap& attrs,
                               const std::string& prefix) {
  const Node& call = frame.graph->node(id);
  if (frame.depth == kMaxCallDepth) {
    return AtCall(call, absl::StrCat("calls '", function.name, "' at a depth of ", kMaxCallDepth, "; recursive functions ",
                                     "cannot be inlined"));
  }
  if (call.inputs.size() != function.arg_names.size()) {
    return AtCall(call, absl::StrCat("passes ", call.inputs.size(), " arguments to '", function.name,
                                     "', which takes ", function.arg_names.size()));
  }
  Frame& body = frames_.emplace_back();
  body.graph = function.body.get();
  body.function = &function;
  body.caller = &frame;
  body.call = id;
  body.depth = frame.depth + 1;
  body.results.resize(function.ret_names.size());
  for (const auto& [name, value] : attrs) {
    AttrValue substituted = value;
    MR_RETURN_IF_ERROR(SubstituteValue(frame, call, substituted));
    body.parameters.Set(name, std::move(substituted));
  }
  frame.calls[id.value] = &body;
  const std::string name = absl::StrCat(prefix, call.name);
  const bool waits = !call.control_inputs.empty() || (frame.enter.valid() && !frame.enters_by_arguments);
  body.enters_by_arguments = !waits;
  if (waits || frame.enter.valid() || (frame.holds_switches && !call.inputs.empty())) {
    Node enter;
    enter.name = absl::StrCat(name, "/enter");
    enter.op = "NoOp";
    body.enter = result_.AddUnique(std::move(enter));
  }
  MR_RETURN_IF_ERROR(CopyNodes(body, absl::StrCat(name, "/")));
  Node done;
  done.name = name;
  done.op = "NoOp";
  done.requested_device = call.requested_device;
  frame.copies[id.value] = result_.AddUnique(std::move(done));
  if (frame.caller == nullptr && !function.control_rets.empty()) inlined_.effects.push_back(call.name);
  return absl::OkStatus();
}

absl::Status Inliner::CopyNodes(Frame& frame, const std::string& prefix) {
  const Graph& graph = *frame.graph;
  frame.copies.resize(graph.num_ids());
  frame.calls.resize(graph.num_ids(), nullptr);
  for (int32_t i = 0; i < graph.num_ids() && !frame.holds_switches; ++i) {
    frame.holds_switches = graph.alive(NodeId{i}) && IsSwitch(graph.node(NodeId{i}));
  }
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed) continue;
    if (frame.function != nullptr && node.op == kArgOp) continue;
    if (frame.function != nullptr && node.op == kRetvalOp) {
      frame.results[node.attrs.GetOr<int64_t>("index", 0)] = NodeId{i};
      continue;
    }
    // A call is counted when it is entered: bodies that hold calls alone multiply as well.
    const AttrMap* attrs = nullptr;
    MR_ASSIGN_OR_RETURN(const Function* function, CalledFunction(frame, node, &attrs));
    if (frame.function != nullptr || function != nullptr) ++added_;
    if (added_ > max_nodes_) {
      return absl::OutOfRangeError(absl::StrCat("node '", prefix, node.name, "' (", node.op, "): calls in calls make the graph ",
                                                       "larger by more than ", max_nodes_, " nodes (--max_unrolled_nodes)"));
    }
    if (function != nullptr) {
      MR_RETURN_IF_ERROR(CopyCall(frame, NodeId{i}, *function, *attrs, prefix));
      continue;
    }
    Node copy = node;
    copy.name = absl::StrCat(prefix, node.name);
    copy.inputs.clear();
    copy.control_inputs.clear();
    if (frame.function != nullptr) {
      MR_ASSIGN_OR_RETURN(copy.attrs, Substitute(frame, node));
      RenameColocation(graph, prefix, copy.attrs);
      RenameFrame(prefix, copy);
      for (const Frame* at = &frame; copy.requested_device.empty() && at->caller != nullptr; at = at->caller) {
        copy.requested_device = at->caller->graph->node(at->call).requested_device;
      }
    }
    frame.copies[i] = result_.AddUnique(std::move(copy));
  }
  return absl::OkStatus();
}

absl::StatusOr<OutputRef> Inliner::Resolve(const Frame* frame, OutputRef ref) const {
  while (true) {
    const Node& node = frame->graph->node(ref.node);
    if (const Frame* body = frame->calls[ref.node.value]; body != nullptr) {
      if (static_cast<size_t>(ref.index) >= body->results.size()) {
        return AtCall(node, absl::StrCat("result ", ref.index, " is used, but '", body->function->name, "' has ",
                                         body->results.size()));
      }
      ref = body->graph->node(body->results[ref.index]).inputs[0];
      frame = body;
    } else if (frame->function != nullptr && node.op == kArgOp) {
      ref = frame->caller->graph->node(frame->call).inputs[node.attrs.GetOr<int64_t>("index", 0)];
      frame = frame->caller;
    } else {
      return OutputRef{frame->copies[ref.node.value], ref.index};
    }
  }
}

absl::StatusOr<NodeId> Inliner::ResolveControl(const Frame& frame, NodeId id) const {
  if (frame.function == nullptr || frame.graph->node(id).op != kArgOp) return frame.copies[id.value];
  MR_ASSIGN_OR_RETURN(const OutputRef argument, Resolve(&frame, {id, 0}));
  return argument.node;
}

void AddControl(Node& node, NodeId control) {
  if (!control.valid()) return;
  auto& controls = node.control_inputs;
  if (std::find(controls.begin(), controls.end(), control) == controls.end()) controls.push_back(control);
}

absl::Status Inliner::CopyEdges(const Frame& frame, NodeId id) {
  const Node& node = frame.graph->node(id);
  const NodeId copy = frame.copies[id.value];
  if (!copy.valid()) return absl::OkStatus();  // an argument or result
  const Frame* body = frame.calls[id.value];
  if (body == nullptr) {
    for (OutputRef input : node.inputs) {
      MR_ASSIGN_OR_RETURN(const OutputRef resolved, Resolve(&frame, input));
      result_.mutable_node(copy).inputs.push_back(resolved);
    }
  }
  // What a call waited for, its body's first nodes wait for; the NoOp that stands for it waits for its effects.
  const NodeId waits = body == nullptr ? copy : body->enter;
  for (NodeId control : node.control_inputs) {
    MR_ASSIGN_OR_RETURN(const NodeId resolved, ResolveControl(frame, control));
    AddControl(result_.mutable_node(waits), resolved);
  }
  if (body == nullptr) return absl::OkStatus();
  AddControl(result_.mutable_node(copy), body->enter);
  for (const std::string& effect : body->function->control_rets) {
    MR_ASSIGN_OR_RETURN(const NodeId resolved, ResolveControl(*body, body->graph->Find(effect)));
    AddControl(result_.mutable_node(copy), resolved);
  }
  if (!body->function->control_rets.empty()) return absl::OkStatus();
  for (NodeId result : body->results) {
    MR_ASSIGN_OR_RETURN(const OutputRef resolved, Resolve(body, body->graph->node(result).inputs[0]));
    AddControl(result_.mutable_node(copy), resolved.node);
  }
  return absl::OkStatus();
}

// A node that runs where Switches by the predicate let through that side; a Switch itself runs on both.
NodeId Inliner::Pivot(std::string name, OutputRef predicate, int32_t side) {
  NodeId& pivot = pivots_[{predicate, side}];
  if (pivot.valid()) return pivot;
  Node sides;
  sides.name = absl::StrCat(name, "/switch_pred");
  sides.op = "Switch";
  sides.inputs = {predicate, predicate};
  sides.attrs.Set("T", DataType::kBool);
  Node identity;
  identity.name = absl::StrCat(name, "/pivot");
  identity.op = "Identity";
  identity.inputs = {{result_.AddUnique(std::move(sides)), side}};
  identity.attrs.Set("T", DataType::kBool);
  return pivot = result_.AddUnique(std::move(identity));
}

absl::Status Inliner::WaitForArguments(const Frame& frame) {
  const Node& call = frame.caller->graph->node(frame.call);
  for (OutputRef input : call.inputs) {
    MR_ASSIGN_OR_RETURN(const OutputRef argument, Resolve(frame.caller, input));
    const Node& from = result_.node(argument.node);
    if (NeverWaits(from)) continue;
    if (!IsSwitch(from) || from.inputs.size() != 2) {
      AddControl(result_.mutable_node(frame.enter), argument.node);
      continue;
    }
    const OutputRef predicate = from.inputs[1];
    const auto is_pivot = [&](NodeId control) {
      const Node& node = result_.node(control);
      if (node.op != "Identity" || node.inputs[0].index != argument.index) return false;
      const Node& sides = result_.node(node.inputs[0].node);
      return IsSwitch(sides) && sides.inputs.size() == 2 && sides.inputs[1] == predicate;
    };
    const Node& enter = result_.node(frame.enter);
    if (std::any_of(enter.control_inputs.begin(), enter.control_inputs.end(), is_pivot)) continue;
    const NodeId pivot = Pivot(enter.name, predicate, argument.index);
    AddControl(result_.mutable_node(frame.enter), pivot);
  }
  return absl::OkStatus();
}

// It, or one of the functions that it speaks of.
bool Inliner::Prints(const Node& node) {
  if (WritesText(node)) return true;
  const auto function_prints = [&](const std::string& name) {
    const auto [known, is_new] = prints_.emplace(name, false);
    const auto found = is_new && library_ != nullptr ? library_->find(name) : Graph::Library::const_iterator();
    if (!is_new || library_ == nullptr || found == library_->end()) return known->second;
    const Graph& body = *found->second.body;
    bool prints = false;
    for (int32_t i = 0; i < body.num_ids() && !prints; ++i) prints = body.alive(NodeId{i}) && Prints(body.node(NodeId{i}));
    return prints_[name] = prints;
  };
  if (ops_.Find(node.op) == nullptr && function_prints(node.op)) return true;
  return std::any_of(node.attrs.begin(), node.attrs.end(), [&](const AttrMap::Entry& attr) {
    if (const auto* ref = std::get_if<FunctionRef>(&attr.second)) return function_prints(ref->name);
    const auto* refs = std::get_if<std::vector<FunctionRef>>(&attr.second);
    return refs != nullptr && std::any_of(refs->begin(), refs->end(), [&](const FunctionRef& ref) { return function_prints(ref.name); });
  });
}

// Makes the body wait for its entry: nodes that no other waiting node of the body precedes. Constants and handles
// need not wait, and a constant that does is no constant to later passes. What prints waits in any case, since texts may be constants.
absl::Status Inliner::AddEntries(const Frame& frame) {
  if (!frame.enter.valid()) return absl::OkStatus();
  AddControl(result_.mutable_node(frame.enter), frame.caller->enter);
  if (frame.caller->holds_switches) MR_RETURN_IF_ERROR(WaitForArguments(frame));
  const Graph& graph = *frame.graph;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed || NeverWaits(node) || node.op == kArgOp || node.op == kRetvalOp) continue;
    bool follows = false;
    const auto follow = [&](NodeId producer) -> absl::Status {
      const Node& from = graph.node(producer);
      follows = follows || (!NeverWaits(from) && from.op != kArgOp);
      if (follows || from.op != kArgOp || !frame.enters_by_arguments) return absl::OkStatus();
      MR_ASSIGN_OR_RETURN(const OutputRef argument, Resolve(&frame, {producer, 0}));
      follows = !NeverWaits(result_.node(argument.node));
      return absl::OkStatus();
    };
    for (OutputRef input : node.inputs) MR_RETURN_IF_ERROR(follow(input.node));
    for (NodeId control : node.control_inputs) MR_RETURN_IF_ERROR(follow(control));
    if (follows && !Prints(node)) continue;
    const NodeId first = frame.calls[i] != nullptr ? frame.calls[i]->enter : frame.copies[i];
    AddControl(result_.mutable_node(first), frame.enter);
  }
  return absl::OkStatus();
}

// Whether there can be anything to inline or to substitute; without it a large graph need not be copied.
bool MayHoldCalls(const Graph& graph) {
  if (graph.library() != nullptr && !graph.library()->empty()) return true;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (IsPartitionedCall(node) || SpeaksOfFunctions(node)) return true;
  }
  return false;
}

}  // namespace

bool SpeaksOfFunctions(const Node& node) {
  return std::any_of(node.attrs.begin(), node.attrs.end(), [](const AttrMap::Entry& attr) {
    return std::holds_alternative<FunctionRef>(attr.second) || std::holds_alternative<AttrParameter>(attr.second) ||
           std::holds_alternative<std::vector<FunctionRef>>(attr.second);
  });
}

int64_t MostInlinedNodes(const Graph& graph, int64_t beyond) {
  if (graph.library() == nullptr) return beyond;
  for (const auto& [name, function] : *graph.library()) beyond += function.body->num_nodes();
  return beyond;
}

absl::StatusOr<InlineResult> InlineFunctions(Graph& graph, const OpRegistry& ops, int64_t max_nodes) {
  if (!MayHoldCalls(graph)) return InlineResult();
  Inliner inliner(graph, ops, max_nodes);
  MR_ASSIGN_OR_RETURN(InlineResult result, inliner.Run());
  result.changed = inliner.has_calls();
  if (result.changed) graph = inliner.TakeResult();
  return result;
}

}  // namespace millrace
