// Inputs that a kernel takes by value: shapes, axes, paddings. Where the plan knows the value it is in
// OpInstance::input_values and there may be no memory behind the input; else it is read when the kernel runs.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_VALUES_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_VALUES_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "cpu/kernels/common.h"
#include "millrace/status.h"

namespace millrace::cpu {

using Ints = absl::InlinedVector<int64_t, 8>;

class ValueReader {
 public:
  // While a kernel is made: planned values only. While it runs: all values.
  explicit ValueReader(const OpInstance& instance) : instance_(instance) {}
  explicit ValueReader(const KernelContext& context) : instance_(*context.instance), inputs_(context.inputs) {}

  const OpInstance& instance() const { return instance_; }
  bool planned(int input) const {
    return input < static_cast<int>(instance_.input_values.size()) && !instance_.input_values[input].empty();
  }
  // Requires a planned value or a running kernel.
  const void* data(int input) const {
    return planned(input) ? instance_.input_values[input].data() : inputs_[input];
  }
  // The elements of an input of int16, int32 or int64.
  absl::StatusOr<Ints> ints(int input) const;
  // Its only element.
  absl::StatusOr<int64_t> scalar(int input) const;

 private:
  const OpInstance& instance_;
  void* const* inputs_ = nullptr;
};

// A kernel that first builds a `Plan` with `build(const ValueReader&) -> StatusOr<Plan>`, once when all the
// inputs of `by_value` are planned, else in every run; then calls `run(const Plan&, const KernelContext&)`.
template <typename Build, typename Run>
absl::StatusOr<std::unique_ptr<Kernel>> MakePlannedKernel(const OpInstance& instance,
                                                          absl::Span<const int> by_value, Build build,
                                                          Run run) {
  const ValueReader reader(instance);
  bool planned = true;
  for (int input : by_value) planned = planned && reader.planned(input);
  if (planned) {
    MR_ASSIGN_OR_RETURN(auto plan, build(reader));
    return MakeKernel([plan = std::move(plan), run](const KernelContext& context) { return run(plan, context); });
  }
  return MakeKernel([build, run](const KernelContext& context) -> absl::Status {
    MR_ASSIGN_OR_RETURN(auto plan, build(ValueReader(context)));
    return run(plan, context);
  });
}

// The factory of an op that moves elements of any type. Strings have no memory on a device: nothing is done for them.
KernelFactory ForAnyType(KernelFactory factory);

// Axis in [-rank, rank) -> [0, rank), or InvalidArgument.
absl::StatusOr<int> ResolveAxis(int64_t axis, int rank);

// Planned shapes are final: a value read at run time must lead to the same output.
absl::Status ExpectPlannedShape(const Shape& planned, const Shape& found);

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_VALUES_H_
