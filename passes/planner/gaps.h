// The planner's view of a device graph: gaps, working sets, times, and what the memory would be if all stayed.
//
// Words (beyond access_graph.h): W_i is the working set of operation i; a kept gap (a, b) holds its bytes over the
// operations a+1 … b-1; the *profile* is W plus the kept gaps; an operation is *contended* when keeping everything
// would exceed the budget there. A *home* gap of a variable or constant is the rest of the step: before its first
// and after its last access. Kept, it stays on the device from step to step; swapped, it is fetched and, if written,
// copied home every step.
//
//   operation    0    1    2    3    4    5    6
//   activation        W    .    .    R                gap (1, 4)
//   variable     .    R    .    .    .    RW   .      gap (1, 5), home gap: operations 0 and 6
#ifndef MILLRACE_PASSES_PLANNER_GAPS_H_
#define MILLRACE_PASSES_PLANNER_GAPS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "millrace/options.h"
#include "passes/access/access_graph.h"
#include "passes/access/access_lists.h"
#include "passes/access/swap_choice.h"

namespace millrace {

struct Gap {
  int32_t storage = 0;
  int32_t after = 0;    // the access before it
  int32_t before = 0;   // the access after it; of a home gap: the first access of the step
  int64_t bytes = 0;
  int32_t last_write = -1;  // operation that made the value; -1: the host has it since before the step
  bool home = false;
  // `before` replaces every byte: nothing to copy in; a variable's value that the device alone has is copied out all the same (trial.cc).
  bool overwritten = false;
  bool feed = false;         // in host memory when the step starts: never kept
  bool copies_out(bool host_is_current) const { return last_write >= 0 && !host_is_current && !overwritten; }
};

struct GapGraph {
  const AccessGraph* graph = nullptr;
  AccessLists lists;
  std::vector<Gap> gaps;                 // by storage, then by time; the home gap last
  std::vector<int64_t> first_gap;        // gaps of storage s: [first_gap[s], first_gap[s+1])
  std::vector<int64_t> working_set;      // W_i
  std::vector<int64_t> full;             // profile with every gap kept
  std::vector<double> start;             // start[i]: of operation i without stalls; start[n] = compute seconds
  double seconds_per_byte_out = 0;
  double seconds_per_byte_in = 0;
  double copy_latency = 0;
  double copy_launch = 0;                // seconds of compute that a copy costs
  // Of OrderGaps.
  std::vector<int32_t> by_length;        // gaps, the shortest first, home gaps last
  std::vector<int32_t> by_before;        // gaps, by the access after them
  std::vector<uint8_t> makes_room;       // per operation: whether it takes memory for results or scratch

  int32_t num_operations() const { return static_cast<int32_t>(working_set.size()); }
  double compute_seconds() const { return start.back(); }
  // 0 without operations.
  int64_t largest_working_set() const {
    return working_set.empty() ? 0 : *std::max_element(working_set.begin(), working_set.end());
  }
  // Of compute, that the copies of these decisions cost.
  double LaunchSeconds(const std::vector<SwapDecision>& decisions) const;
  // Of a copy, with its latency.
  double out_seconds(int32_t storage) const { return copy_latency + bytes_of(storage) * seconds_per_byte_out; }
  double in_seconds(int32_t storage) const { return copy_latency + bytes_of(storage) * seconds_per_byte_in; }
  double bytes_of(int32_t storage) const { return static_cast<double>(graph->storages[storage].size_bytes); }
  // The operation that runs at time t without stalls, in [0, n].
  int32_t OperationAt(double t) const;

  // Where OperationAt begins to look: the last operation that has begun at the start of each slot of time.
  std::vector<int32_t> operation_of_slot;
  double slots_per_second = 0;
};

// The memory that a plan is made for: the budget, less what is set aside at each operation (empty: nothing), because
// there a packing needs more than the bytes that are live. Working sets and what is set aside fit the budget together.
struct MemoryTarget {
  int64_t budget_bytes = 0;
  std::vector<int64_t> set_aside;
  // Gaps of fewer bytes stay without a look at what they block, if all of them find room together.
  int64_t keep_below = 0;
  int64_t set_aside_at(int32_t operation) const { return set_aside.empty() ? 0 : set_aside[operation]; }
};

GapGraph FindGaps(const AccessGraph& graph, const Machine& machine);

// What every trial needs alike: gaps in the orders in which they are looked at. CutBound does without.
void OrderGaps(GapGraph& gaps);

// For MemoryTarget::keep_below: gaps of fewer bytes are together next to nothing of the budget wherever they meet.
int64_t SmallBytes(const GapGraph& gaps, int64_t budget_bytes);

// Whether variables and constants are a large part of the budget: then it matters most which of them stay.
bool HomesMatter(const GapGraph& gaps, int64_t budget_bytes);

// Seconds below which no schedule of this order can stay under `budget_bytes`: for every cut of the step, the bytes
// that cannot be on the device then must have left before it and come back after it (PLANNING's cut bound, for one
// step on its own), and the variables that find no room over the step's end must come in before it and go home after it.
double CutBound(const GapGraph& gaps, int64_t budget_bytes);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PLANNER_GAPS_H_
