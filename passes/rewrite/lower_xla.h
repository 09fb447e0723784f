// Lower XLA's ops, as jax2tf writes them, to TensorFlow's.
//
//   a, b ──► XlaDotV2 {contracting [1], [0]}                  becomes   a, b ──► MatMul
//   x, k ──► XlaConvV2 {window strides 1, kernel dilated by 2}  becomes   x, k ──► Conv2DBackpropFilter {strides 2}
//   x, i ──► XlaGather {collapsed [0], mapped [0]}            becomes   x, clamped i ──► GatherV2
//
// The node itself becomes the last of the new ones, so that its name, its control edges and what fetches it stay.
//
// Needs: types by rules of WithXlaOps (xla_ops.h), constants folded. Establishes: no such op is left; new nodes have no types yet, and
// shapes are to be inferred again. Unimplemented names node, op and form where it has no other ops.
#ifndef MILLRACE_PASSES_REWRITE_LOWER_XLA_H_
#define MILLRACE_PASSES_REWRITE_LOWER_XLA_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/op.h"
#include "passes/rewrite/xla_writer.h"

namespace millrace {

// Ops that are in `ops` stay: they are a program's own. Old id -> new id (invalid if removed), per node id; empty where nothing was changed.
absl::StatusOr<std::vector<NodeId>> LowerXla(Graph& graph, const OpRegistry& ops);

// What is shared by the nodes of a graph: largest elements of windows, which their gradient takes, too.
struct XlaPools {
  std::map<std::string, XlaValue> largest;  // by what is pooled, and how
};

absl::Status LowerXlaConv(XlaWriter& writer);
absl::Status LowerXlaGather(XlaWriter& writer);
absl::Status LowerXlaScatter(XlaWriter& writer);
absl::Status LowerXlaReduceWindow(XlaWriter& writer, XlaPools& pools);
absl::Status LowerXlaSelectAndScatter(XlaWriter& writer, XlaPools& pools);
absl::Status LowerXlaSort(XlaWriter& writer);
absl::Status LowerXlaReduce(XlaWriter& writer);
absl::Status LowerXlaRandom(XlaWriter& writer);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_LOWER_XLA_H_
