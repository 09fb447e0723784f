// What a lane of transfers between host pool and disk does, whichever engine says when.
#ifndef MILLRACE_RUNTIME_DISK_LANE_H_
#define MILLRACE_RUNTIME_DISK_LANE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "millrace/plan.h"
#include "runtime/disk_tier.h"
#include "runtime/link_pacer.h"
#include "runtime/program.h"

namespace millrace {

inline bool IsDiskLane(LaneKind kind) { return kind == LaneKind::kToDisk || kind == LaneKind::kFromDisk; }

// One thread at a time.
class DiskLane {
 public:
  // Of lane `lane` of the program. Program and tier outlive it.
  DiskLane(const Program& program, int32_t lane, DiskTier& disk, double bytes_per_second)
      : program_(program), lane_(*program.lanes()[lane].lane), disk_(disk), pacer_(bytes_per_second) {}

  // Before the first transfer of a step.
  void BeginStep();
  // The lane had to wait for its next transfer until now.
  void Waited() { pacer_.Idle(); }
  // Returns when all of it is where it belongs. Of a variable, its home is there from now on: steps that read it wait for this one.
  absl::Status Transfer(const CopyOp& op);
  // Lets go of what was made for the program's host pool.
  void LeavePool() { channel_.reset(); }

  // Of this step's transfers.
  double seconds() const { return seconds_; }

 private:
  absl::Status TransferPieces(const CopyOp& op);

  const Program& program_;
  const Lane& lane_;
  DiskTier& disk_;
  LinkPacer pacer_;
  std::unique_ptr<DiskChannel> channel_;
  int64_t binding_ = 0;  // Program::binding() that it was made for
  double seconds_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_DISK_LANE_H_
