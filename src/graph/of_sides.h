// Selects that conditionals became: what the passes that make them and those that give them types agree on.
#ifndef MILLRACE_GRAPH_OF_SIDES_H_
#define MILLRACE_GRAPH_OF_SIDES_H_

namespace millrace {

// Attribute (bool, true) of a Select by a scalar between what the two sides of a conditional give. Where a size of one of them is
// known only when running they may be of different sizes: typing makes it a kEitherShape (millrace/guard.h).
inline constexpr char kOfSides[] = "_of_sides";

}  // namespace millrace

#endif  // MILLRACE_GRAPH_OF_SIDES_H_
