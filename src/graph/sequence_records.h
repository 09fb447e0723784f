// Serialized tf.train.SequenceExample records: features of the whole (the context), and lists with a feature per step, that
// ParseSequenceExample and its kin take from them.
#ifndef MILLRACE_SRC_GRAPH_SEQUENCE_RECORDS_H_
#define MILLRACE_SRC_GRAPH_SEQUENCE_RECORDS_H_

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "millrace/attr.h"
#include "millrace/tensor.h"

namespace millrace {

// ParseSequenceExample, ParseSequenceExampleV2, ParseSingleSequenceExample.
bool ParsesSequences(std::string_view op);
// Requires ParsesSequences. The op's outputs; shorter lists of a batch are filled up with zeros. InvalidArgument in TensorFlow's words.
absl::StatusOr<std::vector<Tensor>> ParsedSequences(std::string_view op, const AttrMap& attrs, absl::Span<const Tensor> inputs);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_SEQUENCE_RECORDS_H_
