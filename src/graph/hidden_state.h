// State that ops of a graph keep over steps and that no op of the graph initialises: what a table holds, what an accumulator has
// summed up, what waits in a queue. It is a variable of bytes, all zero in the beginning, which passes declare in place of the
// resource; the ops that use it name it in the attributes below.
#ifndef MILLRACE_SRC_GRAPH_HIDDEN_STATE_H_
#define MILLRACE_SRC_GRAPH_HIDDEN_STATE_H_

namespace millrace {

// Bool, true: input 0 is such a variable. A session gives it its zeros before the first step that uses it.
inline constexpr char kStartsEmpty[] = "_starts_empty";

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_HIDDEN_STATE_H_
