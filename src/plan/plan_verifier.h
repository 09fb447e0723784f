// An independent check of a plan, from its steps alone: it trusts neither the passes nor the residences.
//
// What holds of a plan that passes, whatever the timing of the lanes:
//  - every wait points to an earlier position, so nothing can deadlock;
//  - every address lies in the arena and is aligned, and the arena in the budget;
//  - of two accesses to overlapping bytes (device arena, host pool, a variable's home) of which one writes, one
//    *happens before* the other: it is earlier on the same lane, or reached through waits;
//  - what is read has been written before: outputs before inputs, a copy to the pool before the copy back (of the same
//    tensor), the newest value of a variable wherever it is read, and every written variable is home at the end;
//  - in a tiered plan the host pool is checked as an arena is, the disk as the pool is in others;
//  - every fetch is copied, and counts, sizes and indices agree;
//  - figures are some, and residences lie within the step and the arena: reports are made of them.
//
// Happens-before is a vector clock per step (how many steps of every lane are done when it starts); overlaps are
// found in a map of byte ranges, each with its last writer and its readers since. Nearly linear in the steps.
#ifndef MILLRACE_SRC_PLAN_PLAN_VERIFIER_H_
#define MILLRACE_SRC_PLAN_PLAN_VERIFIER_H_

#include "absl/status/status.h"
#include "millrace/plan.h"

namespace millrace {

// Internal, with the first violation: the step (in the plan's text form), the bytes and the other step.
absl::Status VerifyPlan(const ExecutionPlan& plan);

}  // namespace millrace

#endif  // MILLRACE_SRC_PLAN_PLAN_VERIFIER_H_
