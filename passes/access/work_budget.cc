#include "passes/access/work_budget.h"

#include <algorithm>
#include <cmath>

namespace millrace {

int64_t SearchWork(int64_t nodes) {
  constexpr double kUnits = 340e6;
  constexpr double kOfMany = 255.5e6;  // for every so many nodes of larger graphs, whose other passes take longer, too
  constexpr double kMany = 60'000;
  const double n = static_cast<double>(nodes);
  const double times = n <= kMany ? n / kLargeGraphNodes : kMany / kLargeGraphNodes * std::sqrt(std::sqrt(n / kMany));
  return static_cast<int64_t>(std::max(kUnits, kOfMany * times));
}

}  // namespace millrace
