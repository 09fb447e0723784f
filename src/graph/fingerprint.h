// One number for a graph, by which a plan knows the graph that it was made for; and for what a plan holds of a graph.
#ifndef MILLRACE_SRC_GRAPH_FINGERPRINT_H_
#define MILLRACE_SRC_GRAPH_FINGERPRINT_H_

#include <cstdint>
#include <string_view>

#include "absl/types/span.h"
#include "millrace/graph.h"
#include "millrace/op.h"
#include "millrace/tensor.h"

namespace millrace {

// Over names, ops, devices asked for, inputs and attributes of the nodes in their order, the values of constants included (but
// for paths of assets: graph/asset_file.h), and over the functions of the library. Never 0. Equal graphs have equal ones on every
// machine of one byte order; what passes establish (shapes, partitions) does not count.
uint64_t Fingerprint(const Graph& graph);

// Over op, types, known values of inputs, and attributes but those named `left_out`. The name does not count.
uint64_t Fingerprint(const OpInstance& instance, absl::Span<const std::string_view> left_out);

// Over type and value.
uint64_t Fingerprint(const Tensor& tensor);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_FINGERPRINT_H_
