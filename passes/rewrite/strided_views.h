// Parts of tensors that need no copy where the reader or the writer goes by rows: what Split and Slice take out of a
// tensor, what ConcatV2 puts into one.
#ifndef MILLRACE_PASSES_REWRITE_STRIDED_VIEWS_H_
#define MILLRACE_PASSES_REWRITE_STRIDED_VIEWS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "millrace/graph.h"

namespace millrace {

// Element i of the part is element (i / length) * pitch + offset + i % length of the whole; all in elements.
struct StridedPart {
  int64_t length = 0, pitch = 0, offset = 0;
};

struct StridedView {
  OutputRef whole;
  StridedPart part;
  bool last_axis = false;  // the part is cut out of the last axis
};

// What the output of a Split, SplitV or Slice is of that node's input. Nothing for other nodes, for axes that are not constants,
// and where more than one axis is cut.
std::optional<StridedView> ViewOf(const Graph& graph, OutputRef output);

// Where the inputs of a ConcatV2 go; empty for other nodes and where rows differ in length.
std::vector<StridedPart> PartsOf(const Graph& graph, NodeId concat);

// The integers of a Const; empty where it is none of int32 or int64.
std::vector<int64_t> ConstantIntegers(const Graph& graph, OutputRef ref);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_STRIDED_VIEWS_H_
