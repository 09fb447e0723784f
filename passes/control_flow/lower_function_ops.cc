#include "passes/control_flow/lower_function_ops.h"

#include <algorithm>
#include <limits>
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

constexpr const char* kAllowedRows = "allowed_batch_sizes";

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

// Parameters of the function that a node is in.
bool HoldsParameters(const AttrMap& attrs) {
  const auto of_function = [](const FunctionRef& ref) { return ref.attrs != nullptr && HoldsParameters(*ref.attrs); };
  return std::any_of(attrs.begin(), attrs.end(), [&](const AttrMap::Entry& attr) {
    if (const auto* ref = std::get_if<FunctionRef>(&attr.second)) return of_function(*ref);
    const auto* refs = std::get_if<std::vector<FunctionRef>>(&attr.second);
    return std::holds_alternative<AttrParameter>(attr.second) || (refs != nullptr && std::any_of(refs->begin(), refs->end(), of_function));
  });
}

// Whether the function may get more rows than there are.
bool PadsRows(const Node& node) {
  return node.op == "BatchFunction" && !node.inputs.empty() && !node.attrs.GetOr<std::vector<int64_t>>(kAllowedRows, {}).empty();
}

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

  // Whether anything changed.
  bool Run() {
    const int32_t nodes = graph_.num_ids();
    for (int32_t i = 0; i < nodes; ++i) {
      if (!graph_.alive(NodeId{i}) || HoldsParameters(graph_.node(NodeId{i}).attrs)) continue;
      if (IsFunctionOp(graph_.node(NodeId{i}).op)) Lower(NodeId{i});
      if (PadsRows(graph_.node(NodeId{i}))) PadRows(NodeId{i});
    }
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      if (!graph_.alive(NodeId{i}) || stacks_.count(i) > 0) continue;
      for (OutputRef& input : graph_.mutable_node(NodeId{i}).inputs) {
        const auto found = moved_.find(input);
        if (found != moved_.end()) input = found->second;
      }
    }
    if (!places_.empty()) places_.Renumber(graph_);
    return changed_;
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
      changed_ = true;
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
    changed_ = true;
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

  // What a MapDefun takes row by row, what it takes whole, and what it makes of each row.
  struct Mapping {
    explicit Mapping(const AttrMap& attrs)
        : mapped(attrs.GetOr<Types>("Targuments", {})), captured(attrs.GetOr<Types>("Tcaptured", {})), made(attrs.GetOr<Types>("output_types", {})),
          shapes(attrs.GetOr<std::vector<Shape>>("output_shapes", {})) {}

    bool IsOf(size_t inputs, const Function& function) const {
      return !mapped.empty() && mapped.size() + captured.size() == inputs && function.arg_names.size() == inputs &&
             function.ret_names.size() == made.size() && shapes.size() == made.size();
    }
    // Of a turn: its number, that of the rows, lists of what is made, lists of rows, what is taken whole.
    Types OfTurns() const {
      Types types(2, DataType::kInt32);
      types.insert(types.end(), made.size() + mapped.size(), DataType::kVariant);
      types.insert(types.end(), captured.begin(), captured.end());
      return types;
    }

    const Types mapped, captured, made;
    const std::vector<Shape> shapes;  // of rows that are made
  };

  // (arguments, captured inputs): the function takes a row of each argument and what was captured, and gives a row of each result.
  void LowerMap(NodeId id, const FunctionRef& ref, const Function& function) {
    const std::vector<OutputRef> inputs(graph_.node(id).inputs.begin(), graph_.node(id).inputs.end());
    const Mapping mapping(graph_.node(id).attrs);
    if (!mapping.IsOf(inputs.size(), function)) return;
    const OutputRef rows = CountSameRows(id, inputs, mapping.mapped);
    const OutputRef any_shape = Constant(id, Tensor::Scalar<int32_t>(-1));
    std::vector<OutputRef> values = {Constant(id, Tensor::Scalar<int32_t>(0)), rows};
    std::vector<OutputRef> shapes_of_rows;
    for (size_t i = 0; i < mapping.made.size(); ++i) {
      const Shape& shape = mapping.shapes[i];
      shapes_of_rows.push_back(shape.unknown_rank() ? any_shape : Constant(id, Tensor::Vector<int32_t>(Dims(shape))));
      values.push_back(
          Before(id, "TensorListReserve", {shapes_of_rows[i], rows}, {{"element_dtype", mapping.made[i]}, {"shape_type", DataType::kInt32}}));
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool is_row = i < mapping.mapped.size();
      values.push_back(is_row ? Before(id, "TensorListFromTensor", {inputs[i], any_shape},
                                       {{"element_dtype", mapping.mapped[i]}, {"shape_type", DataType::kInt32}})
                              : inputs[i]);
    }
    const Types types = mapping.OfTurns();
    FunctionRef cond = AddMapCondition(id, types), body = AddMapTurn(id, ref, function, mapping);
    BecomeWhile(id, values, types, std::move(cond), std::move(body));
    for (int32_t i = 0; i < static_cast<int32_t>(mapping.made.size()); ++i) {
      const AttrMap of_stack{{"element_dtype", mapping.made[i]}, {"num_elements", int64_t{-1}}};
      const NodeId stack = places_.AddAfter(graph_, id, Part(id, "TensorListStack", {{id, 2 + i}, shapes_of_rows[i]}, of_stack));
      stacks_.insert(stack.value);
      moved_[{id, i}] = {stack, 0};
    }
  }

  FunctionRef AddMapCondition(NodeId id, const Types& types) {
    FunctionWriter condition;
    const std::vector<OutputRef> arguments = condition.Arguments(types);
    const OutputRef goes_on = condition.Add("Less", {arguments[0], arguments[1]}, OfInt32());
    return AddFunction(id, "cond", condition, {goes_on}, {DataType::kBool});
  }

  // Calls the function for one row and keeps what it gives.
  FunctionRef AddMapTurn(NodeId id, const FunctionRef& ref, const Function& function, const Mapping& mapping) {
    const Types types = mapping.OfTurns();
    FunctionWriter turn;
    const std::vector<OutputRef> arguments = turn.Arguments(types);
    const OutputRef any_row = turn.Constant(Tensor::Scalar<int32_t>(-1));
    const size_t first = 2 + mapping.made.size();
    std::vector<OutputRef> passed(arguments.begin() + static_cast<int64_t>(first), arguments.end());
    for (size_t i = 0; i < mapping.mapped.size(); ++i) {
      passed[i] = turn.Add("TensorListGetItem", {arguments[first + i], arguments[0], any_row}, {{"element_dtype", mapping.mapped[i]}});
    }
    const NodeId call = turn.Call(function, ref, passed);
    std::vector<OutputRef> results = arguments;
    for (size_t i = 0; i < mapping.made.size(); ++i) {
      const OutputRef row{call, static_cast<int32_t>(i)};
      results[2 + i] = turn.Add("TensorListSetItem", {arguments[2 + i], arguments[0], row}, {{"element_dtype", mapping.made[i]}});
    }
    const OutputRef one = turn.Constant(Tensor::Scalar<int32_t>(1));
    results[0] = turn.Add("AddV2", {arguments[0], one}, OfInt32());
    return AddFunction(id, "body", turn, results, types);
  }

  // How many rows the first tensor has; the others are checked to have as many.
  OutputRef CountSameRows(NodeId id, const std::vector<OutputRef>& tensors, const Types& types) {
    const OutputRef rows = CountRows(id, tensors[0], types[0]);
    for (size_t i = 1; i < types.size(); ++i) {
      const OutputRef others = CountRows(id, tensors[i], types[i]);
      Check(id, {Before(id, "Equal", {rows, others}, OfInt32()), rows, others});
    }
    return rows;
  }

  // (rows, captured inputs): the function takes the least number of rows that is allowed, the first one again in place of those that are
  // not there, and what it makes of them is cut off. Of none there are none; more than are allowed, which TensorFlow splits where it may,
  // are left as they are.
  void PadRows(NodeId id) {
    const std::vector<OutputRef> inputs(graph_.node(id).inputs.begin(), graph_.node(id).inputs.end());
    const AttrMap attrs = graph_.node(id).attrs;
    const Types batched = attrs.GetOr<Types>("Tin", {}), made = attrs.GetOr<Types>("Tout", {});
    graph_.mutable_node(id).attrs.Set(kAllowedRows, std::vector<int64_t>());
    if (batched.empty() || batched.size() > inputs.size()) return;
    changed_ = true;
    const auto sizes = attrs.GetOr<std::vector<int64_t>>(kAllowedRows, {});
    const std::vector<int32_t> allowed(sizes.begin(), sizes.end());
    const auto number = [&](int32_t value) { return Constant(id, Tensor::Scalar<int32_t>(value)); };
    const auto vector = [&](OutputRef value) { return Before(id, "ExpandDims", {value, number(0)}, {{"T", DataType::kInt32}, {"Tdim", DataType::kInt32}}); };
    const OutputRef rows = CountSameRows(id, inputs, batched), row = vector(rows);
    if (!attrs.GetOr<bool>("enable_large_batch_splitting", false)) {
      constexpr int64_t kAny = std::numeric_limits<int32_t>::max();
      const OutputRef most = number(static_cast<int32_t>(std::min(attrs.GetOr<int64_t>("max_batch_size", kAny), kAny)));
      Check(id, {Before(id, "LessEqual", {rows, most}, OfInt32()), rows, most});
    }
    const AttrMap of_join{{"T", DataType::kInt32}, {"N", int64_t{2}}, {"Tidx", DataType::kInt32}};
    const OutputRef all = Before(id, "ConcatV2", {Constant(id, Tensor::Vector<int32_t>(allowed)), row, number(0)}, of_join);
    const OutputRef place = Before(id, "LowerBound", {vector(Constant(id, Tensor::Vector<int32_t>(allowed))), vector(row)},
                                   {{"T", DataType::kInt32}, {"out_type", DataType::kInt32}});
    const OutputRef padded = Before(id, "Max", {Gather(id, all, place, DataType::kInt32), Constant(id, Tensor::Vector<int32_t>({0, 1}))},
                                    {{"T", DataType::kInt32}, {"Tidx", DataType::kInt32}});
    const OutputRef any = Before(id, "Minimum", {rows, number(1)}, OfInt32());
    const OutputRef numbers = Before(id, "Range", {number(0), Before(id, "Mul", {padded, any}, OfInt32()), number(1)}, {{"Tidx", DataType::kInt32}});
    const OutputRef there = Before(id, "Cast", {Before(id, "Less", {numbers, rows}, OfInt32())}, {{"SrcT", DataType::kBool}, {"DstT", DataType::kInt32}});
    const OutputRef from = Before(id, "Mul", {numbers, there}, OfInt32());
    for (size_t i = 0; i < batched.size(); ++i) {
      const OutputRef enough = Gather(id, inputs[i], from, batched[i]);
      graph_.mutable_node(id).inputs[i] = enough;
    }
    const OutputRef begin = Constant(id, Tensor::Vector<int32_t>({0})), step = Constant(id, Tensor::Vector<int32_t>({1}));
    for (int32_t i = 0; i < static_cast<int32_t>(made.size()); ++i) {
      const AttrMap of_slice{{"T", made[i]}, {"Index", DataType::kInt32}};
      const NodeId slice = places_.AddAfter(graph_, id, Part(id, "StridedSlice", {{id, i}, begin, row, step}, of_slice));
      stacks_.insert(slice.value);
      moved_[{id, i}] = {slice, 0};
    }
  }

  OutputRef Gather(NodeId id, OutputRef from, OutputRef rows, DataType type) {
    return Before(id, "GatherV2", {from, rows, Constant(id, Tensor::Scalar<int32_t>(0))},
                  {{"Tparams", type}, {"Tindices", DataType::kInt32}, {"Taxis", DataType::kInt32}, {"batch_dims", int64_t{0}}});
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
  bool changed_ = false;
  CreationPlaces places_;
  std::map<OutputRef, OutputRef> moved_;  // results
  std::set<int32_t> stacks_;              // nodes that take what became a loop, or has more rows, as it is
  std::set<std::string> looked_at_;       // functions whose effects are known
};

bool HoldsFunctionOps(const Graph& graph) {
  return HoldsNode(graph, [](const Node& node) { return IsFunctionOp(node.op) || PadsRows(node); });
}

}  // namespace

bool IsFunctionOp(const std::string& op) { return op == "For" || op == "MapDefun" || op == "RemoteCall"; }

bool LowerFunctionOps(Graph& graph, const OpRegistry& ops, OpPredicate writes) {
  if (graph.library() == nullptr) return false;
  std::vector<std::string> holders;
  for (const auto& [name, function] : *graph.library()) {
    if (function.body != nullptr && HoldsFunctionOps(*function.body)) holders.push_back(name);
  }
  if (holders.empty() && !HoldsFunctionOps(graph)) return false;
  // What the functions of loops are called follows from this order.
  std::sort(holders.begin(), holders.end());
  Graph::Library library = *graph.library();
  bool changed = false;
  for (const std::string& name : holders) {
    Graph body = library.at(name).body->Clone();
    changed = FunctionOpLowering(body, library, ops, writes).Run() || changed;
    library.at(name).body = std::make_shared<const Graph>(std::move(body));
  }
  changed = FunctionOpLowering(graph, library, ops, writes).Run() || changed;
  graph.set_library(std::make_shared<const Graph::Library>(std::move(library)));
  return changed;
}

}  // namespace millrace
