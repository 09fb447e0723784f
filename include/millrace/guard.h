// Nodes whose effects depend on a value: what passes, shape rules and kernels of every device agree on.
#ifndef MILLRACE_GUARD_H_
#define MILLRACE_GUARD_H_

namespace millrace {

// Attribute (bool, true) of a node that has one input more than its op: a bool scalar, the last one. Where it is false the
// node's state stays as it is and nothing is printed. Its outputs, which nobody looks at, are its first input (Print), zeros, or any
// values of the largest shapes where shapes are known only when running.
inline constexpr char kGuarded[] = "_guarded";

// Attribute (bool, true) of a Select by a scalar between what the two sides of a conditional give: they may be of different sizes,
// and the output has those of the one that is taken.
inline constexpr char kEitherShape[] = "_either_shape";

}  // namespace millrace

#endif  // MILLRACE_GUARD_H_
