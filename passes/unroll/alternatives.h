// Values that are one of two (Either), and Optionals: what a conditional's branches hand on to their gradient while the loops in them
// are taken apart. Nothing of it becomes a node unless both are needed as one.
//
//   forward    a loop's list A, kept ──► Merge by p ──► either A or B          the conditional's gradient, by the same p
//              the other's list B    ──┘                     └────► Switch by p ──► A on one side, B on the other
#ifndef MILLRACE_PASSES_UNROLL_ALTERNATIVES_H_
#define MILLRACE_PASSES_UNROLL_ALTERNATIVES_H_

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "passes/control_flow/guard_effects.h"
#include "passes/unroll/guards.h"
#include "passes/unroll/lists.h"
#include "passes/unroll/value.h"

namespace millrace {

// Whether a Switch or a Merge of it makes no node.
inline bool IsHeldByName(const Value& value) {
  return value.kind == Value::Kind::kList || value.kind == Value::Kind::kOptional || value.kind == Value::Kind::kEither;
}

// What comes out of a Switch by a predicate that is known only when running, for each side.
std::pair<Value, Value> SwitchedByName(Guards& guards, const Value& value, OutputRef predicate);

// The same of an array or stack.
std::pair<Value, Value> SwitchedObject(const Value& value, OutputRef predicate);
// What a stack gave: a predicate or a number of turns that is a constant is so on the stack's side alone: it waits for what runs there.
absl::StatusOr<Value> KnownOnSide(StraightGraph& out, const NodeCall& pop, Value value);
// Inputs of a Merge that are on one side for what they wait for alone: each as a tensor of its side.
absl::Status TieToSides(StraightGraph& out, Guards& guards, NodeCall& merge);

// As AsOne, for two lists of one length before a Switch that asks something else than what tells them apart: a list knows
// which side it is on, an alternative does not. Other values stay as they are.
absl::StatusOr<Value> ListBeforeSwitch(StraightGraph& out, Guards& guards, const NodeCall& call, const Value& value, OutputRef predicate);

// What comes out of a Merge: `taken` where the literal holds, else `other`. Its own waits are those of neither side: who
// runs after both must not wait for one that may not run.
Value MergedByName(Literal literal, Value other, Value taken);

// What waits for the one side or the other, whichever runs.
absl::StatusOr<Waits> EndOfBoth(StraightGraph& out, const NodeCall& call, const Literal& literal, const Waits& other,
                                const Waits& taken);

// One value in the place of both: a Merge of tensors, a list of such. Lists must be of one length then. Optionals stay apart.
absl::StatusOr<Value> AsOne(StraightGraph& out, const NodeCall& call, const Value& value);

// Outputs of an op of Optionals.
absl::StatusOr<std::vector<Value>> RunOptionalOp(StraightGraph& out, const NodeCall& call);

}  // namespace millrace

#endif  // MILLRACE_PASSES_UNROLL_ALTERNATIVES_H_
