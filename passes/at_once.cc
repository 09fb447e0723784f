#include "passes/at_once.h"

#include <cmath>
#include <future>
#include <vector>

namespace millrace {

void RunAtOnce(size_t n, const std::function<void(size_t)>& task) {
  std::vector<std::future<void>> others;
  // Either policy: without a thread the task is run by get().
  for (size_t i = 1; i < n; ++i) others.push_back(std::async(std::launch::async | std::launch::deferred, task, i));
  if (n > 0) task(0);
  for (std::future<void>& other : others) other.get();
}

void RunWithin(const Deadline& deadline, size_t n, const std::function<bool(size_t)>& task) {
  if (!std::isfinite(deadline.seconds_left())) return RunAtOnce(n, task);
  bool found = false;
  for (size_t k = 0; k < n && !(found && deadline.passed()); ++k) found = task(k) || found;
}

}  // namespace millrace
