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

namespace millrace {

struct TableContents {
  Tensor keys, values;
  bool from_file = false;
  std::string why_unread;
  std::string filled_by, changed_by;  // nodes; the second where there is another than the first
};

// What runs for the nodes of `whole` for which the predicate holds, those in functions that it calls too, without calls. Placeholders are
// fed: what they are in other steps is not known, and no reason to fail.
absl::StatusOr<Graph> WhatRunsFor(const Graph& whole, const OpRegistry& ops, absl::FunctionRef<bool(const Node&)> predicate);

class KnownTables {
 public:
  // Looks through the whole graph, functions included.
  static absl::StatusOr<KnownTables> Find(const Graph& whole, const OpRegistry& ops, KernelOracle& oracle);

  // Of a table that `user` reads. Unimplemented says why they are not known.
  absl::StatusOr<TableContents> Of(const Node& table, const Node& user) const;

 private:
  std::map<std::string, TableContents> by_name_;
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_KNOWN_TABLES_H_
