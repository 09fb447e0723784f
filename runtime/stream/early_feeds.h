// Feeds that a plan brings to the device before all else, large ones piece by piece: while one piece is copied to page-locked memory,
// the link carries the one before.
//
//   host    | 1 | 2 | 3 |
//   link        | 1 | 2 | 3 |  step
//
// Of a lane: the copies at its beginning that wait for nothing and bring feeds, where these are large together.
#ifndef MILLRACE_RUNTIME_STREAM_EARLY_FEEDS_H_
#define MILLRACE_RUNTIME_STREAM_EARLY_FEEDS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "runtime/program.h"
#include "runtime/task_runner.h"
#include "stream/staged_memory.h"

namespace millrace {

class EarlyFeeds {
 public:
  // Enqueues a copy to the device, of page-locked memory, on the stream of a lane.
  using Begin = std::function<absl::Status(int32_t lane, void* device, const void* host, int64_t bytes)>;

  void Prepare(const Program& program);
  bool empty() const { return feeds_.empty(); }
  // Whether the lane's copy is one of them.
  bool Has(int32_t lane, int64_t copy) const { return copy < count_[lane]; }
  // Copies all feeds to `staged`, these last. The first error of `begin` ends it.
  absl::Status Take(const StagedMemory& staged, const StepBindings& bindings, TaskRunner& runner, const Begin& begin) const;

 private:
  struct Target {
    int32_t lane = 0;
    char* device = nullptr;
  };
  std::vector<int64_t> count_;                    // of copies, per lane
  std::map<int32_t, std::vector<Target>> feeds_;  // by their numbers: where they go
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_STREAM_EARLY_FEEDS_H_
