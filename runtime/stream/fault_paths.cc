#include "stream/fault_paths.h"

#include <algorithm>
#include <iterator>

#include "runtime/disk_lane.h"

namespace millrace {

FaultPaths::FaultPaths(const Program& program, absl::Span<const StepRef> order) {
  if (program.plan().devices.size() < 2) return;
  const std::vector<ProgramLane>& lanes = program.lanes();
  const auto apart = [&](int32_t a, int32_t b) {
    const Lane &one = *lanes[a].lane, &other = *lanes[b].lane;
    return one.device != other.device || IsDiskLane(one.kind) != IsDiskLane(other.kind);
  };
  published_.resize(lanes.size());
  for (const StepRef& step : order) {
    for (const Wait& wait : WaitsOf(lanes[step.lane], step.index)) {
      if (wait.count > 0 && apart(step.lane, wait.lane)) published_[wait.lane].insert(wait.count);
    }
  }
  // Of every lane, behind each of its steps: how many steps of all lanes are done then. The first is before any step.
  using Counts = std::vector<int64_t>;
  std::vector<std::vector<Counts>> done(lanes.size(), {Counts(lanes.size(), 0)});
  std::vector<Counts> taken(lanes.size(), Counts(lanes.size(), 0));
  for (const StepRef& step : order) {
    Counts now = done[step.lane].back();
    for (const Wait& wait : WaitsOf(lanes[step.lane], step.index)) {
      const Counts& others = done[wait.lane][std::max<int64_t>(wait.count, 0)];
      for (size_t l = 0; l < now.size(); ++l) now[l] = std::max(now[l], others[l]);
    }
    if (lanes[step.lane].lane->kind == LaneKind::kCompute) {
      for (int32_t l = 0; l < static_cast<int32_t>(lanes.size()); ++l) {
        if (!apart(step.lane, l) || IsDiskLane(lanes[l].lane->kind)) continue;
        const auto behind = published_[l].upper_bound(now[l]);
        const int64_t last = behind == published_[l].begin() ? 0 : *std::prev(behind);
        if (last <= taken[step.lane][l]) continue;
        taken[step.lane][l] = last;
        taken_over_[{step.lane, step.index}].push_back(l);
      }
    }
    now[step.lane] = step.index + 1;
    done[step.lane].push_back(std::move(now));
  }
}

}  // namespace millrace
