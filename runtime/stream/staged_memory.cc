#include "stream/staged_memory.h"

#include <algorithm>
#include <cstring>

#include <glog/logging.h>

#include "millrace/status.h"

namespace millrace {

StagedMemory::~StagedMemory() {
  if (device_ != nullptr && !device_->driver().UnpinHost(region_.data())) region_.KeepForever();
}

absl::Status StagedMemory::Prepare(const Program& program, StreamDevice& device) {
  const ExecutionPlan& plan = program.plan();
  staged_.clear();
  address_.clear();
  int64_t end = 0;
  for (const ProgramLane& lane : program.lanes()) {
    for (const CopyOp& op : lane.copies) {
      const HostRef& host = op.step->host;
      int64_t bytes;
      switch (host.kind) {
        case HostRef::Kind::kFeed: bytes = plan.feeds[host.index].type.size_bytes(); break;
        case HostRef::Kind::kFetch: bytes = plan.fetches[host.index].type.size_bytes(); break;
        case HostRef::Kind::kConstant: bytes = plan.constants[host.index].value.size_bytes(); break;
        default: continue;
      }
      if (!address_.emplace(std::pair(host.kind, host.index), nullptr).second) continue;
      staged_.push_back({host.kind, host.index, end, bytes});
      end = AlignUp(end + bytes);
    }
  }
  if (end == 0) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(region_, MappedRegion::Create(end, "feeds, fetches and constants on their way"));
  const absl::Status pinned = device.driver().PinHost(region_.data(), region_.size_bytes());
  if (pinned.ok()) device_ = &device;
  if (!pinned.ok() && device.pinning().ok()) LOG(WARNING) << device.name() << ": " << pinned.message();
  for (const Staged& staged : staged_) {
    char* address = region_.data() + staged.offset;
    address_[{staged.kind, staged.index}] = address;
    if (staged.kind == HostRef::Kind::kConstant && staged.bytes > 0) {
      std::memcpy(address, plan.constants[staged.index].value.data(), staged.bytes);
    }
  }
  return absl::OkStatus();
}

void* StagedMemory::Find(const HostRef& host) const {
  const auto found = address_.find({host.kind, host.index});
  return found == address_.end() ? nullptr : found->second;
}

// One thread does not keep up with the link.
void StagedMemory::AddPieces(char* to, const char* from, int64_t bytes, std::vector<Piece>& pieces) {
  constexpr int64_t kPieceBytes = int64_t{1} << 20;
  for (int64_t at = 0; at < bytes; at += kPieceBytes) {
    pieces.push_back({to + at, from + at, std::min(kPieceBytes, bytes - at)});
  }
}

void StagedMemory::Copy(const std::vector<Piece>& pieces, TaskRunner& runner) {
  const auto copy = [&](int64_t i) { std::memcpy(pieces[i].to, pieces[i].from, static_cast<size_t>(pieces[i].bytes)); };
  constexpr size_t kWorthThreads = 4;
  if (pieces.size() < kWorthThreads) {
    for (size_t i = 0; i < pieces.size(); ++i) copy(static_cast<int64_t>(i));
    return;
  }
  runner.Enter([&] { runner.For(static_cast<int64_t>(pieces.size()), copy); });
}

void StagedMemory::TakeFeeds(const StepBindings& bindings, TaskRunner& runner) const {
  std::vector<Piece> pieces;
  for (const Staged& staged : staged_) {
    if (staged.kind != HostRef::Kind::kFeed) continue;
    AddPieces(address_.at({staged.kind, staged.index}), static_cast<const char*>(bindings.feeds[staged.index]),
              staged.bytes, pieces);
  }
  Copy(pieces, runner);
}

void StagedMemory::GiveFetches(const StepBindings& bindings, TaskRunner& runner) const {
  std::vector<Piece> pieces;
  for (const Staged& staged : staged_) {
    if (staged.kind != HostRef::Kind::kFetch || bindings.fetches[staged.index] == nullptr) continue;
    AddPieces(static_cast<char*>(bindings.fetches[staged.index]), address_.at({staged.kind, staged.index}), staged.bytes,
              pieces);
  }
  Copy(pieces, runner);
}

}  // namespace millrace
