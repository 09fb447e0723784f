// The only file that knows oneTBB.
#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "runtime/task_runner.h"

#if defined(MILLRACE_SANITIZE_THREAD)
// Debian's oneTBB is not instrumented and neither is this file, which instantiates its templates; its hand-over of tasks
// is told to the thread sanitizer here, so that races of what runs in them are found.
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#define MILLRACE_TSAN_ACQUIRE(address) __tsan_acquire(address)
#define MILLRACE_TSAN_RELEASE(address) __tsan_release(address)
#else
#define MILLRACE_TSAN_ACQUIRE(address) static_cast<void>(address)
#define MILLRACE_TSAN_RELEASE(address) static_cast<void>(address)
#endif

namespace millrace {
namespace {

int CoreCount() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

class TbbTaskRunner final : public TaskRunner {
 public:
  explicit TbbTaskRunner(int threads) : threads_(threads), arena_(threads) {
    // TBB's market is as large as the machine unless told otherwise.
    if (threads > CoreCount()) {
      more_workers_.emplace(tbb::global_control::max_allowed_parallelism, static_cast<size_t>(threads));
    }
    arena_.initialize();
  }

  int threads() const override { return threads_; }

  void Enter(absl::FunctionRef<void()> fn) override {
    // Where the arena is full, a thread that waits in it runs this.
    char start = 0, end = 0;
    MILLRACE_TSAN_RELEASE(&start);
    arena_.execute([&] {
      MILLRACE_TSAN_ACQUIRE(&start);
      fn();
      MILLRACE_TSAN_RELEASE(&end);
    });
    MILLRACE_TSAN_ACQUIRE(&end);
  }

  void For(int64_t shards, absl::FunctionRef<void(int64_t)> fn) override {
    if (shards <= 1 || threads_ == 1) {
      for (int64_t i = 0; i < shards; ++i) fn(i);
      return;
    }
    char start = 0, end = 0;
    MILLRACE_TSAN_RELEASE(&start);
    arena_.execute([&] {
      tbb::parallel_for(
          tbb::blocked_range<int64_t>(0, shards, 1),
          [&](const tbb::blocked_range<int64_t>& range) {
            MILLRACE_TSAN_ACQUIRE(&start);
            for (int64_t i = range.begin(); i < range.end(); ++i) fn(i);
            MILLRACE_TSAN_RELEASE(&end);
          },
          tbb::simple_partitioner());
    });
    MILLRACE_TSAN_ACQUIRE(&end);
  }

 private:
  const int threads_;
  std::optional<tbb::global_control> more_workers_;
  tbb::task_arena arena_;
};

}  // namespace

std::unique_ptr<TaskRunner> MakeTbbTaskRunner(int threads) {
  return std::make_unique<TbbTaskRunner>(threads > 0 ? threads : CoreCount());
}

absl::Status CheckThreads(int threads) {
  absl::Notification all;
  std::vector<std::thread> started;
  absl::Status status;
  try {
    while (static_cast<int>(started.size()) < threads) started.emplace_back([&all] { all.WaitForNotification(); });
  } catch (const std::system_error& error) {
    status = absl::UnavailableError(absl::StrCat("this process needs ", threads, " threads and may start ", started.size(), " (", error.what(),
                                                       "); allow it more, or give it fewer with threads (--threads)"));
  }
  all.Notify();
  for (std::thread& thread : started) thread.join();
  return status;
}

}  // namespace millrace
