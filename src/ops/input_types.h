// The inputs of a node, how many and of what types, against its op's definition in TensorFlow and its attributes: a rule or kernel that takes two
// for arrays of one type never sees two of several.
#ifndef MILLRACE_SRC_OPS_INPUT_TYPES_H_
#define MILLRACE_SRC_OPS_INPUT_TYPES_H_

#include "millrace/op.h"

namespace millrace {

// "WORD WORD ... | OP OP ...", ended by nullptr; a word per input as make_input_types.py explains.
extern const char* const kInputTypes[];

// `rule` and then a check of the inputs, for ops that the table has.
OpDef::ShapeRule WithTypesChecked(const std::string& op, OpDef::ShapeRule rule);

}  // namespace millrace

#endif  // MILLRACE_SRC_OPS_INPUT_TYPES_H_
