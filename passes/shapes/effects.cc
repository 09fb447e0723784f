#include "passes/shapes/effects.h"

#include <algorithm>

namespace millrace {
namespace {

bool Reads(const VariableUse& use) { return use.access == VariableAccess::kRead || use.access == VariableAccess::kPresence; }

}  // namespace

bool OnlyReads(const OpDef& def) {
  return !def.variables.empty() && std::all_of(def.variables.begin(), def.variables.end(), Reads);
}

bool WritesVariables(const OpDef& def) { return !std::all_of(def.variables.begin(), def.variables.end(), Reads); }

bool HasEffect(const OpDef& def) {
  if (!def.stateful || def.is_no_op || def.is_variable || OnlyReads(def)) return false;
  return (def.state_bytes == 0 && def.name != "DeepCopy") || def.name == "Print";
}

}  // namespace millrace
