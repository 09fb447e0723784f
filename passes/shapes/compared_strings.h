// Strings that a node compares, or moves beside numbers: no device memory holds any, so the numbers that it makes are made when planning.
#ifndef MILLRACE_PASSES_SHAPES_COMPARED_STRINGS_H_
#define MILLRACE_PASSES_SHAPES_COMPARED_STRINGS_H_

#include "absl/status/status.h"
#include "millrace/op.h"

namespace millrace {

// Takes the strings of such a node, whose elements may be of whatever type, by value; OK where they are known, and of other nodes.
absl::Status TakeComparedStrings(const InferenceContext& context);

}  // namespace millrace

#endif  // MILLRACE_PASSES_SHAPES_COMPARED_STRINGS_H_
