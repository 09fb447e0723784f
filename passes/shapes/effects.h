// What ops do beyond their outputs.
#ifndef MILLRACE_PASSES_SHAPES_EFFECTS_H_
#define MILLRACE_PASSES_SHAPES_EFFECTS_H_

#include "millrace/op.h"

namespace millrace {

// Its one effect is that it reads variables.
bool OnlyReads(const OpDef& def);
bool WritesVariables(const OpDef& def);
// It does more than reading variables and drawing random numbers.
bool HasEffect(const OpDef& def);

}  // namespace millrace

#endif  // MILLRACE_PASSES_SHAPES_EFFECTS_H_
