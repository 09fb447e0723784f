// Ops for pass tests, whose figures the eye can check: every tensor is 16 bytes (float[4]) unless attr `shape` says
// otherwise, every kernel takes one second on UnitMachine(), and a copy of 16 bytes takes one second each way.
#ifndef MILLRACE_TESTS_TESTLIB_TEST_OPS_H_
#define MILLRACE_TESTS_TESTLIB_TEST_OPS_H_

#include "millrace/op.h"
#include "millrace/options.h"
#include "passes/kernel_oracle.h"

namespace millrace {

// Op: any inputs, one output, never in place. InPlace: output 0 may overwrite input 0. Two: two outputs.
// Small: an Op of 10 microseconds.
// Var: a variable. Read(var): its value. Update(var, …): changes it, returns it. Set(var, value): overwrites it.
// And the ops of the graph itself (Const, Identity, _Feed, …), from the built-in registry.
OpRegistry TestOps();

Machine UnitMachine();

// No scratch but attr `scratch`; folds nothing.
class StubOracle final : public KernelOracle {
 public:
  absl::StatusOr<int64_t> ScratchBytes(const OpInstance& instance) override;
  absl::StatusOr<std::vector<Tensor>> Evaluate(const OpDef& def, const OpInstance& instance,
                                               std::vector<Tensor> inputs) override;
};

}  // namespace millrace

#endif  // MILLRACE_TESTS_TESTLIB_TEST_OPS_H_
