// Which nodes may be one over the rows of all of them (pack_rows.h), and an order in which they can run so.
#ifndef MILLRACE_PASSES_REWRITE_ROW_PACKS_H_
#define MILLRACE_PASSES_REWRITE_ROW_PACKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/graph.h"
#include "millrace/op.h"

namespace millrace {

// Rows of a pack, and members of one, at most.
inline constexpr int64_t kMaxPackedRows = 1024, kMaxPackedMembers = 32;
// Fewer products are not worth the copies of their operands and results.
inline constexpr int64_t kFewestPacked = 4;
// Operands and results of a packed product, where its weight is smaller.
inline constexpr int64_t kPackedBytes = int64_t{16} << 20;

// Nodes of one op, attributes and types. Input i of the pack is that of each member, one after another, where by_rows[i], and
// otherwise the same for all.
struct RowPack {
  std::vector<NodeId> members;
  std::vector<bool> by_rows;
  int32_t base = -1;  // the pack that this one takes its rows from
};

// No node is in two packs, and none of a pack needs another one of it. Packs may need each other in a circle. `order`: as the
// nodes were created.
std::vector<RowPack> FindRowPacks(const Graph& graph, const OpRegistry& ops, const std::vector<NodeId>& order,
                                  const std::vector<std::string>& targets);

// A pack, or a node that is in none.
struct PackedPlace {
  NodeId node;
  int32_t pack = -1;
};

// All nodes in an order in which each comes after what it needs and accesses of a variable stay as they were; it is `order` but
// for what waits for packs. Packs that would wait for themselves are taken apart: they have no members any more.
std::vector<PackedPlace> OrderPacked(const Graph& graph, const OpRegistry& ops, const std::vector<NodeId>& order,
                                     std::vector<RowPack>& packs);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_ROW_PACKS_H_
