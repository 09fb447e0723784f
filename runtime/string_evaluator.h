// Ops that make strings, on host tensors: a constant folder's other half. Strings have no memory on a device, so what they are is
// known when a graph is planned or not at all, and no device has a kernel that makes them.
#ifndef MILLRACE_RUNTIME_STRING_EVALUATOR_H_
#define MILLRACE_RUNTIME_STRING_EVALUATOR_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "millrace/kernel.h"
#include "millrace/op.h"

namespace millrace {

// Whether an input or output is a string tensor and an op of this file computes it.
bool EvaluatesStrings(const OpInstance& instance);

// Requires EvaluatesStrings. Ops that only move or compare elements do so with numbers of the strings, by their kernel in `kernels`.
// Unimplemented where the op's strings are for people to read (summaries).
absl::StatusOr<std::vector<Tensor>> EvaluateStrings(const OpDef& def, const KernelRegistry& kernels, const OpInstance& instance,
                                                    absl::Span<const Tensor> inputs);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_STRING_EVALUATOR_H_
