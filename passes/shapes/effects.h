// What ops do beyond their outputs.
#ifndef MILLRACE_PASSES_SHAPES_EFFECTS_H_
#define MILLRACE_PASSES_SHAPES_EFFECTS_H_

#include <string>

#include "millrace/op.h"

namespace millrace {

// Its one effect is that it reads variables.
bool OnlyReads(const OpDef& def);

// By name, since ops that change tables, queues and accumulators are updates of variables only once calls and loops are gone
// (rewrite/keep_tables.h, keep_accumulators.h).
bool WritesVariables(const OpRegistry& ops, const std::string& op);
// It does more than reading variables and drawing random numbers.
bool HasEffect(const OpRegistry& ops, const std::string& op);

}  // namespace millrace

#endif  // MILLRACE_PASSES_SHAPES_EFFECTS_H_
