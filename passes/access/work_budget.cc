#include "passes/access/work_budget.h"

#include <algorithm>
#include <cmath>

namespace millrace {

int64_t SearchWork(int64_t nodes) {
  constexpr double kUnits = 340e6, kFewer = 10'300;  // the latter for each node, whose other passes take that
  constexpr double kFewest = 255'500'000;            // which a graph of 15,000 nodes still has time for
  constexpr double kNodes = 15'000, kMany = 60'000;
  const double n = static_cast<double>(nodes);
  const double units = std::max(kUnits - kFewer * n, kFewest);
  const double times = n <= kNodes ? 1 : n <= kMany ? n / kNodes : kMany / kNodes * std::sqrt(std::sqrt(n / kMany));
  return static_cast<int64_t>(units * times);
}

}  // namespace millrace
