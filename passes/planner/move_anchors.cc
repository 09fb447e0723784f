#include "passes/planner/move_anchors.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "passes/memory/owner_map.h"

namespace millrace {
namespace {

// The first operation before which some bytes are free.
struct FreeFrom {
  int32_t operation = 0;
};
void Raise(FreeFrom& into, const FreeFrom& from) { into.operation = std::max(into.operation, from.operation); }

class Mover {
 public:
  Mover(const AccessGraph& graph, const Schedule& schedule, SwapChoice& choice)
      : graph_(graph), schedule_(schedule), choice_(choice), claimed_(schedule.residences.size(), false) {}

  bool Run() {
    CountOperations();
    for (size_t r = 0; r < schedule_.residences.size(); ++r) {
      if (schedule_.residences[r].resident) Claim(static_cast<int32_t>(r));
    }
    for (const ScheduleItem& item : schedule_.items) {
      if (item.kind == ScheduleItem::Kind::kOperation) ClaimOf(item.index);
      if (item.kind == ScheduleItem::Kind::kCopyIn) Take(item);
    }
    if (moved_) SetAnchors();
    return moved_;
  }

 private:
  void CountOperations() {
    operations_until_.reserve(schedule_.items.size());
    int32_t operations = 0;
    for (const ScheduleItem& item : schedule_.items) {
      operations += item.kind == ScheduleItem::Kind::kOperation ? 1 : 0;
      operations_until_.push_back(operations);
    }
  }

  int32_t ClaimBytes(int64_t offset, int64_t bytes, int32_t free_from) {
    const int32_t free = owners_.Claim(offset, bytes).operation;
    owners_.Release(offset, bytes, FreeFrom{free_from});
    return free;
  }

  int32_t Claim(int32_t r) {
    if (claimed_[r]) return 0;
    claimed_[r] = true;
    const Stay& stay = schedule_.residences[r];
    return ClaimBytes(choice_.residence_offsets[r], graph_.aligned_bytes(stay.storage), operations_until_[stay.last]);
  }

  void ClaimOf(int32_t i) {
    for (int64_t k = graph_.first_access[i]; k < graph_.first_access[i + 1]; ++k) Claim(schedule_.residence_of[k]);
    if (graph_.scratch_bytes[i] > 0) ClaimBytes(choice_.scratch_offsets[i], graph_.aligned_scratch(i), i + 1);
  }

  void Take(const ScheduleItem& item) {
    const SwapDecision& d = choice_.decisions[item.index];
    int32_t anchor = std::max({Claim(item.residence), d.after + 1, d.copy_out ? d.out_after + 1 : 0});
    // What another device sends is there later than that.
    if (d.after == SwapDecision::kFromHost) anchor = std::max(anchor, std::min(d.anchor, graph_.storages[d.storage].available_from));
    if (!lane_.empty()) anchor = std::max(anchor, lane_.back().anchor);
    moved_ = moved_ || anchor < d.anchor;
    lane_.push_back({item.index, anchor});
  }

  void SetAnchors() {
    int32_t place = 0;
    for (size_t k = 0; k < lane_.size(); ++k) {
      place = k > 0 && lane_[k - 1].anchor == lane_[k].anchor ? place + 1 : 0;
      SwapDecision& d = choice_.decisions[lane_[k].decision];
      d.anchor = lane_[k].anchor;
      d.order = place;
    }
  }

  struct CopyIn {
    int32_t decision = 0, anchor = 0;
  };

  const AccessGraph& graph_;
  const Schedule& schedule_;
  SwapChoice& choice_;
  std::vector<int32_t> operations_until_;  // per position, with what is there
  OwnerMap<FreeFrom> owners_;
  std::vector<bool> claimed_;
  std::vector<CopyIn> lane_;
  bool moved_ = false;
};

}  // namespace

bool MoveAnchorsBack(const AccessGraph& graph, const Schedule& schedule, SwapChoice& choice) { return Mover(graph, schedule, choice).Run(); }

}  // namespace millrace
