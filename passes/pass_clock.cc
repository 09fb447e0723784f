#include "passes/pass_clock.h"

#include <algorithm>

namespace millrace {

PassClock::Run::Run(PassClock* clock, const char* pass) : clock_(clock) {
  if (clock_ == nullptr) return;
  {
    const std::lock_guard<std::mutex> lock(clock_->mutex_);
    std::vector<PassTime>& passes = clock_->passes_;
    const auto found = std::find_if(passes.begin(), passes.end(), [&](const PassTime& p) { return p.name == pass; });
    pass_ = static_cast<size_t>(found - passes.begin());
    if (found == passes.end()) passes.push_back({pass, 0, 0});
  }
  if (clock_->listener_ && std::this_thread::get_id() == clock_->thread_) clock_->listener_(pass);
  start_ = std::chrono::steady_clock::now();
}

PassClock::Run::~Run() {
  if (clock_ == nullptr) return;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const std::lock_guard<std::mutex> lock(clock_->mutex_);
  PassTime& pass = clock_->passes_[pass_];
  pass.seconds += seconds;
  ++pass.runs;
}

}  // namespace millrace
