// TensorFlow's control flow ops by kind: the functional ones (If, Case, While, calls of functions), and those of
// TensorFlow 1, of values and of references.
#ifndef MILLRACE_PASSES_CONTROL_FLOW_CONTROL_FLOW_OPS_H_
#define MILLRACE_PASSES_CONTROL_FLOW_CONTROL_FLOW_OPS_H_

#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "millrace/graph.h"

namespace millrace {

bool IsIf(const Node& node);
bool IsCase(const Node& node);
bool IsWhile(const Node& node);
bool IsPartitionedCall(const Node& node);  // the function is in its attr `f`; SymbolicGradient calls that one's gradient

bool IsSwitch(const Node& node);
bool IsMerge(const Node& node);
bool IsEnter(const Node& node);
bool IsExit(const Node& node);
bool IsNextIteration(const Node& node);
// Whether one of these has the inputs that it must have. InvalidArgument names the node.
absl::Status CheckInputsOfControl(const Node& node);

// Whether a node that passes take apart, before a shape rule has seen it, has the inputs that they look at; OK for other nodes.
absl::Status CheckLeastInputs(const Node& node);

// Tables from keys to values, what changes and what reads them.
bool IsTable(const Node& node);         // that may be initialised once and for all
bool IsMutableTable(const Node& node);  // one of these that steps could change
bool IsDenseTable(const Node& node);    // TensorFlow's, in buckets, with a key that marks empty ones
bool IsChangingTable(const Node& node);  // any that steps could change
bool IsTableInitializer(const Node& node);
bool IsTableFromFile(const Node& node);  // initialises from a file
bool IsTableFind(const Node& node);
bool IsTableSize(const Node& node);
bool IsTableRemove(const Node& node);
bool IsTableExport(const Node& node);
bool UsesTable(const Node& node);  // takes a table's handle
bool IsTableOp(const Node& node);  // any of these

// What an input pipeline hands over in one variant. Its parts are fed, as outputs of the node, and then it has a value.
bool IsNextAsOptional(const Node& node);

// A text goes to people or into a file, where the order of turns and calls is to be kept though the text may be a constant.
bool WritesText(const Node& node);

// Constants and handles are there from the beginning of a step.
bool NeverWaits(const Node& node);

// Whether the predicate holds for a node of the graph, its functions left aside.
bool HoldsNode(const Graph& graph, absl::FunctionRef<bool(const Node&)> predicate);
// The same of a function of the graph's library.
bool LibraryHolds(const Graph& graph, absl::FunctionRef<bool(const Node&)> predicate);
// Of either.
bool HoldsAny(const Graph& graph, absl::FunctionRef<bool(const Node&)> predicate);

// The functions of the graph's library in which the predicate holds for a node, or that name such a function.
std::set<std::string> FunctionsWith(const Graph& graph, absl::FunctionRef<bool(const Node&)> predicate);
// What the node may run: its op, and the functions that its attributes name, branches and bodies too.
std::vector<std::string> FunctionsNamedBy(const Node& node);

}  // namespace millrace

#endif  // MILLRACE_PASSES_CONTROL_FLOW_CONTROL_FLOW_OPS_H_
