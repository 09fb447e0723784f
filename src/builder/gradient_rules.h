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

// The gradient of a broadcast: `x` summed down to `shape`.
Output SumTo(const Output& x, const Shape& shape);
// Leaves SumTo(gradient, shape of input i) for input i.
void SetReduced(GradientContext& context, int i, const Output& gradient);
// The shape as an int32 constant; an error of the rule when a dimension is not known.
absl::StatusOr<Output> ShapeConstant(const GradientContext& context, const Output& x);
// OK when every dimension of every input is known.
absl::Status ExpectKnownShapes(const GradientContext& context);
// The dimensions as a constant of a type, int32 or int64.
Output DimsConstant(GraphBuilder& builder, const Shape& shape, DataType dtype);
inline std::vector<int64_t> Dims(const Output& x) { return {x.shape().dims().begin(), x.shape().dims().end()}; }
// An op of the same attributes as the differentiated node's.
Operation SameAttrs(const GradientContext& context, std::string_view op, std::initializer_list<Output> inputs);

}  // namespace millrace

#endif  // MILLRACE_SRC_BUILDER_GRADIENT_RULES_H_
