// The ends of what values of a node that are known only when running may be, and what follows from them for its shapes.
#ifndef MILLRACE_PASSES_SHAPES_VALUE_ENDS_H_
#define MILLRACE_PASSES_SHAPES_VALUE_ENDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "millrace/op.h"
#include "passes/shapes/value_bounds.h"

namespace millrace {

// A vector of integers of the type of `like`, as near to the values as that can be.
Tensor Ints(const TensorType& like, const std::vector<int64_t>& values);

bool IsReduction(const std::string& op);

class ValueEnds {
 public:
  // Refers to both. Bit i of `open`: input i sizes outputs, and its value is known only when running.
  ValueEnds(const OpInstance& instance, absl::Span<const BoundedInput> inputs, uint64_t open)
      : instance_(instance), inputs_(inputs), open_(open) {}

  bool Open(size_t i) const { return i < 64 && (open_ >> i & 1) != 0; }
  // Whether outputs are of one size if they are with all ends of the open values, each with each.
  bool FollowsValues() const;
  // `base` with these; an empty list when an end is not known or there are too many.
  std::vector<OpInstance> WithAllEnds(const OpInstance& base) const;

  // Whether one axis is all that is open.
  bool OnlyAxisOpen() const;
  // `base` along each axis that it may have; the shape rule may refuse some.
  std::vector<OpInstance> WithEachAxis(const OpInstance& base) const;

  // Sets values of ops whose outputs get smaller with some of them such that they are largest. Requires bounds of all open ones.
  void SetLargest(OpInstance& candidate) const;
  // The same of a StridedSlice whose strides have bounds: those that may go either way go through the whole dimension.
  void SetShortestSteps(OpInstance& candidate) const;

 private:
  const Tensor& End(size_t i, bool high) const;
  std::vector<Tensor> Ends(size_t i) const;
  Tensor LikeInput(size_t i, const std::vector<int64_t>& values) const;
  void SetLongestRange(OpInstance& candidate) const;
  void SetLongestDiagonals(OpInstance& candidate) const;

  const OpInstance& instance_;
  absl::Span<const BoundedInput> inputs_;
  uint64_t open_;
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_SHAPES_VALUE_ENDS_H_
