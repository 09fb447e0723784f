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
  std::unique_lock<std::mutex> lock(mutex_);
  wake_.wait(lock, [&] {
    if (awaited_.load(std::memory_order_relaxed) > count) awaited_.store(count, std::memory_order_seq_cst);
    return count_.load(std::memory_order_seq_cst) >= count || stop.load(std::memory_order_seq_cst);
  });
  return count_.load(std::memory_order_acquire) >= count;
}

void LaneCounter::Wake() {
  // Taking the mutex puts this after a waiter's last look or before it. Who is not served says again what it waits for.
  {
    std::lock_guard<std::mutex> lock(mutex_);
    awaited_.store(kNobody, std::memory_order_seq_cst);
  }
  wake_.notify_all();
}

}  // namespace millrace
