#include "millrace/op.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "ops/register.h"

namespace millrace {

const OpRegistry& OpRegistry::Builtin() {
  static const OpRegistry& registry = *[] {
    auto* built = new OpRegistry();
    RegisterBuiltinOps(*built);
    return built;
  }();
  return registry;
}

namespace {

// What no node of the op could be right with.
absl::Status CheckDef(const OpDef& def) {
  const auto refused = [&](const char* what) { return absl::InvalidArgumentError(absl::StrCat("op '", def.name, "' ", what)); };
  if (def.name.empty()) return refused("has no name");
  if (!def.shape) return refused("has no shape rule");
  if (def.state_bytes < 0) return refused("has less than no state");
  for (const auto& [output, input] : def.in_place) {
    if (output < 0 || input < 0) return refused("has an output or an input of negative number in place");
  }
  for (const VariableUse& use : def.variables) {
    if (use.input < 0) return refused("has a variable as an input of negative number");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status OpRegistry::Register(OpDef def) {
  MR_RETURN_IF_ERROR(CheckDef(def));
  auto shared = std::make_shared<const OpDef>(std::move(def));
  if (!defs_.emplace(shared->name, shared).second) {
    return absl::AlreadyExistsError(absl::StrCat("op '", shared->name, "' is registered twice"));
  }
  return absl::OkStatus();
}

const OpDef* OpRegistry::Find(std::string_view name) const {
  // Looked for a million times in a large graph: the key keeps its memory.
  static thread_local std::string key;
  key.assign(name);
  auto it = defs_.find(key);
  return it == defs_.end() ? nullptr : it->second.get();
}

std::vector<std::string> OpRegistry::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, def] : defs_) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace millrace
