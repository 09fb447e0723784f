// Strings cut at separators, as TensorFlow's StringSplit and StringSplitV2 do: the shape rule counts the pieces that the kernel
// and the evaluator of strings make.
#ifndef MILLRACE_SRC_GRAPH_STRING_PIECES_H_
#define MILLRACE_SRC_GRAPH_STRING_PIECES_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/attr.h"
#include "millrace/tensor.h"

namespace millrace {

// At every `separator`, as Python does: runs of white space where it is empty, which leaves no empty pieces. At most `most` cuts,
// any number where it is negative.
std::vector<std::string_view> CutAtText(std::string_view text, std::string_view separator, int64_t most);
// At every byte that is one of `separators`, or between all bytes where there are none.
std::vector<std::string_view> CutAtBytes(std::string_view text, std::string_view separators, bool skip_empty);

// The pieces of each string of a vector, by the op's name and attributes (StringSplit, StringSplitV2).
absl::StatusOr<std::vector<std::vector<std::string_view>>> PiecesOf(std::string_view op, const AttrMap& attrs, const Tensor& strings,
                                                                    const Tensor& separator);

// Rows of pieces as the op's outputs: [row, place] of each, [rows, most places].
int64_t CountPieces(const std::vector<std::vector<std::string_view>>& rows);
void WritePlaces(const std::vector<std::vector<std::string_view>>& rows, int64_t* places, int64_t* shape);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_STRING_PIECES_H_
