// What is known of small integer tensors that follow from shapes known only when running: an interval per element.
// Shape arithmetic (StridedSlice of Shape, Pack, Mul) carries it from a dynamic tensor to the node that needs a bound.
#ifndef MILLRACE_PASSES_SHAPES_VALUE_BOUNDS_H_
#define MILLRACE_PASSES_SHAPES_VALUE_BOUNDS_H_

#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "millrace/op.h"
#include "passes/kernel_oracle.h"

namespace millrace {

// Tensors with more elements have no bounds: no shape rule takes one that large.
inline constexpr int64_t kMaxBoundedElements = 1024;

// Of one tensor: low <= value <= high in every element. Both have the tensor's type.
struct ValueBounds {
  Tensor low, high;
  bool exact() const { return low.BitEqual(high); }
  // Something is known of both ends: no element may be the least or the largest number of its type.
  bool limited() const;
};

// An input as bounds are computed from it: `bounds` when it has some (a known value is its own), and its shape with -1
// in the dimensions that are known only when running.
struct BoundedInput {
  std::optional<ValueBounds> bounds;
  TensorType type;  // with the largest shape
  Shape partial;
  std::vector<Shape> others;  // DynamicTypes::others
};

// Bounds of the outputs of a stateless node; an empty list when none can be given.
std::vector<ValueBounds> BoundOutputs(const OpDef& def, const OpInstance& instance, absl::Span<const BoundedInput> inputs,
                                      KernelOracle& oracle);

}  // namespace millrace

#endif  // MILLRACE_PASSES_SHAPES_VALUE_BOUNDS_H_
