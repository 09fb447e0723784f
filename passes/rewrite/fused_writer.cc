#include "passes/rewrite/fused_writer.h"

#include <algorithm>

#include "graph/spread.h"
#include "millrace/guard.h"
#include "passes/rewrite/fuse_elementwise.h"
#include "passes/rewrite/order_variable_accesses.h"
#include "passes/rewrite/strided_views.h"

namespace millrace {

Operand OperandOf(const Shape& operand, const Shape& shape, int64_t* row) {
  if (operand == shape) return Operand::kFull;
  if (operand.rank() > shape.rank()) return Operand::kOther;
  if (operand.num_elements() == 1) return Operand::kOne;
  const std::optional<Spread> spread = SpreadOver(operand, shape);
  if (!spread) return Operand::kOther;
  const bool is_row = spread->each == spread->width && spread->count == 1 && spread->width <= kMaxFusedRow;
  if (is_row) *row = spread->width;
  return is_row ? Operand::kRow : Operand::kSpread;
}

FusedInput ReadFor(const Graph& graph, OutputRef ref) {
  const Node& node = graph.node(ref.node);
  if ((node.op != "BroadcastTo" && node.op != "Tile") || node.dynamic_outputs != 0 || node.run_time_values != 0 ||
      node.attrs.GetOr(kGuarded, false) || !node.control_inputs.empty()) {
    return {ref};
  }
  const OutputRef operand = node.inputs[0];
  const Shape& shape = graph.type(operand).shape;
  int64_t row = 0;
  // A variable's memory may be written once the copy is there.
  if (VariableOf(graph, OpRegistry::Builtin(), operand).valid()) return {ref};
  if (graph.node(operand.node).dynamic_output(operand.index) || !shape.fully_known() || !node.outputs[0].shape.fully_known() ||
      OperandOf(shape, node.outputs[0].shape, &row) == Operand::kOther) {
    return {ref};
  }
  return {.ref = operand, .spread = true};
}

FusedWriter::FusedWriter(const Graph& graph, const Draft& group) : graph_(graph), group_(group) {
  for (const Cut& cut : group.cuts) {
    for (int32_t output : cut.outputs) WriteCut(cut, {cut.copy, output});
  }
  for (NodeId id : group.members) {
    const Node& node = graph.node(id);
    std::vector<int64_t> operands;
    for (OutputRef input : node.inputs) operands.push_back(OperandOfRef(input));
    operand_of_[{id, 0}] = WriteOp(node, operands);
  }
}

void FusedWriter::AddResult(OutputRef ref, int64_t output, int64_t pitch, int64_t offset) {
  results_.insert(results_.end(), {-1 - operand_of_.at(ref), output, pitch, offset});
}

void FusedWriter::AddReduction(OutputRef ref, const std::string& op, int64_t output) {
  const auto computed = operand_of_.find(ref);
  reduced_.insert(reduced_.end(), {computed != operand_of_.end() ? computed->second : Input({ref}), output});
  reductions_.push_back(op);
}

AttrMap FusedWriter::Attributes(std::vector<Shape> output_shapes) const {
  int64_t row = row_;
  bool by_rows = false;
  std::vector<int64_t> pitches, offsets;
  for (const FusedInput& input : inputs_) {
    int64_t length = 0;
    const bool as_it_is = input.pitch < 0 && !input.spread;
    if (as_it_is && OperandOf(graph_.type(input.ref).shape, group_.shape, &length) == Operand::kRow) row = length;
    by_rows = by_rows || input.pitch >= 0;
    pitches.push_back(input.pitch);
    offsets.push_back(input.offset);
  }
  AttrMap attrs({{"operands", operands_}, {"ops", ops_}, {"row", row}, {"shape", group_.shape}, {"types", types_}});
  if (by_rows) {
    attrs.Set("pitches", std::move(pitches));
    attrs.Set("offsets", std::move(offsets));
  }
  if (std::vector<int64_t> spreads = Spreads(); !spreads.empty()) attrs.Set("spreads", std::move(spreads));
  if (!reductions_.empty()) {
    std::vector<int64_t> axes;
    for (size_t d = 0; d < group_.reduced.size(); ++d) {
      if (group_.reduced[d]) axes.push_back(static_cast<int64_t>(d));
    }
    attrs.Set("axes", std::move(axes));
    attrs.Set("reduced", reduced_);
    attrs.Set("reductions", reductions_);
    if (!results_.empty()) attrs.Set("results", results_);
    attrs.Set("output_shapes", std::move(output_shapes));
  } else if (results_ != std::vector<int64_t>{static_cast<int64_t>(ops_.size()) - 1, 0, -1, 0}) {
    attrs.Set("results", results_);
    attrs.Set("output_shapes", std::move(output_shapes));
  }
  return attrs;
}

// Empty where no input is spread.
std::vector<int64_t> FusedWriter::Spreads() const {
  std::vector<int64_t> numbers;
  bool any = false;
  for (const FusedInput& input : inputs_) {
    int64_t row = 0;
    const Shape& shape = graph_.type(input.ref).shape;
    const bool is = input.spread || (input.pitch < 0 && OperandOf(shape, group_.shape, &row) == Operand::kSpread);
    const Spread spread = is ? *SpreadOver(shape, group_.shape) : Spread{};
    numbers.insert(numbers.end(), {spread.each, spread.count, spread.width});
    any = any || is;
  }
  return any ? numbers : std::vector<int64_t>{};
}

// -1 - k for the result of op k.
int64_t FusedWriter::WriteOp(const Node& node, const std::vector<int64_t>& operands) {
  ops_.push_back({node.op, std::make_shared<AttrMap>(node.attrs)});
  types_.push_back(node.outputs[0].dtype);
  operands_.push_back(static_cast<int64_t>(operands.size()));
  operands_.insert(operands_.end(), operands.begin(), operands.end());
  return -static_cast<int64_t>(ops_.size());
}

int64_t FusedWriter::Input(const FusedInput& input) {
  const auto known = std::find(inputs_.begin(), inputs_.end(), input);
  if (known != inputs_.end()) return known - inputs_.begin();
  inputs_.push_back(input);
  return static_cast<int64_t>(inputs_.size()) - 1;
}

int64_t FusedWriter::OperandOfRef(OutputRef ref) {
  const auto known = operand_of_.find(ref);
  return known != operand_of_.end() ? known->second : Input(ReadFor(graph_, ref));
}

void FusedWriter::WriteCut(const Cut& cut, OutputRef ref) {
  const StridedView view = *ViewOf(graph_, ref);
  row_ = view.part.length;
  if (!cut.bias.valid()) {
    operand_of_[ref] = Input({view.whole, view.part.pitch, view.part.offset});
    return;
  }
  const Node& bias = graph_.node(cut.bias);
  const int64_t terms = Input({bias.inputs[0], view.part.pitch, view.part.offset});
  operand_of_[ref] = WriteOp(bias, {terms, Input({bias.inputs[1], 0, view.part.offset})});
}

}  // namespace millrace
