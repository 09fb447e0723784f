// Crossed features as texts: every combination of one value of each feature of an example, joined. Their hashes are a kernel's.
#ifndef MILLRACE_SRC_GRAPH_FEATURE_CROSSES_H_
#define MILLRACE_SRC_GRAPH_FEATURE_CROSSES_H_

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "millrace/attr.h"
#include "millrace/tensor.h"

namespace millrace {

// Whether a node of this op and attributes makes texts: SparseCrossV2, and SparseCross and RaggedCross where they do not make hashes.
bool CrossesTexts(std::string_view op, const AttrMap& attrs);
// Requires CrossesTexts. The op's outputs. InvalidArgument in TensorFlow's words.
absl::StatusOr<std::vector<Tensor>> CrossedTexts(std::string_view op, const AttrMap& attrs, absl::Span<const Tensor> inputs);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_FEATURE_CROSSES_H_
