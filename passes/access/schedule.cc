#include "passes/access/schedule.h"

#include <algorithm>

#include "passes/access/radix_sort.h"

namespace millrace {
namespace {

class ScheduleBuilder {
 public:
  ScheduleBuilder(const AccessGraph& graph, const AccessLists& lists, const std::vector<SwapDecision>& decisions)
      : graph_(graph), lists_(lists), decisions_(decisions) {}

  Schedule Run() {
    OrderItems();
    FindResidences();
    return std::move(result_);
  }

 private:
  void OrderItems() {
    const int32_t n = graph_.num_operations();
    // Of the copies around an operation: what is needed soonest comes in first, for the lane is in order; what leaves
    // soonest goes first.
    std::vector<Keyed> ins, outs;
    for (int32_t k = 0; k < static_cast<int32_t>(decisions_.size()); ++k) {
      const SwapDecision& d = decisions_[k];
      if (d.before != SwapDecision::kToHost && d.copy_in) ins.push_back({KeyOf(d.order, d.before), k});
      if (d.copy_out) outs.push_back({KeyOf(d.out_after, d.out_order()), k});
    }
    SortByKey(ins);
    for (Keyed& in : ins) in.key = KeyOf(0, decisions_[in.index].anchor);
    SortByKey(ins);
    SortByKey(outs);
    copy_in_position_.assign(decisions_.size(), -1);
    copy_out_position_.assign(decisions_.size(), -1);
    result_.items.reserve(n + ins.size() + outs.size());
    result_.position_of_operation.reserve(n);
    size_t next_in = 0, next_out = 0;
    const auto copies_out_after = [&](int32_t operation) {
      for (; next_out < outs.size() && decisions_[outs[next_out].index].out_after == operation; ++next_out) {
        copy_out_position_[outs[next_out].index] = Position();
        result_.items.push_back({ScheduleItem::Kind::kCopyOut, outs[next_out].index, -1});
      }
    };
    copies_out_after(-1);
    for (int32_t i = 0; i < n; ++i) {
      for (; next_in < ins.size() && decisions_[ins[next_in].index].anchor == i; ++next_in) {
        copy_in_position_[ins[next_in].index] = Position();
        result_.items.push_back({ScheduleItem::Kind::kCopyIn, ins[next_in].index, -1});
      }
      result_.position_of_operation.push_back(Position());
      result_.items.push_back({ScheduleItem::Kind::kOperation, i, -1});
      copies_out_after(i);
    }
  }

  int64_t Position() const { return static_cast<int64_t>(result_.items.size()); }

  void FindResidences() {
    residences_of_lists_.reserve(graph_.accesses.size());
    result_.residences.reserve(graph_.storages.size() + decisions_.size());
    size_t next_decision = 0;
    for (size_t s = 0; s < graph_.storages.size(); ++s) {
      const size_t first_decision = next_decision;
      while (next_decision < decisions_.size() && decisions_[next_decision].storage == static_cast<int32_t>(s)) {
        ++next_decision;
      }
      const auto decisions = absl::MakeConstSpan(decisions_).subspan(first_decision, next_decision - first_decision);
      StaysOf(static_cast<int32_t>(s), lists_.of(s), decisions, static_cast<int32_t>(first_decision));
    }
    std::vector<int64_t> next(lists_.begin.begin(), lists_.begin.end() - 1);
    result_.residence_of.reserve(graph_.accesses.size());
    for (const Access& access : graph_.accesses) {
      result_.residence_of.push_back(residences_of_lists_[next[access.storage]++]);
    }
  }

  void StaysOf(int32_t storage, absl::Span<const TimedAccess> accesses, absl::Span<const SwapDecision> decisions,
               int32_t first_decision) {
    if (accesses.empty()) return;
    const StorageKind kind = graph_.storages[storage].kind;
    const bool from_host = !decisions.empty() && decisions[0].fetched();
    const bool lives_over_steps = kind == StorageKind::kVariable || kind == StorageKind::kConstant;
    size_t d = 0;
    Stay stay{storage, 0, 0, -1, lives_over_steps && !from_host};
    if (!stay.resident && !from_host) stay.first = result_.position_of_operation[accesses[0].operation];
    bool open = !from_host;
    if (!decisions.empty() && decisions[0].leaves_from_last_step()) {
      stay.last = copy_out_position_[first_decision];
      result_.items[stay.last].residence = static_cast<int32_t>(result_.residences.size());
    }
    for (size_t k = 0; k < accesses.size(); ++k) {
      const int32_t operation = accesses[k].operation;
      while (d < decisions.size() && decisions[d].before <= operation) {
        if (open) Close(stay);
        const int32_t index = first_decision + static_cast<int32_t>(d);
        stay = Stay{storage, copy_in_position_[index], 0, index, false};
        if (stay.first < 0) stay = Stay{storage, result_.position_of_operation[operation], 0, -1, false};
        open = true;
        ++d;
      }
      stay.last = std::max(stay.last, result_.position_of_operation[operation]);
      residences_of_lists_.push_back(static_cast<int32_t>(result_.residences.size()));
      // A copy out belongs to the residence that holds the bytes it takes.
      for (size_t e = d; e < decisions.size() && decisions[e].after <= operation; ++e) {
        const int64_t out = copy_out_position_[first_decision + e];
        if (out < 0) continue;
        stay.last = std::max(stay.last, out);
        result_.items[out].residence = static_cast<int32_t>(result_.residences.size());
      }
    }
    const bool leaves = !decisions.empty() && decisions.back().before == SwapDecision::kToHost;
    if (lives_over_steps && !leaves) stay.last = Position() - 1;
    Close(stay);
  }

  void Close(const Stay& stay) {
    if (stay.decision >= 0) {
      result_.items[stay.first].residence = static_cast<int32_t>(result_.residences.size());
    }
    result_.residences.push_back(stay);
  }

  const AccessGraph& graph_;
  const AccessLists& lists_;
  const std::vector<SwapDecision>& decisions_;
  std::vector<int32_t> residences_of_lists_;  // per access of lists_
  std::vector<int64_t> copy_in_position_;
  std::vector<int64_t> copy_out_position_;
  Schedule result_;
};

}  // namespace

Schedule BuildSchedule(const AccessGraph& graph, const SwapChoice& choice) {
  return BuildSchedule(graph, ListAccesses(graph), choice.decisions);
}

Schedule BuildSchedule(const AccessGraph& graph, const AccessLists& lists, const std::vector<SwapDecision>& decisions) {
  return ScheduleBuilder(graph, lists, decisions).Run();
}

}  // namespace millrace
