#include "cli/interrupt.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace millrace::cli {
namespace {

TEST(InterruptDeathTest, TheFirstSignalIsAWishTheSecondEndsTheProcess) {
  const auto interrupt_twice = [] {
    CatchInterrupts();
    if (Interrupted()) _exit(3);
    raise(SIGINT);
    if (!Interrupted()) _exit(4);
    raise(SIGINT);
    _exit(5);
  };
  EXPECT_EXIT(interrupt_twice(), testing::KilledBySignal(SIGINT), "ending after this step");
}

}  // namespace
}  // namespace millrace::cli
