// What ops do beyond their outputs.
#ifndef MILLRACE_PASSES_SHAPES_EFFECTS_H_
#define MILLRACE_PASSES_SHAPES_EFFECTS_H_

#include <string>

#include "millrace/op.h"

namespace millrace {

// Its one effect is that it reads variables.
bool OnlyReads(const OpDef& def);
bool WritesVariables(const OpDef& def);
// It does more than reading variables and drawing random numbers.
bool HasEffect(const OpDef& def);

// The same of ops by name, also of those that change tables, queues and accumulators: they are updates of variables only once calls
// and loops are gone (rewrite/keep_tables.h, keep_accumulators.h).
bool WritesVariables(const OpRegistry& ops, const std::string& op);
bool HasEffect(const OpRegistry& ops, const std::string& op);

}  // namespace millrace

#endif  // MILLRACE_PASSES_SHAPES_EFFECTS_H_
