#include "passes/weigh_recompute.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "passes/access/radix_sort.h"
#include "passes/planner/gaps.h"
#include "passes/planner/select_gaps.h"
#include "passes/planner/trial.h"
#include "passes/planner/trial_settings.h"

namespace millrace {
namespace {

constexpr int kHalvings = 5;       // towards the fewest values with which the copies hide
constexpr int64_t kNoBudget = std::numeric_limits<int64_t>::max() / 4;
constexpr double kLeastPrice = 1e-9;
constexpr int32_t kBuckets = 32;   // of about equal prices, per factor of two
// Units of WorkBudget: of a gap that is listed and copied with its graph, and of one where something is weighed.
constexpr int64_t kGapWork = 120, kWeighWork = 10;
constexpr double kSlack = 0.05;    // of the step: how much earlier than necessary bytes may come back

class Weigher {
 public:
  Weigher(const OrderedGraph& ordered, const DeviceGraph& device, const GapGraph& gaps, int64_t budget_bytes, int max_depth)
      : access_(device.access), gaps_(gaps), budget_(std::max(budget_bytes, gaps_.largest_working_set())) {
    small_ = SmallBytes(gaps_, budget_);
    homes_matter_ = HomesMatter(gaps_, budget_);
    FindCandidates(ordered, device, max_depth);
    if (candidates_.empty()) return;
    changed_access_ = access_;
    changed_ = gaps_;
    changed_.graph = &changed_access_;
  }
  Weigher(const Weigher&) = delete;
  Weigher& operator=(const Weigher&) = delete;

  WeighedRecompute Run(const WeighLimits& limits) {
    WeighedRecompute best;
    best.work = kGapWork * static_cast<int64_t>(gaps_.gaps.size());
    if (candidates_.empty()) return best;
    const Weighed as_it_is = Weigh(0, best);
    best.step_seconds = limits.least_gain * as_it_is.step_seconds;
    if (as_it_is.step_seconds - MostSaved() > best.step_seconds) return best;
    WeighedRecompute by_bound;
    by_bound.step_seconds = limits.least_gain * as_it_is.bound_seconds;
    size_t before = 0;
    for (size_t p = limits.first_price; p < limits.prices.size() && best.again.empty() && best.work < limits.most_work; ++p) {
      const size_t count = CheaperThan(limits.prices[p]);
      if (count == before) continue;
      before = count;
      best.price = p;
      const Weighed weighed = Try(count, limits.most_work, best);
      if (by_bound.again.empty() && Adopt(weighed, weighed.bound_seconds, by_bound)) by_bound.price = p;
    }
    if (!best.again.empty() || by_bound.again.empty()) return best;
    by_bound.work = best.work;
    return by_bound;
  }

 private:
  struct Candidate {
    int32_t gap = 0;
    Chain chain;
    double price = 0;  // from which on it is cheaper computed again than moved
  };
  struct Weighed {
    double step_seconds = 0;
    double bound_seconds = 0;    // by cuts, where homes matter
    bool hidden = false;
    std::vector<int32_t> again;  // candidates
    int64_t work = 0;            // units of WorkBudget
  };

  // Seconds of the link that all candidates together may take.
  double MostSaved() const {
    double seconds = 0;
    for (const Candidate& candidate : candidates_) {
      const Gap& gap = gaps_.gaps[candidate.gap];
      seconds += Copies(gap) * gaps_.in_seconds(gap.storage);
    }
    return seconds;
  }

  size_t CheaperThan(double price) const {
    size_t count = 0;
    while (count < candidates_.size() && candidates_[count].price < price) ++count;
    return count;
  }

  // The first candidates, as returned, or fewer of them where all copies hide.
  Weighed Try(size_t count, int64_t most_work, WeighedRecompute& best) {
    Weighed weighed = Weigh(count, best);
    Adopt(weighed, weighed.step_seconds, best);
    size_t low = 0, high = count;
    for (int k = 0; k < kHalvings && weighed.hidden && high - low > 1 && best.work < most_work; ++k) {
      const size_t middle = (low + high) / 2;
      const Weighed less = Weigh(middle, best);
      Adopt(less, less.step_seconds, best);
      (less.hidden ? high : low) = middle;
    }
    return weighed;
  }

  Weighed Weigh(size_t count, WeighedRecompute& best) {
    Weighed weighed = Weigh(count);
    best.work += weighed.work;
    return weighed;
  }

  // Whether it takes less: `seconds` by the trial, or by cuts.
  bool Adopt(const Weighed& weighed, double seconds, WeighedRecompute& best) const {
    if (seconds >= best.step_seconds) return false;
    best.step_seconds = seconds;
    best.again.clear();
    for (int32_t c : weighed.again) {
      const Gap& gap = gaps_.gaps[candidates_[c].gap];
      best.again.push_back({gap.storage, gap.before});
    }
    return true;
  }

  // The most contended gap of every activation, where the value after it can be computed again.
  void FindCandidates(const OrderedGraph& ordered, const DeviceGraph& device, int max_depth) {
    const int32_t n = gaps_.num_operations();
    std::vector<double> contended(n + 1, 0);
    for (int32_t i = 0; i < n; ++i) {
      contended[i + 1] = contended[i] + (gaps_.full[i] > budget_ ? access_.seconds[i] : 0);
    }
    std::vector<FarUses> wanted;
    std::vector<int32_t> gap_of;
    for (size_t s = 0; s < access_.storages.size(); ++s) {
      if (access_.storages[s].kind != StorageKind::kActivation) continue;
      int32_t most = -1;
      double area = 0;
      for (int64_t k = gaps_.first_gap[s]; k < gaps_.first_gap[s + 1]; ++k) {
        const Gap& gap = gaps_.gaps[k];
        const double seconds = contended[gap.before] - contended[gap.after + 1];
        if (gap.overwritten || seconds <= area) continue;
        area = seconds;
        most = static_cast<int32_t>(k);
      }
      if (most < 0) continue;
      wanted.push_back({static_cast<int32_t>(s), gaps_.gaps[most].before});
      gap_of.push_back(most);
    }
    std::vector<Chain> chains = FindChains(ordered, device, wanted, max_depth);
    for (size_t c = 0; c < chains.size(); ++c) {
      if (!chains[c].possible) continue;
      const Gap& gap = gaps_.gaps[gap_of[c]];
      const double copies = Copies(gap) * gaps_.in_seconds(gap.storage);
      candidates_.push_back({gap_of[c], std::move(chains[c]), 0});
      candidates_.back().price = candidates_.back().chain.seconds / copies;
    }
    OrderCandidates();
  }

  // The cheapest first. Of about equal ones every first few are spread over the step, so that what is moved is, too.
  void OrderCandidates() {
    std::vector<Keyed> keys;
    for (size_t c = 0; c < candidates_.size(); ++c) {
      int exponent = 0;
      const double mantissa = std::frexp(candidates_[c].price, &exponent);
      const int32_t bucket = exponent * kBuckets + static_cast<int32_t>(mantissa * 2 * kBuckets);
      keys.push_back({KeyOf(bucket, static_cast<int32_t>(BitsReversed(static_cast<uint32_t>(c)))), static_cast<int32_t>(c)});
    }
    SortByKey(keys);
    std::vector<Candidate> ordered;
    for (const Keyed& key : keys) ordered.push_back(std::move(candidates_[key.index]));
    candidates_ = std::move(ordered);
  }

  static double Copies(const Gap& gap) { return gap.last_write >= 0 ? 2 : 1; }

  // With the first `count` candidates, at the price of the last of them.
  Weighed Weigh(size_t count) {
    Weighed weighed;
    const std::vector<int32_t> cheap = CheaperAgain(count);
    const double price = count > 0 ? std::max(candidates_[count - 1].price, kLeastPrice) : 0;
    TransferWeights weights;
    if (!cheap.empty()) weights.most.assign(gaps_.gaps.size(), std::numeric_limits<double>::max());
    for (int32_t c : cheap) {
      const int32_t k = candidates_[c].gap;
      weights.most[k] = Copies(gaps_.gaps[k]) * candidates_[c].price / price;
    }
    weights.spread_homes = homes_matter_;
    const MemoryTarget target{budget_, {}, small_};
    const Selection selection = SelectGaps(gaps_, target, 1, weights, {}, &starts_);
    for (int32_t c : cheap) {
      if (selection.kept[candidates_[c].gap]) continue;
      weighed.again.push_back(c);
      ComputeAgain(candidates_[c]);
    }
    std::vector<double>& start = changed_.start;
    for (int32_t i = 0; i < gaps_.num_operations(); ++i) start[i + 1] = start[i] + changed_access_.seconds[i];
    const std::vector<int32_t> anchors = ChooseAnchors(changed_, budget_, selection, kSlack * changed_.compute_seconds());
    const std::vector<SwapDecision> decisions = DecisionsOf(changed_, selection, anchors);
    const TrialResult trial = SimulateTrial(changed_, target, decisions);
    weighed.step_seconds = trial.step_seconds;
    if (homes_matter_) weighed.bound_seconds = CutBound(changed_, budget_);
    weighed.work = selection.work + TrialWork(gaps_, decisions.size()) + kWeighWork * static_cast<int64_t>(gaps_.gaps.size());
    weighed.hidden = trial.step_seconds - trial.launch_seconds <= kHidden * CutBound(changed_, kNoBudget);
    for (int32_t c : weighed.again) AsItWas(candidates_[c]);
    return weighed;
  }

  // Of the first candidates: of one that others are made of and those, the one that saves more.
  std::vector<int32_t> CheaperAgain(size_t count) const {
    std::vector<int32_t> cheap;
    std::vector<uint8_t> leaf(access_.storages.size(), 0), again(access_.storages.size(), 0);
    for (size_t c = 0; c < count; ++c) {
      const auto& [k, chain, price] = candidates_[c];
      const int32_t s = gaps_.gaps[k].storage;
      if (leaf[s] != 0 || std::any_of(chain.leaves.begin(), chain.leaves.end(), [&](int32_t l) { return again[l] != 0; })) continue;
      cheap.push_back(static_cast<int32_t>(c));
      again[s] = 1;
      for (int32_t l : chain.leaves) leaf[l] = 1;
    }
    return cheap;
  }

  // The gap needs no copies, the operation after it takes longer, and what it makes is written there.
  void ComputeAgain(const Candidate& candidate) {
    const Gap& gap = gaps_.gaps[candidate.gap];
    changed_access_.seconds[gap.before] += candidate.chain.seconds;
    changed_.gaps[candidate.gap].overwritten = true;
    for (int64_t later = candidate.gap + 1; later < gaps_.first_gap[gap.storage + 1]; ++later) {
      if (gaps_.gaps[later].last_write == gap.last_write) changed_.gaps[later].last_write = gap.before;
    }
  }

  void AsItWas(const Candidate& candidate) {
    const Gap& gap = gaps_.gaps[candidate.gap];
    changed_access_.seconds[gap.before] = access_.seconds[gap.before];
    const auto begin = gaps_.gaps.begin() + candidate.gap, end = gaps_.gaps.begin() + gaps_.first_gap[gap.storage + 1];
    std::copy(begin, end, changed_.gaps.begin() + candidate.gap);
  }

  const AccessGraph& access_;
  const GapGraph& gaps_;
  const int64_t budget_;
  int64_t small_ = 0;
  bool homes_matter_ = false;
  SelectionStarts starts_;
  // As gaps_ and its graph, apart from what is being weighed.
  AccessGraph changed_access_;
  GapGraph changed_;
  std::vector<Candidate> candidates_;  // what saves most transfer per second first
};

}  // namespace

WeighedRecompute WeighRecompute(const OrderedGraph& ordered, const DeviceGraph& device, const Machine& machine,
                                GapGraph& gaps, int64_t budget_bytes, const WeighLimits& limits) {
  if (gaps.graph == nullptr) gaps = FindGaps(device.access, machine);
  if (gaps.makes_room.empty()) OrderGaps(gaps);
  return Weigher(ordered, device, gaps, budget_bytes, limits.max_depth).Run(limits);
}

}  // namespace millrace
