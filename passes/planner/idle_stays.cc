#include "passes/planner/idle_stays.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/types/span.h"
#include "passes/access/radix_sort.h"

namespace millrace {
namespace {

// Parts of the step: how much earlier than necessary bytes may come back, and what all copies together may cost.
constexpr double kReturnSlack = 0.02, kMostCost = 0.05;

// The decisions of one storage, by time; of each value the first that is swapped goes to the host.
void ChooseCopiesOut(const GapGraph& gaps, absl::Span<SwapDecision> decisions) {
  int32_t on_host = -1;  // the write whose bytes the host has
  int64_t k = gaps.first_gap[decisions[0].storage];
  for (SwapDecision& d : decisions) {
    while (gaps.gaps[k].after != d.after) ++k;
    const Gap& gap = gaps.gaps[k];
    d.copy_out = gap.copies_out(gap.last_write == on_host);
    d.out_after = d.copy_out ? gap.last_write : 0;
    if (d.copy_out) on_host = gap.last_write;
  }
}

}  // namespace

IdleStays::IdleStays(const GapGraph& gaps, const Schedule& schedule)
    : IdleTimes(kMostCost * gaps.compute_seconds()), gaps_(gaps), schedule_(schedule) {}

bool IdleStays::Find(int32_t b, int32_t slot, IdleTime& time) const {
  if (b >= static_cast<int32_t>(schedule_.residences.size())) return false;  // scratch
  const int32_t s = schedule_.residences[b].storage;
  const StorageInfo& info = gaps_.graph->storages[s];
  if (info.kind != StorageKind::kActivation || info.pinned) return false;
  const absl::Span<const TimedAccess> uses = gaps_.lists.of(s);
  const auto next = std::upper_bound(uses.begin(), uses.end(), slot,
                                     [](int32_t at, const TimedAccess& use) { return at < use.operation; });
  if (next == uses.begin() || next == uses.end() || std::prev(next)->operation == slot) return false;
  const Gap& gap = gaps_.gaps[gaps_.first_gap[s] + (next - uses.begin()) - 1];
  if (gap.overwritten) return false;
  const double out = gap.last_write < 0 ? 0 : gaps_.out_seconds(s), in = gaps_.in_seconds(s);
  // What the copies take, and what of it operations have to wait for even if no other copy is in the way.
  const double since_write = gap.last_write < 0 ? 0 : gaps_.start[slot] - gaps_.start[gap.last_write + 1];
  const double until_use = gaps_.start[gap.before] - gaps_.start[slot + 1];
  const double cost = out + in + std::max(0.0, out - since_write) + std::max(0.0, in - until_use);
  const double returns = gaps_.start[gap.before] - in - kReturnSlack * gaps_.compute_seconds();
  time = {gap.after, gap.before, returns > 0 ? gaps_.OperationAt(returns) : 0, cost};
  return true;
}

void AddReturns(const GapGraph& gaps, const Schedule& schedule, TimePacking& packing, std::vector<SwapDecision>& decisions) {
  std::vector<Keyed> order;  // of what returns: by stay, then by time
  for (size_t k = 0; k < packing.returns.size(); ++k) {
    order.push_back({KeyOf(packing.returns[k].block, packing.returns[k].after), static_cast<int32_t>(k)});
  }
  SortByKey(order);
  std::vector<int64_t> offsets;
  std::vector<SwapDecision> added;
  size_t next = 0;
  for (size_t r = 0; r < schedule.residences.size(); ++r) {
    offsets.push_back(packing.offsets[r]);
    for (; next < order.size() && packing.returns[order[next].index].block == static_cast<int32_t>(r); ++next) {
      const TimePacking::Return& stay = packing.returns[order[next].index];
      offsets.push_back(stay.offset);
      added.push_back({schedule.residences[r].storage, stay.after, stay.before, stay.first, true, false, 0, {}});
    }
  }
  offsets.insert(offsets.end(), packing.offsets.begin() + static_cast<int64_t>(schedule.residences.size()), packing.offsets.end());
  packing.offsets = std::move(offsets);
  std::vector<SwapDecision> all;
  all.reserve(decisions.size() + added.size());
  std::merge(decisions.begin(), decisions.end(), added.begin(), added.end(), std::back_inserter(all),
             [](const SwapDecision& a, const SwapDecision& b) {
               return a.storage != b.storage ? a.storage < b.storage : a.after < b.after;
             });
  size_t d = 0;
  for (size_t k = 0; k < added.size(); ++k) {
    if (k > 0 && added[k].storage == added[k - 1].storage) continue;
    while (all[d].storage != added[k].storage) ++d;
    size_t end = d;
    while (end < all.size() && all[end].storage == added[k].storage) ++end;
    ChooseCopiesOut(gaps, absl::MakeSpan(all).subspan(d, end - d));
  }
  decisions = std::move(all);
}

}  // namespace millrace
