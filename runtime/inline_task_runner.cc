#include "runtime/task_runner.h"

namespace millrace {
namespace {

class InlineTaskRunner final : public TaskRunner {
 public:
  explicit InlineTaskRunner(InlineOrder order) : order_(order) {}
  int threads() const override { return 1; }
  void Enter(absl::FunctionRef<void()> fn) override { fn(); }
  void For(int64_t shards, absl::FunctionRef<void(int64_t)> fn) override {
    for (int64_t i = 0; i < shards; ++i) fn(order_ == InlineOrder::kForward ? i : shards - 1 - i);
  }

 private:
  const InlineOrder order_;
};

}  // namespace

std::unique_ptr<TaskRunner> MakeInlineTaskRunner(InlineOrder order) {
  return std::make_unique<InlineTaskRunner>(order);
}

}  // namespace millrace
