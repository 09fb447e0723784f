#include "passes/planner/place.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "millrace/status.h"
#include "millrace/types.h"
#include "passes/memory/address_allocator.h"
#include "passes/planner/lanes_left.h"
#include "passes/planner/trial_settings.h"

namespace millrace {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Copies in that may be overtaken because their bytes are not on the host yet, or find no room.
constexpr int kMaxOvertaken = 8;
// Units of WorkBudget: of an operation that ran, and of a decision.
constexpr int64_t kOperationWork = 380, kDecisionWork = 20;
// Times that it is asked thoroughly how long the step takes at least.
constexpr int32_t kLooks = 16;
// How long before its use an evicted block may come back, in steps.
constexpr double kEvictedSlack = 0.05;

bool CopiesIn(const SwapDecision& d) { return d.copy_in && d.before != SwapDecision::kToHost; }

// Indices of decisions by operation.
class ByOperation {
 public:
  template <typename Key>  // operation of a decision, -1 for those left out
  ByOperation(int32_t operations, const std::vector<SwapDecision>& decisions, Key&& key) : begin_(operations + 1, 0) {
    for (const SwapDecision& d : decisions) {
      if (key(d) >= 0) ++begin_[key(d) + 1];
    }
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    indices_.resize(begin_.back());
    std::vector<int32_t> next(begin_.begin(), begin_.end() - 1);
    for (size_t k = 0; k < decisions.size(); ++k) {
      if (key(decisions[k]) >= 0) indices_[next[key(decisions[k])]++] = static_cast<int32_t>(k);
    }
  }
  absl::Span<const int32_t> of(int32_t operation) const {
    return absl::MakeConstSpan(indices_).subspan(begin_[operation], begin_[operation + 1] - begin_[operation]);
  }

 private:
  std::vector<int32_t> begin_, indices_;
};

class Replay {
 public:
  Replay(const GapGraph& gaps, int64_t budget_bytes, const std::vector<SwapDecision>& decisions,
         const PlacementPolicy& policy, double known_seconds, LanesLeft left)
      : gaps_(gaps),
        graph_(*gaps.graph),
        n_(gaps.num_operations()),
        policy_(policy),
        known_seconds_(known_seconds),
        left_(std::move(left)),
        decisions_(decisions),
        given_(decisions.size()),
        allocator_(graph_.aligned_budget(budget_bytes)),
        free_bytes_(allocator_.capacity()),
        state_(graph_.storages.size()),
        missing_(n_, 0),
        anchored_(n_, decisions, [](const SwapDecision& d) { return CopiesIn(d) ? d.anchor : -1; }),
        written_(n_ + 1, decisions, [](const SwapDecision& d) { return d.copy_out ? d.out_after + 1 : -1; }),
        leaving_(n_, decisions, [](const SwapDecision& d) { return d.after; }) {
    scratch_offsets_.assign(n_, 0);
  }

  absl::StatusOr<Placement> Run() {
    MR_RETURN_IF_ERROR(Prepare());
    Complete(-1);
    while (done_ < n_) {
      StartWhatCan();
      const double next = std::min({compute_end_, out_end_, in_end_});
      if (next == kNever) {
        MR_RETURN_IF_ERROR(MakeRoom());
        continue;
      }
      now_ = next;
      if (out_end_ <= now_) FinishOut();
      if (in_end_ <= now_) FinishIn();
      if (compute_end_ > now_) continue;
      FinishOperation();
      if (LeastSeconds() >= known_seconds_) return absl::AbortedError("a faster placement is known");
    }
    return Finish();
  }

  int64_t work() const { return kOperationWork * done_ + kDecisionWork * static_cast<int64_t>(given_); }

 private:
  struct State {
    int64_t offset = -1;      // -1: not on the device
    int32_t stay = -1;        // into stays_
    int32_t next_access = 0;
    int32_t copies_out = 0;   // queued or under way
    int32_t brought_by = -1;  // the decision whose copy in brought it, until it is read
    bool arriving = false;
    bool leaves = false;      // given back as soon as its copies out are done
    bool host_has_it = false;  // or will, by a copy that is queued
    bool resident = false;
  };
  struct PlacedStay {
    int32_t storage = 0;
    int64_t offset = 0;
  };

  int64_t Bytes(int32_t storage) const { return graph_.aligned_bytes(storage); }
  double Raw(int32_t storage) const { return static_cast<double>(graph_.storages[storage].size_bytes); }

  // Of the step: each lane goes on from here with what it has still to do; looked at thoroughly at a few operations.
  double LeastSeconds() {
    const double out = out_end_ == kNever ? now_ : out_end_;
    const double in = in_end_ == kNever ? now_ : in_end_;
    const double least = std::max({now_ + left_.rest[done_], out + left_.out, in + left_.in});
    if (done_ < next_look_) return least;
    next_look_ = done_ + n_ / kLooks + 1;
    return std::max(least, left_.LeastSecondsFrom(done_, in));
  }

  absl::Status Prepare() {
    first_decision_.assign(state_.size() + 1, 0);
    for (const SwapDecision& d : decisions_) {
      ++first_decision_[d.storage + 1];
      if (CopiesIn(d)) ++missing_[d.before];
    }
    std::partial_sum(first_decision_.begin(), first_decision_.end(), first_decision_.begin());
    for (size_t s = 0; s < state_.size(); ++s) {
      const StorageKind kind = graph_.storages[s].kind;
      if (kind == StorageKind::kActivation || gaps_.lists.of(s).empty()) continue;
      state_[s].host_has_it = true;
      const int32_t first = first_decision_[s];
      const bool fetched = first < first_decision_[s + 1] && decisions_[first].after == SwapDecision::kFromHost;
      if (fetched) continue;
      state_[s].resident = true;
      if (!Take(static_cast<int32_t>(s), allocator_.AllocateLowest(Bytes(static_cast<int32_t>(s))))) {
        return absl::ResourceExhaustedError("what stays on the device over the step's end exceeds the budget");
      }
    }
    return absl::OkStatus();
  }

  // The operation after which the block that storage s has for operation i leaves.
  int32_t EndOf(int32_t s, int32_t i) const {
    const auto begin = decisions_.begin() + first_decision_[s], end = decisions_.begin() + first_decision_[s + 1];
    const auto leaves = std::partition_point(begin, end, [&](const SwapDecision& d) { return d.after < i; });
    return leaves != end ? leaves->after : gaps_.lists.of(s).back().operation;
  }

  int64_t Allocate(int32_t s, int32_t needed_by) {
    const int64_t bytes = Bytes(s);
    if (empty_) return allocator_.AllocateLowest(bytes);
    if (policy_.large_bytes > 0) return AllocateBySize(bytes);
    if (policy_.long_lived_seconds < 0) return allocator_.Allocate(bytes);
    const double life = gaps_.start[EndOf(s, needed_by) + 1] - gaps_.start[std::min(done_, needed_by)];
    return life > policy_.long_lived_seconds ? allocator_.AllocateLowest(bytes) : allocator_.AllocateHighest(bytes);
  }

  int64_t AllocateBySize(int64_t bytes) {
    return bytes >= policy_.large_bytes ? allocator_.AllocateLowest(bytes) : allocator_.AllocateHighest(bytes);
  }

  int64_t AllocateScratch(int64_t bytes) {
    if (policy_.large_bytes > 0) return AllocateBySize(bytes);
    return policy_.long_lived_seconds < 0 ? allocator_.Allocate(bytes) : allocator_.AllocateHighest(bytes);
  }

  // Notes that storage s lives at `offset`; false when that is -1.
  bool Take(int32_t s, int64_t offset) {
    if (offset < 0) return false;
    State& state = state_[s];
    state.offset = offset;
    state.stay = static_cast<int32_t>(stays_.size());
    state.leaves = false;
    stays_.push_back({s, offset});
    live_.emplace(offset, s);
    free_bytes_ -= Bytes(s);
    return true;
  }

  void GiveBack(int32_t s) {
    State& state = state_[s];
    allocator_.Free(state.offset, Bytes(s));
    live_.erase(state.offset);
    free_bytes_ += Bytes(s);
    state.offset = -1;
    state.leaves = false;
    state.brought_by = -1;
  }

  void Leave(int32_t s) {
    state_[s].leaves = true;
    if (state_[s].copies_out == 0) GiveBack(s);
  }

  void QueueOut(int32_t k) {
    State& state = state_[decisions_[k].storage];
    ++state.copies_out;
    state.host_has_it = true;
    outs_.push_back(decisions_[k].storage);
  }

  void QueueIn(int32_t k) { ins_.emplace(decisions_[k].before, k); }

  // Operation i is done: its last readers leave, its results start for the host, copies may come in.
  void Complete(int32_t i) {
    done_ = i + 1;
    if (i >= 0) {
      for (const Access& access : graph_.of(i)) {
        State& state = state_[access.storage];
        ++state.next_access;
        state.brought_by = -1;
        if (access.writes) state.host_has_it = false;
      }
    }
    for (int32_t k : written_.of(i + 1)) {
      if (decisions_[k].copy_out) QueueOut(k);
    }
    if (next_fetch_ < graph_.fetches.size() && graph_.fetches[next_fetch_] == i) {
      ++next_fetch_;
      for (const Access& access : graph_.of(i)) {
        ++state_[access.storage].copies_out;
        outs_.push_back(access.storage);
      }
    }
    if (i >= 0) {
      for (int32_t k : leaving_.of(i)) Leave(decisions_[k].storage);
      for (const Access& access : graph_.of(i)) {
        const State& state = state_[access.storage];
        const bool dead = state.next_access == static_cast<int32_t>(gaps_.lists.of(access.storage).size());
        if (dead && state.offset >= 0 && !state.resident && !state.leaves) Leave(access.storage);
      }
      if (graph_.scratch_bytes[i] > 0) {
        allocator_.Free(scratch_offsets_[i], graph_.aligned_scratch(i));
        free_bytes_ += graph_.aligned_scratch(i);
      }
    }
    if (done_ >= n_) return;
    for (int32_t k : anchored_.of(done_)) QueueIn(k);
    for (auto it = later_.begin(); it != later_.end() && it->first <= done_; it = later_.erase(it)) QueueIn(it->second);
  }

  void StartWhatCan() {
    bool progress = true;
    while (progress) {
      progress = compute_end_ == kNever && StartOperation();
      progress = (out_end_ == kNever && StartOut()) || progress;
      progress = (in_end_ == kNever && StartIn()) || progress;
    }
  }

  // Takes the operation's outputs and scratch and starts it, or leaves all as it was.
  bool StartOperation() {
    const int32_t i = done_;
    if (missing_[i] > 0) return false;
    taken_.clear();
    bool fits = NeedsOf(i) <= free_bytes_;
    for (const Access& access : graph_.of(i)) {
      if (!fits) break;
      if (state_[access.storage].offset >= 0) {
        fits = !state_[access.storage].leaves;
        continue;
      }
      fits = Take(access.storage, Allocate(access.storage, i));
      if (fits) taken_.push_back(access.storage);
    }
    const int64_t scratch = graph_.aligned_scratch(i);
    if (fits && scratch > 0) {
      scratch_offsets_[i] = AllocateScratch(scratch);
      fits = scratch_offsets_[i] >= 0;
    }
    if (!fits) {
      for (size_t k = taken_.size(); k-- > 0;) {
        GiveBack(taken_[k]);
        stays_.pop_back();
      }
      return false;
    }
    free_bytes_ -= scratch;
    compute_end_ = now_ + graph_.seconds[i];
    attempts_ = 0;
    empty_ = false;
    return true;
  }

  // Bytes that operation i still has to take, copies in included.
  int64_t NeedsOf(int32_t i) const {
    int64_t bytes = graph_.aligned_scratch(i);
    for (const Access& access : graph_.of(i)) {
      if (state_[access.storage].offset < 0) bytes += Bytes(access.storage);
    }
    return bytes;
  }

  // Bytes that the running operation gives back at its end.
  int64_t GivenBackBy(int32_t i) const {
    int64_t bytes = graph_.aligned_scratch(i);
    for (int32_t k : leaving_.of(i)) {
      if (state_[decisions_[k].storage].copies_out == 0) bytes += Bytes(decisions_[k].storage);
    }
    for (const Access& access : graph_.of(i)) {
      const State& state = state_[access.storage];
      const bool last = state.next_access + 1 == static_cast<int32_t>(gaps_.lists.of(access.storage).size());
      if (last && graph_.storages[access.storage].kind == StorageKind::kActivation) bytes += Bytes(access.storage);
    }
    return bytes;
  }

  bool StartOut() {
    if (outs_.empty()) return false;
    out_end_ = now_ + gaps_.out_seconds(outs_.front());
    left_.out -= gaps_.out_seconds(outs_.front());
    return true;
  }

  bool StartIn() {
    int overtaken = 0;
    for (auto it = ins_.begin(); it != ins_.end() && overtaken < kMaxOvertaken; ++it, ++overtaken) {
      const int32_t k = it->second;
      const SwapDecision& d = decisions_[k];
      State& state = state_[d.storage];
      if (attempts_ > 0 && d.before != done_) return false;
      if (state.offset >= 0 || state.copies_out > 0) continue;
      if (!LeavesRoom(d) || !Take(d.storage, Allocate(d.storage, d.before))) continue;
      state.arriving = true;
      state.brought_by = k;
      decisions_[k].anchor = done_;
      decisions_[k].order = next_order_++;
      arriving_ = k;
      in_end_ = now_ + gaps_.in_seconds(d.storage);
      left_.BeginIn(d.before, gaps_.in_seconds(d.storage));
      ins_.erase(it);
      return true;
    }
    return false;
  }

  // Whether the operation that runs next keeps its room when the copy in of `d` takes its bytes now.
  bool LeavesRoom(const SwapDecision& d) const {
    const bool running = compute_end_ != kNever;
    const int32_t next = running ? done_ + 1 : done_;
    if (d.before <= next || next >= n_) return true;
    return free_bytes_ - Bytes(d.storage) + (running ? GivenBackBy(done_) : 0) >= NeedsOf(next);
  }

  void FinishOperation() {
    compute_end_ = kNever;
    Complete(done_);
  }

  void FinishOut() {
    out_end_ = kNever;
    const int32_t s = outs_.front();
    outs_.pop_front();
    if (--state_[s].copies_out == 0 && state_[s].leaves) GiveBack(s);
  }

  void FinishIn() {
    in_end_ = kNever;
    state_[decisions_[arriving_].storage].arriving = false;
    --missing_[decisions_[arriving_].before];
  }

  // Nothing runs and nothing can start: the next operation's room is in pieces.
  absl::Status MakeRoom() {
    const int32_t i = done_;
    const int limit = static_cast<int>(graph_.of(i).size()) + 2;
    if (++attempts_ > limit + 1) {
      return absl::ResourceExhaustedError(absl::StrCat("operation ", i, " finds no room"));
    }
    int64_t largest = graph_.aligned_scratch(i);
    for (const Access& access : graph_.of(i)) {
      if (state_[access.storage].offset < 0) largest = std::max(largest, Bytes(access.storage));
    }
    if (attempts_ > limit || !EvictNeighbours(largest)) EvictAll();
    return absl::OkStatus();
  }

  bool NeededNow(int32_t s) const {
    const absl::Span<const Access> accesses = graph_.of(done_);
    return std::any_of(accesses.begin(), accesses.end(), [&](const Access& a) { return a.storage == s; });
  }

  // Seconds of copies that taking s off the device costs, more for what is needed soon.
  double EvictionCost(int32_t s) const {
    const State& state = state_[s];
    const double bytes = Raw(s);
    double seconds = bytes * gaps_.seconds_per_byte_in;
    if (!state.host_has_it) seconds += bytes * gaps_.seconds_per_byte_out;
    const int32_t next = gaps_.lists.of(s)[state.next_access].operation;
    const double distance = std::max(gaps_.start[next] - gaps_.start[done_], 1e-6 * gaps_.compute_seconds());
    return seconds * (1 + kEvictedSlack * gaps_.compute_seconds() / distance);
  }

  // Evicts the cheapest neighbours that make a hole of `bytes`; false when there is no such run of blocks.
  bool EvictNeighbours(int64_t bytes) {
    // The window [first, last] of blocks between two that must stay; its hole runs from the end of the block before
    // it to the start of the block after it.
    const std::vector<std::pair<int64_t, int32_t>> blocks(live_.begin(), live_.end());
    const auto end_of = [&](size_t b) { return blocks[b].first + Bytes(blocks[b].second); };
    std::vector<double> cost(blocks.size() + 1, 0);
    double best_cost = kNever;
    size_t best_first = 0, best_last = 0;
    size_t first = 0;
    for (size_t b = 0; b < blocks.size(); ++b) {
      const int32_t s = blocks[b].second;
      const bool stays = state_[s].resident || NeededNow(s);
      cost[b + 1] = cost[b] + (stays ? 0 : EvictionCost(s));
      if (stays) {
        first = b + 1;
        continue;
      }
      const int64_t top = b + 1 < blocks.size() ? blocks[b + 1].first : allocator_.capacity();
      const auto bottom = [&](size_t f) { return f == 0 ? int64_t{0} : end_of(f - 1); };
      while (first < b && top - bottom(first + 1) >= bytes) ++first;
      if (top - bottom(first) >= bytes && cost[b + 1] - cost[first] < best_cost) {
        best_cost = cost[b + 1] - cost[first];
        best_first = first;
        best_last = b;
      }
    }
    if (best_cost == kNever) return false;
    for (size_t b = best_first; b <= best_last; ++b) Evict(blocks[b].second);
    return true;
  }

  void EvictAll() {
    const std::vector<std::pair<int64_t, int32_t>> blocks(live_.begin(), live_.end());
    for (const auto& [offset, s] : blocks) {
      if (!state_[s].resident) Evict(s);
    }
    empty_ = true;
  }

  void Evict(int32_t s) {
    State& state = state_[s];
    if (state.leaves) return;
    ++evictions_;
    if (state.brought_by >= 0) return TakeBack(s);
    const absl::Span<const TimedAccess> accesses = gaps_.lists.of(s);
    const TimedAccess& next = accesses[state.next_access];
    SwapDecision d;
    d.storage = s;
    d.after = accesses[state.next_access - 1].operation;
    d.before = d.anchor = next.operation;
    d.copy_in = next.access.reads;
    d.copy_out = !state.host_has_it && d.copy_in;
    d.out_after = d.copy_out ? done_ - 1 : 0;
    d.reason = "its room was needed in one piece";
    // A copy out made for a later gap served this one.
    for (int32_t k = first_decision_[s]; k < first_decision_[s + 1]; ++k) {
      SwapDecision& later = decisions_[k];
      if (!later.copy_out || later.after < d.before || later.out_after >= done_) continue;
      later.copy_out = false;
      d.copy_out = true;
      d.out_after = later.out_after;
    }
    const int32_t k = static_cast<int32_t>(decisions_.size());
    const bool copy_now = !state.host_has_it && d.copy_in;
    decisions_.push_back(d);
    if (copy_now) {
      left_.out += gaps_.out_seconds(s);
      QueueOut(k);
    }
    if (d.copy_in) AwaitAgain(k);
    Leave(s);
  }

  // A copy in that was not read yet did not happen.
  void TakeBack(int32_t s) {
    const int32_t k = state_[s].brought_by;
    stays_[state_[s].stay].storage = -1;
    GiveBack(s);
    AwaitAgain(k);
  }

  void AwaitAgain(int32_t k) {
    const SwapDecision& d = decisions_[k];
    ++missing_[d.before];
    left_.AddIn(d.before, gaps_.in_seconds(d.storage));
    if (d.before == done_) return QueueIn(k);
    const double latest = gaps_.start[d.before] - kEvictedSlack * gaps_.compute_seconds() -
                          Raw(d.storage) * gaps_.seconds_per_byte_in;
    const int32_t from = latest > 0 ? gaps_.OperationAt(latest) : 0;
    later_.emplace(std::clamp(from, done_ + 1, d.before), k);
  }

  Placement Finish() {
    double out = out_end_ == kNever ? now_ : out_end_;
    for (size_t k = out_end_ == kNever ? 0 : 1; k < outs_.size(); ++k) {
      out += gaps_.out_seconds(outs_[k]);
    }
    Placement placement;
    placement.step_seconds = std::max({now_, out, in_end_ == kNever ? 0.0 : in_end_});
    placement.evictions = evictions_;
    placement.choice.residence_offsets = OffsetsByStorage();
    placement.choice.scratch_offsets = std::move(scratch_offsets_);
    std::stable_sort(decisions_.begin(), decisions_.end(), [](const SwapDecision& a, const SwapDecision& b) {
      return std::make_pair(a.storage, a.after) < std::make_pair(b.storage, b.after);
    });
    placement.step_seconds += gaps_.LaunchSeconds(decisions_);
    placement.choice.decisions = std::move(decisions_);
    return placement;
  }

  std::vector<int64_t> OffsetsByStorage() const {
    std::vector<int64_t> begin(state_.size() + 1, 0);
    for (const PlacedStay& stay : stays_) {
      if (stay.storage >= 0) ++begin[stay.storage + 1];
    }
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    std::vector<int64_t> offsets(begin.back());
    for (const PlacedStay& stay : stays_) {
      if (stay.storage >= 0) offsets[begin[stay.storage]++] = stay.offset;
    }
    return offsets;
  }

  const GapGraph& gaps_;
  const AccessGraph& graph_;
  const int32_t n_;
  const PlacementPolicy policy_;
  const double known_seconds_;
  LanesLeft left_;
  std::vector<SwapDecision> decisions_;
  const size_t given_;
  std::vector<int32_t> first_decision_;  // by storage, of those given
  AddressAllocator allocator_;
  int64_t free_bytes_;
  size_t next_fetch_ = 0;  // of those not queued yet
  std::vector<State> state_;
  std::vector<int32_t> missing_;  // per operation: copies in that it waits for
  const ByOperation anchored_, written_, leaving_;
  std::multimap<int32_t, int32_t> later_;        // evicted: first operation at which they may come back, decision
  absl::btree_set<std::pair<int32_t, int32_t>> ins_;  // copies in that may start: needed by, decision
  std::deque<int32_t> outs_;                     // storages whose copies out are queued, the running one first
  absl::btree_map<int64_t, int32_t> live_;       // storages on the device by offset
  std::vector<PlacedStay> stays_;                // in order of time; storage -1: taken back
  std::vector<int64_t> scratch_offsets_;
  std::vector<int32_t> taken_;
  int32_t done_ = 0;      // operations done
  int32_t arriving_ = -1;
  int32_t next_order_ = 0;
  int attempts_ = 0;      // at making room for the next operation
  bool empty_ = false;    // everything left for it
  int64_t evictions_ = 0;
  int32_t next_look_ = 0;
  double now_ = 0;
  double compute_end_ = kNever, out_end_ = kNever, in_end_ = kNever;
};

}  // namespace

PlacementPolicy PolicyAt(size_t number, double step_seconds, int64_t budget_bytes) {
  if (number < std::size(kLongLived)) return {kLongLived[number] * step_seconds};
  const double part = kLargeParts[number - std::size(kLongLived)];
  return {.large_bytes = static_cast<int64_t>(part * static_cast<double>(budget_bytes))};
}

absl::StatusOr<Placement> PlaceDecisions(const GapGraph& gaps, int64_t budget_bytes,
                                         const std::vector<SwapDecision>& decisions, const PlacementPolicy& policy,
                                         double known_seconds, int64_t& work) {
  LanesLeft left(gaps, decisions);
  work = LanesLeft::Work(gaps, decisions.size());
  known_seconds -= gaps.LaunchSeconds(decisions);
  if (left.LeastSeconds() >= known_seconds) return absl::AbortedError("its copies alone take longer");
  Replay replay(gaps, budget_bytes, decisions, policy, known_seconds, std::move(left));
  absl::StatusOr<Placement> placement = replay.Run();
  work += replay.work();
  return placement;
}

}  // namespace millrace
