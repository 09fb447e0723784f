// The equation of an Einsum node ("...ij,...jk->...ik") and what it says of the shapes of its tensors.
#ifndef MILLRACE_SRC_GRAPH_EINSUM_H_
#define MILLRACE_SRC_GRAPH_EINSUM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/types.h"

namespace millrace {

// Labels are indices into `sizes`; the dimensions of an ellipsis have labels of their own.
struct EinsumLabels {
  std::vector<std::vector<int>> inputs;  // per input a label per dimension
  std::vector<int> output;
  std::vector<int64_t> sizes;  // of every label; -1 when unknown
};

// InvalidArgument says what is wrong with the equation or which input does not fit it. Ellipsis dimensions
// broadcast: an input may have 1 where the label's size is larger.
absl::StatusOr<EinsumLabels> ParseEinsum(const std::string& equation, absl::Span<const TensorType> inputs);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_EINSUM_H_
