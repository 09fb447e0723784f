// Optimizer updates: a loop per rule and type, used by the dense, the sparse, the reference and the resource op.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_OPTIMIZER_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_OPTIMIZER_H_

#include <array>
#include <string_view>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/convert.h"

namespace millrace::cpu {

inline constexpr int kMaxSlots = 4;
inline constexpr int kMaxScalars = 8;

// Updates n elements of the variable (slots[0]) and of its slots by the gradient. Arrays are of the computed type
// (float or double, or complex numbers of these); element i of one touches element i of the others alone, so arrays may be
// the same one. Scalars are their real parts; kMaxScalars after each is its imaginary part.
using UpdateLoop = void (*)(void* const* slots, const void* gradient, const double* scalars, int64_t n);

struct UpdateLoops {
  UpdateLoop on_float = nullptr;
  UpdateLoop on_double = nullptr;
};

// An update rule. Inputs of its ops: the variable and its slots, then scalars with the gradient (and, in sparse ops,
// the indices after it) among them.
struct UpdateRule {
  const char* name;  // "Momentum" of ApplyMomentum, ResourceApplyMomentum, SparseApplyMomentum, ...
  int slots;         // the variable included
  int gradient;      // its input
  bool reference;    // has ops on references, not only on resources
  bool sparse;       // has sparse ops
  UpdateLoops loops;
  // A bool attribute and the value of it for which `other` loops are the right ones.
  const char* attr = nullptr;
  bool attr_value = true;
  UpdateLoops other = {};
};

// Every rule.
absl::Span<const UpdateRule> UpdateRules();
// Of a rule for complex numbers of floats and doubles; null where it has none. `other`: what UpdateRule calls so.
UpdateLoops ComplexUpdateLoops(std::string_view rule, bool other);
// Of _AssignMovingAverage, which the passes make.
const UpdateRule& MovingAverageRule();

// One op's update bound to its rule, attributes and element type.
class BoundUpdate {
 public:
  using Scalars = std::array<double, 2 * kMaxScalars>;
  using Pointers = std::array<char*, kMaxSlots>;

  static absl::StatusOr<BoundUpdate> Create(const OpInstance& instance, const UpdateRule& rule, bool sparse);

  // The scalar inputs' values in order.
  Scalars ReadScalars(const KernelContext& context) const;
  Pointers SlotPointers(const KernelContext& context) const;
  // Updates n elements from element `at` of the slots by the gradient's from element `from`.
  void Run(const Pointers& slots, int64_t at, const char* gradient, int64_t from, const Scalars& scalars,
           int64_t n) const;

  int gradient_input() const { return gradient_; }

 private:
  UpdateLoop loop_ = nullptr;
  Widening widening_;
  int64_t bytes_ = 0;
  int slots_ = 0;
  int gradient_ = 0;
  absl::InlinedVector<std::pair<int, DataType>, kMaxScalars> scalars_;  // input and type
};

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_OPTIMIZER_H_
