// Processor time of tests that hold planning to a time.
#ifndef MILLRACE_TESTS_TESTLIB_PROCESSOR_TIME_H_
#define MILLRACE_TESTS_TESTLIB_PROCESSOR_TIME_H_

#include <ctime>

namespace millrace {

// Processor seconds of all threads of the process: what others run meanwhile does not count, but for caches and the core that
// two threads share.
inline double ProcessSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// How many times as long as on an idle machine, in a release build, a test may take: others that use the caches and cores cost
// up to 2 times, sanitizers and builds without optimization up to 20.
inline double TimeAllowance() {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) || !defined(NDEBUG)
  return 40;
#else
  return 2;
#endif
}

}  // namespace millrace

#endif  // MILLRACE_TESTS_TESTLIB_PROCESSOR_TIME_H_
