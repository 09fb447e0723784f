// What ops make of the bytes and characters of strings that planning knows: numbers that lie in them, base 64, Unicode, records. Shape rule,
// kernel and the evaluator of strings take their outputs from here.
#ifndef MILLRACE_SRC_GRAPH_STRING_CODES_H_
#define MILLRACE_SRC_GRAPH_STRING_CODES_H_

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "millrace/attr.h"
#include "millrace/tensor.h"

namespace millrace {

// DecodeRaw, DecodePaddedRaw, EncodeBase64, DecodeBase64, DecodeCSV, DecodeCompressed, DecodeJSONExample, MatchingFiles, ParseTensor, SparseCrossV2,
// UnsortedSegmentJoin, the Unicode* ops of unicode.h, what example_records.h and sequence_records.h parse, and files of media_codes.h.
// SparseCross and RaggedCross are of other files where they do not make texts (feature_crosses.h); StringCodes has those that do.
absl::Span<const char* const> StringCodeOps();
// The op's outputs. InvalidArgument in TensorFlow's words, Unimplemented for encodings other than Unicode's own, ASCII and Latin 1.
absl::StatusOr<std::vector<Tensor>> StringCodes(std::string_view op, const AttrMap& attrs, absl::Span<const Tensor> inputs);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_STRING_CODES_H_
