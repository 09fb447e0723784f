// One number for a graph, by which a plan knows the graph that it was made for.
#ifndef MILLRACE_SRC_GRAPH_FINGERPRINT_H_
#define MILLRACE_SRC_GRAPH_FINGERPRINT_H_

#include <cstdint>

#include "millrace/graph.h"

namespace millrace {

// Over names, ops, devices asked for, inputs and attributes of the nodes in their order, the values of constants included, and
// over the functions of the library. Never 0. Equal graphs have equal ones on every machine of one byte order; what passes
// establish (shapes, partitions) does not count.
uint64_t Fingerprint(const Graph& graph);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_FINGERPRINT_H_
