// What the functions that XLA's reductions, sorts and scatters name compute, as far as lower_xla knows an op for it.
#ifndef MILLRACE_PASSES_REWRITE_XLA_BODIES_H_
#define MILLRACE_PASSES_REWRITE_XLA_BODIES_H_

#include <string>
#include <vector>

#include "millrace/graph.h"
#include "passes/rewrite/xla_writer.h"

namespace millrace {

// The op of two arguments that the function in attribute `attr` is: AddV2, Mul, Maximum, Minimum, LogicalAnd, LogicalOr, Less, LessEqual,
// Greater, GreaterEqual; kXlaSecond for one that gives its second argument; empty for any other.
inline constexpr const char* kXlaSecond = "second";
std::string XlaBinaryOp(const Graph& graph, const Node& node, const char* attr);

// How a comparator orders: by one operand, then by the next. Empty where it does more.
struct XlaSortKey {
  int operand = 0;
  bool descending = false;
};
std::vector<XlaSortKey> XlaSortKeys(const Graph& graph, const Node& node, const char* attr);

// Of two pairs (value, index) the one with the larger value ("ArgMax"), or the smaller ("ArgMin"), of equal ones that with the
// smaller index; `op` is empty for any other function.
struct XlaArg {
  std::string op;
  bool nan_first = false;  // a NaN comes before any number, as JAX has it
};
XlaArg XlaArgOp(const Graph& graph, const Node& node, const char* attr);

// Whether the function makes `results` numbers by ops that work on every element of tensors alone.
bool XlaIsOfElements(const Graph& graph, const Node& node, const char* attr, size_t results);
// What such a function makes of every element of `arguments`, which are scalars or have one shape; its results have that shape.
std::vector<XlaValue> XlaAppliedTo(XlaWriter& writer, const char* attr, const std::vector<XlaValue>& arguments);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_XLA_BODIES_H_
