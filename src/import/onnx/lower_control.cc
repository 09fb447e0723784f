// Loops whose number of steps is known while the model is read: they are unrolled.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "onnx/lowering.h"

namespace millrace::onnx {
namespace {

using onnx_proto::AttributeProto;
using onnx_proto::GraphProto;

constexpr int64_t kMostSteps = 20000;

// No elements along a new axis, of such as the body would have given.
Output NoneOf(const Output& element, int64_t axis) {
  Shape shape;
  for (int d = 0; d <= element.rank(); ++d) shape.AddDim(d == axis ? 0 : element.dim(d < axis ? d : d - 1));
  return element.builder()->SharedConst(Tensor(element.dtype(), shape));
}

// If of a condition that is known: the graph holds the branch that is taken.
absl::Status If(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  MR_ASSIGN_OR_RETURN(const IntList condition, c.ConstantInts(0));
  if (condition.size() != 1) return c.Error("the condition is not one element");
  const AttributeProto* branch = c.Attribute(condition[0] != 0 ? "then_branch" : "else_branch");
  if (branch == nullptr) return c.Error("a branch is missing");
  MR_ASSIGN_OR_RETURN(const std::vector<ModelValue> outputs, c.source().Lower(branch->g(), {}));
  if (static_cast<int>(outputs.size()) != c.num_outputs()) return c.Error("the branch has another number of outputs");
  for (int i = 0; i < c.num_outputs(); ++i) c.Set(i, outputs[i]);
  return absl::OkStatus();
}

// Loop(count, condition, states...) of a body (step, condition, states...) -> (condition, states..., scans...).
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
  std::vector<std::vector<Output>> scanned(scans);
  for (int64_t step = 0; step < count[0] && going[0] != 0; ++step) {
    if (step >= kMostSteps) return c.Unsupported(absl::StrCat("unrolling over more than ", kMostSteps, " steps"));
    MR_ASSIGN_OR_RETURN(const std::vector<ModelValue> outputs, turn(step));
    // A loop without a condition goes by the count alone, whatever the body says.
    if (c.has(1)) {
      if (!outputs[0].tensor.valid()) return c.b.status();
      const absl::StatusOr<Tensor> next = c.source().Known(outputs[0].tensor);
      if (!next.ok() || next->num_elements() != 1) return c.Unsupported("a loop that ends by what it computes");
      going[0] = next->IntAt(0);
    }
    std::copy(outputs.begin() + 1, outputs.begin() + 1 + states, values.begin());
    for (int i = 0; i < scans; ++i) scanned[i].push_back(outputs[1 + states + i].tensor);
  }
  for (int i = 0; i < states; ++i) c.Set(i, values[i]);
  const int collected = std::min(scans, c.num_outputs() - states);
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
