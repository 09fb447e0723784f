// The attributes of a node against its op's definition in TensorFlow: a rule or kernel that takes one for what it should be never sees
// another kind of value, a word that no kernel knows, or too small a number.
#ifndef MILLRACE_SRC_IMPORT_OP_ATTRS_H_
#define MILLRACE_SRC_IMPORT_OP_ATTRS_H_

#include "absl/status/status.h"
#include "millrace/graph.h"

namespace millrace {

// OK when each attribute that TensorFlow's definition of the op has is of its kind and among the values that are allowed, and those
// without a default are there; otherwise InvalidArgument names node, op and attribute, what it has and what was expected. OK for ops
// that the table does not have. Attributes that the definition does not have are passed over: a newer TensorFlow wrote them. So are
// those of a function's nodes that stand for one of the call's.
absl::Status CheckAttrs(const Node& node);

// The table: sets of types, and "ATTR ATTR … | Op Op …", each ATTR as make_op_attrs.py explains. Each ends with a nullptr.
extern const char* const kTypeSets[];
extern const char* const kOpAttrs[];

}  // namespace millrace

#endif  // MILLRACE_SRC_IMPORT_OP_ATTRS_H_
