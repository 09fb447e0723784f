#include "passes/planner/select_gaps.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/container/inlined_vector.h"
#include "passes/access/radix_sort.h"
#include "passes/planner/segment_tree.h"

namespace millrace {
namespace {

// Units of WorkBudget: of a gap or operation, and of a range that is looked up or added to.
constexpr int64_t kGapWork = 20, kTreeWork = 35;
// Gaps are looked at in orders that are not those of memory: so many ahead are asked for.
constexpr size_t kAhead = 12;

struct Range {
  int32_t begin = 0;
  int32_t end = 0;
};

class Selector {
 public:
  Selector(const GapGraph& gaps, const MemoryTarget& target, double window, const TransferWeights& weights,
           const Carrying& carrying)
      : gaps_(gaps),
        target_(target),
        budget_(target.budget_bytes),
        window_(window),
        weights_(weights),
        carrying_(carrying),
        n_(gaps.num_operations()),
        undecided_(gaps.gaps.size(), 0) {
    result_.carried_until.assign(gaps.gaps.size(), 0);
    contended_.assign(n_ + 1, 0);
    for (int32_t i = 0; i < n_; ++i) {
      contended_[i + 1] = contended_[i] + (gaps.full[i] + target.set_aside_at(i) > budget_ ? gaps.graph->seconds[i] : 0);
    }
  }

  Selection Run() {
    KeepWhatDoesNotMatter(target_.keep_below);
    const bool fits = std::all_of(result_.profile.begin(), result_.profile.end(), [&](int64_t bytes) { return bytes <= budget_; });
    if (target_.keep_below > 0 && !fits) KeepWhatDoesNotMatter(0);
    place_.resize(gaps_.gaps.size());
    for (size_t place = 0; place < todo_.size(); ++place) {
      undecided_[todo_[place]] = 1;
      place_[todo_[place]] = static_cast<int32_t>(place);
    }
    windows_.resize(todo_.size());
    SegmentTree profile(result_.profile);
    profile_ = &profile;
    CarryOver();
    if (window_ > 0) OpenWindows();
    KeepByKey();
    CloseWindows();
    profile.Read(result_.profile);
    result_.work = kGapWork * static_cast<int64_t>(gaps_.gaps.size() + n_) + kTreeWork * tree_steps_;
    return std::move(result_);
  }

 private:
  // A home gap holds the start and the end of the step, any other gap what lies between its accesses.
  std::array<Range, 2> Ranges(const Gap& gap) const {
    if (gap.home) return {Range{0, gap.before}, Range{gap.after + 1, n_}};
    return {Range{gap.after + 1, gap.before}, Range{0, 0}};
  }

  double Area(const Gap& gap) const {
    double area = 0;
    for (const Range& r : Ranges(gap)) area += contended_[std::max(r.begin, r.end)] - contended_[r.begin];
    return area;
  }

  // Gaps kept together with gap k: with a home gap, all gaps of its storage.
  template <typename Visit>
  void ForEachJoined(size_t k, Visit&& visit) const {
    if (!result_.kept[k]) visit(k);
    if (!gaps_.gaps[k].home) return;
    for (int64_t j = gaps_.first_gap[gaps_.gaps[k].storage]; j < static_cast<int64_t>(k); ++j) {
      if (!result_.kept[j]) visit(static_cast<size_t>(j));
    }
  }

  // Without contention a gap costs nothing, a small one next to nothing, and what is overwritten is never worth keeping.
  void KeepWhatDoesNotMatter(int64_t small_bytes) {
    result_.kept.assign(gaps_.gaps.size(), false);
    todo_.clear();
    std::vector<int64_t> change(n_ + 1, 0);
    auto keep = [&](size_t k) {
      result_.kept[k] = true;
      for (const Range& r : Ranges(gaps_.gaps[k])) {
        if (r.begin >= r.end) continue;
        change[r.begin] += gaps_.gaps[k].bytes;
        change[r.end] -= gaps_.gaps[k].bytes;
      }
    };
    for (size_t k = 0; k < gaps_.gaps.size(); ++k) {
      const Gap& gap = gaps_.gaps[k];
      if (gap.feed) continue;
      const bool home_whole = !gap.home || carrying_.allowed || AllInnerKept(gap, k);
      const bool costs_nothing = gap.bytes < small_bytes || Area(gap) <= 0;
      if (!gap.overwritten && costs_nothing && home_whole) keep(k);
      else todo_.push_back(static_cast<int32_t>(k));
    }
    result_.profile = gaps_.working_set;
    int64_t kept = 0;
    for (int32_t i = 0; i < n_; ++i) {
      kept += change[i];
      result_.profile[i] += kept + target_.set_aside_at(i);
    }
  }

  bool AllInnerKept(const Gap& gap, size_t k) const {
    for (int64_t j = gaps_.first_gap[gap.storage]; j < static_cast<int64_t>(k); ++j) {
      if (!result_.kept[j]) return false;
    }
    return true;
  }

  bool Fits(const Range& r, int64_t bytes) const {
    if (r.begin >= r.end) return true;
    ++tree_steps_;
    return profile_->Max(r.begin, r.end) + bytes <= budget_;
  }
  void Add(const Range& r, int64_t bytes) {
    ++tree_steps_;
    profile_->Add(r.begin, r.end, bytes);
  }

  void OpenWindows() {
    const std::vector<int32_t>& order = gaps_.by_length;
    for (size_t g = 0; g < order.size(); ++g) {
      if (g + 2 * kAhead < order.size()) __builtin_prefetch(&undecided_[order[g + 2 * kAhead]]);
      if (g + kAhead < order.size() && undecided_[order[g + kAhead]] != 0) __builtin_prefetch(&gaps_.gaps[order[g + kAhead]]);
      const int32_t k = order[g];
      if (undecided_[k] == 0) continue;
      const Gap& gap = gaps_.gaps[k];
      if (gap.overwritten || (gap.home && result_.carried_until[k] > 0)) continue;
      const double bytes = static_cast<double>(gap.bytes);
      const double out = gap.last_write >= 0 ? window_ * bytes * gaps_.seconds_per_byte_out : 0;
      const double in = window_ * bytes * gaps_.seconds_per_byte_in;
      const int32_t limit = gap.home ? n_ : gap.before;
      const int32_t leaves =
          out == 0 ? gap.after + 1 : std::min(limit, gaps_.OperationAt(gaps_.start[gap.after + 1] + out) + 1);
      const int32_t earliest = gap.home ? 0 : gap.after + 1;
      const int32_t returns = std::max(earliest, gaps_.OperationAt(gaps_.start[gap.before] - in));
      const Range first{gap.after + 1, leaves}, second{returns, gap.before};
      if (!gap.home && leaves >= returns) {
        // Too short for its copies to hide: keep it if at all possible.
        const Range whole{gap.after + 1, gap.before};
        if (Fits(whole, gap.bytes)) {
          Add(whole, gap.bytes);
          result_.kept[k] = true;
        }
      } else if (Fits(first, gap.bytes) && Fits(second, gap.bytes)) {
        Add(first, gap.bytes);
        Add(second, gap.bytes);
        WindowsOf(k) = {first, second};
      }
    }
  }

  double Savings(size_t k) const {
    const Gap& gap = gaps_.gaps[k];
    const double out = gap.last_write < 0 ? 0 : weights_.out.empty() ? 1 : weights_.out[gap.last_write];
    const double in = gap.overwritten ? 0 : weights_.in.empty() ? 1 : weights_.in[gap.before];
    return weights_.most.empty() ? out + in : std::min(out + in, weights_.most[k]);
  }

  // Of a copy's seconds the part that goes with its bytes: the rest makes small ones dear.
  double SecondsOfBytes(const Gap& gap) const {
    const double seconds = static_cast<double>(gap.bytes) * gaps_.seconds_per_byte_in;
    return seconds > 0 ? seconds / (seconds + gaps_.copy_latency) : 1;
  }

  // Home gaps in an order whose every first few are spread over the step, then the others.
  std::vector<int32_t> SpreadHomes() const {
    std::vector<Keyed> homes;
    for (int32_t k : todo_) {
      if (gaps_.gaps[k].home) homes.push_back({KeyOf(gaps_.gaps[k].after, gaps_.gaps[k].before), k});
    }
    SortByKey(homes);
    for (size_t r = 0; r < homes.size(); ++r) homes[r].key = BitsReversed(static_cast<uint32_t>(r));
    SortByKey(homes);
    std::vector<int32_t> order;
    for (const Keyed& home : homes) order.push_back(home.index);
    for (int32_t k : todo_) {
      if (!gaps_.gaps[k].home) order.push_back(k);
    }
    return order;
  }

  // A key of about the number, less by at most 1/32.
  static uint64_t AboutKeyOf(double number) {
    int exponent = 0;
    const double mantissa = std::frexp(number, &exponent);
    return KeyOf(std::ldexp(std::floor(mantissa * 64) / 64, exponent));
  }

  void KeepByKey() {
    std::vector<Keyed> keys;  // -1 - k: home gap k without the other gaps of its storage
    for (int32_t k : weights_.spread_homes ? SpreadHomes() : todo_) {
      const Gap& gap = gaps_.gaps[k];
      if (result_.kept[k] || result_.carried_until[k] > 0 || (gap.overwritten && !gap.home)) continue;
      double area = 0, savings = 0;
      size_t joined = 0;
      const double worth = SecondsOfBytes(gap);
      ForEachJoined(k, [&](size_t j) {
        area += worth * Area(gaps_.gaps[j]);
        savings += Savings(j);
        ++joined;
      });
      if (!weights_.bias.empty()) area *= weights_.bias[k];
      if (savings > 0) keys.push_back({gap.home && weights_.spread_homes ? AboutKeyOf(area / savings) : KeyOf(area / savings), k});
      // It goes home all the same, with what the last step wrote.
      const double fetch = weights_.in.empty() ? 1 : weights_.in[gap.before];
      if (carrying_.allowed && joined > 1 && !gap.overwritten) keys.push_back({KeyOf(worth * Area(gap) / fetch), -1 - k});
    }
    SortByKey(keys);
    const auto gap_of = [](const Keyed& keyed) { return keyed.index < 0 ? -1 - keyed.index : keyed.index; };
    for (size_t i = 0; i < keys.size(); ++i) {
      if (i + kAhead < keys.size()) __builtin_prefetch(&gaps_.gaps[gap_of(keys[i + kAhead])]);
      const bool alone = keys[i].index < 0;
      const int32_t k = gap_of(keys[i]);
      if (!result_.kept[k] || (gaps_.gaps[k].home && !alone)) TryKeep(k, alone);
    }
  }

  // Reserves room at both ends of the step for what goes home when the next one begins.
  void CarryOver() {
    double home_seconds = 0;
    for (int32_t k : carrying_.late_home) {
      const Gap& gap = gaps_.gaps[k];
      if (result_.kept[k]) continue;
      const auto bytes = static_cast<double>(gap.bytes);
      const double home = home_seconds + bytes * gaps_.seconds_per_byte_out + gaps_.copy_latency;
      const int32_t gone = gaps_.OperationAt(home) + 1;
      const Range tail{gap.after + 1, n_}, head{0, gone};
      if (gone >= gap.before || !Fits(tail, gap.bytes) || !Fits(head, gap.bytes)) continue;
      Add(tail, gap.bytes);
      Add(head, gap.bytes);
      result_.carried_until[k] = gone;
      home_seconds = home;
    }
  }

  void TryKeep(int32_t k, bool alone) {
    const auto for_each = [&](auto&& visit) {
      if (alone) return visit(static_cast<size_t>(k));
      ForEachJoined(k, visit);
    };
    bool fits = true;
    // The windows of a gap are part of it.
    auto ranges = [&](size_t j) {
      const std::array<Range, 2>& windows = WindowsOf(j);
      if (!IsOpen(windows)) return Ranges(gaps_.gaps[j]);
      if (gaps_.gaps[j].home) return std::array{Range{0, windows[1].begin}, Range{windows[0].end, n_}};
      return std::array{Range{windows[0].end, windows[1].begin}, Range{0, 0}};
    };
    for_each([&](size_t j) {
      for (const Range& r : ranges(j)) fits = fits && Fits(r, gaps_.gaps[j].bytes);
    });
    if (!fits) return;
    for_each([&](size_t j) {
      for (const Range& r : ranges(j)) Add(r, gaps_.gaps[j].bytes);
      WindowsOf(j) = {};
    });
    absl::InlinedVector<size_t, 4> joined;
    for_each([&](size_t j) { joined.push_back(j); });
    for (size_t j : joined) result_.kept[j] = true;
  }

  // Of a gap in todo_.
  std::array<Range, 2>& WindowsOf(size_t k) { return windows_[place_[k]]; }
  static bool IsOpen(const std::array<Range, 2>& windows) {
    return windows[0].begin < windows[0].end || windows[1].begin < windows[1].end;
  }

  void CloseWindows() {
    for (size_t place = 0; place < todo_.size(); ++place) {
      const int32_t k = todo_[place];
      if (result_.kept[k] || !IsOpen(windows_[place])) continue;
      Add(windows_[place][0], -gaps_.gaps[k].bytes);
      Add(windows_[place][1], -gaps_.gaps[k].bytes);
    }
  }

  const GapGraph& gaps_;
  const MemoryTarget& target_;
  const int64_t budget_;
  const double window_;
  const TransferWeights& weights_;
  const Carrying carrying_;
  const int32_t n_;
  SegmentTree* profile_ = nullptr;
  std::vector<double> contended_;  // prefix sums of contended seconds
  std::vector<int32_t> todo_;
  std::vector<uint8_t> undecided_;  // per gap: whether it is in todo_
  std::vector<int32_t> place_;      // of such a gap there
  std::vector<std::array<Range, 2>> windows_;  // as todo_
  mutable int64_t tree_steps_ = 0;
  Selection result_;
};

}  // namespace

std::vector<int32_t> WrittenLast(const GapGraph& gaps, const Selection& selection, int64_t bytes) {
  std::vector<int32_t> result;
  for (size_t k = 0; k < gaps.gaps.size(); ++k) {
    const Gap& gap = gaps.gaps[k];
    const bool variable = gaps.graph->storages[gap.storage].kind == StorageKind::kVariable;
    if (gap.home && variable && gap.last_write >= 0 && !gap.overwritten && !selection.kept[k]) {
      result.push_back(static_cast<int32_t>(k));
    }
  }
  std::stable_sort(result.begin(), result.end(), [&](int32_t a, int32_t b) {
    return std::make_pair(gaps.gaps[a].last_write, gaps.gaps[a].before) >
           std::make_pair(gaps.gaps[b].last_write, gaps.gaps[b].before);
  });
  size_t count = 0;
  while (count < result.size() && bytes >= gaps.gaps[result[count]].bytes) bytes -= gaps.gaps[result[count++]].bytes;
  result.resize(count);
  return result;
}

Selection SelectGaps(const GapGraph& gaps, const MemoryTarget& target, double window, const TransferWeights& weights,
                     const Carrying& carrying) {
  return Selector(gaps, target, window, weights, carrying).Run();
}

std::vector<int32_t> ChooseAnchors(const GapGraph& gaps, int64_t budget_bytes, const Selection& selection,
                                   double slack_seconds) {
  std::vector<int32_t> swapped;
  for (int32_t k : gaps.by_before) {
    if (!selection.kept[k] && !gaps.gaps[k].overwritten) swapped.push_back(k);
  }
  std::vector<double> latest(gaps.gaps.size(), 0);
  double next = std::numeric_limits<double>::max();
  for (size_t j = swapped.size(); j-- > 0;) {
    const Gap& gap = gaps.gaps[swapped[j]];
    next = std::min(gaps.start[gap.before], next) - static_cast<double>(gap.bytes) * gaps.seconds_per_byte_in -
           gaps.copy_latency;
    latest[swapped[j]] = next;
  }
  SegmentTree profile(selection.profile);
  std::vector<int32_t> anchors(gaps.gaps.size(), -1);
  for (int32_t k : swapped) {
    const Gap& gap = gaps.gaps[k];
    int32_t earliest = gap.home ? selection.carried_until[k] : gap.after + 1;
    const double not_before = latest[k] - slack_seconds;
    if (not_before > 0) earliest = std::max(earliest, std::min(gap.before, gaps.OperationAt(not_before)));
    const int32_t anchor = profile.LastAbove(earliest, gap.before, budget_bytes - gap.bytes) + 1;
    profile.Add(anchor, gap.before, gap.bytes);
    anchors[k] = anchor;
  }
  return anchors;
}

}  // namespace millrace
