// Host pool: slots of host memory for values that left a device, by SwapOut or Send, until they have come back for the
// last time. Slots share bytes when their lives do not meet in the order of all steps, and, where times are known, in time: a device that
// is ahead need not wait until another one, which is behind, has read a slot.
#ifndef MILLRACE_PASSES_EMIT_HOST_POOL_H_
#define MILLRACE_PASSES_EMIT_HOST_POOL_H_

#include <cstdint>
#include <vector>

#include "passes/memory/owner_map.h"

namespace millrace {

// When a copy begins and ends, seconds of the step.
struct CopyTimes {
  double begin = 0, end = 0;
};

class HostPool {
 public:
  // First all slots are told, then addresses are given, then steps use them in order. `times`: of the copy at the position, if known.
  int32_t AddSlot(int64_t bytes, int64_t position, CopyTimes times = {});
  void ExtendSlot(int32_t slot, int64_t position, CopyTimes times = {});
  // Returns the bytes of the pool.
  int64_t AssignAddresses(int32_t num_lanes);

  int64_t offset(int32_t slot) const { return slots_[slot].offset; }
  // Step number `count` of `lane` (of all devices) at `position` writes or reads the slot: raises `needed`, per lane, to
  // what it must wait for.
  void Write(int32_t slot, int32_t lane, int64_t count, int64_t position, std::vector<int64_t>& needed);
  void Read(int32_t slot, int32_t lane, int64_t count, int64_t position, std::vector<int64_t>& needed);

 private:
  struct Slot {
    int64_t bytes = 0;
    int64_t first = 0;
    int64_t last = 0;
    CopyTimes life;
    int64_t offset = 0;
    int32_t writer_lane = 0;
    int64_t written = 0;
    AllLaneCounts touched;
  };
  std::vector<int64_t> LastPositions() const;
  void Touch(Slot& slot, int32_t lane, int64_t count, int64_t position);

  std::vector<Slot> slots_;
  OwnerMap<AllLaneCounts> owners_;
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_EMIT_HOST_POOL_H_
