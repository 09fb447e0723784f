// What is known of a graph's tables when it is planned: those that are initialised once, with keys and values that follow from
// constants.
#ifndef MILLRACE_PASSES_REWRITE_KNOWN_TABLES_H_
#define MILLRACE_PASSES_REWRITE_KNOWN_TABLES_H_

#include <map>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/op.h"
#include "passes/kernel_oracle.h"
#include "passes/shapes/infer_shapes.h"

namespace millrace {

struct TableContents {
  Tensor keys, values;
  bool from_file = false;
  std::string why_unread;
  std::string filled_by, changed_by;  // nodes; the second where there is another than the first
  std::string restored_by;            // a node that fills it from a checkpoint
};

// What runs for the nodes of `whole` for which the predicate holds, those in functions that it names too, without calls. Placeholders are
// fed: what they are in other steps is not known, and no reason to fail.
absl::StatusOr<Graph> WhatRunsFor(const Graph& whole, const OpRegistry& ops, absl::FunctionRef<bool(const Node&)> predicate);

// Takes away what turns carry on: it is not known, and without it there is an order.
void CutLoops(Graph& graph);

// Visits these nodes in creation order, with what is known of what they take. Those in branches and bodies may be visited, by what nodes
// then, or how often is not known: (a resource that it may be, the node of the graph that has the branch).
absl::Status VisitWithValues(const Graph& whole, const OpRegistry& ops, KernelOracle& oracle, absl::FunctionRef<bool(const Node&)> predicate,
                             absl::FunctionRef<void(const Graph&, const Node&, const ShapeTracker&)> visit,
                             absl::FunctionRef<void(const Node&, const Node&)> may_visit);

class KnownTables {
 public:
  // Looks through the whole graph, functions included.
  static absl::StatusOr<KnownTables> Find(const Graph& whole, const OpRegistry& ops, KernelOracle& oracle);

  // Of a table that `user` reads. Unimplemented says why they are not known.
  absl::StatusOr<TableContents> Of(const Node& table, const Node& user) const;
  // Unimplemented where a checkpoint has the table's keys.
  absl::Status CheckNotRestored(const Node& table, const Node& user) const;

 private:
  std::map<std::string, TableContents> by_name_;
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_KNOWN_TABLES_H_
