// How far a lane has come: written by the lane, waited for by others.
#ifndef MILLRACE_RUNTIME_LANE_COUNTER_H_
#define MILLRACE_RUNTIME_LANE_COUNTER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <mutex>

namespace millrace {

// On cache lines of its own, so that a lane's progress does not slow the others'.
class alignas(128) LaneCounter {
 public:
  // Steps done so far. Only the lane itself publishes.
  void Publish(int64_t count) {
    count_.store(count, std::memory_order_seq_cst);
    // A waiter lowers awaited_ before it looks at count_ for the last time, so one of the two sees the other.
    if (count >= awaited_.load(std::memory_order_seq_cst)) Wake();
  }
  int64_t count() const { return count_.load(std::memory_order_acquire); }

  // Blocks until count() >= count or `stop` is set (and Wake called). True when the count was reached.
  bool WaitFor(int64_t count, const std::atomic<bool>& stop);
  void Wake();
  // Before a training step, while nobody waits.
  void Reset() { count_.store(0, std::memory_order_relaxed); }

 private:
  static constexpr int64_t kNobody = std::numeric_limits<int64_t>::max();

  std::atomic<int64_t> count_{0};
  // No sleeper waits for less: what is published before that wakes nobody. Written under mutex_.
  std::atomic<int64_t> awaited_{kNobody};
  std::mutex mutex_;
  std::condition_variable wake_;
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_LANE_COUNTER_H_
