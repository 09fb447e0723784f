#include "cuda/launch/fused.h"

#include <type_traits>

#include "cuda/launch/portable.h"

#if defined(__NVCC__)
#define MR_NO_INLINE __noinline__
#else
#define MR_NO_INLINE
#endif

namespace millrace::cuda {
namespace {

// A value of any of the types.
struct Slot {
  uint64_t bits;
  template <typename T>
  MR_DEVICE T As() const {
    T value;
    memcpy(&value, &bits, sizeof(T));
    return value;
  }
  template <typename T>
  MR_DEVICE void Set(T value) {
    bits = 0;
    memcpy(&bits, &value, sizeof(T));
  }
};

template <typename T>
MR_DEVICE T Operand(const FusedArguments& a, FusedOperand how, int k, int64_t i) {
  switch (how) {
    case FusedOperand::kFull: return FullOperand<T>(a, k, i);
    case FusedOperand::kOne: return OneOperand<T>(a, k, i);
    case FusedOperand::kRow: return RowOperand<T, false>(a, k, i);
    case FusedOperand::kRun: return RunOperand<T, false>(a, k, i);
    case FusedOperand::kTurn: return TurnOperand<T, false>(a, k, i);
    default: return PartOperand<T, false>(a, k, i);
  }
}

template <typename T>
MR_DEVICE Slot SlotOf(T value) {
  Slot slot;
  slot.Set(value);
  return slot;
}

template <typename From>
MR_DEVICE Slot CastTo(Type to, From value) {
  switch (to) {
    case Type::kDouble: return SlotOf(CastOne<double>(value));
    case Type::kHalf: return SlotOf(CastOne<Half>(value));
    case Type::kBfloat16: return SlotOf(CastOne<Bfloat16>(value));
    case Type::kBool: return SlotOf(CastOne<bool>(value));
    default: return SlotOf(CastOne<float>(value));
  }
}
MR_DEVICE inline Slot RunCast(const FusedStep& step, const Slot& a) {
  switch (step.from) {
    case Type::kDouble: return CastTo(step.to, a.As<double>());
    case Type::kHalf: return CastTo(step.to, a.As<Half>());
    case Type::kBfloat16: return CastTo(step.to, a.As<Bfloat16>());
    case Type::kBool: return CastTo(step.to, a.As<bool>());
    default: return CastTo(step.to, a.As<float>());
  }
}
MR_DEVICE inline Slot LoadOperand(const FusedProgram& program, const FusedArguments& arguments, int k, int64_t i) {
  const FusedOperand how = program.operands[k];
  switch (program.types[k]) {
    case Type::kDouble: return SlotOf(Operand<double>(arguments, how, k, i));
    case Type::kHalf: return SlotOf(Operand<Half>(arguments, how, k, i));
    case Type::kBfloat16: return SlotOf(Operand<Bfloat16>(arguments, how, k, i));
    case Type::kBool: return SlotOf(Operand<bool>(arguments, how, k, i));
    default: return SlotOf(Operand<float>(arguments, how, k, i));
  }
}

template <typename T>
MR_DEVICE Slot RunFloating(const FusedStep& step, const Slot* a, const Slot* b) {
  if (step.kind == FusedKind::kCompare) {
    return SlotOf(CompareOne(static_cast<CompareOp>(step.op), a->As<T>(), b->As<T>()));
  }
  if (step.kind == FusedKind::kBinary) {
    return SlotOf(BinaryOne(static_cast<BinaryOp>(step.op), a->As<T>(), b->As<T>(), step.alpha));
  }
  return SlotOf(UnaryOne(static_cast<UnaryOp>(step.op), a->As<T>(), step.alpha));
}

MR_DEVICE inline Slot RunStep(const FusedStep& step, const Slot* a, const Slot* b, const Slot* c) {
  switch (step.kind) {
    case FusedKind::kLogical: return SlotOf(LogicalOne(static_cast<LogicalOp>(step.op), a->As<bool>(), b->As<bool>()));
    case FusedKind::kSelect: return a->As<bool>() ? *b : *c;
    case FusedKind::kConstant: return CastTo(step.to, step.alpha);
    case FusedKind::kCast: return RunCast(step, *a);
    case FusedKind::kCompare:
      if (step.from != Type::kBool) break;
      return SlotOf(CompareOne(static_cast<CompareOp>(step.op), a->As<uint8_t>(), b->As<uint8_t>()));
    default: break;
  }
  switch (step.from) {
    case Type::kDouble: return RunFloating<double>(step, a, b);
    case Type::kHalf: return RunFloating<Half>(step, a, b);
    case Type::kBfloat16: return RunFloating<Bfloat16>(step, a, b);
    default: return RunFloating<float>(step, a, b);
  }
}

template <typename T>
MR_DEVICE void Store(const FusedArguments& arguments, bool by_rows, int k, int64_t i, const Slot& slot) {
  by_rows ? StoreRow<T, false>(arguments, k, i, slot.As<T>()) : StoreFull<T>(arguments, k, i, slot.As<T>());
}
MR_DEVICE inline void StoreResult(const FusedProgram& program, const FusedArguments& arguments, int k, int64_t i,
                                  const Slot& slot) {
  const bool by_rows = program.result[k].by_rows;
  switch (program.step[program.result[k].step].to) {
    case Type::kDouble: return Store<double>(arguments, by_rows, k, i, slot);
    case Type::kHalf: return Store<Half>(arguments, by_rows, k, i, slot);
    case Type::kBfloat16: return Store<Bfloat16>(arguments, by_rows, k, i, slot);
    case Type::kBool: return Store<bool>(arguments, by_rows, k, i, slot);
    default: return Store<float>(arguments, by_rows, k, i, slot);
  }
}

// All values of element i. One function for all types: it is what makes the compiler work long.
MR_NO_INLINE MR_DEVICE void Interpret(const FusedProgram& program, const FusedArguments& arguments, int64_t i, Slot* values) {
  for (int k = 0; k < program.inputs; ++k) values[k] = LoadOperand(program, arguments, k, i);
  for (int k = 0; k < program.steps; ++k) {
    const FusedStep& step = program.step[k];
    values[kMaxFusedOperands + k] =
        RunStep(step, values + step.operands[0], values + step.operands[1], values + step.operands[2]);
  }
  for (int k = 0; k < program.results; ++k) {
    StoreResult(program, arguments, k, i, values[kMaxFusedOperands + program.result[k].step]);
  }
}

struct InterpretedBody {
  FusedProgram program;
  FusedArguments arguments;
  MR_DEVICE void operator()(int64_t i) const {
    Slot values[kMaxFusedOperands + kMaxFusedSteps];
    Interpret(program, arguments, i, values);
  }
};

MR_DEVICE inline double AsDouble(Type type, const Slot& slot) {
  switch (type) {
    case Type::kDouble: return slot.As<double>();
    case Type::kHalf: return Widen(slot.As<Half>());
    case Type::kBfloat16: return Widen(slot.As<Bfloat16>());
    default: return slot.As<float>();
  }
}

template <int kCount>
struct InterpretedReduce {
  using Sums = FusedSums<kCount>;
  FusedReduceProgram program;
  FusedReduceArguments arguments;
  MR_DEVICE Sums Identity() const {
    Sums sums;
    for (int k = 0; k < kCount; ++k) sums.of[k] = ReductionIdentity(program.reduction[k].op);
    return sums;
  }
  MR_DEVICE Sums Combine(const Sums& a, const Sums& b) const {
    Sums sums;
    for (int k = 0; k < kCount; ++k) sums.of[k] = ReduceOne(program.reduction[k].op, a.of[k], b.of[k]);
    return sums;
  }
  MR_DEVICE Sums Load(int64_t row, int64_t k) const {
    Slot values[kMaxFusedOperands + kMaxFusedSteps];
    const int64_t i = arguments.row_index.Offset(row) + arguments.term_index.Offset(k);
    Interpret(program.group, arguments.group, i, values);
    Sums sums;
    for (int n = 0; n < kCount; ++n) sums.of[n] = AsDouble(program.reduction[n].type, values[program.reduction[n].operand]);
    return sums;
  }
  MR_DEVICE void Store(int64_t row, const Sums& sums) const {
    for (int k = 0; k < kCount; ++k) {
      const FusedReductionOf& reduction = program.reduction[k];
      switch (reduction.type) {
        case Type::kDouble: StoreReduced<double>(reduction.op, arguments, k, row, sums.of[k]); break;
        case Type::kHalf: StoreReduced<Half>(reduction.op, arguments, k, row, sums.of[k]); break;
        case Type::kBfloat16: StoreReduced<Bfloat16>(reduction.op, arguments, k, row, sums.of[k]); break;
        default: StoreReduced<float>(reduction.op, arguments, k, row, sums.of[k]);
      }
    }
  }
};
static_assert(sizeof(InterpretedReduce<kMaxFusedReductions>) < 30000, "arguments of a launch");

}  // namespace

void LaunchFused(const Queue& queue, const FusedProgram& program, const FusedArguments& arguments) {
  ForEach(queue, arguments.elements, InterpretedBody{program, arguments});
}

void LaunchFusedReduce(const Queue& queue, const FusedReduceProgram& program, const FusedReduceArguments& arguments) {
  const auto launch = [&]<int kCount>(std::integral_constant<int, kCount>) {
    SumRows<FusedSums<kCount>>(queue, arguments.rows, arguments.terms, arguments.columns, arguments.partial,
                               InterpretedReduce<kCount>{program, arguments});
  };
  static_assert(kMaxFusedReductions == 4);
  switch (program.reductions) {
    case 1: return launch(std::integral_constant<int, 1>());
    case 2: return launch(std::integral_constant<int, 2>());
    case 3: return launch(std::integral_constant<int, 3>());
    case 4: return launch(std::integral_constant<int, 4>());
    default: return;  // the kernel's factory has refused others
  }
}

}  // namespace millrace::cuda
