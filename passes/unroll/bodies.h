// What is run again and again while loops are taken apart: the graph itself, once, and the functions of While nodes.
#ifndef MILLRACE_PASSES_UNROLL_BODIES_H_
#define MILLRACE_PASSES_UNROLL_BODIES_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/op.h"
#include "passes/unroll/frames.h"

namespace millrace {

struct Body {
  Graph graph;  // without calls, conditionals as Switch and Merge
  std::vector<LoopFrame> frames;
  std::vector<int32_t> outputs;  // by node: how many are used
  std::vector<bool> first;       // by node: no other one of the body that could wait comes before it
  size_t arguments = 0;  // that its nodes ask for
  std::vector<NodeId> results;
  std::vector<NodeId> control_results;
  std::vector<NodeId> effects;  // nodes that do more than reading variables and drawing random numbers
  bool acts = false;  // there are such, or some that draw, in functions of loops too
};

class Bodies {
 public:
  // `max_nodes`: what calls of one body may add (MostInlinedNodes).
  Bodies(const OpRegistry& ops, int64_t max_nodes) : ops_(ops), max_nodes_(max_nodes) {}
  absl::StatusOr<std::unique_ptr<Body>> OfGraph(Graph graph);
  // The function that attribute `attr` of a node names.
  absl::StatusOr<const Body*> OfFunction(const Graph& graph, const Node& node, const char* attr);

 private:
  const OpRegistry& ops_;
  const int64_t max_nodes_;
  std::map<std::string, std::unique_ptr<Body>> functions_;
  int depth_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_UNROLL_BODIES_H_
