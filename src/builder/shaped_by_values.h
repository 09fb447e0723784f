// Ops whose result's shape follows from the values of an input: of such that are not known when the graph is built only the type is.
#ifndef MILLRACE_SRC_BUILDER_SHAPED_BY_VALUES_H_
#define MILLRACE_SRC_BUILDER_SHAPED_BY_VALUES_H_

#include <optional>

#include "absl/types/span.h"
#include "millrace/graph.h"
#include "millrace/types.h"

namespace millrace {

// The type of the one output of such a node; nothing for other ops.
std::optional<DataType> TypeShapedByValues(const Node& node, absl::Span<const TensorType> inputs);

}  // namespace millrace

#endif  // MILLRACE_SRC_BUILDER_SHAPED_BY_VALUES_H_
