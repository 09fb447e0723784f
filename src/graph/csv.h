// Records of comma-separated values (RFC 4180), one a string, and their columns.
#ifndef MILLRACE_SRC_GRAPH_CSV_H_
#define MILLRACE_SRC_GRAPH_CSV_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "millrace/attr.h"
#include "millrace/tensor.h"

namespace millrace {

// The outputs of DecodeCSV: a column in the records' shape for each default, which stands for fields that are empty or na_value.
// InvalidArgument in TensorFlow's words.
absl::StatusOr<std::vector<Tensor>> CsvColumns(const AttrMap& attrs, absl::Span<const Tensor> inputs);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_CSV_H_
