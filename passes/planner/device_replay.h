// Device replay: one device's items, one after another, each with what it waits for and whoever had its bytes before, as in the
// finished plan. Each lane takes its items in the schedule's order.
#ifndef MILLRACE_PASSES_PLANNER_DEVICE_REPLAY_H_
#define MILLRACE_PASSES_PLANNER_DEVICE_REPLAY_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "passes/access/schedule.h"
#include "passes/memory/owner_map.h"

namespace millrace {

// Of copies.
struct CopyRates {
  double latency = 0, seconds_per_byte_out = 0, seconds_per_byte_in = 0;
};

class DeviceReplay {
 public:
  struct Addresses {
    const std::vector<int64_t>& of_residences;
    const std::vector<int64_t>& of_scratch;
  };
  // What copies out wait for: all operations before them, or those that wrote what they copy.
  enum class OutWaits { kOperations, kWriters };
  // Of an item: when what it waits for was there, its lane apart; it begins then or when its lane is free.
  struct Times {
    double ready = 0, begin = 0, end = 0;
  };

  // All arguments outlive it. `schedule` is that of the decisions.
  DeviceReplay(const AccessGraph& graph, const CopyRates& rates, const Schedule& schedule, const std::vector<SwapDecision>& decisions,
               Addresses addresses, OutWaits out_waits);

  // The next item of the schedule. `ready`: of what it waits for elsewhere.
  Times Take(const ScheduleItem& item, double ready = 0);
  // The storage's bytes are in host memory from then on by what is no copy out of a decision.
  void SetOnHost(int32_t storage, double seconds) { on_host_[storage] = std::max(on_host_[storage], seconds); }
  // Of the operations so far, and of everything.
  double compute_end() const { return compute_free_; }
  double end() const { return std::max({compute_free_, out_free_, in_free_}); }

 private:
  // Those who had some bytes last: stays, and beyond their number operations with scratch.
  struct Owners {
    absl::InlinedVector<int32_t, 2> ids;
  };
  friend void Raise(Owners& into, const Owners& from) { into.ids.insert(into.ids.end(), from.ids.begin(), from.ids.end()); }

  double Bytes(int32_t storage) const { return static_cast<double>(graph_.storages[storage].size_bytes); }
  double ClaimBytes(int32_t owner, int64_t offset, int64_t bytes);
  double Claim(int32_t residence);
  Times RunOperation(int32_t i, double ready);
  Times Fetch(int32_t i, double ready);
  Times CopyOut(const ScheduleItem& item, double ready);
  Times CopyIn(const ScheduleItem& item, double ready);
  double Written(int32_t residence) const;
  void Touch(int32_t residence, double end) { done_[residence] = std::max(done_[residence], end); }

  const AccessGraph& graph_;
  const CopyRates rates_;
  const Schedule& schedule_;
  const std::vector<SwapDecision>& decisions_;
  const Addresses addresses_;
  const OutWaits out_waits_;
  OwnerMap<Owners> owners_;
  std::vector<double> done_;            // per owner: when it was touched last
  std::vector<double> arrived_, read_;  // per stay: its copy in, its last copy out
  std::vector<double> written_;         // per stay, for OutWaits::kWriters: its last write
  std::vector<bool> claimed_;
  std::vector<bool> fetches_;    // per operation
  std::vector<double> on_host_;  // per storage: its last copy out
  double compute_free_ = 0, out_free_ = 0, in_free_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_PLANNER_DEVICE_REPLAY_H_
