// Feeds of a run: arrays of an npz file, synthetic ones, or both (the file wins).
#ifndef MILLRACE_SRC_CLI_FEEDS_H_
#define MILLRACE_SRC_CLI_FEEDS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/session.h"

namespace millrace::cli {

// "images:8x224x224x3,labels:8,rate:,it:1:8" -> shapes by the name that feeds have; nothing after the last colon is a scalar.
absl::StatusOr<std::map<std::string, Shape>> ParseFeedShapes(const std::string& text);

// The type that the graph declares for a placeholder, or for what an iterator or queue hands over; of other tensors none, kInvalid.
TensorType DeclaredFeedType(const Graph& graph, OutputRef ref);

// Types of the placeholders that `fetches` and `targets` need, and of what iterators and queues hand over to them ("it", "it:1"),
// except those in `given`. The shape is that of `shapes`, else the graph's own, which must be known then: all that are not are
// named at once, by their names in `keys` where they have one. Warns of shapes that are of no use, and refuses those that `given` contradicts.
absl::StatusOr<Session::FeedTypes> SyntheticFeedTypes(const Graph& graph, const std::vector<std::string>& fetches,
                                                      const std::vector<std::string>& targets,
                                                      const std::map<std::string, Shape>& shapes,
                                                      const Session::FeedTypes& given, const std::map<std::string, std::string>& keys = {});

// Placeholders and elements of iterators that `fetches` and `targets` need and `given` has not, by name ("x", "it:1"), with their types.
// Queues and staging areas are left out: the step may fill them.
absl::StatusOr<Session::FeedTypes> UnfedInputs(const Graph& graph, const std::vector<std::string>& fetches,
                                               const std::vector<std::string>& targets, const Session::FeedTypes& given);

// Tensors of these types, the same bytes for the same seed: floats uniform in [-1, 1), integers and bools 0 or 1
// (valid as labels and indices of any graph), strings empty.
absl::StatusOr<Session::Feeds> SyntheticFeeds(const Session::FeedTypes& types, uint64_t seed);

Session::FeedTypes TypesOf(const Session::Feeds& feeds);

}  // namespace millrace::cli

#endif  // MILLRACE_SRC_CLI_FEEDS_H_
