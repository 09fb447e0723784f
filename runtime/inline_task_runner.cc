#include "runtime/task_runner.h"

namespace millrace {
namespace {

class InlineTaskRunner final : public TaskRunner {
 public:
  InlineTaskRunner(InlineOrder order, int threads) : order_(order), threads_(threads) {}
  int threads() const override { return threads_; }
  void Enter(absl::FunctionRef<void()> fn) override { fn(); }
  void For(int64_t shards, absl::FunctionRef<void(int64_t)> fn) override {
    for (int64_t i = 0; i < shards; ++i) fn(order_ == InlineOrder::kForward ? i : shards - 1 - i);
  }

 private:
  const InlineOrder order_;
  const int threads_;
};

}  // namespace

std::unique_ptr<TaskRunner> MakeInlineTaskRunner(InlineOrder order, int threads) {
  return std::make_unique<InlineTaskRunner>(order, threads);
}

}  // namespace millrace
