// What options stand for: budgets where only the machine says them, rates of what is slowed.
#ifndef MILLRACE_SRC_PLAN_RESOLVE_OPTIONS_H_
#define MILLRACE_SRC_PLAN_RESOLVE_OPTIONS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "millrace/options.h"

namespace millrace {

// The budget that options with `asked` have on a machine of so many bytes: PlanningOptions::kNoLimit where there is none.
int64_t LimitOf(int64_t asked, int64_t of_machine);

// Makes all budgets the bytes that hold. From here on 0 is no limit: so the passes take them.
void ResolveBudgets(SessionOptions& options);

// Whether copies can be slowed to so many GB/s; errors name the option.
absl::Status CheckPace(const std::string& option, double gbps);

// The machine with its links and disk as slow as the options make them.
Machine PacedMachine(const SessionOptions& options);

}  // namespace millrace

#endif  // MILLRACE_SRC_PLAN_RESOLVE_OPTIONS_H_
