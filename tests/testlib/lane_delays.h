// Lanes that are held up at random: what a plan's waits must bear.
#ifndef MILLRACE_TESTS_TESTLIB_LANE_DELAYS_H_
#define MILLRACE_TESTS_TESTLIB_LANE_DELAYS_H_

#include <chrono>
#include <cstdint>
#include <thread>

#include "absl/status/status.h"
#include "runtime/lane_engine.h"

namespace millrace::testing {

// Sleeps up to 0.3 ms before one step in `one_in`; which, and for how long, follows from the seed. Called from all lanes at once.
class LaneDelays : public LaneObserver {
 public:
  explicit LaneDelays(uint64_t seed, uint64_t one_in = 8) : seed_(seed), one_in_(one_in) {}
  absl::Status BeforeStep(int32_t lane, int64_t step) override {
    const uint64_t dice = Mix(seed_ * 31 + static_cast<uint64_t>(lane * 1000003 + step));
    if (dice % one_in_ == 0) std::this_thread::sleep_for(std::chrono::microseconds(dice / one_in_ % 300));
    return absl::OkStatus();
  }
  // Other delays from now on; between two steps of the plan.
  void NextStep() { ++seed_; }

 private:
  static uint64_t Mix(uint64_t x) {
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdULL;
    return x ^ (x >> 33);
  }

  uint64_t seed_;
  const uint64_t one_in_;
};

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_TESTLIB_LANE_DELAYS_H_
