// Operands that repeat within a larger tensor, of groups of elementwise ops (`_Fused`): a mean for each row, a weight for
// each channel, what broadcasting does where an operand has a 1.
//
//   element i of the tensor takes element (i / each) % count * width + i % width of the operand
//
// [N,1] over [N,M] is {M, N, 1}; [C,1,1] over [N,C,H,W] is {H*W, C, 1}; [N,1,C] over [N,M,C] is {M*C, N, C}.
#ifndef MILLRACE_GRAPH_SPREAD_H_
#define MILLRACE_GRAPH_SPREAD_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "millrace/attr.h"
#include "millrace/types.h"

namespace millrace {

struct Spread {
  int64_t each = 0;  // elements of the tensor for one part of the operand; 0: the operand is not spread
  int64_t count = 0, width = 0;  // parts of the operand, and elements of a part
  friend bool operator==(const Spread& a, const Spread& b) {
    return a.each == b.each && a.count == b.count && a.width == b.width;
  }
};

// None where the shapes do not broadcast, or repeat in more places than this says. Neither is empty.
std::optional<Spread> SpreadOver(const Shape& operand, const Shape& shape);

// Of a `_Fused` node's input i: three numbers in the attribute `spreads`.
Spread SpreadOfInput(const AttrMap& attrs, size_t i);

// Whether an operand and a tensor of these many elements may go together so.
bool SpreadFits(const Spread& spread, int64_t operand_elements, int64_t elements);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_SPREAD_H_
