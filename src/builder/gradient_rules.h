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
// Of a broadcast: leaves `gradient`, summed down to the shape of input i, for input i.
void SetReduced(GradientContext& context, int i, const Output& gradient);
// The shape as an int32 constant; an error of the rule when a dimension is not known.
absl::StatusOr<Output> ShapeConstant(const GradientContext& context, const Output& x);
// Whether every dimension is known before the graph runs.
inline bool HasKnownShape(const Output& x) { return x.shape().fully_known() && !x.builder()->HasBoundShape(x); }
// OK when that is true of every input.
absl::Status ExpectKnownShapes(const GradientContext& context);
// OK when every input has a shape or a bound of it.
absl::Status ExpectBoundShapes(const GradientContext& context);
// The dimensions as a constant of a type, int32 or int64.
Output DimsConstant(GraphBuilder& builder, const Shape& shape, DataType dtype);
inline std::vector<int64_t> Dims(const Output& x) { return {x.shape().dims().begin(), x.shape().dims().end()}; }
// An op of the same attributes as the differentiated node's.
Operation SameAttrs(const GradientContext& context, std::string_view op, std::initializer_list<Output> inputs);
// Slices, with the differentiated node's bad_indices_policy where it has one: what it left out gets zeros, or nothing.
Output GatherNd(const GradientContext& context, const Output& params, const Output& indices);
Output ScatterNd(const GradientContext& context, const Output& indices, const Output& updates, const Shape& shape);

}  // namespace millrace

#endif  // MILLRACE_SRC_BUILDER_GRADIENT_RULES_H_
