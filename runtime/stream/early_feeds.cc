#include "stream/early_feeds.h"

#include <algorithm>

#include "millrace/status.h"

namespace millrace {
namespace {

// Of a lane: less is not worth launches of its own.
constexpr int64_t kLeastBytes = int64_t{4} << 20;
// Of a piece: threads share it, and the link takes as long as they do.
constexpr int64_t kPieceBytes = int64_t{8} << 20;

}  // namespace

void EarlyFeeds::Prepare(const Program& program) {
  feeds_.clear();
  count_.assign(program.lanes().size(), 0);
  for (size_t l = 0; l < count_.size(); ++l) {
    const ProgramLane& lane = program.lanes()[l];
    if (lane.lane->kind != LaneKind::kToDevice) continue;
    int64_t count = 0, bytes = 0;
    for (const CopyOp& op : lane.copies) {
      if (op.waits.count > 0 || op.step->host.kind != HostRef::Kind::kFeed) break;
      ++count;
      bytes += op.step->bytes;
    }
    if (bytes < kLeastBytes) continue;
    count_[l] = count;
    for (int64_t i = 0; i < count; ++i) {
      const CopyOp& op = lane.copies[i];
      feeds_[op.step->host.index].push_back({static_cast<int32_t>(l), static_cast<char*>(op.device_address)});
    }
  }
}

absl::Status EarlyFeeds::Take(const StagedMemory& staged, const StepBindings& bindings, TaskRunner& runner, const Begin& begin) const {
  staged.TakeFeeds(bindings, runner, [this](int32_t feed) { return feeds_.count(feed) == 0; });
  for (const auto& [feed, targets] : feeds_) {
    const StagedMemory::Part whole = staged.FeedOf(feed);
    for (int64_t at = 0; at < whole.bytes; at += kPieceBytes) {
      const int64_t bytes = std::min(kPieceBytes, whole.bytes - at);
      staged.TakePart(bindings, feed, at, bytes, runner);
      for (const Target& target : targets) MR_RETURN_IF_ERROR(begin(target.lane, target.device + at, whole.address + at, bytes));
    }
  }
  return absl::OkStatus();
}

}  // namespace millrace
