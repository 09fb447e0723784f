// Trees of elementwise ops as one kernel: written and compiled for the tree where the device has a compiler, or one that
// reads the tree for every element.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_FUSED_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_FUSED_H_

#include "cuda/launch/elementwise_ops.h"
#include "cuda/launch/fused_body.h"
#include "cuda/launch/queue.h"

namespace millrace::cuda {

inline constexpr int kMaxFusedSteps = 64;

enum class FusedKind : uint8_t { kUnary, kBinary, kCompare, kLogical, kSelect, kCast, kConstant };
enum class FusedOperand : uint8_t { kFull, kOne, kRow };

// One op. Operands below kMaxFusedOperands are inputs, others the result of step (operand - kMaxFusedOperands).
struct FusedStep {
  FusedKind kind = FusedKind::kUnary;
  uint8_t op = 0;  // UnaryOp, BinaryOp, CompareOp or LogicalOp
  Type from = Type::kFloat;  // of the operands (of Select: of its values); floating or bool
  Type to = Type::kFloat;
  uint8_t operands[3] = {};
  double alpha = 0;  // also the constant
};

struct FusedProgram {
  int inputs = 0, steps = 0;
  Type types[kMaxFusedOperands] = {};
  FusedOperand operands[kMaxFusedOperands] = {};
  FusedStep step[kMaxFusedSteps];  // the last one gives the output
};

// Reads the tree. Same bits as the ops one by one, and as a kernel compiled for the tree.
void LaunchFused(const Queue& queue, const FusedProgram& program, const FusedArguments& arguments);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_FUSED_H_
