// Runs one node on host tensors at once: constant folding and the conformance tests use it.
#ifndef MILLRACE_RUNTIME_OP_EVALUATOR_H_
#define MILLRACE_RUNTIME_OP_EVALUATOR_H_

#include <vector>

#include "absl/status/statusor.h"
#include "millrace/kernel.h"
#include "millrace/op.h"

namespace millrace {

// Infers the types of the outputs of `instance` (its inputs and input_values filled in) with `def`'s shape rule.
absl::Status InferOutputs(const OpDef& def, OpInstance& instance);

// Outputs of the node `instance` (outputs inferred) on `inputs`. A variable among the inputs is updated in
// place: its tensor must not be shared. Outputs of ops that return the variable are that tensor. Scratch is
// allocated per call. Views copy nothing. `parallel` null: serial.
absl::StatusOr<std::vector<Tensor>> EvaluateOp(const OpDef& def, const KernelRegistry& kernels,
                                               const OpInstance& instance, std::vector<Tensor> inputs,
                                               ParallelRunner* parallel = nullptr);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_OP_EVALUATOR_H_
