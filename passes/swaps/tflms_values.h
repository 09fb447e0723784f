// What tflms may swap: values (what a storage holds from a write to the next) with the operations that use them.
#ifndef MILLRACE_PASSES_SWAPS_TFLMS_VALUES_H_
#define MILLRACE_PASSES_SWAPS_TFLMS_VALUES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "passes/swaps/swap_request.h"

namespace millrace {

struct TflmsUse {
  int32_t operation = 0;
  bool may_swap = false;  // false: the consumer takes the original, wherever it is
};

struct TflmsValue {
  int32_t storage = 0;
  int32_t made_at = 0;  // operation
  bool may_swap = false;
  std::vector<TflmsUse> uses;  // in order
};

struct TflmsGraph {
  const AccessGraph* graph = nullptr;
  std::vector<TflmsValue> values;        // of activations, by storage, then by time
  std::vector<int64_t> profile;          // per operation: bytes on the device beside `resident_bytes` when nothing is swapped
  int64_t resident_bytes = 0;            // variables and constants
  std::vector<int32_t> first_operation;  // of level l or, where it has none, below: first_operation[l], l in [0, levels]

  int32_t levels() const { return static_cast<int32_t>(first_operation.size()) - 1; }
  int32_t level(int32_t operation) const { return graph->partition[operation]; }
  int64_t bytes(int32_t storage) const;
};

TflmsGraph FindTflmsValues(const SwapRequest& request);

// InvalidArgument for a filter that names no node of `whole`, which has the nodes of every signature, nor of `prepared`,
// which has those of function bodies.
absl::Status CheckTflmsFilters(const Graph& whole, const Graph& prepared, const TflmsOptions& options);

}  // namespace millrace

#endif  // MILLRACE_PASSES_SWAPS_TFLMS_VALUES_H_
