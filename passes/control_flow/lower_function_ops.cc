#include "passes/control_flow/lower_function_ops.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "graph/function.h"
#include "millrace/op.h"
#include "passes/control_flow/control_flow_ops.h"
#include "passes/control_flow/creation_places.h"

namespace millrace {
namespace {

using Types = std::vector<DataType>;

// A function of a loop, being written.
class FunctionWriter {
 public:
  OutputRef Add(const char* op, const std::vector<OutputRef>& inputs, AttrMap attrs) {
    Node node;
    node.name = op;
    node.op = op;
    node.inputs.assign(inputs.begin(), inputs.end());
    node.attrs = std::move(attrs);
    return {graph_.AddUnique(std::move(node)), 0};
  }

  std::vector<OutputRef> Arguments(const Types& types) {
    std::vector<OutputRef> arguments;
    for (size_t i = 0; i < types.size(); ++i) arguments.push_back(Add(kArgOp, {}, {{"T", types[i]}, {"index", static_cast<int64_t>(i)}}));
    return arguments;
  }

  OutputRef Constant(const Tensor& value) { return Add("Const", {}, {{"dtype", value.dtype()}, {"value", value}}); }

  // Of the function that the loop is for; its effects are the turn's.
  NodeId Call(const Function& function, const FunctionRef& ref, const std::vector<OutputRef>& arguments) {
    const NodeId call = Add("StatefulPartitionedCall", arguments, {{"f", ref}}).node;
    if (!function.control_rets.empty()) controls_ = {graph_.node(call).name};
    return call;
  }

  Function Done(const std::string& name, const std::vector<OutputRef>& results, const Types& types) {
    for (size_t i = 0; i < results.size(); ++i) Add(kRetvalOp, {results[i]}, {{"T", types[i]}, {"index", static_cast<int64_t>(i)}});
    absl::StatusOr<Function> function = MakeFunction(name, {}, std::move(graph_), std::move(controls_));
    CHECK(function.ok()) << function.status();
    return *std::move(function);
  }

 private:
  Graph graph_;
  std::vector<std::string> controls_;
};

const AttrMap& OfInt32() {
  static const AttrMap& attrs = *new AttrMap{{"T", DataType::kInt32}};
  return attrs;
}

// One graph, the main one or a function's body.
class FunctionOpLowering {
 public:
  // `library`: where the functions are, and where those of loops go.
  FunctionOpLowering(Graph& graph, Graph::Library& library, const OpRegistry& ops, OpPredicate writes)
      : graph_(graph), library_(library), ops_(ops), writes_(writes) {}

  void Run() {
    const int32_t nodes = graph_.num_ids();
    for (int32_t i = 0; i < nodes; ++i) {
      if (graph_.alive(NodeId{i}) && IsFunctionOp(graph_.node(NodeId{i}).op)) Lower(NodeId{i});
    }
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      if (!graph_.alive(NodeId{i}) || stacks_.count(i) > 0) continue;
      for (OutputRef& input : graph_.mutable_node(NodeId{i}).inputs) {
        const auto found = moved_.find(input);
        if (found != moved_.end()) input = found->second;
      }
    }
    if (!places_.empty()) places_.Renumber(graph_);
  }

 private:
  void Lower(NodeId id) {
    const std::string op = graph_.node(id).op;
    const FunctionRef ref = graph_.node(id).attrs.GetOr<FunctionRef>(op == "For" ? "body" : "f", {});
    KeepEffects(ref.name);
    if (op == "RemoteCall") {
      Node& node = graph_.mutable_node(id);
      if (node.inputs.empty()) return;
      node.op = "StatefulPartitionedCall";
      node.requested_device = "";
      node.inputs.erase(node.inputs.begin());
      return;
    }
    const auto found = library_.find(ref.name);
    if (found == library_.end()) return;
    const Function function = found->second;
    op == "For" ? LowerFor(id, ref, function) : LowerMap(id, ref, function);
  }

  // TensorFlow runs all that has effects in a function that names none to be run, as those of TensorFlow 1 do. Whether it has any.
  bool KeepEffects(const std::string& name) {
    const auto found = library_.find(name);
    if (found == library_.end() || found->second.body == nullptr) return false;
    Function& function = found->second;
    if (!function.control_rets.empty() || !looked_at_.insert(name).second) return !function.control_rets.empty();
    std::vector<std::string> effects;
    for (int32_t i = 0; i < function.body->num_ids(); ++i) {
      const Node& node = function.body->node(NodeId{i});
      if (function.body->alive(NodeId{i}) && HasEffects(node)) effects.push_back(node.name);
    }
    function.control_rets = std::move(effects);
    return !function.control_rets.empty();
  }

  bool HasEffects(const Node& node) {
    if (const OpDef* def = ops_.Find(node.op); def != nullptr) {
      const bool only_reads = !def->variables.empty() && !def->WritesVariables();
      return def->stateful && !def->is_no_op && !def->is_variable && !only_reads;
    }
    bool any = writes_(node.op) || IsTableInitializer(node) || IsTableFromFile(node) || IsTableRemove(node) || KeepEffects(node.op);
    for (const auto& [name, value] : node.attrs) {
      if (const auto* ref = std::get_if<FunctionRef>(&value)) any = KeepEffects(ref->name) || any;
      const auto* refs = std::get_if<std::vector<FunctionRef>>(&value);
      for (size_t i = 0; refs != nullptr && i < refs->size(); ++i) any = KeepEffects((*refs)[i].name) || any;
    }
    return any;
  }

  OutputRef Before(NodeId id, const char* op, const std::vector<OutputRef>& inputs, AttrMap attrs) {
    return {places_.AddBefore(graph_, id, Part(id, op, inputs, std::move(attrs))), 0};
  }

  OutputRef Constant(NodeId id, const Tensor& value) { return Before(id, "Const", {}, {{"dtype", value.dtype()}, {"value", value}}); }

  Node Part(NodeId id, const char* op, const std::vector<OutputRef>& inputs, AttrMap attrs) const {
    Node node;
    node.name = absl::StrCat(graph_.node(id).name, "/", op);
    node.op = op;
    node.requested_device = graph_.node(id).requested_device;
    node.inputs.assign(inputs.begin(), inputs.end());
    node.attrs = std::move(attrs);
    return node;
  }

  // The name is the library's own from now on.
  std::string NewName(NodeId id, const char* what) {
    const std::string name = absl::StrCat(graph_.node(id).name, "/", what);
    std::string unique = name;
    for (int k = 1; library_.count(unique) > 0; ++k) unique = absl::StrCat(name, "_", k);
    return unique;
  }

  FunctionRef AddFunction(NodeId id, const char* what, FunctionWriter& writer, const std::vector<OutputRef>& results, const Types& types) {
    FunctionRef ref;
    ref.name = NewName(id, what);
    library_[ref.name] = writer.Done(ref.name, results, types);
    return ref;
  }

  void BecomeWhile(NodeId id, const std::vector<OutputRef>& inputs, const Types& types, FunctionRef cond, FunctionRef body) {
    Node& node = graph_.mutable_node(id);
    node.op = "While";
    node.inputs.assign(inputs.begin(), inputs.end());
    node.attrs = AttrMap{{"T", types}, {"cond", std::move(cond)}, {"body", std::move(body)}};
  }

  // (start, limit, delta, values): the function takes the number and the values, and gives the values.
  void LowerFor(NodeId id, const FunctionRef& ref, const Function& function) {
    const std::vector<OutputRef> inputs(graph_.node(id).inputs.begin(), graph_.node(id).inputs.end());
    Types types = graph_.node(id).attrs.GetOr<Types>("T", {});
    if (types.size() + 3 != inputs.size() || function.arg_names.size() != types.size() + 1 || function.ret_names.size() != types.size()) {
      return;
    }
    CheckLimit(id, inputs[0], inputs[1], inputs[2]);
    types.insert(types.begin(), 3, DataType::kInt32);

    FunctionWriter condition;
    std::vector<OutputRef> arguments = condition.Arguments(types);
    const OutputRef zero = condition.Constant(Tensor::Scalar<int32_t>(0));
    const auto both = [&](const char* op) {
      const OutputRef step = condition.Add(op, {arguments[2], zero}, OfInt32());
      const bool up = op == std::string("Greater");
      const OutputRef goes_on = condition.Add(up ? "Less" : "Greater", {arguments[0], arguments[1]}, OfInt32());
      return condition.Add("LogicalAnd", {step, goes_on}, {});
    };
    const OutputRef upwards = both("Greater"), downwards = both("Less");
    const OutputRef goes_on = condition.Add("LogicalOr", {upwards, downwards}, {});
    FunctionRef cond = AddFunction(id, "cond", condition, {goes_on}, {DataType::kBool});

    FunctionWriter turn;
    arguments = turn.Arguments(types);
    std::vector<OutputRef> passed(arguments.begin() + 3, arguments.end());
    passed.insert(passed.begin(), arguments[0]);
    const NodeId call = turn.Call(function, ref, passed);
    std::vector<OutputRef> results = {turn.Add("AddV2", {arguments[0], arguments[2]}, OfInt32()), arguments[1], arguments[2]};
    for (size_t i = 3; i < types.size(); ++i) results.push_back({call, static_cast<int32_t>(i - 3)});
    FunctionRef body = AddFunction(id, "body", turn, results, types);

    BecomeWhile(id, inputs, types, std::move(cond), std::move(body));
    for (int32_t i = 0; i + 3 < static_cast<int32_t>(types.size()); ++i) moved_[{id, i}] = {id, i + 3};
  }

  // TensorFlow refuses a limit that steps do not lead to.
  void CheckLimit(NodeId id, OutputRef start, OutputRef limit, OutputRef delta) {
    const OutputRef zero = Constant(id, Tensor::Scalar<int32_t>(0));
    const auto leads = [&](const char* step, const char* way) {
      return Before(id, "LogicalAnd", {Before(id, step, {delta, zero}, OfInt32()), Before(id, way, {start, limit}, OfInt32())}, {});
    };
    const OutputRef none = Before(id, "Equal", {start, limit}, OfInt32());
    const OutputRef upwards = leads("Greater", "Less"), downwards = leads("Less", "Greater");
    const OutputRef ahead = Before(id, "LogicalOr", {none, Before(id, "LogicalOr", {upwards, downwards}, {})}, {});
    Check(id, {ahead, start, limit, delta});
  }

  // The node comes after an Assert: a condition and numbers that are shown where it does not hold.
  void Check(NodeId id, const std::vector<OutputRef>& inputs) {
    const OutputRef check = Before(id, "Assert", inputs, {{"T", Types(inputs.size() - 1, DataType::kInt32)}});
    graph_.mutable_node(check.node).control_inputs = graph_.node(id).control_inputs;
    graph_.mutable_node(id).control_inputs.push_back(check.node);
  }

  // (arguments, captured inputs): the function takes a row of each argument and what was captured, and gives a row of each result.
  void LowerMap(NodeId id, const FunctionRef& ref, const Function& function) {
    const std::vector<OutputRef> inputs(graph_.node(id).inputs.begin(), graph_.node(id).inputs.end());
    const AttrMap attrs = graph_.node(id).attrs;
    const Types mapped = attrs.GetOr<Types>("Targuments", {}), captured = attrs.GetOr<Types>("Tcaptured", {});
    const Types made = attrs.GetOr<Types>("output_types", {});
    const auto shapes = attrs.GetOr<std::vector<Shape>>("output_shapes", {});
    if (mapped.empty() || mapped.size() + captured.size() != inputs.size() || function.arg_names.size() != inputs.size() ||
        function.ret_names.size() != made.size() || shapes.size() != made.size()) {
      return;
    }
    const OutputRef rows = CountRows(id, inputs[0], mapped[0]);
    for (size_t i = 1; i < mapped.size(); ++i) {
      const OutputRef others = CountRows(id, inputs[i], mapped[i]);
      Check(id, {Before(id, "Equal", {rows, others}, OfInt32()), rows, others});
    }
    const OutputRef any_shape = Constant(id, Tensor::Scalar<int32_t>(-1));
    std::vector<OutputRef> values = {Constant(id, Tensor::Scalar<int32_t>(0)), rows};
    std::vector<OutputRef> shapes_of_rows;
    for (size_t i = 0; i < made.size(); ++i) {
      shapes_of_rows.push_back(shapes[i].unknown_rank() ? any_shape : Constant(id, Tensor::Vector<int32_t>(Dims(shapes[i]))));
      values.push_back(Before(id, "TensorListReserve", {shapes_of_rows[i], rows}, {{"element_dtype", made[i]}, {"shape_type", DataType::kInt32}}));
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool is_row = i < mapped.size();
      values.push_back(is_row ? Before(id, "TensorListFromTensor", {inputs[i], any_shape},
                                       {{"element_dtype", mapped[i]}, {"shape_type", DataType::kInt32}})
                              : inputs[i]);
    }
    Types types(2, DataType::kInt32);
    types.insert(types.end(), made.size() + mapped.size(), DataType::kVariant);
    types.insert(types.end(), captured.begin(), captured.end());

    FunctionWriter condition;
    std::vector<OutputRef> arguments = condition.Arguments(types);
    const OutputRef goes_on = condition.Add("Less", {arguments[0], arguments[1]}, OfInt32());
    FunctionRef cond = AddFunction(id, "cond", condition, {goes_on}, {DataType::kBool});

    FunctionWriter turn;
    arguments = turn.Arguments(types);
    const OutputRef any_row = turn.Constant(Tensor::Scalar<int32_t>(-1));
    const size_t first = 2 + made.size();
    std::vector<OutputRef> passed(arguments.begin() + static_cast<int64_t>(first), arguments.end());
    for (size_t i = 0; i < mapped.size(); ++i) {
      passed[i] = turn.Add("TensorListGetItem", {arguments[first + i], arguments[0], any_row}, {{"element_dtype", mapped[i]}});
    }
    const NodeId call = turn.Call(function, ref, passed);
    std::vector<OutputRef> results = arguments;
    for (size_t i = 0; i < made.size(); ++i) {
      const OutputRef row{call, static_cast<int32_t>(i)};
      results[2 + i] = turn.Add("TensorListSetItem", {arguments[2 + i], arguments[0], row}, {{"element_dtype", made[i]}});
    }
    const OutputRef one = turn.Constant(Tensor::Scalar<int32_t>(1));
    results[0] = turn.Add("AddV2", {arguments[0], one}, OfInt32());
    FunctionRef body = AddFunction(id, "body", turn, results, types);

    BecomeWhile(id, values, types, std::move(cond), std::move(body));
    for (int32_t i = 0; i < static_cast<int32_t>(made.size()); ++i) {
      const AttrMap of_stack{{"element_dtype", made[i]}, {"num_elements", int64_t{-1}}};
      const NodeId stack = places_.AddAfter(graph_, id, Part(id, "TensorListStack", {{id, 2 + i}, shapes_of_rows[i]}, of_stack));
      stacks_.insert(stack.value);
      moved_[{id, i}] = {stack, 0};
    }
  }

  OutputRef CountRows(NodeId id, OutputRef tensor, DataType type) {
    const OutputRef shape = Before(id, "Shape", {tensor}, {{"T", type}, {"out_type", DataType::kInt32}});
    const auto number = [&](int32_t value) { return Constant(id, Tensor::Vector<int32_t>({value})); };
    return Before(id, "StridedSlice", {shape, number(0), number(1), number(1)},
                  {{"T", DataType::kInt32}, {"Index", DataType::kInt32}, {"shrink_axis_mask", int64_t{1}}});
  }

  static std::vector<int32_t> Dims(const Shape& shape) {
    std::vector<int32_t> dims;
    for (int d = 0; d < shape.rank(); ++d) dims.push_back(static_cast<int32_t>(shape.dim(d)));
    return dims;
  }

  Graph& graph_;
  Graph::Library& library_;
  const OpRegistry& ops_;
  const OpPredicate writes_;
  CreationPlaces places_;
  std::map<OutputRef, OutputRef> moved_;  // results
  std::set<int32_t> stacks_;              // nodes that take what became a loop as it is
  std::set<std::string> looked_at_;       // functions whose effects are known
};

bool HoldsFunctionOps(const Graph& graph) {
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    if (graph.alive(NodeId{i}) && IsFunctionOp(graph.node(NodeId{i}).op)) return true;
  }
  return false;
}

}  // namespace

bool IsFunctionOp(const std::string& op) { return op == "For" || op == "MapDefun" || op == "RemoteCall"; }

void LowerFunctionOps(Graph& graph, const OpRegistry& ops, OpPredicate writes) {
  if (graph.library() == nullptr) return;
  std::vector<std::string> holders;
  for (const auto& [name, function] : *graph.library()) {
    if (function.body != nullptr && HoldsFunctionOps(*function.body)) holders.push_back(name);
  }
  if (holders.empty() && !HoldsFunctionOps(graph)) return;
  // What the functions of loops are called follows from this order.
  std::sort(holders.begin(), holders.end());
  Graph::Library library = *graph.library();
  for (const std::string& name : holders) {
    Graph body = library.at(name).body->Clone();
    FunctionOpLowering(body, library, ops, writes).Run();
    library.at(name).body = std::make_shared<const Graph>(std::move(body));
  }
  FunctionOpLowering(graph, library, ops, writes).Run();
  graph.set_library(std::make_shared<const Graph::Library>(std::move(library)));
}

}  // namespace millrace
