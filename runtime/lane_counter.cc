#include "runtime/lane_counter.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace millrace {
namespace {

// About 2 us: longer than a lane that runs beside this one needs for a short step, shorter than a sleep costs.
constexpr int kSpins = 64;

void Pause() {
#if defined(__SSE2__)
  _mm_pause();
#endif
}

}  // namespace

bool LaneCounter::WaitFor(int64_t count, const std::atomic<bool>& stop) {
  for (int i = 0; i < kSpins; ++i) {
    if (count_.load(std::memory_order_acquire) >= count) return true;
    if (stop.load(std::memory_order_acquire)) return false;
    Pause();
  }
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  std::unique_lock<std::mutex> lock(mutex_);
  wake_.wait(lock, [&] {
    return count_.load(std::memory_order_seq_cst) >= count || stop.load(std::memory_order_seq_cst);
  });
  lock.unlock();
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  return count_.load(std::memory_order_acquire) >= count;
}

void LaneCounter::Wake() {
  // Taking the mutex puts this after a waiter's last look or before it.
  { std::lock_guard<std::mutex> lock(mutex_); }
  wake_.notify_all();
}

}  // namespace millrace
