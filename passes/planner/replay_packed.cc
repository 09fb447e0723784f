#include "passes/planner/replay_packed.h"

#include "passes/planner/device_replay.h"

namespace millrace {
namespace {

// `in_waits`: copies in wait for all operations before their anchors.
double Replay(const GapGraph& gaps, const Schedule& schedule, const SwapChoice& choice, DeviceReplay::Addresses addresses,
              DeviceReplay::OutWaits out_waits, bool in_waits) {
  const CopyRates rates{gaps.copy_latency, gaps.seconds_per_byte_out, gaps.seconds_per_byte_in};
  DeviceReplay replay(*gaps.graph, rates, schedule, choice.decisions, addresses, out_waits);
  for (const ScheduleItem& item : schedule.items) {
    const bool waits = in_waits && item.kind == ScheduleItem::Kind::kCopyIn && choice.decisions[item.index].anchor > 0;
    replay.Take(item, waits ? replay.compute_end() : 0);
  }
  return replay.end() + gaps.LaunchSeconds(choice.decisions);
}

}  // namespace

double ReplayPacked(const GapGraph& gaps, const Schedule& schedule, const SwapChoice& choice) {
  return Replay(gaps, schedule, choice, {choice.residence_offsets, choice.scratch_offsets}, DeviceReplay::OutWaits::kOperations, true);
}

double LeastPackedSeconds(const GapGraph& gaps, const Schedule& schedule, const SwapChoice& choice, const MemoryAssignment& memory) {
  return Replay(gaps, schedule, choice, {memory.residence_offsets, memory.scratch_offsets}, DeviceReplay::OutWaits::kWriters, false);
}

}  // namespace millrace
