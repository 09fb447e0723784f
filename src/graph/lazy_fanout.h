// The consumers of every node, looked for once, and only where somebody asks: what makes several orders of one graph shares them.
#ifndef MILLRACE_SRC_GRAPH_LAZY_FANOUT_H_
#define MILLRACE_SRC_GRAPH_LAZY_FANOUT_H_

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "millrace/graph.h"

namespace millrace {

// Of a graph whose edges stay what they are, and which outlives it. Of one thread.
class LazyFanout {
 public:
  explicit LazyFanout(const Graph& graph) : graph_(graph) {}
  const Fanout& get() {
    if (!fanout_) fanout_ = ComputeFanout(graph_);
    return *fanout_;
  }

 private:
  const Graph& graph_;
  std::optional<Fanout> fanout_;
};

// The orders of graph.h.
absl::StatusOr<std::vector<NodeId>> TopologicalOrder(const Graph& graph, absl::Span<const int64_t> priority, LazyFanout& fanout);
absl::StatusOr<std::vector<NodeId>> CreationOrder(const Graph& graph, LazyFanout& fanout);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_LAZY_FANOUT_H_
