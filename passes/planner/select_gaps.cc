#include "passes/planner/select_gaps.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "passes/access/radix_sort.h"
#include "passes/planner/segment_tree.h"

namespace millrace {
namespace {

// Units of WorkBudget: of a gap or operation that is looked at, or copied with a start, and of a range that is looked up or added to.
constexpr int64_t kGapWork = 20, kCopyWork = 4, kTreeWork = 35;
// Gaps are looked at in orders that are not those of memory: so many ahead are asked for.
constexpr size_t kAhead = 12;
// Starts that are kept: of so many gaps together, but at least a few.
constexpr size_t kFewStarts = 6, kManyStarts = 64, kGapsOfStarts = 500'000;

using Range = OperationRange;

// A home gap holds the start and the end of the step, any other gap what lies between its accesses.
std::array<Range, 2> RangesOf(const Gap& gap, int32_t operations) {
  if (gap.home) return {Range{0, gap.before}, Range{gap.after + 1, operations}};
  return {Range{gap.after + 1, gap.before}, Range{0, 0}};
}

bool IsOpen(const std::array<Range, 2>& windows) {
  return windows[0].begin < windows[0].end || windows[1].begin < windows[1].end;
}

// A variable's value that the device alone has is copied out before its place is given away, also where it is overwritten next. Not
// where variables may not be carried: one of which not every gap is kept is fetched in each step, so the host has what it was before.
bool CostsACopy(const GapGraph& gaps, const Gap& gap, bool carrying) {
  return carrying && gap.overwritten && !gap.home && gaps.graph->storages[gap.storage].kind == StorageKind::kVariable;
}

// Gaps kept together with gap k: with a home gap, all gaps of its storage.
template <typename Visit>
void ForEachJoined(const GapGraph& gaps, const std::vector<bool>& kept, size_t k, Visit&& visit) {
  if (!kept[k]) visit(k);
  if (!gaps.gaps[k].home) return;
  for (int64_t j = gaps.first_gap[gaps.gaps[k].storage]; j < static_cast<int64_t>(k); ++j) {
    if (!kept[j]) visit(static_cast<size_t>(j));
  }
}

// Of a copy's seconds the part that goes with its bytes: the rest makes small ones dear.
double SecondsOfBytes(const GapGraph& gaps, const Gap& gap) {
  const double seconds = static_cast<double>(gap.bytes) * gaps.seconds_per_byte_in;
  return seconds > 0 ? seconds / (seconds + gaps.copy_latency + gaps.copy_launch) : 1;
}

// The profile under the budget.
class Room {
 public:
  Room(SegmentTree& profile, int64_t budget_bytes) : profile_(profile), budget_(budget_bytes) {}
  bool Fits(const Range& r, int64_t bytes) {
    if (r.begin >= r.end) return true;
    ++steps_;
    return profile_.Max(r.begin, r.end) + bytes <= budget_;
  }
  void Add(const Range& r, int64_t bytes) {
    ++steps_;
    profile_.Add(r.begin, r.end, bytes);
  }
  int64_t work() const { return kTreeWork * steps_; }

 private:
  SegmentTree& profile_;
  const int64_t budget_;
  int64_t steps_ = 0;
};

// Makes what a selection begins with.
class Opener {
 public:
  Opener(const GapGraph& gaps, const MemoryTarget& target, double window, const Carrying& carrying)
      : gaps_(gaps), target_(target), budget_(target.budget_bytes), carrying_(carrying), n_(gaps.num_operations()) {
    opened_.budget_bytes = target.budget_bytes;
    opened_.keep_below = target.keep_below;
    opened_.window = window;
    opened_.carrying = carrying.allowed;
    opened_.state.carried_until.assign(gaps.gaps.size(), 0);
    contended_.assign(n_ + 1, 0);
    for (int32_t i = 0; i < n_; ++i) {
      contended_[i + 1] = contended_[i] + (gaps.full[i] + target.set_aside_at(i) > budget_ ? gaps.graph->seconds[i] : 0);
    }
  }

  OpenedWindows Run(int64_t& work) {
    std::vector<int64_t> profile = KeepWhatDoesNotMatter(target_.keep_below);
    const bool fits = std::all_of(profile.begin(), profile.end(), [&](int64_t bytes) { return bytes <= budget_; });
    if (target_.keep_below > 0 && !fits) profile = KeepWhatDoesNotMatter(0);
    undecided_.assign(gaps_.gaps.size(), 0);
    opened_.place.resize(gaps_.gaps.size());
    for (size_t place = 0; place < opened_.todo.size(); ++place) {
      undecided_[opened_.todo[place]] = 1;
      opened_.place[opened_.todo[place]] = static_cast<int32_t>(place);
    }
    opened_.state.windows.resize(opened_.todo.size());
    opened_.state.profile = SegmentTree(profile);
    Room room(opened_.state.profile, budget_);
    CarryOver(room);
    if (opened_.window > 0) OpenWindows(room);
    SumAreas();
    work += kGapWork * static_cast<int64_t>(gaps_.gaps.size() + n_) + room.work();
    return std::move(opened_);
  }

 private:
  double Area(const Gap& gap) const {
    double area = 0;
    for (const Range& r : RangesOf(gap, n_)) area += contended_[std::max(r.begin, r.end)] - contended_[r.begin];
    return area;
  }

  // Without contention a gap costs nothing, a small one next to nothing, and what is overwritten is worth keeping only where it would be
  // copied out. The profile with what is kept.
  std::vector<int64_t> KeepWhatDoesNotMatter(int64_t small_bytes) {
    opened_.state.kept.assign(gaps_.gaps.size(), false);
    opened_.todo.clear();
    std::vector<int64_t> change(n_ + 1, 0);
    auto keep = [&](size_t k) {
      opened_.state.kept[k] = true;
      for (const Range& r : RangesOf(gaps_.gaps[k], n_)) {
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
      if ((!gap.overwritten || CostsACopy(gaps_, gap, carrying_.allowed)) && costs_nothing && home_whole) keep(k);
      else opened_.todo.push_back(static_cast<int32_t>(k));
    }
    std::vector<int64_t> profile = gaps_.working_set;
    int64_t kept = 0;
    for (int32_t i = 0; i < n_; ++i) {
      kept += change[i];
      profile[i] += kept + target_.set_aside_at(i);
    }
    return profile;
  }

  bool AllInnerKept(const Gap& gap, size_t k) const {
    for (int64_t j = gaps_.first_gap[gap.storage]; j < static_cast<int64_t>(k); ++j) {
      if (!opened_.state.kept[j]) return false;
    }
    return true;
  }

  // Reserves room at both ends of the step for what goes home when the next one begins.
  void CarryOver(Room& room) {
    double home_seconds = 0;
    for (int32_t k : carrying_.late_home) {
      const Gap& gap = gaps_.gaps[k];
      if (opened_.state.kept[k]) continue;
      const auto bytes = static_cast<double>(gap.bytes);
      const double home = home_seconds + bytes * gaps_.seconds_per_byte_out + gaps_.copy_latency;
      const int32_t gone = gaps_.OperationAt(home) + 1;
      const Range tail{gap.after + 1, n_}, head{0, gone};
      if (gone >= gap.before || !room.Fits(tail, gap.bytes) || !room.Fits(head, gap.bytes)) continue;
      room.Add(tail, gap.bytes);
      room.Add(head, gap.bytes);
      opened_.state.carried_until[k] = gone;
      home_seconds = home;
    }
  }

  void OpenWindows(Room& room) {
    const std::vector<int32_t>& order = gaps_.by_length;
    for (size_t g = 0; g < order.size(); ++g) {
      if (g + 2 * kAhead < order.size()) __builtin_prefetch(&undecided_[order[g + 2 * kAhead]]);
      if (g + kAhead < order.size() && undecided_[order[g + kAhead]] != 0) __builtin_prefetch(&gaps_.gaps[order[g + kAhead]]);
      const int32_t k = order[g];
      if (undecided_[k] == 0) continue;
      const Gap& gap = gaps_.gaps[k];
      if (gap.overwritten || (gap.home && opened_.state.carried_until[k] > 0)) continue;
      const double bytes = static_cast<double>(gap.bytes);
      const double out = gap.last_write >= 0 ? opened_.window * bytes * gaps_.seconds_per_byte_out : 0;
      const double in = opened_.window * bytes * gaps_.seconds_per_byte_in;
      const int32_t limit = gap.home ? n_ : gap.before;
      const int32_t leaves =
          out == 0 ? gap.after + 1 : std::min(limit, gaps_.OperationAt(gaps_.start[gap.after + 1] + out) + 1);
      const int32_t earliest = gap.home ? 0 : gap.after + 1;
      const int32_t returns = std::max(earliest, gaps_.OperationAt(gaps_.start[gap.before] - in));
      const Range first{gap.after + 1, leaves}, second{returns, gap.before};
      if (!gap.home && leaves >= returns) {
        // Too short for its copies to hide: keep it if at all possible.
        const Range whole{gap.after + 1, gap.before};
        if (room.Fits(whole, gap.bytes)) {
          room.Add(whole, gap.bytes);
          opened_.state.kept[k] = true;
        }
      } else if (room.Fits(first, gap.bytes) && room.Fits(second, gap.bytes)) {
        room.Add(first, gap.bytes);
        room.Add(second, gap.bytes);
        opened_.state.windows[opened_.place[k]] = {first, second};
      }
    }
  }

  void SumAreas() {
    opened_.area.reserve(opened_.todo.size());
    for (int32_t k : opened_.todo) {
      const double worth = SecondsOfBytes(gaps_, gaps_.gaps[k]);
      double area = 0;
      ForEachJoined(gaps_, opened_.state.kept, k, [&](size_t j) { area += worth * Area(gaps_.gaps[j]); });
      opened_.area.push_back(area);
      opened_.area_alone.push_back(worth * Area(gaps_.gaps[k]));
    }
  }

  const GapGraph& gaps_;
  const MemoryTarget& target_;
  const int64_t budget_;
  const Carrying& carrying_;
  const int32_t n_;
  std::vector<double> contended_;   // prefix sums of contended seconds
  std::vector<uint8_t> undecided_;  // per gap: whether it is in todo
  OpenedWindows opened_;
};

class Selector {
 public:
  // `state`: opened's, or a copy of it.
  Selector(const GapGraph& gaps, const OpenedWindows& opened, OpenedWindows::State state, const TransferWeights& weights)
      : gaps_(gaps),
        opened_(opened),
        weights_(weights),
        n_(gaps.num_operations()),
        windows_(std::move(state.windows)),
        profile_(std::move(state.profile)),
        room_(profile_, opened.budget_bytes) {
    result_.kept = std::move(state.kept);
    result_.carried_until = std::move(state.carried_until);
  }

  Selection Run() {
    KeepByKey();
    result_.profile.resize(n_);
    profile_.Read(result_.profile);
    CloseWindows();
    result_.work = kCopyWork * static_cast<int64_t>(gaps_.gaps.size() + n_) + kGapWork * static_cast<int64_t>(opened_.todo.size()) + room_.work();
    return std::move(result_);
  }

 private:
  double Savings(size_t k) const {
    const Gap& gap = gaps_.gaps[k];
    const bool former = gap.last_write < 0 && CostsACopy(gaps_, gap, opened_.carrying);
    const double out = gap.last_write < 0 && !former ? 0 : weights_.out.empty() ? 1 : weights_.out[former ? gap.after : gap.last_write];
    const double in = gap.overwritten ? 0 : weights_.in.empty() ? 1 : weights_.in[gap.before];
    return weights_.most.empty() ? out + in : std::min(out + in, weights_.most[k]);
  }

  // Home gaps in an order whose every first few are spread over the step, then the others.
  std::vector<int32_t> SpreadHomes() const {
    std::vector<Keyed> homes;
    for (int32_t k : opened_.todo) {
      if (gaps_.gaps[k].home) homes.push_back({KeyOf(gaps_.gaps[k].after, gaps_.gaps[k].before), k});
    }
    SortByKey(homes);
    for (size_t r = 0; r < homes.size(); ++r) homes[r].key = BitsReversed(static_cast<uint32_t>(r));
    SortByKey(homes);
    std::vector<int32_t> order;
    for (const Keyed& home : homes) order.push_back(home.index);
    for (int32_t k : opened_.todo) {
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
    keys.reserve(opened_.todo.size());
    for (int32_t k : weights_.spread_homes ? SpreadHomes() : opened_.todo) {
      const Gap& gap = gaps_.gaps[k];
      const bool costs_nothing = gap.overwritten && !gap.home && !CostsACopy(gaps_, gap, opened_.carrying);
      if (result_.kept[k] || result_.carried_until[k] > 0 || costs_nothing) continue;
      const int32_t place = opened_.place[k];
      double area = opened_.area[place], savings = 0;
      size_t joined = 0;
      ForEachJoined(gaps_, result_.kept, k, [&](size_t j) {
        savings += Savings(j);
        ++joined;
      });
      if (!weights_.bias.empty()) area *= weights_.bias[k];
      if (savings > 0) keys.push_back({gap.home && weights_.spread_homes ? AboutKeyOf(area / savings) : KeyOf(area / savings), k});
      // It goes home all the same, with what the last step wrote.
      const double fetch = weights_.in.empty() ? 1 : weights_.in[gap.before];
      if (opened_.carrying && joined > 1 && !gap.overwritten) keys.push_back({KeyOf(opened_.area_alone[place] / fetch), -1 - k});
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

  void TryKeep(int32_t k, bool alone) {
    const auto for_each = [&](auto&& visit) {
      if (alone) return visit(static_cast<size_t>(k));
      ForEachJoined(gaps_, result_.kept, k, visit);
    };
    bool fits = true;
    // The windows of a gap are part of it.
    auto ranges = [&](size_t j) {
      const std::array<Range, 2>& windows = WindowsOf(j);
      if (!IsOpen(windows)) return RangesOf(gaps_.gaps[j], n_);
      if (gaps_.gaps[j].home) return std::array{Range{0, windows[1].begin}, Range{windows[0].end, n_}};
      return std::array{Range{windows[0].end, windows[1].begin}, Range{0, 0}};
    };
    for_each([&](size_t j) {
      for (const Range& r : ranges(j)) fits = fits && room_.Fits(r, gaps_.gaps[j].bytes);
    });
    if (!fits) return;
    for_each([&](size_t j) {
      for (const Range& r : ranges(j)) room_.Add(r, gaps_.gaps[j].bytes);
      WindowsOf(j) = {};
    });
    absl::InlinedVector<size_t, 4> joined;
    for_each([&](size_t j) { joined.push_back(j); });
    for (size_t j : joined) result_.kept[j] = true;
  }

  // Of a gap in todo.
  std::array<Range, 2>& WindowsOf(size_t k) { return windows_[opened_.place[k]]; }

  // What was there for the copies of gaps that are not kept is free again.
  void CloseWindows() {
    std::vector<int64_t> change(n_ + 1, 0);
    for (size_t place = 0; place < opened_.todo.size(); ++place) {
      const int32_t k = opened_.todo[place];
      if (result_.kept[k]) continue;
      for (const Range& r : windows_[place]) {
        if (r.begin >= r.end) continue;
        change[r.begin] -= gaps_.gaps[k].bytes;
        change[r.end] += gaps_.gaps[k].bytes;
      }
    }
    int64_t sum = 0;
    for (int32_t i = 0; i < n_; ++i) result_.profile[i] += sum += change[i];
  }

  const GapGraph& gaps_;
  const OpenedWindows& opened_;
  const TransferWeights& weights_;
  const int32_t n_;
  std::vector<std::array<Range, 2>> windows_;  // as opened_.todo
  SegmentTree profile_;
  Room room_;
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

const OpenedWindows* SelectionStarts::Find(const MemoryTarget& target, double window, bool carrying) {
  for (auto it = last_.begin(); it != last_.end(); ++it) {
    const bool same = it->budget_bytes == target.budget_bytes && it->keep_below == target.keep_below && it->window == window &&
                      it->carrying == carrying;
    if (!same) continue;
    last_.splice(last_.begin(), last_, it);
    return &last_.front();
  }
  return nullptr;
}

const OpenedWindows& SelectionStarts::Add(OpenedWindows opened) {
  const size_t gaps = std::max<size_t>(1, opened.state.kept.size());
  if (last_.size() >= std::clamp(kGapsOfStarts / gaps, kFewStarts, kManyStarts)) last_.pop_back();
  last_.push_front(std::move(opened));
  return last_.front();
}

Selection SelectGaps(const GapGraph& gaps, const MemoryTarget& target, double window, const TransferWeights& weights,
                     const Carrying& carrying, SelectionStarts* starts) {
  const bool shared = starts != nullptr && target.set_aside.empty() && carrying.late_home.empty();
  const OpenedWindows* start = shared ? starts->Find(target, window, carrying.allowed) : nullptr;
  int64_t work = 0;
  Selection selection;
  if (start == nullptr) {
    OpenedWindows opened = Opener(gaps, target, window, carrying).Run(work);
    if (shared) start = &starts->Add(std::move(opened));
    else selection = Selector(gaps, opened, std::move(opened.state), weights).Run();
  }
  if (start != nullptr) selection = Selector(gaps, *start, start->state, weights).Run();
  selection.work += work;
  return selection;
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
