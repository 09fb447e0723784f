// Lower strings: tables and hashes of texts become ops on numbers, whose memory a device has.
//
//   HashTableV2 ──► LookupTableFindV2 (of x, else d) ──► y    becomes    x, d ──► _FindInTable {keys, values} ──► y
//   x ──► AsString ──► StringToHashBucketFast ──► y           becomes    x ──► _AsStringToHashBucket ──► y
//
// What initialises a table may be a target of another run, or a function that a SavedModel's loader calls; its keys and values are
// constants, or follow from constants. They are looked for in the whole graph, and nodes that initialise are NoOps here. A table that
// could change (MutableHashTableV2) is as good where one node of the whole graph fills it, and not in a step that looks in it; others
// are kept in variables (keep_tables.h), with words as keys, too: their hashes, so what steps look up and insert is known when planning.
//
// Variables of strings are constants where the whole graph assigns them once, with what is known, or a checkpoint gives them their value
// and the step assigns nothing to them. Whether one is initialised is so of a number beside it, NAME/assigned. What only fills a table of
// words with what is known is no step's business, as those that look in it have constants; what exports it is constants itself.
//
// Needs: calls inlined, loops unrolled. Establishes: no op of IsTableOp is left. Unimplemented names a table to words that steps may
// change, one of words that a checkpoint restores, one that nothing initialises with what is known, and one that comes from a file.
#ifndef MILLRACE_PASSES_REWRITE_LOWER_STRINGS_H_
#define MILLRACE_PASSES_REWRITE_LOWER_STRINGS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/op.h"
#include "passes/kernel_oracle.h"

namespace millrace {

// `whole`: the graph that `graph` was pruned from, or `graph` itself. Returns whether the graph was changed.
absl::StatusOr<bool> LowerStrings(Graph& graph, const Graph& whole, const OpRegistry& ops, KernelOracle& oracle);

// Before loops are unrolled: lowers the nodes that find words in tables that are filled once, for the turns and branches may follow from
// these words. Leaves graphs without loops and conditionals, and tables whose contents are not known, to LowerStrings.
absl::Status LowerFoundWords(Graph& graph, const Graph& whole, const OpRegistry& ops, KernelOracle& oracle);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_LOWER_STRINGS_H_
