#include "passes/planner/replay_packed.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "millrace/types.h"
#include "passes/memory/owner_map.h"

namespace millrace {
namespace {

// Those who had some bytes last: stays, and beyond their number operations with scratch.
struct Owners {
  absl::InlinedVector<int32_t, 2> ids;
};
void Raise(Owners& into, const Owners& from) { into.ids.insert(into.ids.end(), from.ids.begin(), from.ids.end()); }

class PackedReplay {
 public:
  struct Addresses {
    const std::vector<int64_t>& of_residences;
    const std::vector<int64_t>& of_scratch;
  };
  // What copies out wait for: all operations before them, or those that wrote what they copy.
  enum class OutWaits { kOperations, kWriters };

  PackedReplay(const GapGraph& gaps, const Schedule& schedule, const SwapChoice& choice, Addresses addresses, OutWaits out_waits)
      : gaps_(gaps),
        graph_(*gaps.graph),
        schedule_(schedule),
        choice_(choice),
        addresses_(addresses),
        out_waits_(out_waits),
        done_(schedule.residences.size() + graph_.num_operations(), 0),
        arrived_(schedule.residences.size(), 0),
        read_(schedule.residences.size(), 0),
        written_(out_waits == OutWaits::kWriters ? schedule.residences.size() : 0, 0),
        claimed_(schedule.residences.size(), false),
        fetches_(graph_.num_operations(), false),
        on_host_(graph_.storages.size(), 0) {}

  double Run() {
    for (int32_t fetch : graph_.fetches) fetches_[fetch] = true;
    for (size_t r = 0; r < schedule_.residences.size(); ++r) {
      if (schedule_.residences[r].resident) Claim(static_cast<int32_t>(r));
    }
    for (const ScheduleItem& item : schedule_.items) {
      switch (item.kind) {
        case ScheduleItem::Kind::kOperation: RunOperation(item.index); break;
        case ScheduleItem::Kind::kCopyOut: CopyOut(item); break;
        case ScheduleItem::Kind::kCopyIn: CopyIn(item); break;
      }
    }
    return std::max({compute_free_, out_free_, in_free_});
  }

 private:
  double Bytes(int32_t storage) const { return static_cast<double>(graph_.storages[storage].size_bytes); }

  // When the bytes are free.
  double ClaimBytes(int32_t owner, int64_t offset, int64_t bytes) {
    double free = 0;
    for (int32_t former : owners_.Claim(offset, bytes).ids) free = std::max(free, done_[former]);
    owners_.Release(offset, bytes, Owners{{owner}});
    return free;
  }
  double Claim(int32_t r) {
    if (claimed_[r]) return 0;
    claimed_[r] = true;
    return ClaimBytes(r, addresses_.of_residences[r], AlignUp(graph_.storages[schedule_.residences[r].storage].size_bytes));
  }

  void RunOperation(int32_t i) {
    if (fetches_[i]) return Fetch(i);
    double start = compute_free_;
    for (int64_t k = graph_.first_access[i]; k < graph_.first_access[i + 1]; ++k) {
      const int32_t r = schedule_.residence_of[k];
      start = std::max({start, Claim(r), arrived_[r], graph_.accesses[k].writes ? read_[r] : 0.0});
    }
    const auto scratch = static_cast<int32_t>(schedule_.residences.size()) + i;
    if (graph_.scratch_bytes[i] > 0) {
      start = std::max(start, ClaimBytes(scratch, addresses_.of_scratch[i], AlignUp(graph_.scratch_bytes[i])));
    }
    compute_free_ = start + graph_.seconds[i];
    for (int64_t k = graph_.first_access[i]; k < graph_.first_access[i + 1]; ++k) {
      const int32_t r = schedule_.residence_of[k];
      Touch(r, compute_free_);
      if (out_waits_ == OutWaits::kWriters && graph_.accesses[k].writes) written_[r] = compute_free_;
    }
    done_[scratch] = compute_free_;
  }

  void Fetch(int32_t i) {
    for (int64_t k = graph_.first_access[i]; k < graph_.first_access[i + 1]; ++k) {
      const int32_t r = schedule_.residence_of[k];
      out_free_ = std::max({out_free_, Written(r), arrived_[r]}) + gaps_.copy_latency +
                  Bytes(graph_.accesses[k].storage) * gaps_.seconds_per_byte_out;
      read_[r] = std::max(read_[r], out_free_);
      Touch(r, out_free_);
    }
  }

  void CopyOut(const ScheduleItem& item) {
    const int32_t storage = choice_.decisions[item.index].storage;
    out_free_ = std::max(out_free_, Written(item.residence)) + gaps_.copy_latency + Bytes(storage) * gaps_.seconds_per_byte_out;
    on_host_[storage] = out_free_;
    if (item.residence < 0) return;
    read_[item.residence] = std::max(read_[item.residence], out_free_);
    Touch(item.residence, out_free_);
  }

  void CopyIn(const ScheduleItem& item) {
    const int32_t storage = choice_.decisions[item.index].storage, r = item.residence;
    in_free_ = std::max({in_free_, on_host_[storage], Claim(r)}) + gaps_.copy_latency + Bytes(storage) * gaps_.seconds_per_byte_in;
    arrived_[r] = in_free_;
    Touch(r, in_free_);
  }

  // When residence r (-1: of the last step) may be copied out. Its last write lies before the copy: the lane of operations has passed it.
  double Written(int32_t r) const {
    if (out_waits_ == OutWaits::kOperations) return compute_free_;
    return r < 0 ? 0 : written_[r];
  }

  void Touch(int32_t r, double end) { done_[r] = std::max(done_[r], end); }

  const GapGraph& gaps_;
  const AccessGraph& graph_;
  const Schedule& schedule_;
  const SwapChoice& choice_;
  const Addresses addresses_;
  const OutWaits out_waits_;
  OwnerMap<Owners> owners_;
  std::vector<double> done_;     // per owner: when it was touched last
  std::vector<double> arrived_, read_;  // per stay: its copy in, its last copy out
  std::vector<double> written_;         // per stay, for OutWaits::kWriters: its last write
  std::vector<bool> claimed_;
  std::vector<bool> fetches_;           // per operation
  std::vector<double> on_host_;  // per storage: its last copy out
  double compute_free_ = 0, out_free_ = 0, in_free_ = 0;
};

}  // namespace

double ReplayPacked(const GapGraph& gaps, const Schedule& schedule, const SwapChoice& choice) {
  return PackedReplay(gaps, schedule, choice, {choice.residence_offsets, choice.scratch_offsets}, PackedReplay::OutWaits::kOperations).Run();
}

double LeastPackedSeconds(const GapGraph& gaps, const Schedule& schedule, const SwapChoice& choice, const MemoryAssignment& memory) {
  return PackedReplay(gaps, schedule, choice, {memory.residence_offsets, memory.scratch_offsets}, PackedReplay::OutWaits::kWriters).Run();
}

}  // namespace millrace
