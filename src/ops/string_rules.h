// Rules of ops that read strings: no device memory holds them, so planning knows what they are or the node is refused.
#ifndef MILLRACE_SRC_OPS_STRING_RULES_H_
#define MILLRACE_SRC_OPS_STRING_RULES_H_

#include "millrace/op.h"

namespace millrace {

// OK where the input is of strings and they are known.
absl::Status ExpectKnownStrings(const InferenceContext& context, int input);
// What StringCodes (graph/string_codes.h) makes of the inputs: of what sizes it is follows from their values.
absl::Status StringCodesShape(InferenceContext& context);

}  // namespace millrace

#endif  // MILLRACE_SRC_OPS_STRING_RULES_H_
