// Who runs parallel work: shards of a kernel, independent nodes of a partition. Kernels see it as ParallelRunner.
//
// Any thread may call. Nothing that blocks on a device, a disk or another lane may run inside For.
#ifndef MILLRACE_RUNTIME_TASK_RUNNER_H_
#define MILLRACE_RUNTIME_TASK_RUNNER_H_

#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "millrace/kernel.h"

namespace millrace {

class TaskRunner : public ParallelRunner {
 public:
  // Threads that may run at once, the caller included.
  virtual int threads() const = 0;
  // Calls fn on the calling thread as a member of the runner, so that a For inside it starts cheaply.
  virtual void Enter(absl::FunctionRef<void()> fn) = 0;
};

// oneTBB's workers; threads <= 0: one per core.
std::unique_ptr<TaskRunner> MakeTbbTaskRunner(int threads);

// Whether this process may start so many threads more, which is tried: where it may not, as where a container limits them, oneTBB
// would end it. Unavailable says how many.
absl::Status CheckThreads(int threads);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_TASK_RUNNER_H_
