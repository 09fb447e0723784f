// Order by levels: the categorized topological order of TensorFlow Large Model Support (Le et al., "Automatic GPU
// memory management for large neural models in TensorFlow", ISMM 2019). A node's level is the length of the longest
// path to it, over data and control edges; the nodes of a level come in creation order, and are one partition whose
// number is the level.
//
// Serialised levels run one operation after another: each gets a level of its own, and a serialised level begins
// after the end of the one above it.
//
// Needs: types, devices. Establishes: a total order of all nodes; Node::partition = level.
#ifndef MILLRACE_PASSES_ORDER_ORDER_LEVELS_H_
#define MILLRACE_PASSES_ORDER_ORDER_LEVELS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/options.h"
#include "passes/order/partition.h"

namespace millrace {

// Levels that Python slices name ("7", "-1", "3:5", ":3", "100:", "0:20:2"), sorted, out of [0, num_levels).
// InvalidArgument quotes what is not a slice.
absl::StatusOr<std::vector<int32_t>> ParseLevels(const std::vector<std::string>& slices, int32_t num_levels);

struct LevelPartitioning {
  Partitioning partitioning;
  std::vector<std::string> notes;  // levels before and after serialisation; with options.debug what each holds
};

// InvalidArgument for a malformed options.serialization, or a cycle.
absl::StatusOr<LevelPartitioning> PartitionByLevels(Graph& graph, const TflmsOptions& options);

}  // namespace millrace

#endif  // MILLRACE_PASSES_ORDER_ORDER_LEVELS_H_
