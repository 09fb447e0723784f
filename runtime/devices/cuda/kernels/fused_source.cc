#include "cuda/kernels/fused_source.h"

#include <bit>
#include <cmath>

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

// Exactly `value`, as a double.
std::string Literal(double value) {
  if (std::isfinite(value)) return absl::StrFormat("%a", value);
  return absl::StrFormat("DoubleOf(0x%xull)", std::bit_cast<uint64_t>(value));
}

std::string Expression(const FusedStep& step) {
  const int op = step.op;
  const std::string a = ValueName(step.operands[0]), b = ValueName(step.operands[1]), c = ValueName(step.operands[2]);
  switch (step.kind) {
    case FusedKind::kUnary: return absl::StrCat("UnaryOne(UnaryOp(", op, "), ", a, ", ", Literal(step.alpha), ")");
    case FusedKind::kBinary:
      return absl::StrCat("BinaryOne(BinaryOp(", op, "), ", a, ", ", b, ", ", Literal(step.alpha), ")");
    case FusedKind::kCompare: return absl::StrCat("CompareOne(CompareOp(", op, "), ", a, ", ", b, ")");
    case FusedKind::kLogical: return absl::StrCat("LogicalOne(LogicalOp(", op, "), ", a, ", ", b, ")");
    case FusedKind::kSelect: return absl::StrCat(a, " ? ", b, " : ", c);
    case FusedKind::kCast: return absl::StrCat("CastOne<", NameOf(step.to), ">(", a, ")");
    case FusedKind::kConstant: break;
  }
  return absl::StrCat("CastOne<", NameOf(step.to), ">(", Literal(step.alpha), ")");
}

// How input k of element `at` is read.
std::string Load(const FusedProgram& program, int k, bool small, const char* at) {
  static const char* const kLoads[] = {"Full", "One", "Row", "Run", "Turn", "Part"};
  const FusedOperand how = program.operands[k];
  const bool divides = how != FusedOperand::kFull && how != FusedOperand::kOne;
  return absl::StrCat(kLoads[static_cast<int>(how)], "Operand<", NameOf(program.types[k]), divides ? (small ? ", true" : ", false") : "",
                      ">(a, ", k, ", ", at, ")");
}

std::string Steps(const FusedProgram& program) {
  std::string text;
  for (int k = 0; k < program.steps; ++k) {
    absl::StrAppend(&text, "    const ", NameOf(program.step[k].to), " v", k, " = ", Expression(program.step[k]), ";\n");
  }
  return text;
}

// Of result k of element `at`.
std::string Store(const FusedProgram& program, int k, bool small, const char* at, const std::string& value) {
  const FusedResult& result = program.result[k];
  return absl::StrCat("    Store", result.by_rows ? "Row<" : "Full<", NameOf(program.step[result.step].to),
                      result.by_rows ? (small ? ", true" : ", false") : "", ">(a, ", k, ", ", at, ", ", value, ");\n");
}

}  // namespace

std::string FusedSource(const FusedProgram& program, bool small) {
  std::string text = "#include \"cuda/launch/fused_body.h\"\nnamespace millrace::cuda {\nstruct FusedBody {\n  struct Values {\n";
  std::string values, stores;
  for (int k = 0; k < program.results; ++k) {
    const int step = program.result[k].step;
    absl::StrAppend(&text, "    ", NameOf(program.step[step].to), " r", k, ";\n");
    absl::StrAppend(&values, k == 0 ? "" : ", ", "v", step);
    absl::StrAppend(&stores, Store(program, k, small, "i", absl::StrCat("values.r", k)));
  }
  absl::StrAppend(&text, "  };\n  const FusedArguments& a;\n  MR_DEVICE Values Compute(int64_t i) const {\n");
  for (int k = 0; k < program.inputs; ++k) {
    absl::StrAppend(&text, "    const ", NameOf(program.types[k]), " x", k, " = ", Load(program, k, small, "i"), ";\n");
  }
  absl::StrAppend(&text, Steps(program), "    return {", values, "};\n  }\n  MR_DEVICE void Store(int64_t i, const Values& values) const {\n",
                  stores, "  }\n};\n}  // namespace millrace::cuda\nMR_FUSED_KERNEL(FusedBody)\n");
  return text;
}

namespace {

const char* NameOf(SumKind kind) {
  return kind == SumKind::kBlocks ? "SumKind::kBlocks" : kind == SumKind::kWarps ? "SumKind::kWarps" : "SumKind::kColumns";
}

// What the sums begin with, how two become one, and where they go.
std::string RuleSource(const FusedReduceProgram& program) {
  std::string begin, combine, store;
  for (int k = 0; k < program.reductions; ++k) {
    const FusedReductionOf& reduction = program.reduction[k];
    const std::string op = absl::StrCat("FusedReduction(", static_cast<int>(reduction.op), ")");
    absl::StrAppend(&begin, k == 0 ? "" : ", ", "ReductionIdentity(", op, ")");
    absl::StrAppend(&combine, k == 0 ? "" : ", ", "ReduceOne(", op, ", x.of[", k, "], y.of[", k, "])");
    absl::StrAppend(&store, "    StoreReduced<", NameOf(reduction.type), ">(", op, ", r, ", k, ", row, sums.of[", k, "]);\n");
  }
  return absl::StrCat("struct FusedRule {\n  using Sums = FusedSums<", program.reductions, ">;\n  const FusedReduceArguments& r;\n",
                      "  MR_DEVICE Sums Identity() const { return {{", begin, "}}; }\n",
                      "  MR_DEVICE Sums Combine(const Sums& x, const Sums& y) const { return {{", combine, "}}; }\n",
                      "  MR_DEVICE void Store(int64_t row, const Sums& sums) const {\n", store, "  }\n};\n");
}

// Terms whose operands a thread has on their way at once: some eight loads.
int TermsAtOnce(const FusedProgram& program, const FusedReduceText& how) {
  int loads = 0;
  for (int k = 0; k < program.inputs; ++k) loads += program.operands[k] != FusedOperand::kOne && !how.of_row[k] ? 1 : 0;
  return loads <= 1 ? 8 : loads <= 4 ? 4 : 2;
}

}  // namespace

std::string FusedReduceSource(const FusedReduceProgram& program, const FusedReduceText& how) {
  const FusedProgram& group = program.group;
  std::string of_row, from_row, of_term, fetch, terms, stores;
  for (int k = 0; k < group.inputs; ++k) {
    const bool once = group.operands[k] == FusedOperand::kOne || how.of_row[k];
    const std::string member = absl::StrCat("    ", NameOf(group.types[k]), " x", k, ";\n");
    absl::StrAppend(once ? &of_row : &of_term, member);
    if (once) absl::StrAppend(&from_row, ", ", Load(group, k, how.small, "i"));
    if (!once) absl::StrAppend(&fetch, ", ", Load(group, k, how.small, "i"));
    if (!once) absl::StrAppend(&terms, "    const ", NameOf(group.types[k]), " x", k, " = term.x", k, ";\n");
  }
  for (int k = 0; k < group.results; ++k) {
    absl::StrAppend(&stores, Store(group, k, how.small, "term.i", ValueName(kMaxFusedOperands + group.result[k].step)));
  }
  std::string values;
  for (int k = 0; k < program.reductions; ++k) {
    absl::StrAppend(&values, k == 0 ? "" : ", ", "static_cast<double>(Widen(", ValueName(program.reduction[k].operand), "))");
  }
  std::string text = absl::StrCat("#include \"cuda/launch/fused_reduce_body.h\"\nnamespace millrace::cuda {\n", RuleSource(program));
  absl::StrAppend(&text, "struct FusedTerm {\n    int64_t i;\n", of_term, "};\nstruct FusedTerms {\n  static constexpr int kAtOnce = ",
                  TermsAtOnce(group, how), ";\n    const FusedReduceArguments& r;\n    const FusedArguments& a;\n    int64_t first;\n", of_row);
  absl::StrAppend(&text, "  MR_DEVICE FusedTerm Fetch(int64_t k) const {\n    const int64_t i = first + TermOffset<", how.term_rank,
                  how.small ? ", true" : ", false", ">(r, k);\n    return {i", fetch, "};\n  }\n");
  absl::StrAppend(&text, "  MR_DEVICE FusedRule::Sums Value(const FusedTerm& term) const {\n", terms, Steps(group), stores, "    return {{", values,
                  "}};\n  }\n};\n");
  absl::StrAppend(&text, "struct FusedBody {\n  using Sums = FusedRule::Sums;\n  FusedRule rule;\n",
                  "  MR_DEVICE FusedTerms Row(int64_t row) const {\n    const FusedArguments& a = rule.r.group;\n",
                  "    const int64_t i = rule.r.row_index.Offset(row);\n    return {rule.r, a, i", from_row, "};\n  }\n",
                  "  MR_DEVICE Sums Identity() const { return rule.Identity(); }\n",
                  "  MR_DEVICE Sums Combine(const Sums& x, const Sums& y) const { return rule.Combine(x, y); }\n",
                  "  MR_DEVICE void Store(int64_t row, const Sums& sums) const { rule.Store(row, sums); }\n};\n");
  absl::StrAppend(&text, "}  // namespace millrace::cuda\nMR_FUSED_REDUCE_KERNEL(FusedBody, ", NameOf(how.kind), ")\n");
  if (how.chunks) absl::StrAppend(&text, "MR_FUSED_REST_KERNEL(FusedBody, ", NameOf(how.rest_kind), ")\n");
  return text;
}

}  // namespace millrace::cuda
