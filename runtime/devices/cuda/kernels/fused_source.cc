#include "cuda/kernels/fused_source.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace millrace::cuda {
namespace {

const char* NameOf(Type type) {
  switch (type) {
    case Type::kDouble: return "double";
    case Type::kHalf: return "Half";
    case Type::kBfloat16: return "Bfloat16";
    case Type::kBool: return "bool";
    default: return "float";
  }
}

std::string ValueName(int operand) {
  return operand < kMaxFusedOperands ? absl::StrCat("x", operand) : absl::StrCat("v", operand - kMaxFusedOperands);
}

std::string Hexadecimal(double value) { return absl::StrFormat("%a", value); }

std::string Expression(const FusedStep& step) {
  const int op = step.op;
  const std::string a = ValueName(step.operands[0]), b = ValueName(step.operands[1]), c = ValueName(step.operands[2]);
  switch (step.kind) {
    case FusedKind::kUnary: return absl::StrCat("UnaryOne(UnaryOp(", op, "), ", a, ", ", Hexadecimal(step.alpha), ")");
    case FusedKind::kBinary:
      return absl::StrCat("BinaryOne(BinaryOp(", op, "), ", a, ", ", b, ", ", Hexadecimal(step.alpha), ")");
    case FusedKind::kCompare: return absl::StrCat("CompareOne(CompareOp(", op, "), ", a, ", ", b, ")");
    case FusedKind::kLogical: return absl::StrCat("LogicalOne(LogicalOp(", op, "), ", a, ", ", b, ")");
    case FusedKind::kSelect: return absl::StrCat(a, " ? ", b, " : ", c);
    case FusedKind::kCast: return absl::StrCat("CastOne<", NameOf(step.to), ">(", a, ")");
    case FusedKind::kConstant: break;
  }
  return absl::StrCat("CastOne<", NameOf(step.to), ">(", Hexadecimal(step.alpha), ")");
}

}  // namespace

std::string FusedSource(const FusedProgram& program, bool small) {
  static const char* const kLoads[] = {"Full", "One", "Row", "Run", "Turn", "Part"};
  std::string text = "#include \"cuda/launch/fused_body.h\"\nnamespace millrace::cuda {\nstruct FusedBody {\n  struct Values {\n";
  const char* const size = small ? ", true" : ", false";
  std::string values, stores;
  for (int k = 0; k < program.results; ++k) {
    const FusedResult& result = program.result[k];
    const char* const type = NameOf(program.step[result.step].to);
    absl::StrAppend(&text, "    ", type, " r", k, ";\n");
    absl::StrAppend(&values, k == 0 ? "" : ", ", "v", static_cast<int>(result.step));
    absl::StrAppend(&stores, "    Store", result.by_rows ? "Row<" : "Full<", type, result.by_rows ? size : "", ">(a, ", k, ", i, values.r", k, ");\n");
  }
  absl::StrAppend(&text, "  };\n  const FusedArguments& a;\n  MR_DEVICE Values Compute(int64_t i) const {\n");
  for (int k = 0; k < program.inputs; ++k) {
    const char* const name = NameOf(program.types[k]);
    const FusedOperand how = program.operands[k];
    const bool divides = how != FusedOperand::kFull && how != FusedOperand::kOne;
    absl::StrAppend(&text, "    const ", name, " x", k, " = ", kLoads[static_cast<int>(how)], "Operand<", name,
                    divides ? size : "", ">(a, ", k, ", i);\n");
  }
  for (int k = 0; k < program.steps; ++k) {
    absl::StrAppend(&text, "    const ", NameOf(program.step[k].to), " v", k, " = ", Expression(program.step[k]), ";\n");
  }
  absl::StrAppend(&text, "    return {", values, "};\n  }\n  MR_DEVICE void Store(int64_t i, const Values& values) const {\n", stores,
                  "  }\n};\n}  // namespace millrace::cuda\nMR_FUSED_KERNEL(FusedBody)\n");
  return text;
}

}  // namespace millrace::cuda
