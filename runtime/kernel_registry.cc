#include "millrace/kernel.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace millrace {

absl::Status KernelRegistry::Register(std::string_view op, KernelFactory factory) {
  if (op.empty()) return absl::InvalidArgumentError("a kernel is registered for an op without a name");
  if (factory == nullptr) return absl::InvalidArgumentError(absl::StrCat("the kernel of op '", std::string(op), "' is registered without a factory"));
  if (!factories_.emplace(std::string(op), std::move(factory)).second) {
    return absl::AlreadyExistsError(absl::StrCat("a kernel of op '", std::string(op), "' is registered twice"));
  }
  return absl::OkStatus();
}

const KernelFactory* KernelRegistry::Find(std::string_view op) const {
  auto it = factories_.find(std::string(op));
  return it == factories_.end() ? nullptr : &it->second;
}

std::vector<std::string> KernelRegistry::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, factory] : factories_) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace millrace
