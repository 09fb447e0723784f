#include "millrace/op.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
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

absl::Status OpRegistry::Register(OpDef def) {
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
