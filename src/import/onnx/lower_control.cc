// Loops whose number of steps, or the most that they may take, is known while the model is read: they are unrolled.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "onnx/lowering.h"

namespace millrace::onnx {
namespace {

using onnx_proto::AttributeProto;
using onnx_proto::GraphProto;

constexpr int64_t kMostSteps = 20000;
constexpr int64_t kMostSelected = 4096;  // of a loop that values end
constexpr int32_t kMostNodes = 4000000;  // of a graph whose loops still go on: nested ones multiply

// No elements along a new axis, of such as the body would have given.
Output NoneOf(const Output& element, int64_t axis) {
  Shape shape;
  for (int d = 0; d <= element.rank(); ++d) shape.AddDim(d == axis ? 0 : element.dim(d < axis ? d : d - 1));
  return element.builder()->SharedConst(Tensor(element.dtype(), shape));
}

// `taken` where the condition, a bool scalar, holds, else `other`; not valid where they cannot be selected. Of single elements of several
// ranks it is one of the higher rank.
Output Selected(const Output& condition, const ModelValue& taken, const ModelValue& other) {
  Output a = taken.tensor, b = other.tensor;
  if (!a.valid() || !b.valid() || a.dtype() != b.dtype()) return {};
  if (a.shape().num_elements() == 1 && b.shape().num_elements() == 1 && a.rank() != b.rank()) {
    const IntList shape(std::max(a.rank(), b.rank()), 1);
    a = ops::Reshape(a, shape);
    b = ops::Reshape(b, shape);
  }
  if (a.shape() != b.shape()) return {};
  return a.ref() == b.ref() ? a : ops::Select(condition, a, b);
}

absl::StatusOr<std::vector<ModelValue>> LowerBranch(NodeContext& c, const char* name) {
  const AttributeProto* branch = c.Attribute(name);
  if (branch == nullptr) return c.Error("a branch is missing");
  MR_ASSIGN_OR_RETURN(std::vector<ModelValue> outputs, c.source().Lower(branch->g(), {}));
  if (static_cast<int>(outputs.size()) != c.num_outputs()) return c.Error("the branch has another number of outputs");
  return outputs;
}

// Both branches run, and what the taken one gives is selected.
absl::Status IfOfAny(NodeContext& c, const Output& condition) {
  MR_ASSIGN_OR_RETURN(const std::vector<ModelValue> taken, LowerBranch(c, "then_branch"));
  MR_ASSIGN_OR_RETURN(const std::vector<ModelValue> other, LowerBranch(c, "else_branch"));
  for (int i = 0; i < c.num_outputs(); ++i) {
    const Output selected = Selected(condition, taken[i], other[i]);
    if (!selected.valid()) return c.b.ok() ? c.Unsupported("a computed condition whose branches give other types or shapes") : c.b.status();
    c.Set(i, selected);
  }
  return absl::OkStatus();
}

// The graph holds the branch that is taken, where that is known.
absl::Status If(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  if (c.source().selects()) {
    const Output condition = c.in(0);
    if (!condition.valid()) return absl::OkStatus();
    if (condition.shape().num_elements() != 1) return c.Error("the condition is not one element");
    if (c.b.ConstantValue(condition) == nullptr) return IfOfAny(c, ops::Reshape(condition, {}));
  }
  MR_ASSIGN_OR_RETURN(const IntList condition, c.ConstantInts(0));
  if (condition.size() != 1) return c.Error("the condition is not one element");
  MR_ASSIGN_OR_RETURN(const std::vector<ModelValue> outputs, LowerBranch(c, condition[0] != 0 ? "then_branch" : "else_branch"));
  for (int i = 0; i < c.num_outputs(); ++i) c.Set(i, outputs[i]);
  return absl::OkStatus();
}

// Whether it is known that the condition does not hold: of what it is an And of, something does not.
bool CannotHold(GraphBuilder& b, const Output& condition) {
  const Tensor* value = b.ConstantValue(condition);
  if (value != nullptr) return value->num_elements() == 1 && (IsFloating(value->dtype()) ? value->DoubleAt(0) == 0 : value->IntAt(0) == 0);
  const Node& node = b.graph().node(condition.node());
  const auto input = [&](size_t i) { return b.OutputOf(node.inputs[i]); };
  if (node.op == "LogicalAnd") return CannotHold(b, input(0)) || CannotHold(b, input(1));
  // Converters cast to numbers and back, and add zeros for assignments.
  if (node.op == "Cast" || node.op == "Reshape" || node.op == "Identity") return CannotHold(b, input(0));
  return node.op == "AddV2" && CannotHold(b, input(0)) && CannotHold(b, input(1));
}

// What ends a loop.
struct LoopEnd {
  bool reached = false;
  Output goes_on;  // where only the values say whether the loop goes on: valid, a bool scalar
};

// After a step whose body says whether there is another.
absl::Status Ask(NodeContext& c, const Output& says, LoopEnd& end) {
  if (!says.valid()) return c.b.ok() ? c.Error("the body's condition is no tensor") : c.b.status();
  if (c.source().selects() && says.shape().num_elements() == 1) {
    end.reached = CannotHold(c.b, says);
    if (end.reached || c.b.ConstantValue(says) != nullptr) return absl::OkStatus();
    const Output holds = ops::Reshape(says, {});
    end.goes_on = end.goes_on.valid() ? c.b.Op("LogicalAnd", {end.goes_on, holds}) : holds;
    return absl::OkStatus();
  }
  const absl::StatusOr<Tensor> next = c.source().Known(says);
  if (!next.ok() || next->num_elements() != 1) return c.Unsupported("a loop that ends by what it computes");
  end.reached = next->IntAt(0) == 0;
  return absl::OkStatus();
}

// Loop(count, condition, states...) of a body (step, condition, states...) -> (condition, states..., scans...). Where values end it, all steps
// that it may take run, as if it went on, and the states of the last one that counts are selected.
absl::Status Loop(NodeContext& c) {
  const AttributeProto* body = c.Attribute("body");
  if (body == nullptr) return c.Error("the body is missing");
  const int states = std::max(c.num_inputs() - 2, 0), scans = body->g().output_size() - 1 - states;
  if (body->g().input_size() != states + 2 || scans < 0 || c.num_outputs() > states + scans) {
    return c.Error(absl::StrCat("the body has ", body->g().input_size(), " inputs and ", body->g().output_size(),
                                " outputs, the loop ", states, " states"));
  }
  IntList count = {kMostSteps + 1}, going = {1};
  if (c.has(0)) {
    MR_ASSIGN_OR_RETURN(count, c.ConstantInts(0));
  }
  if (c.has(1)) {
    MR_ASSIGN_OR_RETURN(going, c.ConstantInts(1));
  }
  if (!c.has(0) && !c.has(1)) return c.Unsupported("a loop without an end");
  if (count.size() != 1 || going.size() != 1) return c.Error("count or condition is not one element");
  std::vector<ModelValue> values;
  for (int i = 0; i < states; ++i) values.push_back(c.any(i + 2));
  const auto turn = [&](int64_t step) {
    std::vector<ModelValue> inputs = {ValueOf(c.b.SharedConst(Tensor::Scalar<int64_t>(step))),
                                      ValueOf(c.b.SharedConst(Tensor::Scalar<bool>(true)))};
    inputs.insert(inputs.end(), values.begin(), values.end());
    return c.source().Lower(body->g(), inputs);
  };
  const int collected = std::min(scans, c.num_outputs() - states);
  std::vector<std::vector<Output>> scanned(scans);
  std::vector<ModelValue> last = values;  // of the steps that count
  LoopEnd end{.reached = going[0] == 0};
  for (int64_t step = 0; step < count[0] && !end.reached; ++step) {
    if (step >= kMostSteps) return c.Unsupported(absl::StrCat("unrolling over more than ", kMostSteps, " steps"));
    if (end.goes_on.valid() && step >= kMostSelected) return c.Unsupported(absl::StrCat("a loop that ends by what it computes and may take more than ", kMostSelected, " steps"));
    if (c.b.graph().num_nodes() > kMostNodes) return c.Unsupported(absl::StrCat("unrolling to more than ", kMostNodes, " nodes"));
    if (end.goes_on.valid() && collected > 0) return c.Unsupported("a loop that collects values and ends by what it computes");
    MR_ASSIGN_OR_RETURN(const std::vector<ModelValue> outputs, turn(step));
    std::copy(outputs.begin() + 1, outputs.begin() + 1 + states, values.begin());
    for (int i = 0; i < states; ++i) {
      if (!end.goes_on.valid()) {
        last[i] = values[i];
        continue;
      }
      last[i] = ValueOf(Selected(end.goes_on, values[i], last[i]));
      if (!last[i].valid()) return c.b.ok() ? c.Unsupported("a loop that ends by what it computes and changes its states' types or shapes") : c.b.status();
    }
    for (int i = 0; i < scans; ++i) scanned[i].push_back(outputs[1 + states + i].tensor);
    // A loop without a condition goes by the count alone, whatever the body says; after the last step nobody asks.
    if (c.has(1) && step + 1 < count[0]) MR_RETURN_IF_ERROR(Ask(c, outputs[0].tensor, end));
  }
  for (int i = 0; i < states; ++i) c.Set(i, last[i]);
  if (collected > 0 && scanned[0].empty()) {
    const absl::StatusOr<std::vector<ModelValue>> outputs = turn(0);  // for the types of what it collects
    for (int i = 0; i < collected; ++i) {
      // A body that cannot be there without a step, such as one that takes the first of no elements.
      if (!outputs.ok()) {
        c.Set(states + i, NoValue("a loop of no steps that collects values"));
        continue;
      }
      const Output& element = (*outputs)[1 + states + i].tensor;
      if (!element.valid()) return c.b.status();
      c.Set(states + i, NoneOf(element, 0));
    }
    return absl::OkStatus();
  }
  for (int i = 0; i < collected; ++i) c.Set(states + i, ops::Pack(scanned[i], 0));
  return absl::OkStatus();
}

// How a Scan takes its sequences apart and puts its results together.
struct ScanForm {
  const GraphProto& body;
  int states = 0, scans = 0;  // scans: results that are collected
  IntList in_axes, out_axes, in_reverse, out_reverse;
};

// The states after the last step, then what was collected, of `inputs`: states and sequences.
absl::StatusOr<std::vector<Output>> RunScan(NodeContext& c, const ScanForm& form, const std::vector<Output>& inputs) {
  const int states = form.states, scans = form.scans;
  std::vector<Output> results(inputs.begin(), inputs.begin() + states);
  std::vector<std::vector<Output>> elements;
  for (size_t i = 0; i < form.in_axes.size(); ++i) {
    const Output& x = inputs[states + i];
    MR_ASSIGN_OR_RETURN(const int64_t axis, c.Axis(form.in_axes[i], x.rank()));
    if (x.dim(static_cast<int>(axis)) > kMostSteps) return c.Unsupported(absl::StrCat("unrolling over more than ", kMostSteps, " steps"));
    elements.push_back(ops::Unpack(x, axis));
    if (form.in_reverse[i] != 0) std::reverse(elements[i].begin(), elements[i].end());
    if (elements[i].size() != elements[0].size()) return c.Error("sequences differ in length");
  }
  // Without steps the body is still what the types of the results come from.
  const bool none = elements[0].empty();
  for (size_t i = 0; i < elements.size() && none; ++i) {
    const Output& x = inputs[states + i];
    MR_ASSIGN_OR_RETURN(const int64_t axis, c.Axis(form.in_axes[i], x.rank()));
    IntList dims = Dims(x);
    dims.erase(dims.begin() + axis);
    elements[i].push_back(ops::Full(c.b, {x.dtype(), Shape(dims)}, 0));
  }
  std::vector<std::vector<Output>> scanned(scans);
  for (size_t step = 0; step < elements[0].size(); ++step) {
    std::vector<ModelValue> values;
    for (int i = 0; i < states; ++i) values.push_back(ValueOf(results[i]));
    for (const std::vector<Output>& sequence : elements) values.push_back(ValueOf(sequence[step]));
    MR_ASSIGN_OR_RETURN(const std::vector<ModelValue> outputs, c.source().Lower(form.body, values));
    for (int i = 0; i < states && !none; ++i) results[i] = outputs[i].tensor;
    for (int i = 0; i < scans; ++i) scanned[i].push_back(outputs[states + i].tensor);
  }
  for (int i = 0; i < scans && states + i < c.num_outputs(); ++i) {
    if (!scanned[i][0].valid()) return c.b.ok() ? c.Error("the body collects what is no tensor") : c.b.status();
    if (form.out_reverse[i] != 0) std::reverse(scanned[i].begin(), scanned[i].end());
    MR_ASSIGN_OR_RETURN(const int64_t axis, c.Axis(form.out_axes[i], scanned[i][0].rank() + 1));
    results.push_back(none ? NoneOf(scanned[i][0], axis) : ops::Pack(scanned[i], axis));
  }
  return results;
}

// Of opset 8: inputs and results have a batch in their first dimension, of which the body sees one element at a time.
absl::Status ScanOfBatch(NodeContext& c, const ScanForm& form, const std::vector<Output>& inputs) {
  if (inputs.back().rank() > 0 && inputs.back().dim(0) == 0) return c.Unsupported("Scan of an empty batch (opset 8)");
  const int64_t batch = inputs.back().rank() > 1 ? inputs.back().dim(0) : 0;
  for (const Output& input : inputs) {
    if (batch < 1 || input.rank() < 1 || input.dim(0) != batch) return c.Error("the inputs have no first dimension, of a batch, in common");
  }
  if (batch * inputs.back().dim(1) > kMostSteps) return c.Unsupported(absl::StrCat("unrolling over more than ", kMostSteps, " steps"));
  std::vector<std::vector<Output>> results;
  for (int64_t b = 0; b < batch; ++b) {
    std::vector<Output> element;
    for (const Output& input : inputs) element.push_back(ops::Index(input, b, 0));
    MR_ASSIGN_OR_RETURN(const std::vector<Output> of_element, RunScan(c, form, element));
    results.resize(of_element.size());
    for (size_t i = 0; i < of_element.size(); ++i) results[i].push_back(of_element[i]);
  }
  for (size_t i = 0; i < results.size(); ++i) c.Set(static_cast<int>(i), ops::Pack(results[i], 0));
  return absl::OkStatus();
}

// Scan(states..., sequences...) of a body (states..., elements...) -> (states..., elements...), along the first axes.
absl::Status Scan(NodeContext& c) {
  const AttributeProto* body = c.Attribute("body");
  const int64_t sequences = c.Int("num_scan_inputs", 0);
  constexpr int64_t kWithoutBatchOpset = 9;
  const bool has_batch = c.opset() < kWithoutBatchOpset;
  const int first = has_batch ? 1 : 0, count = c.num_inputs() - first;
  if (body == nullptr || sequences < 1 || sequences > count) return c.Error("the body or num_scan_inputs is missing");
  if (has_batch && c.has(0)) return c.Unsupported("Scan of sequences of several lengths (sequence_lens, opset 8)");
  const int states = count - static_cast<int>(sequences);
  const int scans = body->g().output_size() - states;
  if (body->g().input_size() != count || scans < 0 || c.num_outputs() > states + scans) {
    return c.Error("the body's inputs or outputs are not the node's");
  }
  const auto list = [&](const char* name, int64_t size) { return c.Ints(name, IntList(size, 0)); };
  const ScanForm form{.body = body->g(),
                      .states = states,
                      .scans = scans,
                      .in_axes = list("scan_input_axes", sequences),
                      .out_axes = list("scan_output_axes", scans),
                      .in_reverse = list(has_batch ? "directions" : "scan_input_directions", sequences),
                      .out_reverse = list("scan_output_directions", scans)};
  if (form.in_axes.size() != sequences || form.in_reverse.size() != sequences || form.out_axes.size() != scans || form.out_reverse.size() != scans) {
    return c.Error("scan axes or directions have another length than there are sequences");
  }
  std::vector<Output> inputs;
  for (int i = 0; i < count; ++i) {
    inputs.push_back(c.in(first + i));
    if (!inputs.back().valid()) return absl::OkStatus();
  }
  if (has_batch) return ScanOfBatch(c, form, inputs);
  MR_ASSIGN_OR_RETURN(const std::vector<Output> results, RunScan(c, form, inputs));
  for (size_t i = 0; i < results.size(); ++i) c.Set(static_cast<int>(i), results[i]);
  return absl::OkStatus();
}

}  // namespace

void AddControlLowerings(LoweringTable& table) {
  table.Add("If", If);
  table.Add("Loop", Loop);
  table.Add("Scan", Scan);
}

}  // namespace millrace::onnx
