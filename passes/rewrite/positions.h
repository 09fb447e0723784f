// Where nodes stand in an order, for passes that ask which of two comes first.
#ifndef MILLRACE_PASSES_REWRITE_POSITIONS_H_
#define MILLRACE_PASSES_REWRITE_POSITIONS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "millrace/graph.h"

namespace millrace {

// By node id; -1 for nodes that are not in the order.
inline std::vector<int32_t> PositionsIn(const std::vector<NodeId>& order, int32_t num_ids) {
  std::vector<int32_t> positions(num_ids, -1);
  for (size_t p = 0; p < order.size(); ++p) positions[order[p].value] = static_cast<int32_t>(p);
  return positions;
}

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_POSITIONS_H_
