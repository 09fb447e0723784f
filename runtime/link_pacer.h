// Makes one direction of a link as slow as asked: bytes leave at a steady rate, and a copy ends no earlier than the
// link would have carried it.
#ifndef MILLRACE_RUNTIME_LINK_PACER_H_
#define MILLRACE_RUNTIME_LINK_PACER_H_

#include <chrono>
#include <cstdint>

namespace millrace {

// One thread. Lateness of one wake-up is made up by the next copy when the link was busy all the while, so errors do
// not add up; time that the link stood idle is not made up.
class LinkPacer {
 public:
  using Clock = std::chrono::steady_clock;

  // bytes_per_second <= 0: never waits.
  explicit LinkPacer(double bytes_per_second) : bytes_per_second_(bytes_per_second) {}

  bool enabled() const { return bytes_per_second_ > 0; }
  // The lane had to wait for its work until now: the link was idle.
  void Idle() {
    if (enabled()) IdleUntil(Clock::now());
  }
  // `bytes` more have been copied: returns when the link would have carried them.
  void Carry(int64_t bytes);

  // The same without waiting, at a given time: when the link will have carried the bytes that were copied by `now`.
  void IdleUntil(Clock::time_point now) { due_ = now; }
  Clock::time_point Due(int64_t bytes, Clock::time_point now);

 private:
  const double bytes_per_second_;
  Clock::time_point due_{};  // when the link is free again
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_LINK_PACER_H_
