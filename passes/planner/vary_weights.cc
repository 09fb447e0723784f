#include "passes/planner/vary_weights.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace millrace {
namespace {

// Windows of 1/4 to 1/64 of the step to either side of one of so many times.
constexpr uint32_t kWindowSizes = 5, kCenters = 1024;
constexpr double kPriceFactors[] = {0.2, 0.5, 2, 5};
// What the home gap of a variable blocks counts so many times, for it to stay or to be fetched.
constexpr double kStays = 1e-3, kIsFetched = 1e3;

}  // namespace

TransferWeights Reprice(const GapGraph& gaps, TransferWeights weights, std::mt19937& random) {
  const int32_t n = gaps.num_operations();
  if (weights.out.empty()) weights.out.assign(n, 1);
  if (weights.in.empty()) weights.in.assign(n, 1);
  const double step = gaps.compute_seconds();
  const double half = step / static_cast<double>(4 << (random() % kWindowSizes));
  const double center = step * (random() % kCenters) / kCenters;
  const double factor = kPriceFactors[random() % std::size(kPriceFactors)];
  const uint32_t lanes = 1 + random() % 3;
  const int32_t end = std::min(n, gaps.OperationAt(std::min(step, center + half)) + 1);
  for (int32_t i = gaps.OperationAt(std::max(0.0, center - half)); i < end; ++i) {
    if ((lanes & 1) != 0) weights.out[i] *= factor;
    if ((lanes & 2) != 0) weights.in[i] *= factor;
  }
  return weights;
}

TransferWeights ExchangeHomes(const GapGraph& gaps, int64_t least_bytes, const std::vector<SwapDecision>& decisions,
                              TransferWeights weights, std::mt19937& random) {
  std::vector<bool> is_fetched(gaps.graph->storages.size(), false);
  for (const SwapDecision& d : decisions) {
    if (d.fetched()) is_fetched[d.storage] = true;
  }
  std::vector<int32_t> stay, fetched;
  for (size_t k = 0; k < gaps.gaps.size(); ++k) {
    const Gap& gap = gaps.gaps[k];
    if (!gap.home || gap.feed || gap.bytes < least_bytes) continue;
    // What is biased so already has not helped.
    const bool fetch = is_fetched[gap.storage];
    if (weights.bias.empty() || weights.bias[k] != (fetch ? kStays : kIsFetched)) (fetch ? fetched : stay).push_back(static_cast<int32_t>(k));
  }
  if (weights.bias.empty()) weights.bias.assign(gaps.gaps.size(), 1);
  const auto choose = [&](const std::vector<int32_t>& from, double bias) {
    if (!from.empty()) weights.bias[from[random() % from.size()]] = bias;
  };
  const uint32_t kind = random() % 4;
  if (kind != 1) choose(fetched, kStays);
  if (kind != 2) choose(stay, kIsFetched);
  return weights;
}

}  // namespace millrace
