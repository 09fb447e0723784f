#include "passes/planner/trial.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "millrace/types.h"
#include "passes/access/radix_sort.h"

namespace millrace {
namespace {

constexpr double kUncriticalWeight = 0.05;

class Decider {
 public:
  Decider(const GapGraph& gaps, const Selection& selection) : gaps_(gaps), selection_(selection) {}

  std::vector<SwapDecision> Run() {
    size_t decisions = 0;
    for (size_t k = 0; k < gaps_.gaps.size(); ++k) {
      if (!selection_.kept[k]) decisions += gaps_.gaps[k].home ? 2 : 1;
    }
    out_.reserve(decisions);
    for (size_t s = 0; s + 1 < gaps_.first_gap.size(); ++s) {
      if (gaps_.first_gap[s] == gaps_.first_gap[s + 1]) continue;
      DecideStorage(gaps_.first_gap[s], gaps_.first_gap[s + 1]);
    }
    return std::move(out_);
  }

 private:
  void DecideStorage(int64_t begin, int64_t end) {
    const Gap& last = gaps_.gaps[end - 1];
    const bool home = last.home;
    const bool carried = home && selection_.carried_until[end - 1] > 0;
    const bool fetched = home && !selection_.kept[end - 1] && !carried;
    const bool variable = gaps_.graph->storages[last.storage].kind == StorageKind::kVariable;
    const bool written = home && last.last_write >= 0 && variable;
    // Whether the host has what the storage holds when the step begins; and later, as long as nothing writes it.
    bool home_is_current = fetched || !written;
    if (carried) {
      Decide(last.storage, SwapDecision::kFromHost, last.before, true, true, -1);
      home_is_current = true;
    }
    if (fetched) {
      Decide(last.storage, SwapDecision::kFromHost, last.before, !last.overwritten, false, 0);
    }
    int32_t written_home = -1;  // the write whose bytes the host has
    for (int64_t k = begin; k < end - (home ? 1 : 0); ++k) {
      const Gap& gap = gaps_.gaps[k];
      if (selection_.kept[k]) continue;
      // A variable also where the next access overwrites it: if the step fails before that, this is its value.
      const bool former = gap.last_write < 0 && home && !home_is_current;
      const bool given_up = variable && !fetched && gap.overwritten && gap.last_write >= 0 && gap.last_write != written_home;
      const bool copy_out = former || given_up || gap.copies_out(gap.last_write == written_home);
      if (former) home_is_current = true;
      if (copy_out && !former) written_home = gap.last_write;
      Decide(gap.storage, gap.after, gap.before, !gap.overwritten, copy_out, copy_out ? gap.last_write : 0);
    }
    if (!fetched) return;
    const bool copy_home = last.last_write >= 0 && last.last_write != written_home && !last.feed && variable;
    Decide(last.storage, last.after, SwapDecision::kToHost, false, copy_home, copy_home ? last.last_write : 0);
  }

  void Decide(int32_t storage, int32_t after, int32_t before, bool copy_in, bool copy_out, int32_t out_after) {
    SwapDecision& d = out_.emplace_back();
    d.storage = storage;
    d.after = after;
    d.before = before;
    d.anchor = before == SwapDecision::kToHost ? 0 : before;
    d.copy_in = copy_in;
    d.copy_out = copy_out;
    d.out_after = out_after;
  }

  const GapGraph& gaps_;
  const Selection& selection_;
  std::vector<SwapDecision> out_;
};

class Simulation {
 public:
  Simulation(const GapGraph& gaps, const MemoryTarget& target, const std::vector<SwapDecision>& decisions)
      : gaps_(gaps), target_(target), budget_(target.budget_bytes), decisions_(decisions), n_(gaps.num_operations()) {}

  TrialResult Run() {
    SortDecisions();
    BuildProfile();
    copy_out_end_.assign(decisions_.size(), 0);
    result_.gone_at.assign(decisions_.size(), n_);
    result_.operation_start.reserve(n_);
    result_.in.reserve(ins_.size());
    result_.out.reserve(outs_.size());
    operation_end_.assign(n_ + 1, 0);
    std::vector<double> input_ready(n_, 0);
    for (int32_t i = 0; i < n_; ++i) {
      const double before = i == 0 ? 0 : operation_end_[i - 1];
      EmitCopiesOut(i - 1, before);
      LeaveAfter(i - 1);
      const double room = RoomAt(i);
      for (; next_in_ < ins_.size() && decisions_[ins_[next_in_]].anchor == i; ++next_in_) {
        const SwapDecision& d = decisions_[ins_[next_in_]];
        const double start = std::max({in_free_, before, room, host_ready_[ins_[next_in_]] >= 0
                                                                   ? copy_out_end_[host_ready_[ins_[next_in_]]]
                                                                   : 0.0});
        in_free_ = start + gaps_.copy_latency + Bytes(d) * gaps_.seconds_per_byte_in;
        result_.in.push_back({start, in_free_});
        input_ready[d.before] = std::max(input_ready[d.before], in_free_);
      }
      const double start = std::max({before, input_ready[i], allocates_[i] != 0 ? room : 0.0});
      if (start > before + 1e-12) {
        (start == input_ready[i] ? result_.waited_for_input : result_.waited_for_room).push_back(i);
      }
      result_.operation_start.push_back(start);
      operation_end_[i] = start + gaps_.graph->seconds[i];
    }
    EmitCopiesOut(n_ - 1, n_ > 0 ? operation_end_[n_ - 1] : 0);
    result_.launch_seconds = gaps_.LaunchSeconds(decisions_);
    result_.step_seconds = std::max({n_ > 0 ? operation_end_[n_ - 1] : 0.0, out_free_, in_free_}) + result_.launch_seconds;
    return std::move(result_);
  }

 private:
  double Bytes(const SwapDecision& d) const {
    return static_cast<double>(gaps_.graph->storages[d.storage].size_bytes);
  }

  void SortDecisions() {
    host_ready_.assign(decisions_.size(), -1);
    int32_t last_out = -1;
    for (size_t k = 0; k < decisions_.size(); ++k) {
      if (k > 0 && decisions_[k].storage != decisions_[k - 1].storage) last_out = -1;
      if (decisions_[k].copy_out) last_out = static_cast<int32_t>(k);
      host_ready_[k] = last_out;
      if (decisions_[k].copy_in && decisions_[k].before != SwapDecision::kToHost) ins_.push_back(static_cast<int32_t>(k));
      if (decisions_[k].copy_out) outs_.push_back(static_cast<int32_t>(k));
    }
    std::vector<Keyed> keyed;
    const auto sort_by = [&](std::vector<int32_t>& indices, auto key) {
      keyed.resize(indices.size());
      for (size_t k = 0; k < indices.size(); ++k) keyed[k] = {key(decisions_[indices[k]]), indices[k]};
      SortByKey(keyed);
      for (size_t k = 0; k < indices.size(); ++k) indices[k] = keyed[k].index;
    };
    leaves_ = outs_;
    sort_by(ins_, [](const SwapDecision& d) { return KeyOf(d.anchor, d.before); });
    sort_by(outs_, [](const SwapDecision& d) { return KeyOf(d.out_after, d.out_order()); });
    sort_by(leaves_, [](const SwapDecision& d) { return KeyOf(0, d.after); });
  }

  // Bytes on the device at each operation by the order of operations alone.
  void BuildProfile() {
    std::vector<int64_t> change(n_ + 1, 0);
    profile_ = gaps_.full;
    allocates_ = gaps_.makes_room;
    for (const SwapDecision& d : decisions_) {
      const int64_t bytes = gaps_.graph->aligned_bytes(d.storage);
      const bool to_host = d.before == SwapDecision::kToHost;
      const int32_t begin = d.after + 1, end = to_host ? n_ : d.anchor;
      const bool feed = gaps_.graph->storages[d.storage].kind == StorageKind::kFeed;
      if (feed && d.after == SwapDecision::kFromHost) {
        change[d.anchor] += bytes;  // FindGaps counts no home gap of a feed
        change[d.before] -= bytes;
        continue;
      }
      if (feed && to_host) continue;
      if (begin < end) {
        change[begin] -= bytes;
        change[end] += bytes;
      }
      if (!d.copy_in && !to_host) allocates_[d.before] = 1;
    }
    int64_t sum = 0;
    for (int32_t i = 0; i < n_; ++i) {
      sum += change[i];
      profile_[i] += sum + target_.set_aside_at(i);
    }
  }

  void EmitCopiesOut(int32_t operation, double end) {
    for (; next_out_ < outs_.size() && decisions_[outs_[next_out_]].out_after <= operation; ++next_out_) {
      const int32_t k = outs_[next_out_];
      const double start = std::max(out_free_, end);
      out_free_ = start + gaps_.copy_latency + Bytes(decisions_[k]) * gaps_.seconds_per_byte_out;
      copy_out_end_[k] = out_free_;
      result_.out.push_back({start, out_free_});
    }
  }

  // Storages whose last access was `operation`: their bytes are there until their copy is done.
  void LeaveAfter(int32_t operation) {
    for (; next_leave_ < leaves_.size() && decisions_[leaves_[next_leave_]].after <= operation; ++next_leave_) {
      const int32_t k = leaves_[next_leave_];
      const int64_t bytes = gaps_.graph->aligned_bytes(decisions_[k].storage);
      late_.push_back({copy_out_end_[k], bytes, k});
      std::push_heap(late_.begin(), late_.end(), std::greater<>());
      late_bytes_ += bytes;
    }
  }

  // When operation i and the copies anchored there have their room.
  double RoomAt(int32_t i) {
    double time = 0;
    const double now = i == 0 ? 0 : operation_end_[i - 1];
    while (!late_.empty() && (late_.front().end <= now || profile_[i] + late_bytes_ > budget_)) {
      time = std::max(time, late_.front().end);
      late_bytes_ -= late_.front().bytes;
      result_.gone_at[late_.front().decision] = i;
      std::pop_heap(late_.begin(), late_.end(), std::greater<>());
      late_.pop_back();
    }
    return time;
  }

  struct Late {
    double end = 0;  // of the copy out
    int64_t bytes = 0;
    int32_t decision = 0;
    bool operator>(const Late& other) const {
      return std::make_pair(end, decision) > std::make_pair(other.end, other.decision);
    }
  };

  const GapGraph& gaps_;
  const MemoryTarget& target_;
  const int64_t budget_;
  const std::vector<SwapDecision>& decisions_;
  const int32_t n_;
  std::vector<int32_t> ins_, outs_, leaves_;
  std::vector<int32_t> host_ready_;  // per decision: the copy out whose bytes it brings back, or -1
  std::vector<int64_t> profile_;
  std::vector<uint8_t> allocates_;
  std::vector<double> copy_out_end_, operation_end_;
  std::vector<Late> late_;  // min-heap
  int64_t late_bytes_ = 0;
  size_t next_in_ = 0, next_out_ = 0, next_leave_ = 0;
  double in_free_ = 0, out_free_ = 0;
  TrialResult result_;
};

// Marks, for every operation that waited, the operations since the lane's busy period around the wait began.
void MarkCritical(const GapGraph& gaps, const TrialResult& trial, const std::vector<int32_t>& waited,
                  const std::vector<TrialResult::Busy>& copies, std::vector<double>& weights) {
  constexpr double kBusyGapSeconds = 2e-5;
  std::vector<TrialResult::Busy> periods;
  for (const TrialResult::Busy& copy : copies) {
    if (!periods.empty() && copy.start - periods.back().end <= kBusyGapSeconds) {
      periods.back().end = std::max(periods.back().end, copy.end);
    } else {
      periods.push_back(copy);
    }
  }
  std::vector<int32_t> change(gaps.num_operations() + 1, 0);
  for (int32_t i : waited) {
    const double start = trial.operation_start[i];
    auto period = std::upper_bound(periods.begin(), periods.end(), start,
                                   [](double t, const TrialResult::Busy& p) { return t < p.start; });
    if (period == periods.begin()) continue;
    --period;
    const auto first = std::upper_bound(trial.operation_start.begin(), trial.operation_start.end(), period->start);
    const int32_t begin = std::max<int32_t>(0, static_cast<int32_t>(first - trial.operation_start.begin()) - 1);
    ++change[std::min(begin, i)];
    --change[i + 1];
  }
  weights.assign(gaps.num_operations(), kUncriticalWeight);
  int32_t marked = 0;
  for (int32_t i = 0; i < gaps.num_operations(); ++i) {
    marked += change[i];
    if (marked > 0) weights[i] = 1;
  }
}

}  // namespace

std::vector<SwapDecision> DecisionsOf(const GapGraph& gaps, const Selection& selection) { return Decider(gaps, selection).Run(); }

void SetAnchors(const GapGraph& gaps, const std::vector<int32_t>& anchors, std::vector<SwapDecision>& decisions) {
  int64_t k = 0;
  for (SwapDecision& d : decisions) {
    if (!d.copy_in) continue;
    if (d.after == SwapDecision::kFromHost) {
      d.anchor = anchors[gaps.first_gap[d.storage + 1] - 1];  // the home gap's
      continue;
    }
    k = std::max(k, gaps.first_gap[d.storage]);
    while (gaps.gaps[k].after != d.after) ++k;
    d.anchor = anchors[k];
  }
}

std::vector<SwapDecision> DecisionsOf(const GapGraph& gaps, const Selection& selection, const std::vector<int32_t>& anchors) {
  std::vector<SwapDecision> decisions = DecisionsOf(gaps, selection);
  SetAnchors(gaps, anchors, decisions);
  return decisions;
}

uint64_t HashOf(const std::vector<SwapDecision>& decisions) {
  uint64_t hash = decisions.size();
  const auto mix = [&hash](int32_t first, int32_t second) {
    constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
    hash = (std::rotl(hash, 29) ^ (uint64_t{static_cast<uint32_t>(first)} << 32 | static_cast<uint32_t>(second))) * kOdd;
  };
  for (const SwapDecision& d : decisions) {
    mix(d.storage, d.after);
    mix(d.before, d.copy_in ? d.anchor : -1);
    if (d.copy_out) mix(d.out_after, -1);
  }
  return hash;
}

std::string ReasonOf(const GapGraph& gaps, const SwapDecision& d) {
  if (d.leaves_from_last_step()) {
    return "goes home when the next step begins, comes back for its use: its place serves others in between";
  }
  if (d.after == SwapDecision::kFromHost) {
    const bool feed = gaps.graph->storages[d.storage].kind == StorageKind::kFeed;
    return feed ? "a feed" : "fetched every step: its place serves others";
  }
  if (d.before == SwapDecision::kToHost) return d.copy_out ? "written home" : "not needed again in this step";
  const bool from_last_step = d.copy_out && d.out_after < 0;
  return absl::StrCat("idle for ", d.before - d.after, " operations",
                      from_last_step ? "; goes home with what the last step wrote" : "");
}

TrialResult SimulateTrial(const GapGraph& gaps, const MemoryTarget& target, const std::vector<SwapDecision>& decisions) {
  return Simulation(gaps, target, decisions).Run();
}

int64_t TrialWork(const GapGraph& gaps, size_t decisions) {
  constexpr int64_t kOperationWork = 25, kDecisionWork = 200;
  return kOperationWork * gaps.num_operations() + kDecisionWork * static_cast<int64_t>(decisions);
}

TransferWeights CriticalWeights(const GapGraph& gaps, const TrialResult& trial) {
  TransferWeights weights;
  MarkCritical(gaps, trial, trial.waited_for_room, trial.out, weights.out);
  MarkCritical(gaps, trial, trial.waited_for_input, trial.in, weights.in);
  return weights;
}

}  // namespace millrace
