// Ops that speak to XLA (jax2tf writes them): what their attributes and inputs say, and shape rules for those that lower_xla takes
// away once shapes are known. No device has a kernel of them, so they are in no registry but that of the passes before it.
#ifndef MILLRACE_PASSES_CONTROL_FLOW_XLA_OPS_H_
#define MILLRACE_PASSES_CONTROL_FLOW_XLA_OPS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "millrace/graph.h"
#include "millrace/op.h"

namespace millrace {

// Whether lower_xla takes it away.
bool IsXlaOp(const std::string& op);
// The graph holds such a node, or a function of its library does.
bool HoldsXlaOps(const Graph& graph);
// `ops` and these.
OpRegistry WithXlaOps(const OpRegistry& ops);

// The messages in attribute `dimension_numbers`. Numbers are of dimensions, and in range once the node has shapes.
struct XlaDotNumbers {
  std::vector<int64_t> lhs_contracting, rhs_contracting, lhs_batch, rhs_batch;
};
struct XlaConvNumbers {
  int64_t input_batch = 0, input_feature = 0, kernel_input = 0, kernel_output = 0, output_batch = 0, output_feature = 0;
  std::vector<int64_t> input_spatial, kernel_spatial, output_spatial;
};
// Of XlaGather and XlaScatter: `window` are dimensions of the result (the updates), `collapsed`, `mapped` and `batching` of the operand.
struct XlaIndexNumbers {
  std::vector<int64_t> window, collapsed, mapped, batching, index_batching;
  int64_t index_vector = 0;
};
absl::StatusOr<XlaDotNumbers> ReadXlaDotNumbers(std::string_view bytes);
absl::StatusOr<XlaConvNumbers> ReadXlaConvNumbers(std::string_view bytes);
absl::StatusOr<XlaIndexNumbers> ReadXlaIndexNumbers(std::string_view bytes);

// A window over one dimension.
struct XlaWindow {
  int64_t size = 1, stride = 1, low = 0, high = 0, base_dilation = 1, dilation = 1;
  int64_t Dilated(int64_t input) const { return input == 0 ? 0 : (input - 1) * base_dilation + 1; }
  int64_t span() const { return size == 0 ? 0 : (size - 1) * dilation + 1; }
  int64_t Output(int64_t input) const {
    const int64_t padded = low + Dilated(input) + high;
    return padded < span() || span() == 0 ? 0 : (padded - span()) / stride + 1;
  }
  bool trivial() const { return size == 1 && stride == 1 && low == 0 && high == 0 && base_dilation == 1; }
};

// The dimensions in [0, rank) that are in none of the lists, ascending.
std::vector<int64_t> XlaOtherDims(int64_t rank, absl::Span<const std::vector<int64_t>> lists);

}  // namespace millrace

#endif  // MILLRACE_PASSES_CONTROL_FLOW_XLA_OPS_H_
