// The attributes of a node against its op's definition in TensorFlow: a rule or kernel that takes one for what it should be never sees
// another kind of value, a word that no kernel knows, or too small a number.
#ifndef MILLRACE_SRC_OPS_OP_ATTRS_H_
#define MILLRACE_SRC_OPS_OP_ATTRS_H_

#include "absl/status/status.h"
#include "millrace/graph.h"

namespace millrace {

// Each of these is OK for ops that the table does not have; otherwise InvalidArgument names node, op and attribute, what it has and what was
// expected. Those of a function's nodes that stand for one of the call's are passed over.

// OK when each attribute that is there and in TensorFlow's definition of the op is of its kind, and a Const's value of its type.
absl::Status CheckAttrKinds(const Node& node);

// Of a node that is whole, read or with what follows from its inputs filled in: they are among the values that are allowed, too, and those
// without a default are there. Attributes that the definition does not have are passed over: a newer TensorFlow wrote them.
absl::Status CheckAttrs(const Node& node);

// Of a node that a program describes, before CheckAttrs: those that it gives are of their kinds, and of the definition or notes, which begin
// with "_". An int for a float becomes one.
absl::Status CheckWrittenAttrs(Node& node);

// Those of `attrs` that are in TensorFlow's definition of the op, and notes: a node that was read may have others, which a newer TensorFlow wrote.
AttrMap KnownAttrs(const std::string& op, const AttrMap& attrs);

// The table: sets of types, and "ATTR ATTR … | Op Op …", each ATTR as make_op_attrs.py explains. Each ends with a nullptr.
extern const char* const kTypeSets[];
extern const char* const kOpAttrs[];

}  // namespace millrace

#endif  // MILLRACE_SRC_OPS_OP_ATTRS_H_
