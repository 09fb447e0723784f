// Carry homes: variables that a placed plan copies home late in the step stay where they are over the step's end and go home when the next
// step begins, while the lane has nothing else to do.
//
//   step      | fetched  update  home |               becomes   | home  fetched  update   stays |
//   its place | others …  [     A    ] free |                   | [ A ] others …  [      A      ] |
//
// That is possible where nothing takes the place after the variable in this step; what takes it in the next waits for the copy.
#ifndef MILLRACE_PASSES_PLANNER_CARRY_HOMES_H_
#define MILLRACE_PASSES_PLANNER_CARRY_HOMES_H_

#include <optional>

#include "passes/planner/gaps.h"
#include "passes/planner/place.h"

namespace millrace {

// The placement with some variables carried, if its step is shorter then. Not for plans with a disk tier (SwapDecision).
std::optional<Placement> CarryHomes(const GapGraph& gaps, const Placement& placement);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PLANNER_CARRY_HOMES_H_
