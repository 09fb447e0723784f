#include "graph/string_codes.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "codecs/inflate.h"
#include "graph/csv.h"
#include "graph/example_records.h"
#include "graph/feature_crosses.h"
#include "graph/feature_lists.h"
#include "graph/json_example.h"
#include "graph/matching_files.h"
#include "graph/media_codes.h"
#include "graph/sequence_records.h"
#include "graph/tensor_message.h"
#include "graph/unicode.h"
#include "millrace/status.h"

namespace millrace {
namespace {

using Outputs = absl::StatusOr<std::vector<Tensor>>;

// What planning may make of constants.
absl::Status CheckSize(int64_t count, int64_t each) {
  constexpr int64_t kMost = int64_t{1} << 31;
  if (count <= 0 || each <= kMost / count) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("makes ", count, " times ", each, " bytes or strings, expected at most ", kMost));
}

Shape With(Shape shape, int64_t last) {
  shape.AddDim(last);
  return shape;
}

// The parts of a complex number are turned round each.
int64_t TurnedBytes(DataType type) {
  const bool complex = type == DataType::kComplex64 || type == DataType::kComplex128;
  return DataTypeSize(type) / (complex ? 2 : 1);
}

void Turn(Tensor& numbers) {
  const int64_t size = TurnedBytes(numbers.dtype());
  char* bytes = static_cast<char*>(numbers.mutable_data());
  for (int64_t at = 0; at < numbers.size_bytes(); at += size) std::reverse(bytes + at, bytes + at + size);
}

// Numbers that lie in strings, each row of so many bytes.
Outputs Raw(const AttrMap& attrs, const Tensor& strings, DataType type, int64_t row_bytes) {
  MR_RETURN_IF_ERROR(CheckSize(strings.num_elements(), row_bytes));
  Tensor numbers(type, With(strings.shape(), row_bytes / DataTypeSize(type)));
  if (numbers.size_bytes() > 0) std::memset(numbers.mutable_data(), 0, numbers.size_bytes());
  char* to = static_cast<char*>(numbers.mutable_data());
  for (const std::string& text : strings.strings()) {
    std::copy_n(text.data(), std::min<int64_t>(row_bytes, static_cast<int64_t>(text.size())), to);
    to += row_bytes;
  }
  if (!attrs.GetOr<bool>("little_endian", true)) Turn(numbers);
  return std::vector<Tensor>{std::move(numbers)};
}

absl::StatusOr<DataType> RawType(const AttrMap& attrs) {
  MR_ASSIGN_OR_RETURN(const DataType type, attrs.Get<DataType>("out_type"));
  if (DataTypeSize(type) > 0) return type;
  return absl::InvalidArgumentError(absl::StrCat("makes ", std::string(DataTypeName(type)), ", expected numbers"));
}

Outputs DecodeRaw(const AttrMap& attrs, const Tensor& strings) {
  MR_ASSIGN_OR_RETURN(const DataType type, RawType(attrs));
  const int64_t size = strings.strings().empty() ? 0 : static_cast<int64_t>(strings.strings()[0].size());
  for (size_t i = 0; i < strings.strings().size(); ++i) {
    const int64_t other = static_cast<int64_t>(strings.strings()[i].size());
    if (other == size) continue;
    return absl::InvalidArgumentError(absl::StrCat("DecodeRaw requires input strings to all be the same size, but element ", i, " has size ", size,
                                                   " != ", other));
  }
  if (size % DataTypeSize(type) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("Input to DecodeRaw has length ", size, " that is not a multiple of ", DataTypeSize(type),
                                                   ", the size of ", std::string(DataTypeName(type))));
  }
  return Raw(attrs, strings, type, size);
}

Outputs DecodePaddedRaw(const AttrMap& attrs, const Tensor& strings, const Tensor& length) {
  MR_ASSIGN_OR_RETURN(const DataType type, RawType(attrs));
  if (length.num_elements() != 1 || !IsInteger(length.dtype())) return absl::InvalidArgumentError("k must be scalar");
  const int64_t bytes = length.IntAt(0);
  if (bytes <= 0) return absl::InvalidArgumentError(absl::StrCat("fixed_length (", bytes, ") must be greater than zero."));
  if (bytes % DataTypeSize(type) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("fixed_length (", bytes, ") must be a multiple of the size of out_type (", DataTypeSize(type), ")"));
  }
  return Raw(attrs, strings, type, bytes);
}

template <typename Change>
Outputs Changed(const Tensor& strings, Change change) {
  Tensor result(DataType::kString, strings.shape());
  for (size_t i = 0; i < strings.strings().size(); ++i) {
    MR_ASSIGN_OR_RETURN(result.mutable_strings()[i], change(strings.strings()[i]));
  }
  return std::vector<Tensor>{std::move(result)};
}

absl::StatusOr<std::string> ToBase64(const std::string& text, bool pad) {
  std::string code = absl::WebSafeBase64Escape(text);
  while (pad && code.size() % 4 != 0) code.push_back('=');
  return code;
}

absl::StatusOr<std::string> FromBase64(const std::string& code) {
  const size_t end = std::min(code.find_last_not_of('=') + 1, code.size());
  const auto is_digit = [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_'; };
  std::string text;
  const bool filled_up = end == code.size() || (code.size() % 4 == 0 && code.size() - end <= 2);
  const bool right = filled_up && std::all_of(code.begin(), code.begin() + static_cast<int64_t>(end), is_digit) &&
                     absl::WebSafeBase64Unescape(code.substr(0, end), &text);
  if (right) return text;
  return absl::InvalidArgumentError("Invalid character found in base64.");
}

Outputs DecodeCompressed(const AttrMap& attrs, const Tensor& strings) {
  const std::string type = attrs.GetOr<std::string>("compression_type", "");
  if (type.empty()) return std::vector<Tensor>{strings};
  if (type == "ZSTD") return absl::UnimplementedError("strings are compressed by ZSTD; there are ZLIB and GZIP");
  if (type != "ZLIB" && type != "GZIP") return absl::InvalidArgumentError("Only ZLIB, ZSTD, GZIP or NONE are supported compressions");
  return Changed(strings, [gzip = type == "GZIP"](const std::string& bytes) { return Inflated(bytes, gzip); });
}

Outputs Transcode(const AttrMap& attrs, const Tensor& strings) {
  MR_ASSIGN_OR_RETURN(const Encoding from, EncodingOf(attrs.GetOr<std::string>("input_encoding", "")));
  MR_ASSIGN_OR_RETURN(const Encoding to, EncodingOf(attrs.GetOr<std::string>("output_encoding", "")));
  MR_ASSIGN_OR_RETURN(UnicodeErrors errors, UnicodeErrors::Of(attrs));
  errors.strict_controls = true;
  return Changed(strings, [&](const std::string& text) -> absl::StatusOr<std::string> {
    MR_ASSIGN_OR_RETURN(const std::vector<Character> characters, Decoded(text, from, errors));
    std::string result;
    for (const Character& character : characters) AppendCode(character.code, to, result);
    return result;
  });
}

// Where the characters of each string begin among all, the characters, and the bytes at which they begin.
Outputs UnicodeDecode(const AttrMap& attrs, const Tensor& strings, bool with_offsets) {
  MR_ASSIGN_OR_RETURN(const Encoding encoding, EncodingOf(attrs.GetOr<std::string>("input_encoding", "")));
  MR_ASSIGN_OR_RETURN(const UnicodeErrors errors, UnicodeErrors::Of(attrs));
  std::vector<int64_t> splits = {0}, codes, begins;
  for (const std::string& text : strings.strings()) {
    MR_ASSIGN_OR_RETURN(const std::vector<Character> characters, Decoded(text, encoding, errors));
    for (const Character& character : characters) {
      codes.push_back(character.code);
      begins.push_back(character.begin);
    }
    splits.push_back(static_cast<int64_t>(codes.size()));
  }
  std::vector<Tensor> outputs = {IntegersOf(attrs.GetOr<DataType>("Tsplits", DataType::kInt64), splits), IntegersOf(DataType::kInt32, codes)};
  if (with_offsets) outputs.push_back(IntegersOf(DataType::kInt64, begins));
  return outputs;
}

Outputs UnicodeEncode(const AttrMap& attrs, const Tensor& codes, const Tensor& splits) {
  MR_ASSIGN_OR_RETURN(const Encoding encoding, EncodingOf(attrs.GetOr<std::string>("output_encoding", "")));
  MR_ASSIGN_OR_RETURN(const UnicodeErrors errors, UnicodeErrors::Of(attrs));
  if (!IsInteger(codes.dtype()) || !IsInteger(splits.dtype())) return absl::InvalidArgumentError("code points and splits must be integers");
  const int64_t rows = splits.num_elements() - 1;
  if (rows < 0 || splits.IntAt(0) != 0) return absl::InvalidArgumentError("First value in input_splits must be zero.");
  if (splits.IntAt(rows) != codes.num_elements()) {
    return absl::InvalidArgumentError("Last value in input_splits must be equal to the number of input_tensor.");
  }
  Tensor texts(DataType::kString, Shape({rows}));
  for (int64_t row = 0; row < rows; ++row) {
    if (splits.IntAt(row) > splits.IntAt(row + 1)) return absl::InvalidArgumentError("Values in input_splits must be equal or in ascending order.");
    std::vector<int32_t> of_row;
    for (int64_t i = splits.IntAt(row); i < std::min(splits.IntAt(row + 1), codes.num_elements()); ++i) {
      of_row.push_back(static_cast<int32_t>(codes.IntAt(i)));
    }
    MR_ASSIGN_OR_RETURN(texts.mutable_strings()[row], Encoded(of_row, encoding, errors));
  }
  return std::vector<Tensor>{std::move(texts)};
}

// In the order of their paths, whichever pattern they are of.
Outputs FilesOf(const Tensor& patterns) {
  if (patterns.shape().rank() > 1) {
    return absl::InvalidArgumentError(absl::StrCat("Input patterns tensor must be scalar or vector, but had shape: ", patterns.shape().ToString()));
  }
  std::vector<std::string> paths;
  for (const std::string& pattern : patterns.strings()) {
    std::vector<std::string> found = MatchingFiles(pattern);
    std::move(found.begin(), found.end(), std::back_inserter(paths));
  }
  std::sort(paths.begin(), paths.end());
  Tensor result(DataType::kString, Shape({static_cast<int64_t>(paths.size())}));
  result.mutable_strings() = std::move(paths);
  return std::vector<Tensor>{std::move(result)};
}

Outputs ParseTensor(const AttrMap& attrs, const Tensor& serialized) {
  if (serialized.shape().rank() != 0) {
    return absl::InvalidArgumentError(absl::StrCat("Expected `serialized` to be a scalar, got shape: ", serialized.shape().ToString()));
  }
  MR_ASSIGN_OR_RETURN(const DataType type, attrs.Get<DataType>("out_type"));
  MR_ASSIGN_OR_RETURN(Tensor tensor, TensorOfMessage(serialized.strings()[0], type));
  return std::vector<Tensor>{std::move(tensor)};
}

// (strings, segments of the first elements, how many segments)
Outputs SegmentJoin(const AttrMap& attrs, const Tensor& strings, const Tensor& ids, const Tensor& count) {
  const Shape &shape = strings.shape(), &of_ids = ids.shape();
  if (!IsInteger(ids.dtype()) || !IsInteger(count.dtype()) || count.num_elements() != 1) {
    return absl::InvalidArgumentError("segment_ids and the scalar num_segments must be integers");
  }
  const int64_t segments = count.IntAt(0);
  if (segments < 0) return absl::InvalidArgumentError(absl::StrCat("Number of segments must be non-negative, but got ", segments));
  bool prefix = of_ids.rank() <= shape.rank();
  for (int d = 0; prefix && d < of_ids.rank(); ++d) prefix = of_ids.dim(d) == shape.dim(d);
  if (!prefix) {
    return absl::InvalidArgumentError(absl::StrCat("segment_ids' shape ", of_ids.ToString(), " must be a prefix of input's shape ", shape.ToString()));
  }
  Shape result({segments});
  for (int d = of_ids.rank(); d < shape.rank(); ++d) result.AddDim(shape.dim(d));
  MR_RETURN_IF_ERROR(CheckSize(segments, ids.num_elements() == 0 ? shape.num_elements() : strings.num_elements() / ids.num_elements()));
  Tensor joined(DataType::kString, result);
  const int64_t size = segments == 0 ? 0 : joined.num_elements() / segments;
  std::vector<bool> begun(segments, false);
  const std::string separator = attrs.GetOr<std::string>("separator", "");
  for (int64_t i = 0; i < ids.num_elements(); ++i) {
    const int64_t segment = ids.IntAt(i);
    if (segment < 0 || segment >= segments) {
      return absl::InvalidArgumentError(absl::StrCat("segment_ids are not allowed to exceed num_segments or to have negative values; segment_ids[", i,
                                                     "] = ", segment, " is not in [0, ", segments, ")"));
    }
    for (int64_t k = 0; k < size; ++k) {
      absl::StrAppend(&joined.mutable_strings()[segment * size + k], begun[segment] ? separator : "", strings.strings()[i * size + k]);
    }
    begun[segment] = true;
  }
  return std::vector<Tensor>{std::move(joined)};
}

}  // namespace

absl::Span<const char* const> StringCodeOps() {
  static const std::vector<const char*> ops = [] {
    std::vector<const char*> all = {"DecodeBase64",         "DecodeCSV",              "DecodeCompressed",
                                    "DecodeJSONExample",    "DecodePaddedRaw",        "DecodeRaw",
                                    "EncodeBase64",
                                    "MatchingFiles",        "ParseExample",           "ParseExampleV2",
                                    "ParseSequenceExample", "ParseSequenceExampleV2", "ParseSingleExample",
                                    "ParseTensor",          "ParseSingleSequenceExample", "SparseCrossV2",
                                    "UnicodeDecode",        "UnicodeDecodeWithOffsets", "UnicodeEncode",
                                    "UnicodeTranscode",     "UnsortedSegmentJoin"};
    all.insert(all.end(), MediaCodeOps().begin(), MediaCodeOps().end());
    return all;
  }();
  return ops;
}

Outputs StringCodes(std::string_view op, const AttrMap& attrs, absl::Span<const Tensor> inputs) {
  if (ParsesExamples(op)) return ParsedExamples(op, attrs, inputs);
  if (ParsesSequences(op)) return ParsedSequences(op, attrs, inputs);
  if (CrossesTexts(op, attrs)) return CrossedTexts(op, attrs, inputs);
  if (CodesMedia(op)) return MediaCodes(op, attrs, inputs);
  if (op == "DecodeCSV") return CsvColumns(attrs, inputs);
  const size_t expected = op == "UnsortedSegmentJoin" ? 3 : op == "UnicodeEncode" || op == "DecodePaddedRaw" ? 2 : 1;
  if (inputs.size() != expected) return absl::InvalidArgumentError(absl::StrCat("has ", inputs.size(), " inputs, expected ", expected));
  const bool of_strings = op != "UnicodeEncode";
  if ((inputs[0].dtype() == DataType::kString) != of_strings) {
    return absl::InvalidArgumentError(absl::StrCat("input 0 is ", inputs[0].type().ToString(), of_strings ? ", expected strings" : ", expected int32"));
  }
  if (op == "DecodeRaw") return DecodeRaw(attrs, inputs[0]);
  if (op == "DecodePaddedRaw") return DecodePaddedRaw(attrs, inputs[0], inputs[1]);
  if (op == "EncodeBase64") {
    const bool pad = attrs.GetOr<bool>("pad", false);
    return Changed(inputs[0], [pad](const std::string& text) { return ToBase64(text, pad); });
  }
  if (op == "DecodeJSONExample") return Changed(inputs[0], ExampleFromJson);
  if (op == "DecodeBase64") return Changed(inputs[0], FromBase64);
  if (op == "UnicodeTranscode") return Transcode(attrs, inputs[0]);
  if (op == "UnicodeEncode") return UnicodeEncode(attrs, inputs[0], inputs[1]);
  if (op == "DecodeCompressed") return DecodeCompressed(attrs, inputs[0]);
  if (op == "MatchingFiles") return FilesOf(inputs[0]);
  if (op == "ParseTensor") return ParseTensor(attrs, inputs[0]);
  if (op == "UnsortedSegmentJoin") return SegmentJoin(attrs, inputs[0], inputs[1], inputs[2]);
  return UnicodeDecode(attrs, inputs[0], op == "UnicodeDecodeWithOffsets");
}

}  // namespace millrace
