#include "cuda/kernels/fused_program.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "cuda/kernels/common.h"
#include "cuda/kernels/elementwise_names.h"
#include "graph/spread.h"

namespace millrace::cuda {
namespace {

// Where an input or a result is read or written by rows, in elements.
struct RowSteps {
  int64_t pitch = -1, offset = 0;
};

RowSteps RowStepsOf(const OpInstance& node, size_t i) {
  const auto pitches = node.attrs.GetOr<std::vector<int64_t>>("pitches", {});
  const auto offsets = node.attrs.GetOr<std::vector<int64_t>>("offsets", {});
  return i < pitches.size() && i < offsets.size() ? RowSteps{pitches[i], offsets[i]} : RowSteps{};
}

// As the op that takes it sees it.
TensorType InputOf(const OpInstance& node, size_t i) {
  TensorType type = node.inputs[i];
  const RowSteps rows = RowStepsOf(node, i);
  if (rows.pitch >= 0) type.shape = rows.pitch > 0 ? FusedShapeOf(node) : Shape({node.attrs.GetOr<int64_t>("row", 0)});
  return type;
}

struct Result {
  int64_t op = 0, output = 0;
  RowSteps rows;
};

absl::StatusOr<std::vector<Result>> ReadResults(const OpInstance& node, size_t ops) {
  std::vector<int64_t> numbers;
  if (!node.attrs.Has("reductions")) numbers = {static_cast<int64_t>(ops) - 1, 0, -1, 0};
  numbers = node.attrs.GetOr<std::vector<int64_t>>("results", numbers);
  std::vector<Result> results;
  for (size_t r = 0; r + 3 < numbers.size(); r += 4) {
    if (numbers[r] < 0 || numbers[r] >= static_cast<int64_t>(ops) || numbers[r + 1] < 0 ||
        numbers[r + 1] >= static_cast<int64_t>(node.outputs.size())) {
      return absl::InvalidArgumentError(absl::StrCat("has no op ", numbers[r], " or no output ", numbers[r + 1]));
    }
    results.push_back({numbers[r], numbers[r + 1], {numbers[r + 2], numbers[r + 3]}});
  }
  return results;
}

// Ops as steps of a program. An AddN is several additions, in the type that it is computed in.
class ProgramBuilder {
 public:
  explicit ProgramBuilder(const OpInstance& node) : node_(node) {}

  absl::StatusOr<FusedProgram> Build(const std::vector<FusedOp>& ops, const std::vector<Result>& results) {
    if (node_.inputs.size() > kMaxFusedOperands) return Refused(node_, "this many operands");
    if (results.size() > kMaxFusedResults) return Refused(node_, "this many results");
    const Shape shape = FusedShapeOf(node_);
    for (size_t i = 0; i < node_.inputs.size(); ++i) {
      const TensorType& input = node_.inputs[i];
      MR_ASSIGN_OR_RETURN(program_.types[program_.inputs], FusedType(input.dtype));
      MR_ASSIGN_OR_RETURN(program_.operands[program_.inputs++], OperandOf(i, shape.num_elements()));
    }
    for (const FusedOp& op : ops) {
      MR_RETURN_IF_ERROR(AddOp(op));
      results_.push_back(kMaxFusedOperands + program_.steps - 1);
    }
    for (const Result& result : results) {
      const int step = results_[result.op] - kMaxFusedOperands;
      program_.result[program_.results++] = {static_cast<uint8_t>(step), result.rows.pitch >= 0};
    }
    return program_;
  }
  const std::vector<int>& op_operands() const { return results_; }

 private:
  absl::StatusOr<FusedOperand> OperandOf(size_t i, int64_t elements) const {
    if (RowStepsOf(node_, i).pitch >= 0) return FusedOperand::kRow;
    const int64_t own = node_.inputs[i].shape.num_elements();
    const Spread spread = SpreadOfInput(node_.attrs, i);
    if (spread == Spread{}) return own == elements ? FusedOperand::kFull : own == 1 ? FusedOperand::kOne : FusedOperand::kRow;
    if (!SpreadFits(spread, own, elements)) return absl::InvalidArgumentError(absl::StrCat("input ", i, " does not spread so"));
    if (own == 1) return FusedOperand::kOne;
    if (spread.width > 1) return FusedOperand::kPart;
    return spread.each * spread.count == elements ? FusedOperand::kRun : FusedOperand::kTurn;
  }

  absl::StatusOr<Type> FusedType(DataType dtype) const {
    if (!IsFloating(dtype) && dtype != DataType::kBool) return Refused(node_, "this element type");
    return TypeOf(node_, dtype);
  }

  absl::StatusOr<int> AddStep(FusedKind kind, int op, Type from, Type to, const std::vector<int>& operands, double alpha = 0) {
    if (program_.steps == kMaxFusedSteps) return Refused(node_, "this many ops");
    FusedStep& step = program_.step[program_.steps];
    step.kind = kind;
    step.op = static_cast<uint8_t>(op);
    step.from = from;
    step.to = to;
    for (size_t i = 0; i < operands.size(); ++i) step.operands[i] = static_cast<uint8_t>(operands[i]);
    step.alpha = alpha;
    return kMaxFusedOperands + program_.steps++;
  }

  absl::Status AddSum(const std::vector<int>& operands, Type type) {
    const bool half = type == Type::kHalf || type == Type::kBfloat16;
    const Type wide = half ? Type::kFloat : type;
    const auto widen = [&](int operand) -> absl::StatusOr<int> {
      if (!half) return operand;
      return AddStep(FusedKind::kCast, 0, type, wide, {operand});
    };
    MR_ASSIGN_OR_RETURN(int sum, widen(operands[0]));
    for (size_t i = 1; i < operands.size(); ++i) {
      MR_ASSIGN_OR_RETURN(const int term, widen(operands[i]));
      MR_ASSIGN_OR_RETURN(sum, AddStep(FusedKind::kBinary, static_cast<int>(BinaryOp::kAdd), wide, wide, {sum, term}));
    }
    if (half) return AddStep(FusedKind::kCast, 0, wide, type, {sum}).status();
    if (operands.size() > 1) return absl::OkStatus();
    return AddStep(FusedKind::kUnary, static_cast<int>(UnaryOp::kCopy), type, type, {sum}).status();
  }

  absl::Status AddOp(const FusedOp& fused) {
    const OpInstance& instance = fused.instance;
    std::vector<int> operands;
    for (int64_t operand : fused.operands) {
      operands.push_back(operand >= 0 ? static_cast<int>(operand) : results_[-1 - operand]);
    }
    MR_ASSIGN_OR_RETURN(const Type to, FusedType(instance.outputs[0].dtype));
    if (operands.empty()) return Refused(node_, "an op without operands");
    MR_ASSIGN_OR_RETURN(const Type from, FusedType(instance.inputs.back().dtype));
    const auto add = [&](FusedKind kind, int op, size_t arity) -> absl::Status {
      if (operands.size() != arity) return Refused(node_, "operands of another number");
      return AddStep(kind, op, from, to, operands, AlphaOf(instance)).status();
    };
    const auto find = [&](const auto& ops) {
      const auto found = ops.find(instance.op);
      return found == ops.end() ? -1 : static_cast<int>(found->second);
    };
    if (const int op = find(LogicalOps()); op >= 0) {
      if (static_cast<LogicalOp>(op) == LogicalOp::kNot) operands.push_back(operands[0]);
      return add(FusedKind::kLogical, op, 2);
    }
    if (const int op = find(CompareOps()); op >= 0) return add(FusedKind::kCompare, op, 2);
    if (instance.op == "SelectV2" || instance.op == "Select") return add(FusedKind::kSelect, 0, 3);
    if (instance.op == "Cast") {
      if (instance.attrs.GetOr<bool>("Truncate", false)) return Refused(node_, "this cast");
      return add(FusedKind::kCast, 0, 1);
    }
    if (to == Type::kBool && !absl::EndsWith(instance.op, "Like")) return Refused(node_, "booleans");
    if (instance.op == "ZerosLike" || instance.op == "OnesLike") {
      return AddStep(FusedKind::kConstant, 0, from, to, {}, instance.op == "OnesLike" ? 1 : 0).status();
    }
    if (instance.op == "AddN") return AddSum(operands, to);
    if (instance.op == "BiasAdd") return add(FusedKind::kBinary, static_cast<int>(BinaryOp::kAdd), 2);
    if (const int op = find(UnaryOps()); op >= 0) return add(FusedKind::kUnary, op, 1);
    if (const int op = find(BinaryOps()); op >= 0) return add(FusedKind::kBinary, op, 2);
    return Refused(node_, absl::StrCat("op ", instance.op));
  }

  const OpInstance& node_;
  FusedProgram program_;
  std::vector<int> results_;  // operand that is the result of op k
};

}  // namespace

Shape FusedShapeOf(const OpInstance& node) {
  return node.attrs.GetOr<Shape>("shape", node.outputs.empty() ? Shape() : node.outputs[0].shape);
}

absl::StatusOr<std::vector<FusedOp>> ReadFusedOps(const OpInstance& node) {
  MR_ASSIGN_OR_RETURN(const auto refs, node.attrs.Get<std::vector<FunctionRef>>("ops"));
  MR_ASSIGN_OR_RETURN(const auto operands, node.attrs.Get<std::vector<int64_t>>("operands"));
  MR_ASSIGN_OR_RETURN(const auto types, node.attrs.Get<std::vector<DataType>>("types"));
  if (types.size() != refs.size() || refs.empty()) return absl::InvalidArgumentError("ops and types differ in number");
  const Shape shape = FusedShapeOf(node);
  std::vector<FusedOp> ops(refs.size());
  size_t at = 0;
  for (size_t k = 0; k < refs.size(); ++k) {
    FusedOp& op = ops[k];
    const int64_t count = at < operands.size() ? operands[at++] : 0;
    for (int64_t i = 0; i < count && at < operands.size(); ++i) op.operands.push_back(operands[at++]);
    op.instance.name = node.name;
    op.instance.op = refs[k].name;
    if (refs[k].attrs != nullptr) op.instance.attrs = *refs[k].attrs;
    for (int64_t operand : op.operands) {
      if (operand >= static_cast<int64_t>(node.inputs.size()) || operand < -static_cast<int64_t>(k)) {
        return absl::InvalidArgumentError(absl::StrCat("op ", k, " has no operand ", operand));
      }
      op.instance.inputs.push_back(operand >= 0 ? InputOf(node, operand) : TensorType{types[-1 - operand], shape});
    }
    op.instance.outputs.push_back({types[k], shape});
  }
  return ops;
}

absl::StatusOr<FusedGroup> ReadFusedGroup(const OpInstance& node, const std::vector<FusedOp>& ops) {
  MR_ASSIGN_OR_RETURN(const std::vector<Result> results, ReadResults(node, ops.size()));
  FusedGroup group;
  ProgramBuilder builder(node);
  MR_ASSIGN_OR_RETURN(group.program, builder.Build(ops, results));
  group.op_operands = builder.op_operands();
  group.known.elements = FusedShapeOf(node).num_elements();
  for (int k = 0; k < group.program.inputs; ++k) {
    const RowSteps rows = RowStepsOf(node, k);
    group.known.pitches[k] = std::max<int64_t>(rows.pitch, 0);
    group.input_offsets.push_back(rows.offset * DataTypeSize(node.inputs[k].dtype));
    const Spread spread = SpreadOfInput(node.attrs, k);
    group.known.each[k] = DivideBy(spread.each, group.known.elements);
    group.known.count[k] = DivideBy(spread.count, group.known.elements);
    group.known.width[k] = DivideBy(spread.width, group.known.elements);
    for (const Divider& divider : {group.known.each[k], group.known.count[k], group.known.width[k]}) group.small = group.small && divider.small_magic != 0;
  }
  for (const Result& result : results) {
    group.known.output_pitches[group.outputs.size()] = result.rows.pitch;
    group.outputs.push_back(result.output);
    group.output_offsets.push_back(result.rows.offset * DataTypeSize(node.outputs[result.output].dtype));
  }
  group.known.row = DivideBy(std::max<int64_t>(node.attrs.GetOr<int64_t>("row", 0), 1), group.known.elements);
  group.small = group.small && group.known.row.small_magic != 0;
  return group;
}

FusedArguments FusedGroup::Arguments(const Queue& queue, const KernelContext& context) const {
  FusedArguments arguments = known;
  for (int k = 0; k < program.inputs; ++k) {
    arguments.inputs[k] = static_cast<const char*>(context.inputs[k]) + input_offsets[k];
  }
  for (int k = 0; k < program.results; ++k) {
    arguments.outputs[k] = static_cast<char*>(context.outputs[outputs[k]]) + output_offsets[k];
  }
  arguments.fault = queue.fault;
  return arguments;
}

}  // namespace millrace::cuda
