// Kinds of attributes by the names that TensorFlow's op definitions have for them.
#ifndef MILLRACE_SRC_GRAPH_ATTR_KIND_H_
#define MILLRACE_SRC_GRAPH_ATTR_KIND_H_

#include <cstddef>
#include <optional>
#include <string_view>

#include "millrace/attr.h"

namespace millrace {

// The index of AttrValue's alternative: of "int", "list(type)" …, as messages name them. Nothing for other names.
std::optional<size_t> AttrKindFromName(std::string_view name);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_ATTR_KIND_H_
