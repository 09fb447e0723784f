#include "passes/shapes/effects.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "absl/strings/strip.h"

namespace millrace {
namespace {

// Without "Resource" in front and "V2" behind.
bool ChangesResource(const std::string& op) {
  constexpr std::string_view kChanging[] = {"AccumulatorApplyGradient", "AccumulatorSetGlobalStep", "AccumulatorTakeGradient", "LookupTableImport",
                                            "LookupTableInsert", "LookupTableRemove", "QueueClose", "QueueDequeue", "QueueDequeueMany",
                                            "QueueDequeueUpTo", "QueueEnqueue", "QueueEnqueueMany", "SparseAccumulatorApplyGradient",
                                            "SparseAccumulatorTakeGradient", "Stage", "StageClear", "Unstage"};
  const std::string name(absl::StripSuffix(absl::StripPrefix(op, "Resource"), "V2"));
  return std::find(std::begin(kChanging), std::end(kChanging), name) != std::end(kChanging);
}

bool HasEffect(const OpDef& def) {
  if (!def.stateful || def.is_no_op || def.is_variable || OnlyReads(def)) return false;
  return (def.state_bytes == 0 && def.name != "DeepCopy") || def.name == "Print";
}

}  // namespace

bool OnlyReads(const OpDef& def) { return !def.variables.empty() && !def.WritesVariables(); }

bool WritesVariables(const OpRegistry& ops, const std::string& op) {
  const OpDef* def = ops.Find(op);
  return def != nullptr ? def->WritesVariables() : ChangesResource(op);
}

bool HasEffect(const OpRegistry& ops, const std::string& op) {
  const OpDef* def = ops.Find(op);
  return def != nullptr ? HasEffect(*def) : ChangesResource(op);
}

}  // namespace millrace
