// Classic machine learning (domain ai.onnx.ml), as converters of scikit-learn use it: scaling, encoding and linear models.
// Trees are in lower_trees.cc, support vectors in lower_svm.cc.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "builder/tensors.h"
#include "onnx/lowering.h"
#include "onnx/ml.h"
#include "onnx/tensors.h"

namespace millrace::onnx {

absl::StatusOr<Output> FeatureRows(NodeContext& c) {
  const Output x = c.in(0);
  if (!x.valid()) return x;
  if (DataTypeSize(x.dtype()) == 0 || x.rank() < 1 || x.rank() > 2) {
    return c.Error(absl::StrCat("input is ", x.type().ToString(), ", expected rows of numbers"));
  }
  const Output rows = x.rank() == 1 ? ops::ExpandDims(x, 0) : x;
  return x.dtype() == DataType::kDouble ? rows : ops::Cast(rows, DataType::kFloat);
}

namespace {
Tensor LongTensor(const IntList& values) {
  Tensor tensor(DataType::kInt64, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.mutable_as<int64_t>().begin());
  return tensor;
}

Tensor StringTensor(const std::vector<std::string>& values) {
  Tensor tensor(DataType::kString, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) tensor.mutable_strings()[i] = values[i];
  return tensor;
}
}  // namespace

Output LongVector(GraphBuilder& b, const IntList& values) { return b.SharedConst(LongTensor(values)); }

absl::StatusOr<Output> PostTransformed(const NodeContext& c, const Output& scores) {
  return PostTransformed(c, scores, c.String("post_transform", "NONE"));
}

absl::StatusOr<Output> PostTransformed(const NodeContext& c, const Output& scores, const std::string& transform) {
  if (transform == "NONE" || (scores.dim(1) == 1 && transform != "PROBIT")) return scores;
  if (transform == "LOGISTIC") return ops::Sigmoid(scores);
  if (transform == "SOFTMAX") return ops::Softmax(scores);
  if (transform == "PROBIT") return ops::Unary("Ndtri", scores);
  if (transform != "SOFTMAX_ZERO") return c.Error(absl::StrCat("post_transform is '", transform, "'"));
  // Scores of zero are none: they stay zero.
  const Output most = ops::Max(scores, {1}, true);
  const Output some = ops::Exp(scores - most) * ops::Cast(ops::Binary("NotEqual", scores, 0), scores.dtype());
  return ops::Binary("DivNoNan", some, ops::Sum(some, {1}, true));
}

absl::StatusOr<Output> BothScores(const NodeContext& c, const Output& score, bool probability) {
  const std::string transform = c.String("post_transform", "NONE");
  if (transform == "PROBIT") return c.Unsupported("PROBIT of one score of two classes");
  if (transform == "LOGISTIC") return ops::Sigmoid(ops::Concat({-score, score}, 1));
  return ops::Concat({probability ? -score + 1.0 : -score, score}, 1);
}

int64_t CountLabels(const NodeContext& c, const char* strings, const char* ints) {
  const size_t count = c.Strings(strings).size();
  return static_cast<int64_t>(count > 0 ? count : c.Ints(ints, {}).size());
}

absl::StatusOr<Output> LabelsOf(const NodeContext& c, const Output& numbers, const char* strings, const char* ints) {
  if (const std::vector<std::string> names = c.Strings(strings); !names.empty()) return ops::Gather(c.b.SharedConst(StringTensor(names)), numbers);
  return ops::Gather(LongVector(c.b, c.Ints(ints, {})), numbers);
}

absl::StatusOr<Output> TimesRows(const NodeContext& c, const Output& x, const std::vector<float>& rows, const char* name) {
  const int64_t columns = x.dim(1), size = static_cast<int64_t>(rows.size());
  if (columns == 0 || size == 0 || size % columns != 0) {
    return c.Error(absl::StrCat(name, " has ", size, " numbers, expected rows of ", columns));
  }
  return ops::MatMul(x, Vector(c.b, x.dtype(), {rows.begin(), rows.end()}, {size / columns, columns}), {.b = true});
}

namespace {

std::vector<double> Doubles(const std::vector<float>& values) { return {values.begin(), values.end()}; }

// A number, or one for every column.
absl::StatusOr<Output> PerColumn(const NodeContext& c, const char* name, const std::vector<double>& values, const Output& x) {
  const int64_t count = static_cast<int64_t>(values.size());
  if (count != 1 && count != x.dim(-1)) {
    return c.Error(absl::StrCat(name, " has ", count, " numbers, the input ", x.type().ToString()));
  }
  return Vector(c.b, x.dtype(), values, {count});
}

absl::Status Scaler(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  const Output x = ops::Cast(c.in(0), DataType::kFloat);
  if (!x.valid()) return absl::OkStatus();
  Output y = x;
  if (c.Attribute("offset") != nullptr) {
    MR_ASSIGN_OR_RETURN(const Output offset, PerColumn(c, "offset", Doubles(c.Floats("offset")), x));
    y = y - offset;
  }
  if (c.Attribute("scale") != nullptr) {
    MR_ASSIGN_OR_RETURN(const Output scale, PerColumn(c, "scale", Doubles(c.Floats("scale")), x));
    y = y * scale;
  }
  c.Set(0, y);
  return absl::OkStatus();
}

// Rows by their norm; a row without one stays.
absl::Status Normalizer(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  const Output x = ops::Cast(c.in(0), DataType::kFloat);
  if (!x.valid()) return absl::OkStatus();
  if (x.rank() < 1) return c.Error("input is a scalar");
  const std::string kind = c.String("norm", "MAX");
  const IntList last = {x.rank() - 1};
  Output norm;
  if (kind == "MAX") norm = ops::Max(x, last, true);
  if (kind == "L1") norm = ops::Sum(ops::Abs(x), last, true);
  if (kind == "L2") norm = ops::Sqrt(ops::Sum(ops::Square(x), last, true));
  if (!norm.valid()) return c.b.ok() ? c.Error(absl::StrCat("norm is '", kind, "'")) : c.b.status();
  c.Set(0, x / ops::Select(ops::Binary("Equal", norm, 0), ops::OnesLike(norm), norm));
  return absl::OkStatus();
}

absl::Status Imputer(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  const bool floating = IsFloating(x.dtype());
  if (!floating && x.dtype() != DataType::kInt64) return c.Unsupported(absl::StrCat("an input ", x.type().ToString()));
  Output values, missing;
  if (floating) {
    MR_ASSIGN_OR_RETURN(values, PerColumn(c, "imputed_value_floats", Doubles(c.Floats("imputed_value_floats")), x));
    const double replaced = c.Float("replaced_value_float", 0);
    missing = std::isnan(replaced) ? ops::Unary("IsNan", x) : ops::Binary("Equal", x, replaced);
  } else {
    const IntList list = c.Ints("imputed_value_int64s", {});
    if (list.size() != 1 && static_cast<int64_t>(list.size()) != x.dim(-1)) {
      return c.Error(absl::StrCat("imputed_value_int64s has ", list.size(), " numbers, the input ", x.type().ToString()));
    }
    values = LongVector(c.b, list);
    missing = ops::Binary("Equal", x, ops::Reshape(LongVector(c.b, {c.Int("replaced_value_int64", 0)}), {}));
  }
  c.Set(0, c.b.Op("SelectV2", {missing, values, x}, {{"T", x.dtype()}}));
  return absl::OkStatus();
}

// Rows of all inputs beside each other.
absl::Status FeatureVectorizer(NodeContext& c) {
  if (c.num_inputs() == 0) return c.Error("has no inputs");
  const IntList widths = c.Ints("inputdimensions", {});
  std::vector<Output> parts;
  for (int i = 0; i < c.num_inputs(); ++i) {
    Output part = ops::Cast(c.in(i), DataType::kFloat);
    if (!part.valid()) return absl::OkStatus();
    if (part.rank() == 1) part = ops::ExpandDims(part, 0);
    const bool fits = part.rank() == 2 && (widths.empty() || (i < static_cast<int>(widths.size()) && widths[i] == part.dim(1)));
    if (!fits) return c.Error(absl::StrCat("input ", i, " is ", part.type().ToString(), ", expected rows of inputdimensions' length"));
    parts.push_back(part);
  }
  c.Set(0, ops::Concat(parts, 1));
  return absl::OkStatus();
}

absl::Status OneHotEncoder(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  const bool strings = x.dtype() == DataType::kString;
  const Tensor categories = strings ? StringTensor(c.Strings("cats_strings")) : LongTensor(c.Ints("cats_int64s", {}));
  if (categories.num_elements() == 0) return c.Error(absl::StrCat("input is ", x.type().ToString(), ", and there are no categories of its type"));
  const Output elements = ops::ExpandDims(strings ? x : ops::Cast(x, DataType::kInt64), x.rank());
  c.Set(0, ops::Cast(ops::Binary("Equal", elements, c.b.SharedConst(categories)), DataType::kFloat));
  return absl::OkStatus();
}

// Keys or values of a LabelEncoder.
absl::StatusOr<Tensor> EncoderList(const NodeContext& c, const std::string& kind) {
  if (const onnx_proto::AttributeProto* given = c.Attribute(kind + "_tensor"); given != nullptr) {
    return TensorFromOnnx(given->t(), c.source().folder());
  }
  if (const std::vector<std::string> strings = c.Strings(kind + "_strings"); !strings.empty()) return StringTensor(strings);
  if (const std::vector<float> floats = c.Floats(kind + "_floats"); !floats.empty()) {
    Tensor list(DataType::kFloat, {static_cast<int64_t>(floats.size())});
    std::copy(floats.begin(), floats.end(), list.mutable_as<float>().begin());
    return list;
  }
  return LongTensor(c.Ints(kind + "_int64s", {}));
}

// What stands for elements that are no key.
absl::StatusOr<Tensor> EncoderFallback(const NodeContext& c, DataType dtype) {
  if (const onnx_proto::AttributeProto* given = c.Attribute("default_tensor"); given != nullptr) {
    MR_ASSIGN_OR_RETURN(Tensor fallback, TensorFromOnnx(given->t(), c.source().folder()));
    if (fallback.dtype() == dtype && fallback.num_elements() == 1) return fallback.Reshaped({1});
    return c.Error(absl::StrCat("default_tensor is ", fallback.type().ToString(), ", expected one element of the values' type"));
  }
  if (dtype == DataType::kString) return StringTensor({c.String("default_string", "_Unused")});
  if (dtype == DataType::kInt64) return LongTensor({c.Int("default_int64", -1)});
  return FilledTensor(dtype, {1}, IsInteger(dtype) ? static_cast<double>(c.Int("default_int64", -1)) : c.Float("default_float", -0.0f));
}

// The value of every element's first key, as onnxruntime has it; NaN is a key like others.
absl::Status Encode(NodeContext& c, const Output& x, Tensor keys, Tensor values) {
  const int64_t count = keys.num_elements();
  if (keys.dtype() != x.dtype() || count == 0 || values.num_elements() != count) {
    return c.Error(absl::StrCat("input ", x.type().ToString(), ", keys ", keys.type().ToString(), ", values ", values.type().ToString()));
  }
  MR_ASSIGN_OR_RETURN(Tensor fallback, EncoderFallback(c, values.dtype()));
  bool any_nan = false;
  for (int64_t i = 0; i < count && IsFloating(keys.dtype()); ++i) any_nan = any_nan || std::isnan(keys.DoubleAt(i));
  const Output elements = ops::ExpandDims(x, x.rank()), list = c.b.SharedConst(keys.Reshaped({count}));
  Output same = ops::Binary("Equal", elements, list);
  if (any_nan) {
    same = c.b.Op("LogicalOr", {same, c.b.Op("LogicalAnd", {ops::Unary("IsNan", elements), ops::Unary("IsNan", list)})});
  }
  // An element that is no key takes the last value.
  const Output marked = ops::Cast(same, DataType::kFloat);
  const Output place = ops::Select(ops::Binary("Greater", ops::Max(marked, {x.rank()}), 0), ops::ArgMax(marked, x.rank()),
                                   ops::Full(c.b, {DataType::kInt64, x.shape()}, static_cast<double>(count)));
  const Output all = ops::Concat({c.b.SharedConst(values.Reshaped({count})), c.b.SharedConst(std::move(fallback))}, 0);
  c.Set(0, ops::Gather(all, place));
  return absl::OkStatus();
}

// Between strings and integers: strings become integers, and what is no string strings.
absl::Status EncodeEitherWay(NodeContext& c, const Output& x, const std::vector<std::string>& strings, const IntList& integers) {
  if (x.dtype() == DataType::kString) return Encode(c, x, StringTensor(strings), LongTensor(integers));
  return Encode(c, x, LongTensor(integers), StringTensor(strings));
}

absl::Status LabelEncoder(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  // Opset 1's: strings by their places.
  if (const std::vector<std::string> classes = c.Strings("classes_strings"); !classes.empty()) {
    return EncodeEitherWay(c, x, classes, Iota(static_cast<int64_t>(classes.size())));
  }
  MR_ASSIGN_OR_RETURN(Tensor keys, EncoderList(c, "keys"));
  MR_ASSIGN_OR_RETURN(Tensor values, EncoderList(c, "values"));
  return Encode(c, x, std::move(keys), std::move(values));
}

absl::Status CategoryMapper(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  const Output x = c.in(0);
  return x.valid() ? EncodeEitherWay(c, x, c.Strings("cats_strings"), c.Ints("cats_int64s", {})) : absl::OkStatus();
}

// The dictionaries' values, a column for each key.
absl::Status ZipMap(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  c.Set(0, c.in(0));
  return absl::OkStatus();
}

// x W^T + b.
absl::StatusOr<Output> LinearScores(const NodeContext& c, const Output& x) {
  MR_ASSIGN_OR_RETURN(const Output product, TimesRows(c, x, c.Floats("coefficients"), "coefficients"));
  if (c.Attribute("intercepts") == nullptr) return product;
  MR_ASSIGN_OR_RETURN(const Output intercepts, PerColumn(c, "intercepts", Doubles(c.Floats("intercepts")), product));
  return product + intercepts;
}

absl::Status LinearRegressor(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  MR_ASSIGN_OR_RETURN(const Output x, FeatureRows(c));
  if (!x.valid()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const Output scores, LinearScores(c, x));
  if (scores.valid() && scores.dim(1) != c.Int("targets", 1)) return c.Error(absl::StrCat("coefficients are of ", scores.dim(1), " targets"));
  MR_ASSIGN_OR_RETURN(const Output y, PostTransformed(c, scores));
  c.Set(0, ops::Cast(y, DataType::kFloat));
  return absl::OkStatus();
}

absl::Status LinearClassifier(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  MR_ASSIGN_OR_RETURN(const Output x, FeatureRows(c));
  if (!x.valid()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(Output scores, LinearScores(c, x));
  if (!scores.valid()) return absl::OkStatus();
  constexpr const char *kStrings = "classlabels_strings", *kInts = "classlabels_ints";
  const int64_t classes = CountLabels(c, kStrings, kInts);
  const bool one_score = scores.dim(1) == 1 && classes == 2;
  if (scores.dim(1) != classes && !one_score) return c.Error(absl::StrCat("coefficients are of ", scores.dim(1), " classes, there are ", classes, " labels"));
  const Output best = one_score ? ops::Cast(ops::Reshape(ops::Binary("Greater", scores, 0), {-1}), DataType::kInt64) : ops::ArgMax(scores, 1);
  MR_ASSIGN_OR_RETURN(const Output labels, LabelsOf(c, best, kStrings, kInts));
  c.Set(0, labels);
  if (one_score) {
    MR_ASSIGN_OR_RETURN(scores, BothScores(c, scores, true));
  } else {
    MR_ASSIGN_OR_RETURN(scores, PostTransformed(c, scores));
  }
  c.Set(1, ops::Cast(scores, DataType::kFloat));
  return absl::OkStatus();
}

}  // namespace

void AddMlLowerings(LoweringTable& table) {
  for (const auto& [op, lowering] : std::initializer_list<std::pair<const char*, Lowering>>{
           {"Scaler", Scaler},
           {"Normalizer", Normalizer},
           {"Imputer", Imputer},
           {"FeatureVectorizer", FeatureVectorizer},
           {"OneHotEncoder", OneHotEncoder},
           {"LabelEncoder", LabelEncoder},
           {"CategoryMapper", CategoryMapper},
           {"ZipMap", ZipMap},
           {"LinearRegressor", LinearRegressor},
           {"LinearClassifier", LinearClassifier}}) {
    table.Add(absl::StrCat("ai.onnx.ml.", op), lowering);
  }
}

}  // namespace millrace::onnx
