// Shape arithmetic that shape rules and kernels must agree on, as TensorFlow defines it.
//
// Pure functions of their arguments. Errors are InvalidArgument without a node's name; callers add it.
#ifndef MILLRACE_SRC_GRAPH_SHAPE_MATH_H_
#define MILLRACE_SRC_GRAPH_SHAPE_MATH_H_

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "millrace/types.h"

namespace millrace {

// The bit masks of StridedSlice and its kin; bit i speaks of entry i of begin, end and strides.
struct StridedSliceMasks {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t ellipsis = 0;
  int64_t new_axis = 0;
  int64_t shrink_axis = 0;
};

// A StridedSlice resolved against its input: element j of dimension d of the slice (before new axes are added
// and shrunk ones removed) is element begin[d] + j * stride[d] of the input.
struct StridedSliceSpec {
  Shape::Dims begin;
  Shape::Dims stride;
  Shape::Dims size;  // -1 where the input's dimension is unknown
  Shape::Dims final_dim;  // where dimension d is in final_shape, -1 when shrunk away
  Shape final_shape;
};

// `begin` and `end` may be empty when their values are not known: then only dimensions that are shrunk or
// masked on both sides have a known size, and for others an error says that the values must be known.
absl::StatusOr<StridedSliceSpec> ResolveStridedSlice(const Shape& input, absl::Span<const int64_t> begin,
                                                     absl::Span<const int64_t> end,
                                                     absl::Span<const int64_t> strides,
                                                     const StridedSliceMasks& masks);

// The axes over which the gradients of two broadcast operands of these shapes are summed.
absl::StatusOr<std::pair<std::vector<int64_t>, std::vector<int64_t>>> BroadcastGradientAxes(
    absl::Span<const int64_t> a, absl::Span<const int64_t> b);

// The shape that Reshape gives a tensor of shape `input` for the request `target`. A -1 stays where the input's
// shape is not known.
absl::StatusOr<Shape> ResolveReshape(const Shape& input, absl::Span<const int64_t> target);

// The product of the sizes of a sparse tensor's dense shape, or an error where one is negative or int64 does not hold it.
absl::StatusOr<int64_t> DenseElements(absl::Span<const int64_t> dims);

// The shape that SparseReshape gives a sparse tensor of shape `from`: at most one size of `to` is -1, which the others must tell.
absl::StatusOr<std::vector<int64_t>> ResolveSparseReshape(absl::Span<const int64_t> from, absl::Span<const int64_t> to);

// What SparseSlice takes of a dimension: elements from `start` on, which may lie before it, `size` at most.
int64_t SparseSliceSize(int64_t dim, int64_t start, int64_t size);

// Diagonals lower … upper of a matrix: d = 0 is the main one, d > 0 are above it.
struct DiagonalRange {
  int64_t lower = 0, upper = 0;
  int64_t count() const { return upper - lower + 1; }
  // Elements of diagonal d of a matrix, and of the longest one in the range.
  int64_t Length(int64_t d, int64_t rows, int64_t columns) const;
  int64_t MaxLength(int64_t rows, int64_t columns) const;
};

// Number of elements of Range; InvalidArgument when delta is 0 or points away from the limit.
absl::StatusOr<int64_t> RangeSize(int64_t start, int64_t limit, int64_t delta);
// Floats of type `dtype`, in whose precision every step is.
absl::StatusOr<int64_t> RangeSize(DataType dtype, double start, double limit, double delta);
// The same of a row of RaggedRange, which has no elements where delta points away from the limit.
absl::StatusOr<int64_t> RowRangeSize(int64_t start, int64_t limit, int64_t delta);
absl::StatusOr<int64_t> RowRangeSize(DataType dtype, double start, double limit, double delta);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_SHAPE_MATH_H_
