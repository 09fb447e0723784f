// What the gradient rules share.
#ifndef MILLRACE_SRC_BUILDER_GRADIENT_RULES_H_
#define MILLRACE_SRC_BUILDER_GRADIENT_RULES_H_

#include <initializer_list>
#include <utility>
#include <vector>

#include "builder/gradient_table.h"
#include "millrace/graph_ops.h"
#include "millrace/status.h"

namespace millrace {

inline bool IsComplex(DataType dtype) { return dtype == DataType::kComplex64 || dtype == DataType::kComplex128; }
// Whether gradients flow through tensors of this type.
inline bool IsDifferentiable(DataType dtype) { return IsFloating(dtype) || IsComplex(dtype); }
// The type of the parts of a complex number; `dtype` itself when it is not complex.
DataType PartType(DataType dtype);
// The complex conjugate; x itself when it is real. The gradient by a complex x is d/d(real part) + i d/d(imaginary part),
// as TensorFlow's: through an analytic function it is multiplied by the conjugate of the derivative.
Output Conj(const Output& x);
// Of a broadcast: leaves `gradient`, summed down to the shape of input i, for input i. The last `own` dimensions are the input's own
// and not broadcast. Whether a dimension that is not known was broadcast is found when running.
void SetReduced(GradientContext& context, int i, const Output& gradient, int own = 0);
// `gradient` summed to the shape of x, from which it was broadcast, whatever is known of both.
Output SumAs(const Output& gradient, const Output& x);
// Whether every dimension is known before the graph runs.
inline bool HasKnownShape(const Output& x) { return x.shape().fully_known() && !x.builder()->HasBoundShape(x); }
// OK when that is true of every input.
absl::Status ExpectKnownShapes(const GradientContext& context);
// OK when the rank of every input is known.
absl::Status ExpectRanks(const GradientContext& context);
// The shape of x, [rank] of int32 or int64: a constant where it is known, else a Shape.
Output ShapeOf(const Output& x, DataType dtype = DataType::kInt32);
// Dimension i of x, from the end when negative: an int32 number.
Output DimOf(const Output& x, int i);
// How many elements of x there are over these axes, at least 1: a number of this type.
Output CountOver(const Output& x, const std::vector<int64_t>& axes, DataType dtype);
// The same tensor, known to have the shape of `like`: what is known of one is known of the other.
Output Alike(const Output& output, const Output& like);
// y with the shape of x, which has as many elements; y broadcast to the shape of x.
Output ReshapeAs(const Output& y, const Output& x);
Output BroadcastAs(const Output& y, const Output& x);
// y with `count` dimensions of 1 behind its own.
Output WithOnesBehind(Output y, int count);
// The dimensions as a constant of a type, int32 or int64.
Output DimsConstant(GraphBuilder& builder, const Shape& shape, DataType dtype);
inline std::vector<int64_t> Dims(const Output& x) { return {x.shape().dims().begin(), x.shape().dims().end()}; }
// An op of the same attributes as the differentiated node's.
Operation SameAttrs(const GradientContext& context, std::string_view op, std::initializer_list<Output> inputs);
// Slices, with the differentiated node's bad_indices_policy where it has one: what it left out gets zeros, or nothing.
Output GatherNd(const GradientContext& context, const Output& params, const Output& indices);
// `shape` is of the type of the indices.
Output ScatterNd(const GradientContext& context, const Output& indices, const Output& updates, const Output& shape);

}  // namespace millrace

#endif  // MILLRACE_SRC_BUILDER_GRADIENT_RULES_H_
