// How a kernel that fails on one device stops the others: where a lane gives what its device knows of faults to those that wait for it, and
// which compute steps take it over, so that no kernel that follows from the failed one writes a variable.
#ifndef MILLRACE_RUNTIME_STREAM_FAULT_PATHS_H_
#define MILLRACE_RUNTIME_STREAM_FAULT_PATHS_H_

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "plan/step_order.h"
#include "runtime/program.h"

namespace millrace {

class FaultPaths {
 public:
  FaultPaths() = default;
  // None where the plan has one device. `order`: all steps, each behind those that it waits for.
  FaultPaths(const Program& program, absl::Span<const StepRef> order);

  // Whether lanes of other devices, or of the disk, wait for the first `count` steps of `lane`.
  bool Publishes(int32_t lane, int64_t count) const { return !published_.empty() && published_[lane].count(count) > 0; }
  // Lanes of other devices of which this compute step, behind its waits, follows more of what they have published than any before it on its
  // lane.
  absl::Span<const int32_t> TakenOver(const StepRef& step) const {
    const auto found = taken_over_.find({step.lane, step.index});
    return found == taken_over_.end() ? absl::Span<const int32_t>() : absl::MakeConstSpan(found->second);
  }

 private:
  std::vector<std::set<int64_t>> published_;  // counts, by lane
  std::map<std::pair<int32_t, int64_t>, std::vector<int32_t>> taken_over_;
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_STREAM_FAULT_PATHS_H_
