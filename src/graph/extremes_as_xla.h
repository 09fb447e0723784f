// Scatters of XLA's programs that keep the largest or smallest of what is there and the updates.
#ifndef MILLRACE_SRC_GRAPH_EXTREMES_AS_XLA_H_
#define MILLRACE_SRC_GRAPH_EXTREMES_AS_XLA_H_

namespace millrace {

// A TensorScatterMax or TensorScatterMin on which this is true gives NaN where any of them is one; TensorFlow passes over updates of NaN.
inline constexpr char kExtremesAsXla[] = "_as_xla";

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_EXTREMES_AS_XLA_H_
