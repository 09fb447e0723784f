#include "stream/stream_lane.h"

#include <utility>

#include "millrace/status.h"

namespace millrace {
namespace {

absl::Status MakeSpan(DeviceDriver& driver, Span& span) {
  MR_ASSIGN_OR_RETURN(span.from, MakeEvent(driver, true));
  MR_ASSIGN_OR_RETURN(span.to, MakeEvent(driver, true));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OwnedEvent> MakeEvent(DeviceDriver& driver, bool timed) {
  MR_ASSIGN_OR_RETURN(DeviceEvent event, driver.CreateEvent(timed));
  return OwnedEvent(&driver, event);
}

absl::Status StreamLane::Prepare(const ProgramLane& lane) {
  MR_ASSIGN_OR_RETURN(DeviceStream made, driver->CreateStream());
  stream = OwnedStream(driver, made);
  MR_ASSIGN_OR_RETURN(joined, MakeEvent(*driver, false));
  MR_RETURN_IF_ERROR(MakeSpan(*driver, whole));
  for (const ComputeOp& op : lane.compute) {
    if (op.waits.count == 0) continue;
    waits.emplace_back();
    MR_RETURN_IF_ERROR(MakeSpan(*driver, waits.back()));
  }
  for (const CopyOp& op : lane.copies) bytes += op.step->bytes;
  return absl::OkStatus();
}

absl::Status StreamLane::PrepareRecording(const ProgramLane& lane) {
  if (!steps.empty()) return absl::OkStatus();
  std::vector<Span> made(lane.num_steps);
  for (Span& span : made) MR_RETURN_IF_ERROR(MakeSpan(*driver, span));
  steps = std::move(made);
  return absl::OkStatus();
}

absl::StatusOr<double> StreamLane::BusySeconds() const {
  MR_ASSIGN_OR_RETURN(double busy, driver->SecondsBetween(whole.from.get(), whole.to.get()));
  for (const Span& wait : waits) {
    MR_ASSIGN_OR_RETURN(const double waited, driver->SecondsBetween(wait.from.get(), wait.to.get()));
    busy -= waited;
  }
  return busy;
}

}  // namespace millrace
