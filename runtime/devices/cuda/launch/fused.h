// Groups of elementwise ops as one kernel: written and compiled for the group where the device has a compiler, or one that
// reads the ops for every element.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_FUSED_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_FUSED_H_

#include "cuda/launch/elementwise_ops.h"
#include "cuda/launch/fused_body.h"
#include "cuda/launch/fused_reduce_body.h"
#include "cuda/launch/queue.h"

namespace millrace::cuda {

inline constexpr int kMaxFusedSteps = 64;

enum class FusedKind : uint8_t { kUnary, kBinary, kCompare, kLogical, kSelect, kCast, kConstant };
enum class FusedOperand : uint8_t { kFull, kOne, kRow, kRun, kTurn, kPart };

// One op. Operands below kMaxFusedOperands are inputs, others the result of step (operand - kMaxFusedOperands).
struct FusedStep {
  FusedKind kind = FusedKind::kUnary;
  uint8_t op = 0;  // UnaryOp, BinaryOp, CompareOp or LogicalOp
  Type from = Type::kFloat;  // of the operands (of Select: of its values); floating or bool
  Type to = Type::kFloat;
  uint8_t operands[3] = {};
  double alpha = 0;  // also the constant
};

// What a step gives to the outside: every element in turn, or rows that lie apart.
struct FusedResult {
  uint8_t step = 0;
  bool by_rows = false;
};

struct FusedProgram {
  int inputs = 0, steps = 0, results = 0;
  Type types[kMaxFusedOperands] = {};
  FusedOperand operands[kMaxFusedOperands] = {};
  FusedStep step[kMaxFusedSteps];
  FusedResult result[kMaxFusedResults];  // k-th: of arguments.outputs[k]
};

// With reductions of what it computes, or of an operand.
struct FusedReductionOf {
  uint8_t operand = 0;
  Type type = Type::kFloat;
  FusedReduction op = FusedReduction::kSum;
};
struct FusedReduceProgram {
  FusedProgram group;
  int reductions = 0;
  FusedReductionOf reduction[kMaxFusedReductions];  // k-th: to arguments.reduced[k]
};

// Reads the program. Same bits as the ops one by one, and as a kernel compiled for the program.
void LaunchFused(const Queue& queue, const FusedProgram& program, const FusedArguments& arguments);
// Terms are added in the order of LaunchReduce.
void LaunchFusedReduce(const Queue& queue, const FusedReduceProgram& program, const FusedReduceArguments& arguments);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_FUSED_H_
