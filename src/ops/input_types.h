// The inputs of a node, how many and of what types, against its op's definition in TensorFlow and its attributes: a rule or kernel that takes two
// for arrays of one type never sees two of several.
#ifndef MILLRACE_SRC_OPS_INPUT_TYPES_H_
#define MILLRACE_SRC_OPS_INPUT_TYPES_H_

#include "absl/types/span.h"
#include "millrace/graph.h"
#include "millrace/op.h"

namespace millrace {

// "WORD WORD ... | OP OP ...", ended by nullptr; a word per input as make_input_types.py explains.
extern const char* const kInputTypes[];

// `rule` and then a check of the inputs, for ops that the table has.
OpDef::ShapeRule WithTypesChecked(const std::string& op, OpDef::ShapeRule rule);

// Gives the node the attributes that say of what types its inputs are and how many, where it lacks them and the table has the op. Of several
// numbers of inputs that are not given it tells none, nor what comes after them.
void FillInputAttrs(absl::Span<const TensorType> inputs, Node& node);

}  // namespace millrace

#endif  // MILLRACE_SRC_OPS_INPUT_TYPES_H_
