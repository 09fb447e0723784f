// A node that updates a part of a variable: of every input that has more elements it takes [begin, begin + size) in the
// order of memory, and no more. What the graph says of shapes stays that of the whole; the op's instance sees the part.
#ifndef MILLRACE_PASSES_SHAPES_PARTS_H_
#define MILLRACE_PASSES_SHAPES_PARTS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "millrace/graph.h"

namespace millrace {

struct Part {
  int64_t begin = 0;  // elements
  int64_t size = 0;
};

// The part that the node updates, or, of a variable's node, that it is of another variable.
std::optional<Part> PartOf(const Node& node);
void SetPart(Node& node, const Part& part);

// Whether the node takes only its part of a tensor of that type.
inline bool TakesPartOf(const Part& part, const TensorType& type) { return type.shape.num_elements() > part.size; }

// The type of part `part` of a tensor: in one dimension.
TensorType PartType(const Part& part, const TensorType& whole);

// Makes a variable's node stand for a part of its variable: a variable of its own to all that plan, with a name of its own, whose
// home is that part of the variable's.
void BecomePart(Node& variable, const Part& part);

// Of a node by BecomePart: the variable's name and type.
struct WholeVariable {
  std::string name;
  TensorType type;
};
std::optional<WholeVariable> WholeOf(const Node& variable);

}  // namespace millrace

#endif  // MILLRACE_PASSES_SHAPES_PARTS_H_
