#include "runtime/string_evaluator.h"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/feature_crosses.h"
#include "graph/letters.h"
#include "graph/ngrams.h"
#include "graph/number_text.h"
#include "graph/regex.h"
#include "graph/string_codes.h"
#include "graph/string_pieces.h"
#include "graph/table.h"
#include "graph/tensor_message.h"
#include "graph/unicode.h"
#include "graph/value_text.h"
#include "millrace/status.h"
#include "runtime/op_evaluator.h"

namespace millrace {
namespace {

using Outputs = absl::StatusOr<std::vector<Tensor>>;

// Ops that move elements whatever these are, or compare two.
bool MovesElements(const std::string& op) {
  static const auto& ops = *new std::set<std::string>{
      "BroadcastTo", "Concat", "ConcatV2", "ConjugateTranspose", "DenseToDenseSetOperation", "DenseToSparseSetOperation",
      "DynamicPartition", "DynamicStitch", "EditDistance", "Equal", "Fill", "Gather", "GatherNd", "GatherV2", "InplaceUpdate", "ListDiff",
      "MirrorPad", "NotEqual", "OneHot", "Pack", "Pad", "PadV2", "ParallelConcat", "ParallelDynamicStitch", "RaggedFillEmptyRows",
      "RaggedGather", "RaggedTensorToSparse", "RaggedTensorToTensor", "Reverse", "ReverseSequence", "ReverseV2", "Roll", "ScatterNd",
      "Select", "SelectV2", "SetSize", "Slice", "SparseConcat", "SparseFillEmptyRows", "SparseReorder", "SparseSlice", "SparseSplit",
      "SparseToDense", "SparseToSparseSetOperation", "Split", "SplitV", "StatelessShuffle", "StridedSlice", "TensorScatterUpdate",
      "TensorStridedSliceUpdate", "Tile", "Transpose", "Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2", "Unpack", "ZerosLike"};
  return ops.count(op) > 0;
}

template <typename Change>
Outputs Changed(const Tensor& strings, Change change) {
  Tensor result(DataType::kString, strings.shape());
  for (size_t i = 0; i < strings.strings().size(); ++i) result.mutable_strings()[i] = change(strings.strings()[i]);
  return std::vector<Tensor>{std::move(result)};
}

Outputs AsString(const OpInstance& instance, const Tensor& numbers) {
  MR_ASSIGN_OR_RETURN(const NumberText text, NumberText::Create(instance.attrs, numbers.dtype()));
  Tensor result(DataType::kString, numbers.shape());
  for (int64_t i = 0; i < numbers.num_elements(); ++i) result.mutable_strings()[i] = text.Of(numbers, i);
  return std::vector<Tensor>{std::move(result)};
}

// Where element `at` of the result is in a tensor that is broadcast to its shape.
int64_t BroadcastIndex(const Shape& result, int64_t at, const Shape& given) {
  int64_t index = 0, stride = 1;
  for (int d = 1; d <= result.rank(); ++d) {
    const int64_t coordinate = at % result.dim(result.rank() - d);
    at /= result.dim(result.rank() - d);
    if (d > given.rank()) continue;
    if (given.dim(given.rank() - d) > 1) index += coordinate * stride;
    stride *= given.dim(given.rank() - d);
  }
  return index;
}

Outputs Join(const OpInstance& instance, absl::Span<const Tensor> inputs) {
  const std::string separator = instance.attrs.GetOr<std::string>("separator", "");
  Tensor result(DataType::kString, instance.outputs[0].shape);
  for (int64_t i = 0; i < result.num_elements(); ++i) {
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (k > 0) result.mutable_strings()[i] += separator;
      result.mutable_strings()[i] += inputs[k].strings()[BroadcastIndex(result.shape(), i, inputs[k].shape())];
    }
  }
  return std::vector<Tensor>{std::move(result)};
}

// Where the characters of text in UTF-8 begin, and its end. TensorFlow takes whatever is first for the beginning of one.
std::vector<size_t> CharacterEdges(const std::string& text) {
  std::vector<size_t> edges;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i == 0 || BeginsCharacter(text[i])) edges.push_back(i);
  }
  edges.push_back(text.size());
  return edges;
}

Outputs Substr(const OpInstance& instance, const Tensor& strings, const Tensor& begins, const Tensor& sizes) {
  const bool characters = instance.attrs.GetOr<std::string>("unit", "BYTE") == "UTF8_CHAR";
  Tensor result(DataType::kString, instance.outputs[0].shape);
  for (int64_t i = 0; i < result.num_elements(); ++i) {
    const std::string& text = strings.strings()[BroadcastIndex(result.shape(), i, strings.shape())];
    const int64_t at = BroadcastIndex(result.shape(), i, begins.shape());
    const std::vector<size_t> edges = characters ? CharacterEdges(text) : std::vector<size_t>();
    const auto length = static_cast<int64_t>(characters ? edges.size() - 1 : text.size());
    const int64_t given = begins.IntAt(at), size = sizes.IntAt(at), begin = given < 0 ? length + given : given;
    if (begin < 0 || begin > length || (characters && given < 0 && size < 0)) {
      return absl::InvalidArgumentError(absl::StrCat("pos ", given, " out of range for string b'", text, "' at index ", i));
    }
    std::string& part = result.mutable_strings()[i];
    if (characters) {
      const int64_t end = begin + std::min(std::max<int64_t>(size, 0), length - begin);
      part = text.substr(edges[begin], edges[end] - edges[begin]);
    } else {
      part = text.substr(begin, size < 0 ? std::string::npos : size);  // TensorFlow's size has no sign
    }
  }
  return std::vector<Tensor>{std::move(result)};
}

// Bytes unless an encoding is given: of these, what is ASCII has another case.
Outputs ChangeCase(const OpInstance& instance, const Tensor& strings) {
  const std::string encoding = instance.attrs.GetOr<std::string>("encoding", "");
  if (!encoding.empty() && encoding != "utf-8") {
    return absl::InvalidArgumentError(absl::StrCat("only utf-8 or '' (no encoding) is supported, received ", encoding));
  }
  const bool lower = instance.op == "StringLower", bytes = encoding.empty();
  constexpr size_t kMost = std::numeric_limits<int32_t>::max();
  const auto too_long = [](const std::string& text) { return text.size() > kMost; };
  if (!bytes && std::any_of(strings.strings().begin(), strings.strings().end(), too_long)) {
    return absl::InvalidArgumentError(absl::StrCat("texts in utf-8 of more than ", kMost, " bytes have no other case"));
  }
  return Changed(strings, [=](const std::string& text) {
    if (bytes) return lower ? absl::AsciiStrToLower(text) : absl::AsciiStrToUpper(text);
    return lower ? LowerCase(text) : UpperCase(text);
  });
}

Outputs Split(const OpInstance& instance, const Tensor& strings, const Tensor& separator) {
  MR_ASSIGN_OR_RETURN(const auto rows, PiecesOf(instance.op, instance.attrs, strings, separator));
  const int64_t count = CountPieces(rows);
  Tensor places(DataType::kInt64, Shape({count, 2})), pieces(DataType::kString, Shape({count})), shape(DataType::kInt64, Shape({2}));
  WritePlaces(rows, places.mutable_as<int64_t>().data(), shape.mutable_as<int64_t>().data());
  auto next = pieces.mutable_strings().begin();
  for (const auto& row : rows) {
    for (std::string_view piece : row) *next++ = std::string(piece);
  }
  return std::vector<Tensor>{std::move(places), std::move(pieces), std::move(shape)};
}

Outputs MakeNGrams(const OpInstance& instance, const Tensor& words, const Tensor& splits) {
  MR_ASSIGN_OR_RETURN(NGrams made, NGramsOf(instance.attrs, words, splits));
  Tensor texts(DataType::kString, Shape({static_cast<int64_t>(made.texts.size())}));
  Tensor ends(splits.dtype(), splits.shape());
  texts.mutable_strings() = std::move(made.texts);
  for (int64_t i = 0; i < ends.num_elements(); ++i) {
    if (ends.dtype() == DataType::kInt32) {
      ends.mutable_as<int32_t>()[i] = static_cast<int32_t>(made.splits[i]);
    } else {
      ends.mutable_as<int64_t>()[i] = made.splits[i];
    }
  }
  return std::vector<Tensor>{std::move(texts), std::move(ends)};
}

// Elements joined in the order of the axes as they are given, the first one innermost.
Outputs ReduceJoin(const OpInstance& instance, const Tensor& strings, const Tensor& axes) {
  const std::string separator = instance.attrs.GetOr<std::string>("separator", "");
  const Shape& shape = strings.shape();
  std::vector<int64_t> strides(shape.rank(), 1), joined(shape.rank(), 0);
  for (int d = shape.rank() - 2; d >= 0; --d) strides[d] = strides[d + 1] * shape.dim(d + 1);
  std::vector<int64_t> offsets = {0};
  for (int64_t a = axes.num_elements() - 1; a >= 0; --a) {
    const int64_t axis = axes.IntAt(a) < 0 ? axes.IntAt(a) + shape.rank() : axes.IntAt(a);
    joined[axis] = 1;
    std::vector<int64_t> further;
    for (int64_t offset : offsets) {
      for (int64_t k = 0; k < shape.dim(static_cast<int>(axis)); ++k) further.push_back(offset + k * strides[axis]);
    }
    offsets = std::move(further);
  }
  Tensor result(DataType::kString, instance.outputs[0].shape);
  for (int64_t i = 0; i < result.num_elements(); ++i) {
    int64_t rest = i, base = 0;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      if (joined[d] != 0) continue;
      base += rest % shape.dim(d) * strides[d];
      rest /= shape.dim(d);
    }
    std::string& text = result.mutable_strings()[i];
    for (size_t k = 0; k < offsets.size(); ++k) absl::StrAppend(&text, k > 0 ? separator : "", strings.strings()[base + offsets[k]]);
  }
  return std::vector<Tensor>{std::move(result)};
}

Outputs Replace(const OpInstance& instance, absl::Span<const Tensor> inputs) {
  const bool is_static = absl::StartsWith(instance.op, "Static");
  MR_ASSIGN_OR_RETURN(const Regex regex, Regex::OfOp(instance.op, instance.attrs, is_static ? nullptr : &inputs[1]));
  if (!is_static && inputs[2].shape().rank() != 0) return absl::InvalidArgumentError("Rewrite must be scalar");
  const std::string rewrite = is_static ? instance.attrs.GetOr<std::string>("rewrite", "") : inputs[2].strings()[0];
  const bool everywhere = instance.attrs.GetOr<bool>("replace_global", true);
  return Changed(inputs[0], [&](const std::string& text) { return regex.Replaced(text, rewrite, everywhere); });
}

Outputs Text(std::string text) {
  Tensor result(DataType::kString, Shape());
  result.mutable_strings()[0] = std::move(text);
  return std::vector<Tensor>{std::move(result)};
}

Outputs ReadFile(const std::string& path) {
  struct stat about = {};
  if (stat(path.c_str(), &about) != 0) return absl::NotFoundError(absl::StrCat(path, "; ", std::strerror(errno)));
  if (S_ISDIR(about.st_mode)) return absl::FailedPreconditionError(absl::StrCat(path, "; Is a directory"));
  if (!S_ISREG(about.st_mode)) return absl::FailedPreconditionError(absl::StrCat(path, "; is no regular file"));
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  if (file.peek() != std::ifstream::traits_type::eof()) content << file.rdbuf();
  if (file.is_open() && !file.bad() && content.good()) return Text(content.str());
  return absl::PermissionDeniedError(absl::StrCat(path, "; cannot be read"));
}

Outputs Format(const OpInstance& instance, absl::Span<const Tensor> inputs) {
  const ValueTemplate text(instance.attrs);
  std::vector<std::string> values;
  for (const Tensor& input : inputs) values.push_back(EndValuesText(input, text.most()));
  return Text(text.Filled(values));
}

// (what files of a checkpoint begin with[, which of them], how many they are)
Outputs ShardName(const std::string& op, absl::Span<const Tensor> inputs) {
  const std::string count = absl::StrFormat("-of-%05d", inputs.back().IntAt(0));
  if (op == "ShardedFilespec") return Text(absl::StrCat(inputs[0].strings()[0], "-\?\?\?\?\?", count));
  return Text(absl::StrCat(inputs[0].strings()[0], absl::StrFormat("-%05d", inputs[1].IntAt(0)), count));
}

// Numbers in place of strings, in their order. What pads with zeros pads with empty strings.
class Numbering {
 public:
  explicit Numbering(absl::Span<const Tensor> tensors) : numbers_({{"", 0}}) {
    for (const Tensor& tensor : tensors) {
      if (tensor.dtype() != DataType::kString) continue;
      for (const std::string& text : tensor.strings()) numbers_.try_emplace(text, 0);
    }
    for (auto& [text, number] : numbers_) {
      number = static_cast<int32_t>(texts_.size());
      texts_.push_back(text);
    }
  }

  Tensor Numbers(const Tensor& strings) const {
    Tensor numbers(DataType::kInt32, strings.shape());
    for (int64_t i = 0; i < strings.num_elements(); ++i) numbers.mutable_as<int32_t>()[i] = numbers_.at(strings.strings()[i]);
    return numbers;
  }
  Tensor Strings(const Tensor& numbers) const {
    Tensor strings(DataType::kString, numbers.shape());
    for (int64_t i = 0; i < numbers.num_elements(); ++i) strings.mutable_strings()[i] = texts_[numbers.as<int32_t>()[i]];
    return strings;
  }

 private:
  std::map<std::string, int32_t> numbers_;
  std::vector<std::string> texts_;
};

// The outputs of the op where inputs and outputs that are strings are numbers.
Outputs EvaluateNumbers(const OpDef& def, const KernelRegistry& kernels, OpInstance instance, std::vector<Tensor> numbers) {
  instance.input_values.resize(numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    instance.inputs[i].dtype = numbers[i].dtype();
    instance.input_values[i] = numbers[i];
  }
  for (TensorType& type : instance.outputs) {
    if (type.dtype == DataType::kString) type.dtype = DataType::kInt32;
  }
  return EvaluateOp(def, kernels, instance, std::move(numbers));
}

// Strings that come to one place are joined. Places outside are the kernel's to refuse, or to pass over.
Tensor ScatterNd(const Tensor& indices, const Tensor& updates, const Shape& shape) {
  const int depth = static_cast<int>(indices.shape().dim(indices.shape().rank() - 1));
  int64_t size = 1;  // of what an index stands for
  for (int d = depth; d < shape.rank(); ++d) size *= shape.dim(d);
  Tensor result(DataType::kString, shape);
  const int64_t count = size == 0 ? 0 : updates.num_elements() / size;
  for (int64_t i = 0; i < count; ++i) {
    int64_t place = 0;
    bool inside = true;
    for (int d = 0; d < depth; ++d) {
      const int64_t at = indices.IntAt(i * depth + d);
      inside = inside && at >= 0 && at < shape.dim(d);
      if (inside) place = place * shape.dim(d) + at;
    }
    for (int64_t k = 0; k < size && inside; ++k) result.mutable_strings()[place * size + k] += updates.strings()[i * size + k];
  }
  return result;
}

Outputs MoveNumbers(const OpDef& def, const KernelRegistry& kernels, const OpInstance& instance, absl::Span<const Tensor> inputs) {
  const Numbering numbering(inputs);
  std::vector<Tensor> numbers(inputs.begin(), inputs.end());
  for (Tensor& tensor : numbers) {
    if (tensor.dtype() == DataType::kString) tensor = numbering.Numbers(tensor);
  }
  MR_ASSIGN_OR_RETURN(std::vector<Tensor> outputs, EvaluateNumbers(def, kernels, instance, std::move(numbers)));
  if (instance.op == "ScatterNd") return std::vector<Tensor>{ScatterNd(inputs[0], inputs[1], instance.outputs[0].shape)};
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (instance.outputs[o].dtype == DataType::kString) outputs[o] = numbering.Strings(outputs[o]);
  }
  return outputs;
}

}  // namespace

bool EvaluatesStrings(const OpInstance& instance) {
  const auto is_string = [](const TensorType& type) { return type.dtype == DataType::kString; };
  if (std::any_of(instance.outputs.begin(), instance.outputs.end(), is_string)) return true;
  return MovesElements(instance.op) && std::any_of(instance.inputs.begin(), instance.inputs.end(), is_string);
}

Outputs EvaluateStrings(const OpDef& def, const KernelRegistry& kernels, const OpInstance& instance, absl::Span<const Tensor> inputs) {
  const std::string& op = instance.op;
  if (op == "AsString") return AsString(instance, inputs[0]);
  if (op == "StringJoin") return Join(instance, inputs);
  if (op == "Empty") return std::vector<Tensor>{Tensor(DataType::kString, instance.outputs[0].shape)};
  if (op == "ReadFile") return ReadFile(inputs[0].strings()[0]);
  if (op == "Substr") return Substr(instance, inputs[0], inputs[1], inputs[2]);
  if (op == "StringSplit" || op == "StringSplitV2") return Split(instance, inputs[0], inputs[1]);
  if (op == "StringNGrams") return MakeNGrams(instance, inputs[0], inputs[1]);
  if (op == "ReduceJoin") return ReduceJoin(instance, inputs[0], inputs[1]);
  if (op == "RegexReplace" || op == "StaticRegexReplace") return Replace(instance, inputs);
  if (op == "_FindInTable") {
    MR_ASSIGN_OR_RETURN(const Table table, Table::Create(instance.attrs));
    Tensor found(DataType::kString, inputs[0].shape());
    for (int64_t i = 0; i < found.num_elements(); ++i) {
      const int64_t at = table.Find(inputs[0], i);
      found.mutable_strings()[i] = at < 0 ? inputs[1].strings()[0] : table.values().strings()[at];
    }
    return std::vector<Tensor>{std::move(found)};
  }
  if (op == "StringLower" || op == "StringUpper") return ChangeCase(instance, inputs[0]);
  if (op == "StringStrip") {
    return Changed(inputs[0], [](const std::string& s) { return std::string(absl::StripAsciiWhitespace(s)); });
  }
  if (op == "StringFormat") return Format(instance, inputs);
  if (op == "SerializeTensor") return Text(TensorMessage(inputs[0]));
  if (op == "ShardedFilename" || op == "ShardedFilespec") return ShardName(op, inputs);
  if (MovesElements(op)) return MoveNumbers(def, kernels, instance, inputs);
  const auto codes = StringCodeOps();
  if (std::find(codes.begin(), codes.end(), op) != codes.end() || CrossesTexts(op, instance.attrs)) return StringCodes(op, instance.attrs, inputs);
  return absl::UnimplementedError(absl::StrCat("the strings of op '", op, "' (node '", instance.name, "') are not computed"));
}

}  // namespace millrace
