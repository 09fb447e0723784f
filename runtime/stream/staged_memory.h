// Page-locked host memory that stands for the feeds, fetches and constants of a plan, whose own memory is the caller's and
// differs from step to step.
#ifndef MILLRACE_RUNTIME_STREAM_STAGED_MEMORY_H_
#define MILLRACE_RUNTIME_STREAM_STAGED_MEMORY_H_

#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "millrace/plan.h"
#include "runtime/mapped_region.h"
#include "runtime/program.h"
#include "runtime/task_runner.h"
#include "stream/stream_device.h"

namespace millrace {

class StagedMemory {
 public:
  StagedMemory() = default;
  StagedMemory(const StagedMemory&) = delete;
  StagedMemory& operator=(const StagedMemory&) = delete;
  ~StagedMemory();

  // Until it succeeds. `device` page-locks the memory and outlives this; where that is refused, copies are slower.
  absl::Status Prepare(const Program& program, StreamDevice& device);
  // nullptr for what lies elsewhere (variables, the pool).
  void* Find(const HostRef& host) const;
  // True also where there is nothing to page-lock.
  bool pinned() const { return staged_.empty() || device_ != nullptr; }

  // Copies that no stream is using at the time.
  void TakeFeeds(const StepBindings& bindings, TaskRunner& runner) const;
  void GiveFetches(const StepBindings& bindings, TaskRunner& runner) const;

 private:
  struct Staged {
    HostRef::Kind kind;
    int32_t index;
    int64_t offset;
    int64_t bytes;
  };
  struct Piece {
    char* to;
    const char* from;
    int64_t bytes;
  };
  static void AddPieces(char* to, const char* from, int64_t bytes, std::vector<Piece>& pieces);
  static void Copy(const std::vector<Piece>& pieces, TaskRunner& runner);

  std::vector<Staged> staged_;
  std::map<std::pair<HostRef::Kind, int32_t>, char*> address_;
  MappedRegion region_;
  StreamDevice* device_ = nullptr;  // that has page-locked it
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_STREAM_STAGED_MEMORY_H_
