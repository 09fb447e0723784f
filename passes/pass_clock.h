// PassClock: what each pass takes of the time for planning.
//
//   PassClock::Run run(request.clock, "storage");   // until the end of the scope
//
// Runs do not nest, so that their seconds add up to no more than the whole, on every thread that plans.
#ifndef MILLRACE_PASSES_PASS_CLOCK_H_
#define MILLRACE_PASSES_PASS_CLOCK_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "millrace/report.h"

namespace millrace {

// Of the thread that makes it; runs may be on others, too.
class PassClock {
 public:
  // `listener` (may be empty) is told the name of a pass when it begins on the clock's thread.
  explicit PassClock(std::function<void(const std::string& pass)> listener) : listener_(std::move(listener)) {}

  class Run {
   public:
    Run(PassClock* clock, const char* pass);  // a clock that is nullptr counts nothing
    ~Run();
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

   private:
    PassClock* const clock_;
    size_t pass_ = 0;
    std::chrono::steady_clock::time_point start_;
  };

  // When no run is under way.
  const std::vector<PassTime>& passes() const { return passes_; }

 private:
  const std::function<void(const std::string& pass)> listener_;
  const std::thread::id thread_ = std::this_thread::get_id();
  std::mutex mutex_;
  std::vector<PassTime> passes_;  // guarded by mutex_
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_PASS_CLOCK_H_
