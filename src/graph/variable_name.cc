#include "graph/variable_name.h"

#include "absl/strings/str_cat.h"
#include "graph/parameters.h"

namespace millrace {

std::string ContainerOf(const Node& variable) {
  std::string container = variable.attrs.GetOr<std::string>("container", "");
  return container == "localhost" ? "" : container;
}

std::string VariableName(const Node& node) {
  if (!IsVariable(node)) return node.name;
  const std::string shared = node.attrs.GetOr<std::string>("shared_name", ""), container = ContainerOf(node);
  const std::string& name = shared.empty() ? node.name : shared;
  return container.empty() ? name : absl::StrCat(container, ":", name);
}

}  // namespace millrace
