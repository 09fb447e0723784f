#include "passes/planner/transfer_bound.h"

#include <algorithm>
#include <vector>

namespace millrace {
namespace {

constexpr int64_t kLooks = 20'000'000;  // at gaps and operations, in all
constexpr int kMostPrices = 60;
// Steps that did not raise the bound, after which they get shorter, and by how much.
constexpr int kPatience = 5;
constexpr double kShorter = 0.6;

// Lagrangian relaxation of "working sets and kept gaps fit the budget at every operation": a byte at operation i costs
// prices[i], and every gap is kept where its bytes cost less than their copy in. What all then pay is a bound for any prices
// that are not negative; they are found by subgradient steps of Polyak's length (Introduction to Optimization, 1987).
class Relaxation {
 public:
  Relaxation(const GapGraph& gaps, int64_t budget_bytes)
      : gaps_(gaps), n_(gaps.num_operations()), budget_(budget_bytes), prices_(n_, 0), until_(n_ + 1, 0), excess_(n_ + 1, 0) {
    for (const Gap& gap : gaps.gaps) {
      if (gap.feed) fed_seconds_ += CopyIn(gap);
    }
  }

  double Run(double target_seconds) {
    // All of the price where most bytes have no room: the cut there.
    const auto most = std::max_element(gaps_.full.begin(), gaps_.full.end());
    if (n_ == 0 || *most <= budget_) return fed_seconds_;
    prices_[most - gaps_.full.begin()] = gaps_.seconds_per_byte_in;
    double best = 0, length = 1;
    int in_vain = 0;
    const int64_t rounds = std::min<int64_t>(kMostPrices, kLooks / (n_ + static_cast<int64_t>(gaps_.gaps.size())));
    for (int64_t k = 0; k < std::max<int64_t>(rounds, 1) && best < target_seconds; ++k) {
      const double bound = Look();
      in_vain = bound > best ? 0 : in_vain + 1;
      best = std::max(best, bound);
      if (in_vain == kPatience) {
        length *= kShorter;
        in_vain = 0;
      }
      if (!Step(length * (target_seconds - bound))) break;
    }
    return best;
  }

 private:
  double CopyIn(const Gap& gap) const {
    return gaps_.copy_latency + static_cast<double>(gaps_.graph->storages[gap.storage].size_bytes) * gaps_.seconds_per_byte_in;
  }

  // What all pay at these prices; and at every operation, how many bytes more than the budget are there then.
  double Look() {
    double paid = fed_seconds_;
    for (int32_t i = 0; i < n_; ++i) {
      until_[i + 1] = until_[i] + prices_[i];
      const int64_t before = i == 0 ? 0 : gaps_.working_set[i - 1];
      excess_[i] = static_cast<double>(gaps_.working_set[i] - (i == 0 ? budget_ : before));
      paid += prices_[i] * static_cast<double>(gaps_.working_set[i] - budget_);
    }
    for (const Gap& gap : gaps_.gaps) {
      if (gap.feed) continue;
      const auto bytes = static_cast<double>(gap.bytes);
      const double between = until_[gap.before] - until_[std::min(gap.after + 1, n_)];
      const double stay = bytes * (gap.home ? until_[n_] + between : between);
      const double copy = gap.overwritten ? 0 : CopyIn(gap);
      paid += std::min(stay, copy);
      if (stay >= copy) continue;
      if (gap.home) excess_[0] += bytes;
      excess_[gap.home ? gap.before : gap.after + 1] -= gap.home ? bytes : -bytes;
      excess_[gap.home ? gap.after + 1 : gap.before] += gap.home ? bytes : -bytes;
    }
    for (int32_t i = 1; i < n_; ++i) excess_[i] += excess_[i - 1];
    return paid;
  }

  // Dearer where bytes have no room, cheaper where there is some. False when nothing changes.
  bool Step(double distance) {
    double norm = 0;
    for (int32_t i = 0; i < n_; ++i) {
      if (prices_[i] > 0 || excess_[i] > 0) norm += excess_[i] * excess_[i];
    }
    if (norm == 0 || distance <= 0) return false;
    for (int32_t i = 0; i < n_; ++i) prices_[i] = std::max(0.0, prices_[i] + distance / norm * excess_[i]);
    return true;
  }

  const GapGraph& gaps_;
  const int32_t n_;
  const int64_t budget_;
  double fed_seconds_ = 0;
  std::vector<double> prices_;  // seconds per byte
  std::vector<double> until_;   // of all operations before
  std::vector<double> excess_;  // bytes
};

}  // namespace

double TransferBound(const GapGraph& gaps, int64_t budget_bytes, double target_seconds) {
  return Relaxation(gaps, budget_bytes).Run(target_seconds);
}

}  // namespace millrace
