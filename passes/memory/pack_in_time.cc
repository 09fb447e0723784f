#include "passes/memory/pack_in_time.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/types/span.h"
#include "millrace/types.h"
#include "passes/memory/live_blocks.h"
#include "passes/memory/sweep_input.h"

namespace millrace {
namespace {

constexpr int64_t kNoEnd = LiveBlocks::kNoEnd;
constexpr int64_t kNoCopy = -1;
constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr HolePolicy kPolicies[] = {
    {HolePolicy::Kind::kSmallest, 0},   {HolePolicy::Kind::kByLife, 0.1},  {HolePolicy::Kind::kBySize, 0.0005},
    {HolePolicy::Kind::kByLife, 0.02}, {HolePolicy::Kind::kBySize, 0.001}, {HolePolicy::Kind::kBySize, 0.003},
};
// Room is reserved for at most so many blocks.
constexpr size_t kMostReserved = 200;
// Holes, the largest first, that are made larger by sending away what lies about them.
constexpr size_t kHolesWidened = 32;
// Of blocks that need not be there yet, so many are looked at for the fewest bytes; behind those the first that make room will do.
constexpr size_t kMostEarly = 1000;
// Units of WorkBudget: of a slot, of a block, of a block that is looked at, and for a hole that is looked for.
constexpr int64_t kSlotWork = 4, kBlockWork = 110, kStepWork = 1, kWindowSteps = 5, kFindSteps = 50, kIdleSteps = 20;
constexpr int64_t kInputWork = 80;  // of a block, for what all sweeps need

class Sweep {
 public:
  Sweep(const SweepInput& input, int64_t budget_bytes, const HolePolicy& policy, const std::vector<int32_t>& reserved,
        const IdleTimes* idle = nullptr)
      : input_(input),
        idle_(idle),
        blocks_(input.blocks),
        budget_(budget_bytes / input.alignment * input.alignment),
        slots_(input.slots),
        sizes_(input.sizes),
        live_(input.blocks, input.sizes, budget_, policy, input.slots) {
    result_.offsets.assign(blocks_.size(), 0);
    result_.first.assign(blocks_.size(), -1);
    result_.last.assign(blocks_.size(), slots_ - 1);
    Pin();
    Reserve(reserved);
  }

  // Stops as soon as so many bytes have failed.
  TimePacking Run(int64_t give_up_bytes = kNoEnd) {
    std::vector<int32_t> must;
    for (int32_t t = 0; t < slots_ && result_.failed_bytes < give_up_bytes; ++t) {
      now_ = t;
      if (t > 0) Free(input_.ends.of(t - 1));
      if (t == 0) PlacePinned();
      for (int32_t b : input_.leaving.of(t)) {
        if (live_.is_live(b)) leaving_.emplace(BlockOf(b).copy, b);
      }
      must.clear();
      const bool events = HandleReturns(must);
      for (int32_t b : input_.begins.of(t)) {
        if (input_.IsLate(b)) Await(b);
        else must.push_back(b);
      }
      for (int32_t b : input_.needed.of(t)) {
        if (live_.is_live(b)) NoLongerEarly(b);
        else must.push_back(b);
      }
      SortFew(must.begin(), must.end(), [&](int32_t a, int32_t b) {
        return live_[a].bytes != live_[b].bytes ? live_[a].bytes > live_[b].bytes : live_[a].last > live_[b].last;
      });
      for (int32_t b : must) {
        if (!live_.is_live(b)) PlaceNow(b);
      }
      PlaceWaiting(events || !input_.begins.of(t).empty() || (t > 0 && !input_.ends.of(t - 1).empty()));
    }
    const int64_t blocks = static_cast<int64_t>(blocks_.size()) * (now_ + 1) / slots_;
    result_.work = kSlotWork * (now_ + 1) + kBlockWork * blocks + kStepWork * steps_;
    TellReturns();
    return std::move(result_);
  }

 private:
  using Place = LiveBlocks::Place;
  struct Returning {
    int32_t origin = 0;  // the block that was sent away first
    int32_t after = 0;   // the slot of its last use
    LateBlock block;
  };
  struct Event {
    enum Kind : uint8_t { kEnd, kLeaving, kBegin, kNeeded };
    int32_t slot = 0;
    Kind kind = kEnd;
    int32_t block = 0;
    auto operator<=>(const Event&) const = default;
  };
  struct Reserved {
    int32_t block = 0;
    int64_t offset = 0;
  };

  void NoLongerEarly(int32_t b) { early_.erase(live_[b].offset); }

  void Pin() {
    pinned_at_.assign(input_.pinned.empty() ? 0 : blocks_.size(), -1);
    int64_t offset = budget_;
    for (const PinnedPair& pair : input_.pinned) {
      offset -= sizes_[pair.first];
      pinned_at_[pair.first] = pinned_at_[pair.last] = std::max<int64_t>(offset, 0);
      if (pair.first != pair.last) reserved_.push_back({pair.last, pinned_at_[pair.last]});
    }
  }

  void PlacePinned() {
    for (const PinnedPair& pair : input_.pinned) PlaceNow(pair.first);
  }

  bool IsPinned(int32_t b) const { return !pinned_at_.empty() && !IsReturn(b) && pinned_at_[b] >= 0; }

  void Reserve(const std::vector<int32_t>& reserved) {
    reserved_at_.assign(reserved.empty() ? 0 : blocks_.size(), -1);
    for (int32_t b : reserved) {
      if (IsPinned(b)) continue;
      const LateBlock& block = blocks_[b];
      int64_t offset = budget_ - sizes_[b];
      for (bool moved = true; moved;) {
        moved = false;
        for (const Reserved& other : reserved_) {
          const LateBlock& o = blocks_[other.block];
          const bool meet = o.latest <= block.last && block.latest <= o.last && offset < other.offset + sizes_[other.block] &&
                            other.offset < offset + sizes_[b];
          if (meet) {
            offset = other.offset - sizes_[b];
            moved = true;
          }
        }
      }
      if (offset < 0) continue;
      reserved_.push_back({b, offset});
      reserved_at_[b] = offset;
    }
  }

  // Addresses from here on are reserved while block b, placed now, would live.
  int64_t LimitFor(int32_t b) const {
    steps_ += static_cast<int64_t>(reserved_.size());
    int64_t limit = budget_;
    for (const Reserved& other : reserved_) {
      const LateBlock& o = blocks_[other.block];
      if (other.block != b && o.latest <= live_[b].last && now_ <= o.last) limit = std::min(limit, other.offset);
    }
    return limit;
  }

  Place Find(int32_t b) const {
    steps_ += kFindSteps;
    if (IsPinned(b)) return live_.At(pinned_at_[b], b);
    return live_.Find(b, now_, LimitFor(b));
  }

  void Take(int32_t b, const Place& place) {
    result_.offsets[b] = place.offset;
    result_.first[b] = now_;
    result_.last[b] = slots_ - 1;
    result_.heap_bytes = std::max(result_.heap_bytes, place.offset + BlockOf(b).bytes);
    if (IsEarly(b)) early_.emplace(place.offset, b);
    if (IsLeaving(b)) leaving_.emplace(BlockOf(b).copy, b);
    live_.Insert(b, place);
  }

  void Free(int32_t b) {
    result_.last[b] = now_ - 1;
    if (IsEarly(b)) early_.erase(live_[b].offset);
    if (IsLeaving(b)) leaving_.erase({BlockOf(b).copy, b});
    live_.Remove(b);
  }

  void Free(absl::Span<const int32_t> ended) {
    for (int32_t b : ended) {
      if (live_.is_live(b)) Free(b);
    }
  }

  void PlaceNow(int32_t b) {
    if (!reserved_at_.empty() && !IsReturn(b) && reserved_at_[b] >= 0) {
      const Place place = live_.At(reserved_at_[b], b);
      if (place.offset >= 0) return Take(b, place);
    }
    Place place = Find(b);
    if (place.offset < 0 && !IsPinned(b) && TakeBackFor(b, kNoCopy)) place = Find(b);
    if (place.offset < 0 && !IsPinned(b) && AwaitCopiesFor(b)) place = Find(b);
    if (place.offset < 0 && !IsPinned(b) && SendAwayFor(b)) place = Find(b);
    if (place.offset < 0) {
      result_.failed.push_back(OriginOf(b));
      result_.failed_at.push_back(now_);
      result_.free_bytes.push_back(live_.FreeBytes());
      result_.failed_bytes += live_[b].bytes;
      place = live_.Beyond();
    }
    Take(b, place);
  }

  bool IsEarly(int32_t b) const { return live_[b].latest > now_; }
  bool IsLeaving(int32_t b) const { return live_[b].leaves < now_; }
  // Of a live block: whether its bytes can be had once `done_copy` is done.
  bool IsSoft(int32_t b, int64_t done_copy) const {
    return b != live_.wall() && (IsEarly(b) || (IsLeaving(b) && BlockOf(b).copy <= done_copy));
  }

  // Of what was sent away, when it is back.
  bool IsReturn(int32_t b) const { return b > live_.wall(); }
  const Returning& ReturnOf(int32_t b) const { return returns_[b - live_.wall() - 1]; }
  const LateBlock& BlockOf(int32_t b) const { return IsReturn(b) ? ReturnOf(b).block : blocks_[b]; }
  int32_t OriginOf(int32_t b) const { return IsReturn(b) ? ReturnOf(b).origin : b; }

  // What of that begins, must be there, is only kept by a copy, or ends. Whether there was any.
  bool HandleReturns(std::vector<int32_t>& must) {
    bool any = false;
    for (; !events_.empty() && events_.top().slot == now_; events_.pop()) {
      const int32_t b = events_.top().block;
      const bool live = live_.is_live(b);
      any = true;
      switch (events_.top().kind) {
        case Event::kEnd:
          if (live) Free(b);
          break;
        case Event::kLeaving:
          if (live) leaving_.emplace(BlockOf(b).copy, b);
          break;
        case Event::kBegin: Await(b); break;
        case Event::kNeeded:
          if (live) NoLongerEarly(b);
          else must.push_back(b);
          break;
      }
    }
    return any;
  }

  // Sends away what nothing uses now and what costs least to bring back of that, side by side about one of the largest holes, so
  // that block b finds room.
  bool SendAwayFor(int32_t b) {
    if (idle_ == nullptr || sent_cost_ > idle_->most_cost()) return false;
    const int64_t limit = LimitFor(b);
    std::vector<std::pair<int64_t, int32_t>> holes;  // the largest first
    live_.VisitHoles([&](int32_t below, int64_t bytes) { holes.emplace_back(-bytes, below); });
    steps_ += static_cast<int64_t>(holes.size());
    const size_t count = std::min(kHolesWidened, holes.size());
    std::partial_sort(holes.begin(), holes.begin() + static_cast<std::ptrdiff_t>(count), holes.end());
    Neighbours best;
    for (size_t h = 0; h < count; ++h) WidenHole(holes[h].second, live_[b].bytes, limit, best);
    if (best.cost == kNever) return false;
    sent_cost_ += best.cost;
    for (int32_t x = live_[best.low].above; x != best.high;) {
      const int32_t next = live_[x].above;
      SendAway(x);
      x = next;
    }
    return true;
  }

  // Room between two blocks, once those between them have gone.
  struct Neighbours {
    int32_t low = 0, high = 0;
    double cost = kNever;
  };

  // The cheaper neighbour goes, until there is room; into `best` where that costs less.
  void WidenHole(int32_t below, int64_t wanted, int64_t limit, Neighbours& best) {
    const auto begin_of = [&](int32_t x) { return x == live_.wall() ? limit : std::min(limit, live_[x].offset); };
    int32_t low = below, high = live_[below].above;
    double cost = 0, cost_of_low = CostOf(low), cost_of_high = CostOf(high);
    while (begin_of(high) - live_.EndOf(low) < wanted && cost < best.cost) {
      if (cost_of_low <= cost_of_high) {
        cost += cost_of_low;
        low = live_[low].below;
        cost_of_low = CostOf(low);
      } else {
        cost += cost_of_high;
        high = live_[high].above;
        cost_of_high = CostOf(high);
      }
    }
    if (cost < best.cost) best = {low, high, cost};
  }

  // Of sending block x away. What need not be there costs nothing.
  double CostOf(int32_t x) const {
    if (x == live_.wall() || IsPinned(x)) return kNever;
    if (IsEarly(x) || IsLeaving(x)) return 0;
    steps_ += kIdleSteps;
    IdleTime time;
    return idle_->Find(OriginOf(x), now_, time) ? time.cost : kNever;
  }

  void SendAway(int32_t x) {
    const bool leaving = IsLeaving(x), early = IsEarly(x);
    Free(x);
    if (leaving) ++result_.awaited_copies;
    else if (early) Await(x);
    else Return(x);
  }

  // Block x comes back, as another one.
  void Return(int32_t x) {
    IdleTime time;
    idle_->Find(OriginOf(x), now_, time);
    LateBlock block = BlockOf(x);
    block.first = std::clamp(time.returns, now_ + 1, time.before);
    block.latest = time.before;
    returns_.push_back({OriginOf(x), time.after, block});
    const int32_t b = live_.Add(block, live_[x].bytes);
    result_.offsets.resize(b + 1, 0);
    result_.first.resize(b + 1, -1);
    result_.last.resize(b + 1, slots_ - 1);
    if (block.first < block.latest) events_.push({block.first, Event::kBegin, b});
    events_.push({block.latest, Event::kNeeded, b});
    if (block.leaves < block.last) events_.push({block.leaves + 1, Event::kLeaving, b});
    events_.push({block.last + 1, Event::kEnd, b});
  }

  void TellReturns() {
    for (size_t k = 0; k < returns_.size(); ++k) {
      const size_t b = live_.wall() + 1 + k;
      const Returning& stay = returns_[k];
      result_.returns.push_back({stay.origin, stay.after, stay.block.latest, result_.first[b], result_.last[b], result_.offsets[b]});
    }
    result_.offsets.resize(blocks_.size());
    result_.first.resize(blocks_.size());
    result_.last.resize(blocks_.size());
  }

  // Lets the copies out be done, in their order, that leave room for block b, and as few as possible.
  bool AwaitCopiesFor(int32_t b) {
    const int64_t copy = CopyThatMakesRoom(b);
    if (copy == kNoCopy) return false;
    std::vector<int32_t> gone;
    for (const auto& [done, x] : leaving_) {
      if (done > copy || (done == copy && !gone.empty() && BlockOf(gone.back()).copy == copy)) break;
      gone.push_back(x);
    }
    TakeBackFor(b, copy);
    for (int32_t x : gone) {
      if (!live_.is_live(x)) continue;
      Free(x);
      ++result_.awaited_copies;
    }
    return true;
  }

  // The first copy out of which, once it is done, blocks side by side that have gone or need not be there make room for
  // block b. Blocks go in the order of their copies, so room comes to be about the last that went.
  int64_t CopyThatMakesRoom(int32_t b) const {
    const int64_t limit = LimitFor(b), wanted = live_[b].bytes;
    for (const auto& [copy, x] : leaving_) {
      if (HasRoomAbout(x, copy, wanted, limit)) return copy;
    }
    return kNoCopy;
  }

  // Whether soft blocks side by side, x among them, and the holes about them are so many bytes below the limit.
  bool HasRoomAbout(int32_t x, int64_t done_copy, int64_t wanted, int64_t limit) const {
    steps_ += kWindowSteps;
    if (live_[x].offset >= limit) return false;
    int32_t low = x, high = x;
    int64_t begin = live_.EndBelow(low), end = std::min(limit, live_.BeginAbove(high));
    while (end - begin < wanted && IsSoft(live_[low].below, done_copy)) {
      ++steps_;
      low = live_[low].below;
      begin = live_.EndBelow(low);
    }
    while (end - begin < wanted && end < limit && IsSoft(live_[high].above, done_copy)) {
      ++steps_;
      high = live_[high].above;
      end = std::min(limit, live_.BeginAbove(high));
    }
    return end - begin >= wanted;
  }

  // Takes back what need not be there yet, the fewest bytes side by side that make room for block b with what is gone
  // once `done_copy` is done.
  bool TakeBackFor(int32_t b, int64_t done_copy) {
    const std::vector<int32_t> window = Window(b, done_copy);
    for (int32_t x : window) {
      Free(x);
      if (IsLeaving(x)) ++result_.awaited_copies;
      else Await(x);
    }
    return !window.empty();
  }

  std::vector<int32_t> Window(int32_t b, int64_t done_copy) {
    window_.clear();
    fewest_.clear();
    if (early_.empty() && done_copy == kNoCopy) return {};
    const int64_t limit = LimitFor(b), wanted = live_[b].bytes;
    fewest_bytes_ = kNoEnd;
    if (done_copy == kNoCopy) {
      size_t looked_at = 0;
      for (const auto& [offset, x] : early_) {
        if (offset >= limit || fewest_bytes_ == 0) break;
        if (++looked_at > kMostEarly && fewest_bytes_ < kNoEnd) break;
        WidenWindow(x, wanted, limit);
      }
      return fewest_;
    }
    // Without the last of the copies there was no room: it is in every window.
    std::vector<std::pair<int64_t, int32_t>> last;  // by address
    for (auto x = leaving_.lower_bound({done_copy, 0}); x != leaving_.end() && x->first == done_copy; ++x) {
      last.emplace_back(live_[x->second].offset, x->second);
    }
    std::sort(last.begin(), last.end());
    for (const auto& [offset, x] : last) {
      int32_t low = x;
      while (live_.EndBelow(low) > offset - wanted && IsSoft(live_[low].below, done_copy)) low = live_[low].below;
      window_.clear();
      for (int32_t y = low; y != live_.wall() && live_[y].offset < std::min(limit, offset + live_[x].bytes + wanted) && IsSoft(y, done_copy);
           y = live_[y].above) {
        if (fewest_bytes_ == 0) break;
        WidenWindow(y, wanted, limit);
      }
    }
    return fewest_;
  }

  // Movable blocks side by side, in order of addresses; the window [window_first_, …) of them begins at window_begin_, where
  // a block that stays ends, or one that needs not move. Remembers the window of the fewest bytes that are not gone.
  void WidenWindow(int32_t x, int64_t wanted, int64_t limit) {
    steps_ += kWindowSteps;
    const LiveBlocks::Stay& stay = live_[x];
    if (window_.empty() || window_.back() != stay.below) {
      window_first_ = window_.size();
      window_begin_ = live_.EndBelow(x);
      window_bytes_ = 0;
    }
    window_.push_back(x);
    window_bytes_ += IsLeaving(x) ? 0 : stay.bytes;
    const int64_t end = std::min(limit, live_.BeginAbove(x));
    for (; window_first_ < window_.size(); ++window_first_) {
      const LiveBlocks::Stay& left = live_[window_[window_first_]];
      if (end - (left.offset + left.bytes) < wanted) break;
      window_bytes_ -= IsLeaving(window_[window_first_]) ? 0 : left.bytes;
      window_begin_ = left.offset + left.bytes;
    }
    if (window_first_ < window_.size() && end - window_begin_ >= wanted && window_bytes_ < fewest_bytes_) {
      fewest_bytes_ = window_bytes_;
      fewest_.assign(window_.begin() + static_cast<int64_t>(window_first_), window_.end());
    }
  }

  // What may be there earlier than it must, by size; of those, the soonest needed first, then in the order they came.
  struct Waiting {
    int32_t latest = 0;
    int64_t place = 0;
    int32_t block = 0;
    bool operator>(const Waiting& other) const {
      return latest != other.latest ? latest > other.latest : place > other.place;
    }
  };
  using WaitingBySize = std::map<int64_t, std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>>>;

  // Where the soonest of those that wait and are smaller than `too_large` is on top.
  WaitingBySize::iterator SoonestBelow(int64_t too_large) {
    auto soonest = waiting_.end();
    for (auto size = waiting_.begin(); size != waiting_.end() && size->first < too_large;) {
      ++steps_;
      while (!size->second.empty() && size->second.top().latest <= now_) size->second.pop();  // was needed meanwhile
      if (size->second.empty()) {
        size = waiting_.erase(size);
        continue;
      }
      if (soonest == waiting_.end() || soonest->second.top() > size->second.top()) soonest = size;
      ++size;
    }
    return soonest;
  }

  void Await(int32_t b) {
    const Waiting waiting{live_[b].latest, ++last_awaited_, b};
    if (!IsPinned(b)) return waiting_[live_[b].bytes].push(waiting);
    const auto later = [&](const Waiting& other) { return other > waiting; };
    pinned_waiting_.insert(std::find_if(pinned_waiting_.begin(), pinned_waiting_.end(), later), waiting);
  }

  // What may be there already, the soonest needed first, of those that are smaller than all that found no room; what has
  // its place in any case.
  void PlaceWaiting(bool changed) {
    if (!changed || (waiting_.empty() && pinned_waiting_.empty())) return;
    std::erase_if(pinned_waiting_, [&](const Waiting& waiting) { return waiting.latest <= now_; });
    int64_t too_large = live_.LargestHole() + 1;
    size_t next_pinned = 0;
    while (true) {
      const auto soonest = SoonestBelow(too_large);
      const bool none = soonest == waiting_.end();
      if (next_pinned < pinned_waiting_.size() && (none || soonest->second.top() > pinned_waiting_[next_pinned])) {
        const int32_t b = pinned_waiting_[next_pinned].block;
        const Place place = Find(b);
        if (place.offset < 0) {
          ++next_pinned;
        } else {
          Take(b, place);
          pinned_waiting_.erase(pinned_waiting_.begin() + static_cast<std::ptrdiff_t>(next_pinned));
        }
        continue;
      }
      if (none) return;
      const int32_t b = soonest->second.top().block;
      const Place place = Find(b);
      if (place.offset >= 0) {
        Take(b, place);
        soonest->second.pop();
      } else {
        too_large = live_[b].bytes;
      }
    }
  }

  const SweepInput& input_;
  const IdleTimes* const idle_;
  const std::vector<LateBlock>& blocks_;
  const int64_t budget_;
  const int32_t slots_;
  const std::vector<int64_t>& sizes_;
  LiveBlocks live_;
  std::vector<Returning> returns_;       // their blocks' numbers begin after the wall's
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  absl::btree_map<int64_t, int32_t> early_;  // live blocks that need not be there yet, by offset
  absl::btree_set<std::pair<int64_t, int32_t>> leaving_;  // those that only a copy keeps, by that
  std::vector<Reserved> reserved_;
  std::vector<int64_t> reserved_at_;     // per block, if anything is reserved: its place, or -1
  std::vector<int64_t> pinned_at_;       // likewise
  WaitingBySize waiting_;
  std::vector<Waiting> pinned_waiting_;  // in order
  int64_t last_awaited_ = 0;
  int32_t now_ = 0;
  std::vector<int32_t> window_, fewest_;  // of Window, as are
  size_t window_first_ = 0;
  int64_t window_begin_ = 0, window_bytes_ = 0, fewest_bytes_ = 0;
  double sent_cost_ = 0;
  mutable int64_t steps_ = 0;            // holes and blocks looked at
  TimePacking result_;
};

}  // namespace

TimePacking PackInTime(const std::vector<LateBlock>& blocks, int64_t budget_bytes, const HolePolicy& policy,
                       const std::vector<int32_t>& reserved, const std::vector<PinnedPair>& pinned, int64_t alignment) {
  return Sweep(SweepInput(blocks, pinned, alignment), budget_bytes, policy, reserved).Run();
}

TimePacking PackInTimeBest(const std::vector<LateBlock>& blocks, int64_t budget_bytes, int tries, int64_t most_work,
                           const std::vector<PinnedPair>& pinned, const IdleTimes* idle, int64_t alignment) {
  const SweepInput input(blocks, pinned, alignment);
  TimePacking best;
  HolePolicy policy;
  std::vector<int32_t> reserved;
  int64_t work = kInputWork * static_cast<int64_t>(blocks.size());
  const auto sweep = [&](const HolePolicy& tried, const std::vector<int32_t>& kept_free, int64_t give_up_bytes) {
    TimePacking packing = Sweep(input, budget_bytes, tried, kept_free, idle).Run(give_up_bytes);
    work += packing.work;
    return packing;
  };
  const auto may_try = [&] { return best.offsets.empty() || (--tries > 0 && work < most_work); };
  const int64_t give_up_bytes = tries > 0 ? kNoEnd : 1;
  for (const HolePolicy& tried : kPolicies) {
    if (!may_try()) break;
    TimePacking packing = sweep(tried, {}, best.offsets.empty() ? give_up_bytes : best.failed_bytes);
    const bool better = best.offsets.empty() || packing.failed_bytes < best.failed_bytes;
    if (better) {
      best = std::move(packing);
      policy = tried;
    }
    if (best.failed.empty()) break;
  }
  reserved = best.failed;
  while (!best.failed.empty() && reserved.size() <= kMostReserved && may_try()) {
    TimePacking packing = sweep(policy, reserved, kNoEnd);
    for (int32_t b : packing.failed) {
      if (std::find(reserved.begin(), reserved.end(), b) == reserved.end()) reserved.push_back(b);
    }
    if (packing.failed_bytes < best.failed_bytes) best = std::move(packing);
  }
  best.work = work;
  return best;
}

}  // namespace millrace
