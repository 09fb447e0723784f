// The strategies: a name for a bundle of parts. Each is one entry of the table in strategy.cc.
#ifndef MILLRACE_PASSES_STRATEGY_H_
#define MILLRACE_PASSES_STRATEGY_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "passes/swaps/swap_request.h"

namespace millrace {

struct Strategy {
  std::string name;
  std::string description;
  enum class Order {
    kCreation,    // in one partition
    kDepthFirst,  // cut into partitions of a fixed size
    kBest,        // either, whichever runs faster
    kLevels,      // categorized topological levels, each a partition
  };
  Order order = Order::kCreation;
  // Which storages leave the device and when.
  std::function<absl::StatusOr<SwapChoice>(const SwapRequest&)> swaps;
  // The same for when no partition size fits; empty: the graph is refused then.
  std::function<absl::StatusOr<SwapChoice>(const SwapRequest&)> last_resort = {};
};

// InvalidArgument lists the names there are.
absl::StatusOr<const Strategy*> FindStrategy(const std::string& name);

}  // namespace millrace

#endif  // MILLRACE_PASSES_STRATEGY_H_
