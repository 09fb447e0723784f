// PassClock: what each pass takes of the time for planning.
//
//   PassClock::Run run(request.clock, "storage");   // until the end of the scope
//
// Runs do not nest, so that their seconds add up to no more than the whole.
#ifndef MILLRACE_PASSES_PASS_CLOCK_H_
#define MILLRACE_PASSES_PASS_CLOCK_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "millrace/report.h"

namespace millrace {

// Of one thread.
class PassClock {
 public:
  // `listener` (may be empty) is told the name of a pass when it begins.
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

  const std::vector<PassTime>& passes() const { return passes_; }

 private:
  const std::function<void(const std::string& pass)> listener_;
  std::vector<PassTime> passes_;
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_PASS_CLOCK_H_
