#include "runtime/link_pacer.h"

#include <algorithm>
#include <thread>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace millrace {
namespace {
// A sleep may end this much late; the rest of the way is spun.
constexpr std::chrono::microseconds kSleepSlack{30};
// Lateness beyond this is not made up: the memory was slower than the link.
constexpr std::chrono::milliseconds kMaxLateness{2};
}  // namespace

LinkPacer::Clock::time_point LinkPacer::Due(int64_t bytes, Clock::time_point now) {
  const auto span = std::chrono::duration<double>(static_cast<double>(bytes) / bytes_per_second_);
  // The caller copied before it called, so an idle link's due time lies before the copy (see Idle).
  due_ = std::max(due_, now - kMaxLateness) + std::chrono::duration_cast<Clock::duration>(span);
  return due_;
}

void LinkPacer::Carry(int64_t bytes) {
  if (!enabled()) return;
  const auto now = Clock::now();
  const auto due = Due(bytes, now);
  if (due - now > kSleepSlack) std::this_thread::sleep_until(due - kSleepSlack);
  while (Clock::now() < due) {
#if defined(__SSE2__)
    _mm_pause();
#endif
  }
}

}  // namespace millrace
