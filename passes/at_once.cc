#include "passes/at_once.h"

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

}  // namespace millrace
