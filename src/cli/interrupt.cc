#include "cli/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>

namespace millrace::cli {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set by a signal handler");

void OnSignal(int) {
  const int error = errno;  // of what was interrupted
  interrupted.store(true);
  constexpr char kMessage[] = "\ninterrupted: ending after this step (once more to stop at once)\n";
  // Nothing can be done about a failed write here.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
  errno = error;
}

}  // namespace

void CatchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  // The second signal finds the default action.
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool Interrupted() { return interrupted.load(); }

}  // namespace millrace::cli
