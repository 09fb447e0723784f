// Serialized tf.train.Example records, as exported estimators are fed: the features that ParseExample and its kin take from them.
#ifndef MILLRACE_SRC_GRAPH_EXAMPLE_RECORDS_H_
#define MILLRACE_SRC_GRAPH_EXAMPLE_RECORDS_H_

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "millrace/attr.h"
#include "millrace/tensor.h"

namespace millrace {

// ParseExample, ParseExampleV2, ParseSingleExample.
bool ParsesExamples(std::string_view op);
// Requires ParsesExamples. The op's outputs: per sparse feature places, values and shape, then dense ones (shorter rows filled up with
// the default where the first dimension is open), then values and row splits of ragged ones. InvalidArgument in TensorFlow's words.
absl::StatusOr<std::vector<Tensor>> ParsedExamples(std::string_view op, const AttrMap& attrs, absl::Span<const Tensor> inputs);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_EXAMPLE_RECORDS_H_
