// The strategies: a name for a bundle of parts. Each is one entry of the table in strategy.cc.
#ifndef MILLRACE_PASSES_STRATEGY_H_
#define MILLRACE_PASSES_STRATEGY_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/options.h"
#include "passes/choose_swaps.h"

namespace millrace {

struct Strategy {
  std::string name;
  std::string description;
  // Depth-first order cut into partitions; else creation order in one partition.
  bool partitions = false;
  // Which storages leave the device and when. `budget_bytes` 0: no limit.
  std::function<absl::StatusOr<SwapChoice>(const AccessGraph&, const PlanningOptions&, int64_t budget_bytes)> swaps;
};

// NotFound lists the names there are.
absl::StatusOr<const Strategy*> FindStrategy(const std::string& name);
std::vector<std::string> StrategyNames();

}  // namespace millrace

#endif  // MILLRACE_PASSES_STRATEGY_H_
