// Assert, Print, strings and summaries: what hangs around in real graphs beside the computation. Strings have no memory on a
// device, so string outputs carry a type and a shape but no bytes; what planning knows of them becomes constants, and ops that make
// numbers of strings need to know them then.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "graph/ngrams.h"
#include "graph/string_codes.h"
#include "graph/string_pieces.h"
#include "graph/value_text.h"
#include "millrace/status.h"
#include "ops/register.h"
#include "ops/rules.h"
#include "ops/string_rules.h"

namespace millrace {
namespace {

// Text that is written for people: no device memory holds strings, so a kernel has those that are known when planning.
void TakeStringsByValue(const InferenceContext& context) {
  for (int i = 0; i < context.num_inputs(); ++i) {
    if (context.dtype(i) == DataType::kString) context.value(i);
  }
}

absl::Status AssertShape(InferenceContext& context) {
  if (context.num_inputs() < 1) return context.Error("has no condition");
  if (context.dtype(0) != DataType::kBool || context.shape(0).rank() > 0) {
    return context.Error(absl::StrCat("the condition is ", context.input(0).ToString(), ", expected a scalar bool"));
  }
  TakeStringsByValue(context);
  return absl::OkStatus();
}

absl::Status PrintShape(InferenceContext& context) {
  TakeStringsByValue(context);
  return SameAsFirstInput(context);
}

absl::Status ShowValuesShape(InferenceContext& context) {
  TakeStringsByValue(context);
  return NoOutputs(context);
}

absl::Status ShowShape(InferenceContext& context) {
  if (context.num_inputs() < 1) return context.Error("has no inputs, expected what it shows");
  return ShowValuesShape(context);
}

absl::Status StringScalar(InferenceContext& context) {
  static const Shape& scalar = *new Shape();  // a temporary makes g++ 12 warn of Abseil's uninitialised bytes
  context.AddOutput(DataType::kString, scalar);
  return absl::OkStatus();
}

// The handle of a writer of event files, which nothing is ever written to.
absl::Status WriterShape(InferenceContext& context) {
  static const Shape& scalar = *new Shape();
  context.AddOutput(DataType::kResource, scalar);
  return absl::OkStatus();
}

absl::Status FormatShape(InferenceContext& context) {
  const int64_t placeholders = ValueTemplate(context.attrs()).placeholders();
  if (placeholders == context.num_inputs()) return StringScalar(context);
  return context.Error(absl::StrCat("num placeholders in template and num inputs must match: ", placeholders, " vs. ", context.num_inputs()));
}

absl::Status StringsLikeFirstInput(InferenceContext& context) {
  if (context.num_inputs() < 1) return context.Error("has no inputs, expected at least 1");
  context.AddOutput(DataType::kString, context.shape(0));
  return absl::OkStatus();
}

// All inputs have one shape, or are scalars; what stands for a sum of strings broadcasts them.
absl::Status StringJoinShape(InferenceContext& context) {
  if (context.num_inputs() < 1) return context.Error("has no inputs, expected at least 1");
  const bool broadcast = context.attrs().GetOr<bool>("_broadcast", false);
  const Shape* joined = nullptr;
  Shape sum;
  for (int i = 0; i < context.num_inputs(); ++i) {
    if (context.dtype(i) != DataType::kString) return context.Error(absl::StrCat("input ", i, " is ", context.input(i).ToString(), ", expected strings"));
    if (broadcast) {
      absl::StatusOr<Shape> both = BroadcastShapes(sum, context.shape(i));
      if (!both.ok()) return ErrorAtNode(context, both.status());
      sum = *std::move(both);
      continue;
    }
    const Shape& shape = context.shape(i);
    if (shape.rank() == 0) continue;
    if (joined != nullptr && *joined != shape) {
      return context.Error(absl::StrCat("inputs have shapes ", joined->ToString(), " and ", shape.ToString(),
                                        ", expected equal ones or scalars"));
    }
    joined = &shape;
  }
  if (joined == nullptr) joined = broadcast ? &sum : &context.shape(0);
  context.AddOutput(DataType::kString, *joined);
  return absl::OkStatus();
}

// Numbers of the strings of input 0, which planning must know.
absl::Status NumbersOfStrings(InferenceContext& context, DataType type) {
  MR_RETURN_IF_ERROR(ExpectKnownStrings(context, 0));
  context.AddOutput(type, context.shape(0));
  return absl::OkStatus();
}

OpDef::ShapeRule NumbersOf(DataType type) {
  return [type](InferenceContext& context) { return NumbersOfStrings(context, type); };
}

absl::Status ParsedShape(InferenceContext& context) {
  return NumbersOfStrings(context, context.attrs().GetOr<DataType>("out_type", DataType::kFloat));
}

absl::Status HashOfNumbersShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  context.AddOutput(DataType::kInt64, context.shape(0));
  return absl::OkStatus();
}

// (keys, value of those that the table has not)
absl::Status FindShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_ASSIGN_OR_RETURN(const Tensor keys, RequiredAttr<Tensor>(context, "keys"));
  MR_ASSIGN_OR_RETURN(const Tensor values, RequiredAttr<Tensor>(context, "values"));
  if (context.dtype(0) != keys.dtype() || context.dtype(1) != values.dtype()) {
    return context.Error(absl::StrCat("looks for ", std::string(DataTypeName(context.dtype(0))), " in a table from ",
                                      std::string(DataTypeName(keys.dtype())), " to ", std::string(DataTypeName(values.dtype()))));
  }
  if (context.shape(1).rank() > 0) return context.Error(absl::StrCat("the default is ", context.input(1).ToString(), ", expected a scalar"));
  if (keys.dtype() == DataType::kString) return NumbersOfStrings(context, values.dtype());
  context.AddOutput(values.dtype(), context.shape(0));
  return absl::OkStatus();
}

// (data, method) -> eight bytes of each row
absl::Status FingerprintShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  const Shape &data = context.shape(0), &method = context.shape(1);
  if (!data.unknown_rank() && data.rank() == 0) return context.Error("`data` should have at least one dimension: []");
  if (method.unknown_rank() || method.rank() != 0) return context.Error(absl::StrCat("`method` should be a scalar string: ", method.ToString()));
  const Tensor* name = context.value(1);
  if (name == nullptr || name->dtype() != DataType::kString) return context.Error("`method` must be known when the graph is planned");
  if (name->strings()[0] != "farmhash64") return context.Error(absl::StrCat("Unsupported fingerprint method: ", name->strings()[0]));
  if (context.dtype(0) == DataType::kString) MR_RETURN_IF_ERROR(ExpectKnownStrings(context, 0));
  context.AddOutput(DataType::kUint8, Shape({data.unknown_rank() ? -1 : data.dim(0), 8}));
  return absl::OkStatus();
}

// (strings, where to begin, how many bytes or characters), broadcast
absl::Status SubstrShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  const Shape &begin = context.shape(1), &size = context.shape(2);
  if (begin.fully_known() && size.fully_known() && begin != size) {
    return context.Error(absl::StrCat("pos and len must have the same shape, got: ", begin.ToString(), " and ", size.ToString()));
  }
  const std::string unit = context.attrs().GetOr<std::string>("unit", "BYTE");
  if (unit != "BYTE" && unit != "UTF8_CHAR") return context.Error(absl::StrCat("counts in ", unit, ", expected BYTE or UTF8_CHAR"));
  absl::StatusOr<Shape> shape = BroadcastShapes(context.shape(0), begin);
  if (!shape.ok()) return ErrorAtNode(context, shape.status());
  context.AddOutput(DataType::kString, *std::move(shape));
  return absl::OkStatus();
}

// (strings, separator) -> [row, place] of each piece, the pieces, [rows, most pieces]
absl::Status SplitShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  for (int input = 0; input < 2; ++input) MR_RETURN_IF_ERROR(ExpectKnownStrings(context, input));
  const auto rows = PiecesOf(context.op(), context.attrs(), *context.value(0), *context.value(1));
  if (!rows.ok()) return ErrorAtNode(context, rows.status());
  const int64_t pieces = CountPieces(*rows);
  context.AddOutput(DataType::kInt64, Shape({pieces, 2}));
  context.AddOutput(DataType::kString, Shape({pieces}));
  context.AddOutput(DataType::kInt64, Shape({2}));
  return absl::OkStatus();
}

// (words, where rows begin) -> runs of words, where the runs of each row begin
absl::Status NGramsShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_RETURN_IF_ERROR(ExpectKnownStrings(context, 0));
  const Tensor* splits = context.value(1);
  if (splits == nullptr) return context.Error("where rows of words begin must be known when the graph is planned");
  const auto widths = context.attrs().GetOr<std::vector<int64_t>>("ngram_widths", {});
  if (std::any_of(widths.begin(), widths.end(), [](int64_t width) { return width <= 0; })) {
    return context.Error("ngram_widths must contain positive values");
  }
  MR_ASSIGN_OR_RETURN(const DataType type, IndexTypeAttr(context, "Tsplits", DataType::kInt64));
  if (context.dtype(1) != type) return context.Error(absl::StrCat("data_splits are ", context.input(1).ToString(), ", expected ", std::string(DataTypeName(type))));
  const auto made = NGramsOf(context.attrs(), *context.value(0), *splits);
  if (!made.ok()) return ErrorAtNode(context, made.status());
  context.AddOutput(DataType::kString, Shape({static_cast<int64_t>(made->texts.size())}));
  context.AddOutput(context.dtype(1), Shape({splits->num_elements()}));
  return absl::OkStatus();
}

// (strings, axes)
absl::Status ReduceJoinShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, KnownInts(context, 1));
  const Shape& strings = context.shape(0);
  std::set<int> joined;
  for (int64_t axis : axes) {
    if (strings.unknown_rank()) break;
    MR_ASSIGN_OR_RETURN(const int d, NormalizeAxis(context, axis, strings.rank()));
    if (!joined.insert(d).second) return context.Error(absl::StrCat("Duplicate reduction dimension ", axis));
  }
  Shape kept;
  const bool keep_dims = context.attrs().GetOr<bool>("keep_dims", false);
  for (int d = 0; d < strings.rank(); ++d) {
    if (joined.count(d) == 0) kept.AddDim(strings.dim(d));
    if (joined.count(d) > 0 && keep_dims) kept.AddDim(1);
  }
  context.AddOutput(DataType::kString, strings.unknown_rank() ? Shape::UnknownRank() : std::move(kept));
  return absl::OkStatus();
}

// (strings[, pattern]) -> whether all of each matches
absl::Status FullMatchShape(InferenceContext& context) {
  const bool is_static = context.op() == "StaticRegexFullMatch";
  MR_RETURN_IF_ERROR(context.ExpectInputs(is_static ? 1 : 2));
  if (!is_static) MR_RETURN_IF_ERROR(ExpectKnownStrings(context, 1));
  return NumbersOfStrings(context, DataType::kBool);
}

// Of each code point, its script.
absl::Status ScriptShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  if (context.dtype(0) != DataType::kInt32) return context.Error(absl::StrCat("input 0 is ", context.input(0).ToString(), ", expected int32"));
  return SameAsFirstInput(context);
}

absl::Status SerializedShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  return StringScalar(context);
}

absl::Status FileShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  const Shape& shape = context.shape(0);
  if (!shape.unknown_rank() && shape.rank() != 0) {
    return context.Error(absl::StrCat("Input filename tensor must be scalar, but had shape: ", shape.ToString()));
  }
  return StringScalar(context);
}

// (name of the file, contents)
absl::Status WriteFileShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_RETURN_IF_ERROR(ExpectScalar(context, 0, "filename"));
  MR_RETURN_IF_ERROR(ExpectScalar(context, 1, "contents"));
  MR_RETURN_IF_ERROR(ExpectKnownStrings(context, 0));
  return ExpectKnownStrings(context, 1);
}

// (name of the file, what the contents are made of: as attribute "text_op" and those of that op say)
absl::Status WriteFileMadeShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(ExpectKnownStrings(context, 0));
  MR_RETURN_IF_ERROR(ExpectScalar(context, 0, "filename"));
  return ShowValuesShape(context);
}

// (what files begin with[, which of them], how many they are)
absl::Status ShardNameShape(InferenceContext& context) {
  const bool of_all = context.op() == "ShardedFilespec";
  MR_RETURN_IF_ERROR(context.ExpectInputs(of_all ? 2 : 3));
  MR_RETURN_IF_ERROR(ExpectScalar(context, 0, "basename"));
  if (!of_all) MR_RETURN_IF_ERROR(ExpectScalar(context, 1, "shard"));
  MR_RETURN_IF_ERROR(ExpectScalar(context, of_all ? 1 : 2, "num_shards"));
  return StringScalar(context);
}

}  // namespace

void RegisterStringOps(OpRegistry& registry) {
  AddOp(registry, {.name = "Assert", .shape = AssertShape, .cost = NoCost, .stateful = true});
  AddOp(registry, {.name = "Print",
                   .shape = PrintShape,
                   .cost = MoveCost,
                   .in_place = {{0, 0}},
                   .stateful = true,
                   .state_bytes = sizeof(int64_t)});
  AddOp(registry, {.name = "PrintV2", .shape = ShowShape, .cost = NoCost, .stateful = true});
  AddOp(registry, {.name = "_PrintFormatted", .shape = ShowValuesShape, .cost = NoCost, .stateful = true});  // a text may have no values
  AddOp(registry, {.name = "StringFormat", .shape = FormatShape, .cost = NoCost});
  for (const char* name : {"ScalarSummary", "HistogramSummary", "ImageSummary", "AudioSummaryV2",
                           "TensorSummary", "TensorSummaryV2", "MergeSummary"}) {
    AddOp(registry, {.name = name, .shape = StringScalar, .cost = NoCost});
  }
  // Millrace writes no event files: what is recorded for TensorBoard is computed only if something else needs it.
  AddOp(registry, {.name = "SummaryWriter", .shape = WriterShape, .cost = NoCost});
  for (const char* name : {"CreateSummaryFileWriter", "FlushSummaryWriter", "CloseSummaryWriter", "WriteSummary", "WriteScalarSummary",
                           "WriteHistogramSummary", "WriteImageSummary", "WriteAudioSummary", "WriteGraphSummary", "WriteRawProtoSummary"}) {
    AddOp(registry, {.name = name, .shape = NoOutputs, .cost = NoCost});
  }
  for (const char* name : {"AsString", "StringLower", "StringUpper", "StringStrip", "RegexReplace", "StaticRegexReplace"}) {
    AddOp(registry, {.name = name, .shape = StringsLikeFirstInput, .cost = NoCost});
  }
  AddOp(registry, {.name = "Fingerprint", .shape = FingerprintShape, .cost = MoveCost});
  AddOp(registry, {.name = "StringToHashBucket", .shape = NumbersOf(DataType::kInt64), .cost = MoveCost});
  AddOp(registry, {.name = "StringToHashBucketFast", .shape = NumbersOf(DataType::kInt64), .cost = MoveCost});
  AddOp(registry, {.name = "StringToHashBucketStrong", .shape = NumbersOf(DataType::kInt64), .cost = MoveCost});
  AddOp(registry, {.name = "StringLength", .shape = NumbersOf(DataType::kInt32), .cost = MoveCost});
  AddOp(registry, {.name = "StringToNumber", .shape = ParsedShape, .cost = MoveCost});
  AddOp(registry, {.name = "_AsStringToHashBucket", .shape = HashOfNumbersShape});
  AddOp(registry, {.name = "_FindInTable", .shape = FindShape});
  AddOp(registry, {.name = "Substr", .shape = SubstrShape, .cost = NoCost});
  AddOp(registry, {.name = "StringSplit", .shape = SplitShape, .cost = MoveCost});
  AddOp(registry, {.name = "StringSplitV2", .shape = SplitShape, .cost = MoveCost});
  AddOp(registry, {.name = "StringNGrams", .shape = NGramsShape, .cost = MoveCost});
  AddOp(registry, {.name = "ReduceJoin", .shape = ReduceJoinShape, .cost = NoCost});
  AddOp(registry, {.name = "RegexFullMatch", .shape = FullMatchShape, .cost = MoveCost});
  AddOp(registry, {.name = "StaticRegexFullMatch", .shape = FullMatchShape, .cost = MoveCost});
  for (const char* name : StringCodeOps()) AddOp(registry, {.name = name, .shape = StringCodesShape, .cost = MoveCost});
  AddOp(registry, {.name = "UnicodeScript", .shape = ScriptShape, .in_place = {{0, 0}}});
  AddOp(registry, {.name = "ReadFile", .shape = FileShape, .cost = NoCost});
  AddOp(registry, {.name = "WriteFile", .shape = WriteFileShape, .cost = NoCost, .stateful = true});
  AddOp(registry, {.name = "_WriteFileMade", .shape = WriteFileMadeShape, .cost = NoCost, .stateful = true});
  AddOp(registry, {.name = "SerializeTensor", .shape = SerializedShape, .cost = NoCost});
  for (const char* name : {"ShardedFilename", "ShardedFilespec"}) AddOp(registry, {.name = name, .shape = ShardNameShape, .cost = NoCost});
  AddOp(registry, {.name = "StringJoin", .shape = StringJoinShape, .cost = NoCost});
}

}  // namespace millrace
