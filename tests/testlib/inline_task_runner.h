// A task runner whose order is known.
#ifndef MILLRACE_TESTS_TESTLIB_INLINE_TASK_RUNNER_H_
#define MILLRACE_TESTS_TESTLIB_INLINE_TASK_RUNNER_H_

#include <memory>

#include "runtime/task_runner.h"

namespace millrace::testing {

enum class InlineOrder { kForward, kReverse };

// Runs everything on the calling thread; says that it has `threads` threads, so that work is handed to it as it would be to as many.
class InlineTaskRunner final : public TaskRunner {
 public:
  explicit InlineTaskRunner(InlineOrder order = InlineOrder::kForward, int threads = 1) : order_(order), threads_(threads) {}
  int threads() const override { return threads_; }
  void Enter(absl::FunctionRef<void()> fn) override { fn(); }
  void For(int64_t shards, absl::FunctionRef<void(int64_t)> fn) override {
    for (int64_t i = 0; i < shards; ++i) fn(order_ == InlineOrder::kForward ? i : shards - 1 - i);
  }

 private:
  const InlineOrder order_;
  const int threads_;
};

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_TESTLIB_INLINE_TASK_RUNNER_H_
