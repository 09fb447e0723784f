// Deadline: when a search must end, by a clock that tests replace.
#ifndef MILLRACE_PASSES_ACCESS_DEADLINE_H_
#define MILLRACE_PASSES_ACCESS_DEADLINE_H_

#include <functional>
#include <limits>
#include <memory>
#include <utility>

namespace millrace {

// Seconds since whenever it likes; never goes back.
using PlanClock = std::function<double()>;

// Of one thread. Copies, and earlier ones made of it, share what told() says.
class Deadline {
 public:
  Deadline() = default;  // there is none
  Deadline(PlanClock clock, double at_seconds) : state_(std::make_shared<State>(State{std::move(clock)})), at_seconds_(at_seconds) {}

  // Whether it will have passed in so many seconds.
  bool passed(double in_seconds = 0) const {
    const bool over = state_ != nullptr && state_->clock() + in_seconds >= at_seconds_;
    if (over) state_->told = true;
    return over;
  }
  // Whether passed() ever said so: somebody may have ended earlier than it would have without.
  bool told() const { return state_ != nullptr && state_->told; }
  // Negative when it has passed, infinite when there is none.
  double seconds_left() const { return state_ != nullptr ? at_seconds_ - state_->clock() : std::numeric_limits<double>::infinity(); }
  Deadline Earlier(double seconds) const {
    Deadline earlier = *this;
    earlier.at_seconds_ -= seconds;
    return earlier;
  }

 private:
  struct State {
    PlanClock clock;
    bool told = false;
  };
  std::shared_ptr<State> state_;
  double at_seconds_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_ACCESS_DEADLINE_H_
