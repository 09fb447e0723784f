// Pack in time: addresses within a budget, found in order of time, for blocks some of which may begin later.
//
// At every slot of time what must be there takes its place first, then what may be there already. A block that may begin
// later and finds no room waits; one that is there before it must be is taken back when something that must be there finds
// no room otherwise; and if that does not help, blocks that are only there because their copy to the host is not done end
// there and then, in the order of those copies. So where the bytes fit but lie in pieces, some copies in come a few
// operations later, some operations wait for a copy out, and nothing else changes. Where that does not help either, and the
// caller allows it, blocks that nothing uses for a while leave and come back.
//
//   slot         0    1    2    3    4
//   x, 8 bytes   ####################        y may begin at 1 and must be there at 3. If the room for it lies in two
//   y, 8 bytes   .    ?    ?    ##########   pieces until something leaves after 1, it begins at 2.
#ifndef MILLRACE_PASSES_MEMORY_PACK_IN_TIME_H_
#define MILLRACE_PASSES_MEMORY_PACK_IN_TIME_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "millrace/types.h"

namespace millrace {

// Needs `bytes` over the slots [latest, last], and from a slot in [first, latest] on.
struct LateBlock {
  int64_t bytes = 0;
  int32_t first = 0;
  int32_t latest = 0;
  int32_t last = 0;
  // The slot after which it may end, once its copy is done (`last` when there is none), and that copy's place in the lane.
  int32_t leaves = 0;
  int64_t copy = 0;
};

// Two stays of one storage, at one address: from the first slot on and to the last one. The same block twice: it never leaves.
struct PinnedPair {
  int32_t first = 0, last = 0;  // blocks
};

// A time in which nothing uses a block that is there, so that it may be away after the slot `after` until `before`.
struct IdleTime {
  int32_t after = 0, before = 0;
  int32_t returns = 0;  // it may be back from this slot on
  double cost = 0;      // of leaving now and coming back
};
class IdleTimes {
 public:
  explicit IdleTimes(double most_cost) : most_cost_(most_cost) {}
  virtual ~IdleTimes() = default;
  // Of all that leaves: beyond that nothing does.
  double most_cost() const { return most_cost_; }
  // Of block b at a slot; false where it is used then or must not leave.
  virtual bool Find(int32_t b, int32_t slot, IdleTime& time) const = 0;

 private:
  const double most_cost_;
};

// Which hole a block takes.
struct HolePolicy {
  enum class Kind : uint8_t {
    kSmallest,  // that holds it; of equals the one whose neighbour leaves when it does
    kByLife,    // the lowest for blocks that live longer than `threshold` (of all time), the highest for the others
    kBySize,    // the same for blocks larger than `threshold` (of the budget)
  };
  Kind kind = Kind::kSmallest;
  double threshold = 0;
};

struct TimePacking {
  std::vector<int64_t> offsets;  // per block
  std::vector<int32_t> first, last;  // per block: when it begins, and when it ends
  int64_t awaited_copies = 0;    // blocks that end before their copy out was to be done
  std::vector<int32_t> failed;   // blocks that found no room within the budget and lie beyond it, by time
  std::vector<int32_t> failed_at;   // of each of those: the slot
  std::vector<int64_t> free_bytes;  // and what was free, in pieces
  int64_t failed_bytes = 0;         // theirs
  int64_t heap_bytes = 0;
  // Blocks that left while nothing used them, in that order: when they are back, and where. `last` of such a block is
  // when it left for the first time.
  struct Return {
    int32_t block = 0;
    int32_t after = 0, before = 0;  // as IdleTime has them
    int32_t first = 0, last = 0;
    int64_t offset = 0;
  };
  std::vector<Return> returns;
  int64_t work = 0;  // units of WorkBudget
};

// Blocks in `reserved` have their place before all others do, at the budget's upper end. About n times the number of holes.
// `pinned` lie above all of that, the first at the very end: what is away longest should come last. `alignment`: of offsets, whatever the
// budget; blocks are multiples of it.
TimePacking PackInTime(const std::vector<LateBlock>& blocks, int64_t budget_bytes, const HolePolicy& policy,
                       const std::vector<int32_t>& reserved, const std::vector<PinnedPair>& pinned = {},
                       int64_t alignment = kTensorAlignment);

// PackInTime under several policies, then again with room reserved for what failed: the packing that fails least. At most
// `tries` in all, none but the first after `most_work` units of WorkBudget, fewer as soon as one fits; with 0 tries one
// that ends with the slot at which a block fails. `work` is that of all. `idle`: which blocks may leave in between; nullptr: none.
TimePacking PackInTimeBest(const std::vector<LateBlock>& blocks, int64_t budget_bytes, int tries,
                           int64_t most_work = std::numeric_limits<int64_t>::max(),
                           const std::vector<PinnedPair>& pinned = {}, const IdleTimes* idle = nullptr,
                           int64_t alignment = kTensorAlignment);

}  // namespace millrace

#endif  // MILLRACE_PASSES_MEMORY_PACK_IN_TIME_H_
