// A group of elementwise ops as its node has it (passes/rewrite/fused_writer.h), read into the program that kernels are made for.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_FUSED_PROGRAM_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_FUSED_PROGRAM_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "cuda/launch/fused.h"
#include "millrace/kernel.h"

namespace millrace::cuda {

struct FusedOp {
  OpInstance instance;
  std::vector<int64_t> operands;  // input i of the node, or -1 - k for the result of op k
};
absl::StatusOr<std::vector<FusedOp>> ReadFusedOps(const OpInstance& node);

// Of every op's result.
Shape FusedShapeOf(const OpInstance& node);

struct FusedGroup {
  FusedProgram program;
  FusedArguments known;  // all but pointers
  bool small = true;     // no divider has dividends of 2^31 and more
  std::vector<int64_t> outputs;                        // of the program's results
  std::vector<int64_t> input_offsets, output_offsets;  // in bytes
  std::vector<int> op_operands;                        // operand that is the result of op k

  FusedArguments Arguments(const Queue& queue, const KernelContext& context) const;
};
// Unimplemented where no program says it.
absl::StatusOr<FusedGroup> ReadFusedGroup(const OpInstance& node, const std::vector<FusedOp>& ops);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_FUSED_PROGRAM_H_
