// The device graph as the swap policies see it: operations in order, and what memory each touches.
//
// Words: an *operation* is a compute node at time i = 0 … n-1; a *storage* is memory that one or more tensors
// share (views and in-place updates included); a *gap* is the time between two consecutive accesses of a
// storage. A gap is kept (the bytes stay) or swapped (they leave, and come back at an anchor).
//
//   time        0    1    2    3    4    5
//   storage x   W    R    .    .    .    R        gap (1, 5): out after 1, back in from anchor 4
#ifndef MILLRACE_PASSES_ACCESS_ACCESS_GRAPH_H_
#define MILLRACE_PASSES_ACCESS_ACCESS_GRAPH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "millrace/copy_on_write.h"
#include "millrace/types.h"

namespace millrace {

enum class StorageKind : uint8_t {
  kActivation,  // first access writes it, nothing outlives the step
  kVariable,    // has a home in host memory; may stay on the device over the step's end (wrap gap)
  kConstant,    // as a variable, never written
  kFeed,        // in host memory when the step starts (or from available_from on), fresh every step
};

// Small, since policies look at storages in the order of their accesses.
struct StorageInfo {
  StorageKind kind = StorageKind::kActivation;
  bool pinned = false;  // must never leave the device
  // Of a feed that another device sends: the operation from which on it is in host memory.
  int32_t available_from = 0;
  int64_t size_bytes = 0;
};

struct Access {
  int32_t storage = 0;
  bool reads = false;
  bool writes = false;
};

struct AccessGraph {
  std::vector<StorageInfo> storages;
  // Per storage, for messages and for the plan: "node:0" of the tensor that made it, or the variable's name. Empty while
  // nobody asks.
  std::vector<std::string> names;
  // Per operation, in order.
  std::vector<double> seconds;         // predicted time of the kernel
  std::vector<int64_t> scratch_bytes;
  std::vector<int32_t> partition;      // non-decreasing
  // Accesses of operation i, each storage once: accesses[first_access[i] .. first_access[i+1]).
  std::vector<int64_t> first_access;
  std::vector<Access> accesses;
  int64_t alignment = kTensorAlignment;  // of addresses, and so of the room that storages and scratch take
  // Operations that copy what they read to the host, in the lane of copies out (fetches, Sends); they take no time.
  std::vector<int32_t> fetches;

  const std::string& name_of(int32_t storage) const {
    static const std::string none;
    return names.empty() ? none : names[storage];
  }
  int64_t aligned_bytes(int32_t storage) const { return AlignUp(storages[storage].size_bytes, alignment); }
  int64_t aligned_scratch(int32_t operation) const { return AlignUp(scratch_bytes[operation], alignment); }
  // What of a budget can be given out.
  int64_t aligned_budget(int64_t bytes) const { return bytes / alignment * alignment; }
  int32_t num_operations() const { return static_cast<int32_t>(seconds.size()); }
  absl::Span<const Access> of(int32_t operation) const {
    return absl::MakeConstSpan(accesses).subspan(first_access[operation],
                                                 first_access[operation + 1] - first_access[operation]);
  }
};

// The storage leaves the device after operation `after` and is back for operation `before`.
// after = kFromHost: it is in host memory when the step starts (feeds; variables and constants that do not stay).
// before = kToHost: it leaves for good; a written variable is copied home.
//
// A variable whose decisions begin otherwise stays over the step's end: it is where it was when the last step ended, and
// newer than its home if steps write it. Such a one leaves first of all with after = kFromHost and copy_out: home with
// what the last step wrote, before its first use in this one.
struct SwapDecision {
  static constexpr int32_t kFromHost = -1;
  static constexpr int32_t kToHost = INT32_MAX;
  int32_t storage = 0;
  int32_t after = kFromHost;
  int32_t before = kToHost;
  // The copy back may begin once operation anchor - 1 is done; its room is taken from `anchor` on.
  int32_t anchor = 0;
  // Needs a copy in: false when `before` overwrites every byte, or is kToHost.
  bool copy_in = true;
  // Needs a copy out (the host has no equal bytes); the copy starts after operation `out_after` (the last
  // write before the gap), which may be long before `after`; -1: before the first.
  bool copy_out = false;
  int32_t out_after = 0;
  bool leaves_from_last_step() const { return after == kFromHost && copy_out; }
  // Of copies out that begin after the same operation: what leaves soonest goes first; of what stayed over the step's end,
  // what comes back last.
  int32_t out_order() const { return leaves_from_last_step() ? -1 - before : after; }
  bool fetched() const { return after == kFromHost && !copy_out; }
  SharedText reason;
  int32_t sent = -1;      // the Send operation that has copied these bytes to the host already: no copy out
  bool wait_out = false;  // operations after `out_after` wait until the copy out is done
  // Among copies in of equal anchor: their place in the lane, then the soonest needed first.
  int32_t order = 0;
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_ACCESS_ACCESS_GRAPH_H_
