// What of a node depends on whether its images have the channels last or first: tensors of four or five dimensions, batch,
// space and channels.
#ifndef MILLRACE_PASSES_REWRITE_LAYOUT_FORMS_H_
#define MILLRACE_PASSES_REWRITE_LAYOUT_FORMS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "millrace/graph.h"
#include "millrace/op.h"

namespace millrace {

// Of a node that computes either way.
struct LayoutForm {
  std::vector<int> images;   // inputs that are turned with it
  bool result = false;       // and its first result
  std::vector<int> sizes, axes;  // inputs that give a number, or `each`, for every dimension; that name dimensions
  std::vector<int> vectors;  // inputs of fewer dimensions, all but one of them 1, that repeat over the result
  bool formatted = false;    // by the attribute data_format
  int each = 1;
};

// By node id; none where a node has its channels first already, or computes one way alone, or takes the memory of a reference variable,
// which a Transpose would read at another time.
std::vector<std::optional<LayoutForm>> LayoutFormsOf(const Graph& graph, const OpRegistry& ops, const Fanout& fanout);

// Whether the node's first result is: fetched are tensors by their names. Where it is the only one, the Transpose behind it takes
// its name.
bool IsFetched(const Graph& graph, const Fanout& fanout, NodeId id);

// The numbers of a constant input of int32 or int64; none where it is not one.
std::optional<std::vector<int64_t>> NumbersOf(const Graph& graph, OutputRef ref);

// Whether the image is turned where its maker is.
bool MadeEitherWay(const std::vector<std::optional<LayoutForm>>& forms, OutputRef image);
bool IsImageOf(const std::vector<std::optional<LayoutForm>>& forms, NodeId consumer, int input);

// Which of the dimensions with channels last comes where with channels first, and the other way round.
std::vector<int64_t> Turn(int rank);
std::vector<int64_t> TurnBack(int rank);
Shape TurnedShape(const Shape& shape);
// Whether turning moves no byte: all dimensions in space are 1, or the channels are.
bool TurnsInPlace(const Shape& channels_last);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_LAYOUT_FORMS_H_
