// Replays a plan from its text alone, with other times than it was made for, and looks for what must never happen.
//
// It shares no code with the passes, the plan verifier or the simulator: it reads lines, runs the lanes as the
// executor would (in order, waiting for counters) and checks what every step finds in memory.
#ifndef MILLRACE_TESTS_TESTLIB_PLAN_TEXT_CHECKER_H_
#define MILLRACE_TESTS_TESTLIB_PLAN_TEXT_CHECKER_H_

#include <functional>
#include <string>

#include "absl/status/status.h"

namespace millrace {

// `text` as PlanToText gives it with seconds; `scale` gives a factor for the time of each step: its lane ("compute",
// "to-host", "to-device"). Errors: a deadlock; an address at or above `budget_bytes` (0: none); a step that reads bytes
// another owner wrote meanwhile, or that nobody wrote; two owners writing the same bytes at once.
absl::Status CheckPlanText(const std::string& text, int64_t budget_bytes,
                           const std::function<double(const std::string& lane)>& scale);

}  // namespace millrace

#endif  // MILLRACE_TESTS_TESTLIB_PLAN_TEXT_CHECKER_H_
