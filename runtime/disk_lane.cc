#include "runtime/disk_lane.h"

#include <algorithm>
#include <chrono>

#include "millrace/status.h"
#include "runtime/variable_store.h"

namespace millrace {

void DiskLane::BeginStep() {
  if (channel_ == nullptr || binding_ != program_.binding()) {
    channel_.reset();
    channel_ = disk_.MakeChannel(program_.pool(), program_.plan().host_pool_bytes);
    binding_ = program_.binding();
  }
  seconds_ = 0;
  pacer_.Idle();
}

absl::Status DiskLane::Transfer(const CopyOp& op) {
  const auto start = std::chrono::steady_clock::now();
  const absl::Status status = TransferPieces(op);
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return status;
}

absl::Status DiskLane::TransferPieces(const CopyOp& op) {
  constexpr int64_t kPartBytes = int64_t{8} << 20;  // several pieces of it are under way at once
  const bool write = lane_.kind == LaneKind::kToDisk;
  const DiskRef& disk = op.step->disk;
  StoredVariable* const variable = disk.variable >= 0 ? &program_.variable(disk.variable) : nullptr;
  const int64_t offset = variable == nullptr ? disk_.scratch_offset() + disk.offset_bytes
                                             : variable->disk_offsets[write ? 1 - variable->disk_place : variable->disk_place];
  char* const host = static_cast<char*>(op.host_address);
  for (int64_t at = 0; at < op.step->bytes; at += kPartBytes) {
    const int64_t bytes = std::min(kPartBytes, op.step->bytes - at);
    MR_RETURN_IF_ERROR(write ? channel_->Write(offset + at, host + at, bytes) : channel_->Read(offset + at, host + at, bytes));
    pacer_.Carry(bytes);
  }
  if (write && variable != nullptr) variable->disk_place = 1 - variable->disk_place;
  return absl::OkStatus();
}

}  // namespace millrace
