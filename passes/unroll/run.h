// Where unroll_loops stands: what the nodes of a body are in the present turn.
#ifndef MILLRACE_PASSES_UNROLL_RUN_H_
#define MILLRACE_PASSES_UNROLL_RUN_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "millrace/graph.h"
#include "passes/unroll/bodies.h"
#include "passes/unroll/needed.h"
#include "passes/unroll/value.h"

namespace millrace {

// A node of a body in the present turn.
struct NodeState {
  absl::InlinedVector<Value, 1> values;
  NodeId made;   // in the result; invalid when it needs no node
  Waits waits;   // then: what those who wait for it wait for
  bool dead = false;
};

// One run of a body: the graph itself, or a function for one turn.
struct Run {
  const Body* body = nullptr;
  const std::vector<Value>* arguments = nullptr;
  std::string prefix;           // of names, with turns
  std::string suffix;           // also, of the frames that it is in
  std::string constant_prefix;  // of names, without turns
  std::string stream_prefix;    // of random ops' streams: loops and functions, behind ':', which no node's name holds
  std::string device;           // of nodes that ask for none
  NodeId enter;                 // what its first nodes wait for
  NodeId effects;               // what its frames have done so far, invalid for nothing
  bool top = false;
  const NeededNodes* needed = nullptr;  // of the body; nullptr: all
  std::vector<NodeState> nodes;
  // What later parts of loops take of turns: by the loop's first frame, and the suffix.
  std::map<std::pair<int32_t, std::string>, std::vector<std::pair<NodeId, NodeState>>> kept;

  bool needs(NodeId id) const { return needed == nullptr || needed->nodes[id.value]; }
  bool in_loop() const { return !top || !suffix.empty(); }
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_UNROLL_RUN_H_
