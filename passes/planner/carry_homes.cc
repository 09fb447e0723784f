#include "passes/planner/carry_homes.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "millrace/types.h"
#include "passes/access/schedule.h"
#include "passes/planner/replay_packed.h"

namespace millrace {
namespace {

// Stays that candidates are compared with, all together, at most.
constexpr int64_t kMostLooks = 20'000'000;
// A step that is hardly shorter is not worth another kind of plan.
constexpr double kLeastGain = 0.9995;

class Carrier {
 public:
  Carrier(const GapGraph& gaps, const SwapChoice& choice)
      : gaps_(gaps), choice_(choice), schedule_(BuildSchedule(*gaps.graph, gaps.lists, choice.decisions)) {}

  // Those whose places are taken last in the next step, as many of them as make the step shortest.
  std::optional<Placement> Run(const Placement& placement) {
    FindCandidates();
    std::optional<Placement> best;
    double to_beat = kLeastGain * placement.step_seconds;
    for (size_t count = candidates_.size(); count > 0; count /= 2) {
      SwapChoice carried = WithCarried(count);
      const double seconds = ReplayPacked(gaps_, BuildSchedule(*gaps_.graph, gaps_.lists, carried.decisions), carried);
      if (seconds >= to_beat) continue;
      to_beat = seconds;
      best = Placement{std::move(carried), seconds, placement.evictions};
    }
    return best;
  }

 private:
  struct Candidate {
    int32_t storage = 0;
    int32_t last_stay = 0;
    int64_t taken_at = 0;  // position at which something else takes the place in a step
  };
  struct Range {
    int64_t begin = 0, end = 0;
    bool Meets(int64_t other_begin, int64_t bytes) const { return begin < other_begin + bytes && other_begin < end; }
  };

  int64_t BytesOf(const Stay& stay) const { return gaps_.graph->aligned_bytes(stay.storage); }

  void FindCandidates() {
    std::vector<int32_t> last_stay(gaps_.graph->storages.size(), -1);
    for (size_t r = 0; r < schedule_.residences.size(); ++r) last_stay[schedule_.residences[r].storage] = static_cast<int32_t>(r);
    const std::vector<SwapDecision>& decisions = choice_.decisions;
    const int64_t looks = static_cast<int64_t>(schedule_.residences.size()) + gaps_.num_operations();
    int64_t left = kMostLooks;
    for (size_t k = 0; k + 1 < decisions.size() && left > 0; ++k) {
      const SwapDecision& first = decisions[k];
      const bool is_first = k == 0 || decisions[k - 1].storage != first.storage;
      const bool variable = gaps_.graph->storages[first.storage].kind == StorageKind::kVariable;
      if (!is_first || !variable || !first.fetched() || !first.copy_in) continue;
      size_t end = k + 1;
      while (end < decisions.size() && decisions[end].storage == first.storage) ++end;
      const SwapDecision& home = decisions[end - 1];
      if (end == k + 1 || home.before != SwapDecision::kToHost || !home.copy_out) continue;
      left -= looks;
      Candidate candidate{first.storage, last_stay[first.storage], static_cast<int64_t>(schedule_.items.size())};
      if (PlaceIsFree(candidate)) candidates_.push_back(candidate);
    }
    std::stable_sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) { return a.taken_at > b.taken_at; });
  }

  // Whether nothing is there after the candidate, up to the step's end. Finds out when something is, before.
  bool PlaceIsFree(Candidate& candidate) const {
    const Stay& own = schedule_.residences[candidate.last_stay];
    const int64_t at = choice_.residence_offsets[candidate.last_stay];
    const Range place{at, at + BytesOf(own)};
    for (size_t r = 0; r < schedule_.residences.size(); ++r) {
      const Stay& stay = schedule_.residences[r];
      if (static_cast<int32_t>(r) == candidate.last_stay || !place.Meets(choice_.residence_offsets[r], BytesOf(stay))) continue;
      if (stay.last > own.last || stay.resident) return false;
      candidate.taken_at = std::min(candidate.taken_at, stay.first);
    }
    for (int32_t i = 0; i < gaps_.num_operations(); ++i) {
      const int64_t bytes = gaps_.graph->aligned_scratch(i);
      if (bytes == 0 || !place.Meets(choice_.scratch_offsets[i], bytes)) continue;
      if (schedule_.position_of_operation[i] > own.last) return false;
      candidate.taken_at = std::min(candidate.taken_at, schedule_.position_of_operation[i]);
    }
    return true;
  }

  SwapChoice WithCarried(size_t count) const {
    std::vector<int32_t> last_stay(gaps_.graph->storages.size(), -1);  // of those that are carried
    for (size_t c = 0; c < count; ++c) last_stay[candidates_[c].storage] = candidates_[c].last_stay;
    SwapChoice carried;
    carried.scratch_offsets = choice_.scratch_offsets;
    carried.notes = choice_.notes;
    for (size_t k = 0; k < choice_.decisions.size(); ++k) {
      SwapDecision d = choice_.decisions[k];
      if (last_stay[d.storage] >= 0) {
        if (d.before == SwapDecision::kToHost) continue;
        if (d.after == SwapDecision::kFromHost) {
          d.copy_out = true;
          d.out_after = -1;
        }
      }
      carried.decisions.push_back(std::move(d));
    }
    // Where it was when the last step ended, then as before.
    for (size_t r = 0; r < schedule_.residences.size(); ++r) {
      const int32_t storage = schedule_.residences[r].storage;
      const bool begins = r == 0 || schedule_.residences[r - 1].storage != storage;
      if (begins && last_stay[storage] >= 0) carried.residence_offsets.push_back(choice_.residence_offsets[last_stay[storage]]);
      carried.residence_offsets.push_back(choice_.residence_offsets[r]);
    }
    return carried;
  }

  const GapGraph& gaps_;
  const SwapChoice& choice_;
  const Schedule schedule_;
  std::vector<Candidate> candidates_;
};

}  // namespace

std::optional<Placement> CarryHomes(const GapGraph& gaps, const Placement& placement) {
  if (placement.choice.residence_offsets.empty()) return std::nullopt;
  return Carrier(gaps, placement.choice).Run(placement);
}

}  // namespace millrace
