// Random ops that are copies of one (turns of a loop) draw from one stream, one after another.
#ifndef MILLRACE_STREAM_NAME_H_
#define MILLRACE_STREAM_NAME_H_

#include <string>

#include "millrace/op.h"

namespace millrace {

// Attribute (string) of a copy: the name of the node as it was, behind those of the loops that it is of. State and, without seeds, the
// stream itself go by it.
inline constexpr char kStreamAttr[] = "_stream";

inline std::string StreamName(const OpInstance& node) { return node.attrs.GetOr<std::string>(kStreamAttr, node.name); }

}  // namespace millrace

#endif  // MILLRACE_STREAM_NAME_H_
