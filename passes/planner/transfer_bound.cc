#include "passes/planner/transfer_bound.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace millrace {
namespace {

constexpr int64_t kLooks = 20'000'000;  // at gaps and operations, in the whole step
constexpr int64_t kLooksFrom = 1'000'000;  // the same, from other times on
constexpr int64_t kMostPrices = 60, kFewPrices = 2;
// Steps that did not raise the bound, after which they get shorter, and by how much.
constexpr int kPatience = 5;
constexpr double kShorter = 0.6;
// Times from which on copies are added up, evenly over the step without stalls; then so many times closer to the best of them.
constexpr int kTimes = 12, kCloser = 3;
// What a few prices bring must be so much of the bound that is known already, for more of them.
constexpr double kPromising = 0.9;

// Lagrangian relaxation of "working sets and kept gaps fit the budget at every operation": a byte at operation i costs
// prices[i], and every gap is kept where its bytes cost less than their copy in. What all then pay is a bound for any prices
// that are not negative; they are found by subgradient steps of Polyak's length (Introduction to Optimization, 1987).
//
// Copies are those of the whole step, or those that begin when operation `from` is done: what is away then comes in after it, and so
// does what leaves later. The operations up to that one run before all of these copies.
class Relaxation {
 public:
  Relaxation(const GapGraph& gaps, int64_t budget_bytes)
      : gaps_(gaps), n_(gaps.num_operations()), budget_(budget_bytes), until_(n_ + 1, 0), excess_(n_ + 1, 0) {
    for (const Gap& gap : gaps.gaps) {
      if (gap.feed) {
        fed_seconds_ += gaps.in_seconds(gap.storage);
      } else if (gap.home || gap.after + 1 < gap.before) {  // between neighbours nothing can leave
        const double copy = gap.overwritten ? 0 : gaps.in_seconds(gap.storage);
        stays_.push_back({gap.home, gap.after, gap.before, static_cast<double>(gap.bytes), copy});
      }
    }
  }

  double Run(double target_seconds, double known_seconds) {
    const auto most = static_cast<int32_t>(std::max_element(gaps_.full.begin(), gaps_.full.end()) - gaps_.full.begin());
    if (n_ == 0 || gaps_.full[most] <= budget_) return fed_seconds_;
    const int64_t look = n_ + static_cast<int64_t>(gaps_.gaps.size());
    // All of the price where most bytes have no room: the cut there.
    double best = Look(kWholeStep, PriceAt(most), std::clamp<int64_t>(kLooks / look, 1, kMostPrices), target_seconds).seconds;
    constexpr int64_t kLooksAtTimes = kFewPrices * (kTimes - 1 + 2 * kCloser);
    if (best >= target_seconds || kLooksFrom / look < 2 * kLooksAtTimes) return best;
    Found found;
    const double step = gaps_.compute_seconds();
    double between = step / kTimes;
    const auto look_from = [&](double time) {
      const auto next = std::upper_bound(gaps_.start.begin(), gaps_.start.begin() + n_, time);
      const auto from = static_cast<int32_t>(std::max<std::ptrdiff_t>(1, next - gaps_.start.begin())) - 1;
      Found other = Look(from, PriceAt(from), kFewPrices, target_seconds);
      if (other.seconds > found.seconds) found = std::move(other);
    };
    for (int k = 1; k < kTimes; ++k) look_from(k * between);
    for (int k = 0; k < kCloser; ++k) {
      between /= 2;
      const double center = gaps_.start[found.from];
      look_from(center - between);
      look_from(center + between);
    }
    if (found.seconds > kPromising * known_seconds) {
      found = Look(found.from, std::move(found.prices), std::min(kLooksFrom / look - kLooksAtTimes, kMostPrices), target_seconds);
    }
    return std::max(best, found.seconds);
  }

 private:
  static constexpr int32_t kWholeStep = -1;
  struct Found {
    double seconds = 0;
    int32_t from = 0;
    std::vector<double> prices;  // of the bound
  };

  std::vector<double> PriceAt(int32_t operation) const {
    std::vector<double> prices(n_, 0);
    prices[operation] = gaps_.seconds_per_byte_in;
    return prices;
  }

  Found Look(int32_t from, std::vector<double> prices, int64_t rounds, double target_seconds) {
    prices_ = std::move(prices);
    Found found{0, from, prices_};
    double length = 1;
    int in_vain = 0;
    for (int64_t k = 0; k < rounds && found.seconds < target_seconds; ++k) {
      const double bound = Pay(from);
      in_vain = bound > found.seconds ? 0 : in_vain + 1;
      if (bound > found.seconds) {
        found.seconds = bound;
        found.prices = prices_;
      }
      if (in_vain == kPatience) {
        length *= kShorter;
        in_vain = 0;
      }
      if (!Step(length * (target_seconds - bound))) break;
    }
    return found;
  }

  // What all pay at these prices; and at every operation, how many bytes more than the budget are there then.
  double Pay(int32_t from) {
    double paid = from == kWholeStep ? fed_seconds_ : gaps_.start[from + 1];
    for (int32_t i = 0; i < n_; ++i) {
      until_[i + 1] = until_[i] + prices_[i];
      const int64_t before = i == 0 ? 0 : gaps_.working_set[i - 1];
      excess_[i] = static_cast<double>(gaps_.working_set[i] - (i == 0 ? budget_ : before));
      paid += prices_[i] * static_cast<double>(gaps_.working_set[i] - budget_);
    }
    for (const Stay& gap : stays_) {
      const double bytes = gap.bytes;
      const double between = until_[gap.before] - until_[std::min(gap.after + 1, n_)];
      const double stay = bytes * (gap.home ? until_[n_] + between : between);
      // What is used after `from` and not before, or left before it, is away then, or there, which costs its bytes there, and away later.
      const bool early = from != kWholeStep && gap.before <= from, late = gap.home || gap.after < from;
      const double copy = early ? 0 : gap.copy_seconds;
      const double there = from != kWholeStep && late ? bytes * prices_[from] : copy;
      paid += std::min({stay, copy, there});
      if (stay <= std::min(copy, there)) {
        if (gap.home) excess_[0] += bytes;
        excess_[gap.home ? gap.before : gap.after + 1] -= gap.home ? bytes : -bytes;
        excess_[gap.home ? gap.after + 1 : gap.before] += gap.home ? bytes : -bytes;
      } else if (there < copy) {
        excess_[from] += bytes;
        excess_[from + 1] -= bytes;
      }
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

  // A gap that may be kept or not.
  struct Stay {
    bool home = false;
    int32_t after = 0, before = 0;
    double bytes = 0;
    double copy_seconds = 0;  // in; none where it is overwritten
  };

  const GapGraph& gaps_;
  const int32_t n_;
  const int64_t budget_;
  std::vector<Stay> stays_;
  double fed_seconds_ = 0;
  std::vector<double> prices_;  // seconds per byte
  std::vector<double> until_;   // of all operations before
  std::vector<double> excess_;  // bytes
};

}  // namespace

double TransferBound(const GapGraph& gaps, int64_t budget_bytes, double target_seconds, double known_seconds) {
  return Relaxation(gaps, budget_bytes).Run(target_seconds, known_seconds);
}

}  // namespace millrace
