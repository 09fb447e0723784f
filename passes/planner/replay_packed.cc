#include "passes/planner/replay_packed.h"

#include "passes/planner/device_replay.h"

namespace millrace {
namespace {

double Replay(const GapGraph& gaps, const Schedule& schedule, const SwapChoice& choice, DeviceReplay::Addresses addresses,
              DeviceReplay::OutWaits out_waits) {
  const CopyRates rates{gaps.copy_latency, gaps.seconds_per_byte_out, gaps.seconds_per_byte_in};
  DeviceReplay replay(*gaps.graph, rates, schedule, choice.decisions, addresses, out_waits);
  for (const ScheduleItem& item : schedule.items) replay.Take(item);
  return replay.end() + gaps.LaunchSeconds(choice.decisions);
}

}  // namespace

double ReplayPacked(const GapGraph& gaps, const Schedule& schedule, const SwapChoice& choice) {
  return Replay(gaps, schedule, choice, {choice.residence_offsets, choice.scratch_offsets}, DeviceReplay::OutWaits::kOperations);
}

double LeastPackedSeconds(const GapGraph& gaps, const Schedule& schedule, const SwapChoice& choice, const MemoryAssignment& memory) {
  return Replay(gaps, schedule, choice, {memory.residence_offsets, memory.scratch_offsets}, DeviceReplay::OutWaits::kWriters);
}

}  // namespace millrace
