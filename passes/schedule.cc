#include "passes/schedule.h"

#include <algorithm>

#include "passes/access_lists.h"

namespace millrace {
namespace {

class ScheduleBuilder {
 public:
  ScheduleBuilder(const AccessGraph& graph, const SwapChoice& choice) : graph_(graph), decisions_(choice.decisions) {}

  Schedule Run() {
    OrderItems();
    FindResidences();
    return std::move(result_);
  }

 private:
  void OrderItems() {
    const int32_t n = graph_.num_operations();
    std::vector<std::vector<int32_t>> ins(n), outs(n + 1);
    for (int32_t k = 0; k < static_cast<int32_t>(decisions_.size()); ++k) {
      const SwapDecision& d = decisions_[k];
      if (d.before != SwapDecision::kToHost && d.copy_in) ins[d.anchor].push_back(k);
      if (d.copy_out) outs[d.out_after + 1].push_back(k);
    }
    copy_in_position_.assign(decisions_.size(), -1);
    copy_out_position_.assign(decisions_.size(), -1);
    for (int32_t k : outs[0]) AddCopyOut(k);
    for (int32_t i = 0; i < n; ++i) {
      // Soonest needed first: the lane is in order.
      std::stable_sort(ins[i].begin(), ins[i].end(),
                       [&](int32_t a, int32_t b) {
                         return std::make_pair(decisions_[a].order, decisions_[a].before) <
                                std::make_pair(decisions_[b].order, decisions_[b].before);
                       });
      for (int32_t k : ins[i]) {
        copy_in_position_[k] = Position();
        result_.items.push_back({ScheduleItem::Kind::kCopyIn, k, -1});
      }
      result_.position_of_operation.push_back(Position());
      result_.items.push_back({ScheduleItem::Kind::kOperation, i, -1});
      // What leaves soonest goes first.
      std::stable_sort(outs[i + 1].begin(), outs[i + 1].end(),
                       [&](int32_t a, int32_t b) { return decisions_[a].after < decisions_[b].after; });
      for (int32_t k : outs[i + 1]) AddCopyOut(k);
    }
  }

  int64_t Position() const { return static_cast<int64_t>(result_.items.size()); }

  void AddCopyOut(int32_t decision) {
    copy_out_position_[decision] = Position();
    result_.items.push_back({ScheduleItem::Kind::kCopyOut, decision, -1});
  }

  void FindResidences() {
    const AccessLists lists = ListAccesses(graph_);
    std::vector<std::vector<int32_t>> residence_by_storage_access(graph_.storages.size());
    size_t next_decision = 0;
    for (size_t s = 0; s < graph_.storages.size(); ++s) {
      const size_t first_decision = next_decision;
      while (next_decision < decisions_.size() && decisions_[next_decision].storage == static_cast<int32_t>(s)) {
        ++next_decision;
      }
      const auto decisions = absl::MakeConstSpan(decisions_).subspan(first_decision, next_decision - first_decision);
      StaysOf(static_cast<int32_t>(s), lists.of(s), decisions, static_cast<int32_t>(first_decision),
              residence_by_storage_access[s]);
    }
    std::vector<int32_t> seen(graph_.storages.size(), 0);
    result_.residence_of.reserve(graph_.accesses.size());
    for (const Access& access : graph_.accesses) {
      result_.residence_of.push_back(residence_by_storage_access[access.storage][seen[access.storage]++]);
    }
  }

  void StaysOf(int32_t storage, absl::Span<const TimedAccess> accesses, absl::Span<const SwapDecision> decisions,
               int32_t first_decision, std::vector<int32_t>& residence_of_access) {
    if (accesses.empty()) return;
    const StorageKind kind = graph_.storages[storage].kind;
    const bool from_host = !decisions.empty() && decisions[0].after == SwapDecision::kFromHost;
    const bool lives_over_steps = kind == StorageKind::kVariable || kind == StorageKind::kConstant;
    size_t d = 0;
    Stay stay{storage, 0, 0, -1, lives_over_steps && !from_host};
    if (!stay.resident && !from_host) stay.first = result_.position_of_operation[accesses[0].operation];
    bool open = !from_host;
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
      residence_of_access.push_back(static_cast<int32_t>(result_.residences.size()));
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
  const std::vector<SwapDecision>& decisions_;
  std::vector<int64_t> copy_in_position_;
  std::vector<int64_t> copy_out_position_;
  Schedule result_;
};

}  // namespace

Schedule BuildSchedule(const AccessGraph& graph, const SwapChoice& choice) { return ScheduleBuilder(graph, choice).Run(); }

}  // namespace millrace
