// Feeds whose values planning needs: a status carries their names, and the session plans again with those values.
#ifndef MILLRACE_PASSES_SHAPES_NEEDED_FEEDS_H_
#define MILLRACE_PASSES_SHAPES_NEEDED_FEEDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "millrace/graph.h"
#include "millrace/op.h"

namespace millrace {

// Payload of a status: names of feeds ("length:0"), a line each, where nothing else is missing.
inline constexpr char kNeededFeeds[] = "millrace/needed_feeds";

// Feeds whose values planning needs to go on after that status; none if they would not help.
std::vector<std::string> NeededFeeds(const absl::Status& status);

// `refusal` of node `id`, whose shape rule takes the inputs of `by_value` by value, with the feeds that would settle what it
// lacks: values that `known` has not (nullptr), and shapes known only when running. Without payload where variables or
// random numbers decide, too, or values too large to be folded. Nodes before it have their types.
absl::Status AskForFeeds(const Graph& graph, const OpRegistry& ops, NodeId id, uint64_t by_value,
                         absl::FunctionRef<const Tensor*(OutputRef)> known, absl::Status refusal);

}  // namespace millrace

#endif  // MILLRACE_PASSES_SHAPES_NEEDED_FEEDS_H_
