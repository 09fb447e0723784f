// SwapLeastRecentlyUsed and SwapReactive: replay the operations against an allocator of exactly the budget.
#include <algorithm>
#include <list>

#include "absl/strings/str_cat.h"
#include "millrace/options.h"
#include "millrace/status.h"
#include "millrace/types.h"
#include "passes/access/access_lists.h"
#include "passes/memory/address_allocator.h"
#include "passes/swaps/choose_swaps.h"

namespace millrace {
namespace {

// Elements smaller than this are not worth a copy: TensorFlow's threshold for its stacks.
constexpr int64_t kLeastSavedBytes = 2048;

struct OnDemandPolicy {
  bool oldest_leaves = false;   // else the least recently used
  bool variables_stay = false;  // variables and constants never leave
  double occupancy = 0;         // saved activations leave above this part of the budget; 0: only for room
};

class Replay {
 public:
  Replay(const AccessGraph& graph, int64_t budget_bytes, const OnDemandPolicy& policy)
      : graph_(graph),
        policy_(policy),
        budget_bytes_(graph.aligned_budget(budget_bytes)),
        allocator_(budget_bytes_),
        lists_(ListAccesses(graph)),
        state_(graph.storages.size()),
        decisions_(graph.storages.size()),
        offsets_(graph.storages.size()) {}

  absl::StatusOr<SwapChoice> Run() {
    SwapChoice choice;
    choice.scratch_offsets.assign(graph_.num_operations(), 0);
    if (policy_.variables_stay) MR_RETURN_IF_ERROR(PlaceVariables());
    for (int32_t i = 0; i < graph_.num_operations(); ++i) {
      MR_RETURN_IF_ERROR(Bring(i, choice.scratch_offsets[i]));
      Touch(i);
      if (policy_.occupancy > 0) LeaveAbove(i + 1);
    }
    for (size_t s = 0; s < state_.size(); ++s) {
      if (state_[s].on_device && !state_[s].stays) Evict(static_cast<int32_t>(s), graph_.num_operations(), ForRoom());
    }
    for (size_t s = 0; s < state_.size(); ++s) {
      choice.decisions.insert(choice.decisions.end(), decisions_[s].begin(), decisions_[s].end());
      choice.residence_offsets.insert(choice.residence_offsets.end(), offsets_[s].begin(), offsets_[s].end());
    }
    return choice;
  }

 private:
  struct State {
    bool on_device = false;
    bool stays = false;        // over the step's end
    bool came_back = false;    // popped: not saved any more
    bool host_is_current = false;
    int32_t pinned_by = -1;   // operation that needs it now
    int32_t last_access = SwapDecision::kFromHost;
    int32_t last_write = -1;
    size_t next_access = 0;
    std::list<int32_t>::iterator place;  // in recent_
    bool is_saved = false;
    std::list<int32_t>::iterator saved_place;  // in saved_, where is_saved
  };

  absl::Status PlaceVariables() {
    for (size_t s = 0; s < state_.size(); ++s) {
      const StorageKind kind = graph_.storages[s].kind;
      const bool at_home = kind == StorageKind::kVariable || kind == StorageKind::kConstant;
      if (!at_home || lists_.of(s).empty()) continue;
      const int64_t offset = allocator_.Allocate(Bytes(static_cast<int32_t>(s)));
      if (offset < 0) return absl::InternalError("variables and constants exceed the budget: CheckWorkingSets was passed over");
      offsets_[s].push_back(offset);
      state_[s].on_device = state_[s].stays = true;
      held_bytes_ += Bytes(static_cast<int32_t>(s));
    }
    return absl::OkStatus();
  }

  // While too much is held, the oldest saved activations that operation `i` does not need leave before it.
  void LeaveAbove(int32_t i) {
    const auto limit = static_cast<int64_t>(policy_.occupancy * static_cast<double>(budget_bytes_));
    while (held_bytes_ > limit) {
      // All but what operation `i` needs may leave, so this looks at few; among all that is on the device it would not.
      const auto victim = std::find_if(saved_.rbegin(), saved_.rend(), [&](int32_t s) { return NextAccess(s) > i; });
      if (victim == saved_.rend()) return;
      Evict(*victim, i, "the oldest saved activation, when device memory was filled above the threshold");
    }
  }

  // Whether a storage that comes to the device is one that the graph saves for later, as it does so for the first time.
  bool Saves(int32_t storage) const {
    return policy_.occupancy > 0 && graph_.storages[storage].kind == StorageKind::kActivation &&
           graph_.storages[storage].size_bytes > kLeastSavedBytes && !state_[storage].came_back;
  }

  // Of an activation on the device: there is one, or it would have left.
  int32_t NextAccess(int32_t storage) const { return lists_.of(storage)[state_[storage].next_access].operation; }

  int64_t Bytes(int32_t storage) const { return graph_.aligned_bytes(storage); }

  // Makes everything operation `i` touches present, and room for its scratch.
  absl::Status Bring(int32_t i, int64_t& scratch_offset) {
    for (const Access& access : graph_.of(i)) state_[access.storage].pinned_by = i;
    for (const Access& access : graph_.of(i)) {
      if (!state_[access.storage].on_device && !Place(access, i)) return BringIntoEmptyMemory(i, scratch_offset);
    }
    if (graph_.scratch_bytes[i] == 0) return absl::OkStatus();
    scratch_offset = AllocateEvicting(graph_.aligned_scratch(i), i);
    if (scratch_offset < 0) return BringIntoEmptyMemory(i, scratch_offset);
    allocator_.Free(scratch_offset, graph_.aligned_scratch(i));
    return absl::OkStatus();
  }

  // What the operation needs lies so scattered that no hole is large enough: start again from an empty device.
  absl::Status BringIntoEmptyMemory(int32_t i, int64_t& scratch_offset) {
    for (const Access& access : graph_.of(i)) {
      if (state_[access.storage].on_device && !state_[access.storage].stays) Undo(access.storage, i);
    }
    while (!recent_.empty()) Evict(recent_.back(), i, ForRoom());
    for (const Access& access : graph_.of(i)) {
      if (!state_[access.storage].on_device && !Place(access, i)) return TooLarge(i);
    }
    if (graph_.scratch_bytes[i] == 0) return absl::OkStatus();
    scratch_offset = allocator_.Allocate(graph_.aligned_scratch(i));
    if (scratch_offset < 0) return TooLarge(i);
    allocator_.Free(scratch_offset, graph_.aligned_scratch(i));
    return absl::OkStatus();
  }

  absl::Status TooLarge(int32_t i) const {
    return absl::InternalError(absl::StrCat("operation ", i, " exceeds the budget: CheckWorkingSets was passed over"));
  }

  bool Place(const Access& access, int32_t i) {
    State& state = state_[access.storage];
    const int64_t offset = AllocateEvicting(Bytes(access.storage), i);
    if (offset < 0) return false;
    offsets_[access.storage].push_back(offset);
    const bool first = state.last_access == SwapDecision::kFromHost;
    const bool made_here = first && graph_.storages[access.storage].kind == StorageKind::kActivation;
    if (!made_here) OpenDecision(access, i);
    state.on_device = true;
    state.came_back = !first;
    held_bytes_ += Bytes(access.storage);
    recent_.push_front(access.storage);
    state.place = recent_.begin();
    state.is_saved = Saves(access.storage);
    if (state.is_saved) {
      saved_.push_front(access.storage);
      state.saved_place = saved_.begin();
    }
    return true;
  }

  void OpenDecision(const Access& access, int32_t i) {
    State& state = state_[access.storage];
    std::vector<SwapDecision>& decisions = decisions_[access.storage];
    if (state.last_access == SwapDecision::kFromHost) {
      state.host_is_current = true;
      decisions.push_back({access.storage, SwapDecision::kFromHost, i, i, true, false, 0, "needed now"});
    } else {
      decisions.back().before = i;
      decisions.back().anchor = i;
      decisions.back().reason += ", needed again";
    }
    decisions.back().copy_in = access.reads;
  }

  int64_t AllocateEvicting(int64_t bytes, int32_t i) {
    while (true) {
      const int64_t offset = allocator_.Allocate(bytes);
      if (offset >= 0) return offset;
      auto victim = std::find_if(recent_.rbegin(), recent_.rend(),
                                 [&](int32_t storage) { return state_[storage].pinned_by != i; });
      if (victim == recent_.rend()) return -1;
      Evict(*victim, i, ForRoom());
    }
  }

  const char* ForRoom() const { return policy_.oldest_leaves ? "the oldest, for room" : "least recently used"; }

  // Takes a storage off the device before operation `i`.
  void Evict(int32_t storage, int32_t i, const char* reason) {
    State& state = state_[storage];
    const bool used_again = state.next_access < lists_.of(storage).size();
    const bool needed = used_again || graph_.storages[storage].kind == StorageKind::kVariable;
    const bool copy_out = needed && !state.host_is_current;
    decisions_[storage].push_back({storage, state.last_access, SwapDecision::kToHost, 0, false, copy_out,
                                   copy_out ? i - 1 : 0, reason});
    if (copy_out) state.host_is_current = true;
    Remove(storage);
  }

  // Takes a storage that operation `i` needs off the device again: one brought for `i` as if it had not come.
  void Undo(int32_t storage, int32_t i) {
    State& state = state_[storage];
    std::vector<SwapDecision>& decisions = decisions_[storage];
    const bool came_for_this = !decisions.empty() && decisions.back().before == i;
    const bool made_here = state.last_access == SwapDecision::kFromHost && decisions.empty();
    if (!came_for_this && !made_here) return Evict(storage, i, ForRoom());
    if (came_for_this && decisions.back().after == SwapDecision::kFromHost) {
      decisions.pop_back();
    } else if (came_for_this) {
      decisions.back().before = SwapDecision::kToHost;
    }
    Remove(storage);
    offsets_[storage].pop_back();
  }

  void Remove(int32_t storage) {
    State& state = state_[storage];
    allocator_.Free(offsets_[storage].back(), Bytes(storage));
    held_bytes_ -= Bytes(storage);
    recent_.erase(state.place);
    if (state.is_saved) saved_.erase(state.saved_place);
    state.on_device = state.is_saved = false;
  }

  // After operation `i`: what it touched is the most recent; what is dead leaves for nothing.
  void Touch(int32_t i) {
    for (const Access& access : graph_.of(i)) {
      State& state = state_[access.storage];
      state.last_access = i;
      ++state.next_access;
      if (access.writes) {
        state.last_write = i;
        state.host_is_current = false;
      }
      if (state.stays) continue;
      if (!policy_.oldest_leaves) recent_.splice(recent_.begin(), recent_, state.place);
      const bool dead = state.next_access == lists_.of(access.storage).size();
      const bool goes_home =
          graph_.storages[access.storage].kind == StorageKind::kVariable && !state.host_is_current;
      if (!dead || goes_home) continue;
      if (graph_.storages[access.storage].kind != StorageKind::kActivation) {
        decisions_[access.storage].push_back(
            {access.storage, i, SwapDecision::kToHost, 0, false, false, 0, "not needed again in this step"});
      }
      Remove(access.storage);
    }
  }

  const AccessGraph& graph_;
  const OnDemandPolicy policy_;
  const int64_t budget_bytes_;
  int64_t held_bytes_ = 0;
  AddressAllocator allocator_;
  const AccessLists lists_;
  std::vector<State> state_;
  std::list<int32_t> recent_;  // on the device, most recently used first
  std::list<int32_t> saved_;   // of them, saved activations that have not come back, the oldest last
  std::vector<std::vector<SwapDecision>> decisions_;
  std::vector<std::vector<int64_t>> offsets_;
};

}  // namespace

absl::StatusOr<SwapChoice> SwapLeastRecentlyUsed(const AccessGraph& graph, int64_t budget_bytes) {
  return Replay(graph, budget_bytes, {}).Run();
}

absl::StatusOr<SwapChoice> SwapReactive(const AccessGraph& graph, int64_t budget_bytes, double occupancy_threshold) {
  return Replay(graph, budget_bytes, {.oldest_leaves = true, .variables_stay = true, .occupancy = occupancy_threshold}).Run();
}

}  // namespace millrace
