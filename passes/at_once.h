// At once: parts of planning that do not depend on one another, on threads of their own.
#ifndef MILLRACE_PASSES_AT_ONCE_H_
#define MILLRACE_PASSES_AT_ONCE_H_

#include <cstddef>
#include <functional>

#include "passes/access/deadline.h"

namespace millrace {

// Runs task(0) to task(n - 1) and returns when the last has ended; the first on the calling thread. Other threads are as urgent as that
// one. Where the system has no thread for a task, it waits for the first.
void RunAtOnce(size_t n, const std::function<void(size_t)>& task);

// The same for tasks that say whether they found something. With a deadline they run one after another, until something is found and it has
// passed.
void RunWithin(const Deadline& deadline, size_t n, const std::function<bool(size_t)>& task);

}  // namespace millrace

#endif  // MILLRACE_PASSES_AT_ONCE_H_
