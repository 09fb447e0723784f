#include "graph/feature_crosses.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/feature_lists.h"
#include "millrace/status.h"

namespace millrace {
namespace {

using Tensors = absl::Span<const Tensor>;

constexpr int64_t kMostExamples = int64_t{1} << 27;
constexpr int64_t kMostCrosses = int64_t{1} << 27;
constexpr char kSeparator[] = "_X_";

// Values of a feature as texts: those of example b are texts[first[b] .. first[b] + count[b]).
struct TextFeature {
  std::vector<std::string> texts;
  std::vector<int64_t> first, count;
};

TextFeature TextsOf(const Tensor& values) {
  TextFeature feature;
  if (values.dtype() == DataType::kString) {
    feature.texts = values.strings();
  } else {
    for (int64_t number : values.as<int64_t>()) feature.texts.push_back(absl::StrCat(number));
  }
  return feature;
}

TextFeature DenseFeature(const Tensor& values) {
  TextFeature feature = TextsOf(values);
  for (int64_t b = 0; b < values.shape().dim(0); ++b) feature.first.push_back(b * values.shape().dim(1));
  feature.count.assign(values.shape().dim(0), values.shape().dim(1));
  return feature;
}

// Indices are read in their order. SparseCross stops at one of an earlier example, RaggedCross takes it to the example that it is at.
TextFeature SparseFeature(const Tensor& indices, const Tensor& values, int64_t batch, bool takes_earlier) {
  TextFeature feature = TextsOf(values);
  const auto places = indices.as<int64_t>();
  const int64_t size = values.num_elements();
  for (int64_t b = 0, next = 0; b < batch; ++b) {
    feature.first.push_back(next);
    while (next < size && (places[next * 2] == b || (takes_earlier && places[next * 2] < b))) ++next;
    feature.count.push_back(next - feature.first.back());
  }
  return feature;
}

TextFeature RaggedFeature(const Tensor& values, const Tensor& splits) {
  TextFeature feature = TextsOf(values);
  for (int64_t b = 0; b + 1 < splits.num_elements(); ++b) {
    feature.first.push_back(splits.IntAt(b));
    feature.count.push_back(splits.IntAt(b + 1) - splits.IntAt(b));
  }
  return feature;
}

struct Crosses {
  std::vector<std::string> texts;
  std::vector<int64_t> splits = {0};  // where those of each example begin
};

// Every combination, the values of the last feature changing first.
absl::StatusOr<Crosses> Crossed(const std::vector<TextFeature>& features, int64_t batch, const std::string& separator) {
  Crosses crosses;
  for (int64_t b = 0; b < batch; ++b) {
    int64_t count = features.empty() ? 0 : 1;
    for (const TextFeature& feature : features) {
      count *= feature.count[b];
      if (crosses.splits.back() + count > kMostCrosses) return absl::InvalidArgumentError(absl::StrCat("more than ", kMostCrosses, " crosses"));
    }
    std::vector<int64_t> at(features.size(), 0);
    for (int64_t k = 0; k < count; ++k) {
      std::string& text = crosses.texts.emplace_back();
      for (size_t f = 0; f < features.size(); ++f) {
        absl::StrAppend(&text, f > 0 ? separator : "", features[f].texts[features[f].first[b] + at[f]]);
      }
      for (size_t f = features.size(); f-- > 0;) {
        if (++at[f] < features[f].count[b]) break;
        at[f] = 0;
      }
    }
    crosses.splits.push_back(crosses.splits.back() + count);
  }
  return crosses;
}

Tensor Strings(std::vector<std::string> texts) {
  Tensor strings(DataType::kString, Shape({static_cast<int64_t>(texts.size())}));
  strings.mutable_strings() = std::move(texts);
  return strings;
}

absl::Status CheckBatch(int64_t batch) {
  if (batch >= 0 && batch <= kMostExamples) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("batch size ", batch, ", expected at most ", kMostExamples));
}

// What is read as 64-bit integers is that.
absl::Status ExpectPlaces(Tensors tensors) {
  for (const Tensor& tensor : tensors) {
    if (tensor.dtype() != DataType::kInt64) return absl::InvalidArgumentError(absl::StrCat("an input is ", tensor.type().ToString(), ", expected int64"));
  }
  return absl::OkStatus();
}
absl::Status ExpectFeatures(Tensors tensors) {
  for (const Tensor& tensor : tensors) {
    if (tensor.dtype() == DataType::kInt64 || tensor.dtype() == DataType::kString) continue;
    return absl::InvalidArgumentError(absl::StrCat("a feature is ", tensor.type().ToString(), ", expected int64 or strings"));
  }
  return absl::OkStatus();
}

// The lists of inputs of SparseCross and SparseCrossV2.
struct SparseInputs {
  Tensors indices, values, shapes, dense;

  int64_t batch() const { return !shapes.empty() ? shapes[0].IntAt(0) : !dense.empty() ? dense[0].shape().dim(0) : 0; }
};

// Each as TensorFlow says it; `texts_only`: that of the op's internal type.
absl::Status CheckSparse(const SparseInputs& inputs, bool texts_only) {
  for (const Tensors places : {inputs.indices, inputs.shapes}) {
    MR_RETURN_IF_ERROR(ExpectPlaces(places));
  }
  for (const Tensors values : {inputs.values, inputs.dense}) {
    MR_RETURN_IF_ERROR(ExpectFeatures(values));
  }
  const auto error = [](const auto&... words) { return absl::InvalidArgumentError(absl::StrCat(words...)); };
  const auto is_number = [&](const Tensor& tensor) { return texts_only && tensor.dtype() != DataType::kString; };
  for (size_t i = 0; i < inputs.indices.size(); ++i) {
    const Shape &places = inputs.indices[i].shape(), &values = inputs.values[i].shape(), &shape = inputs.shapes[i].shape();
    if (places.rank() != 2) return error("Input indices should be a matrix but received shape ", places.ToString(), " at position ", i);
    if (places.dim(1) != 2) return error("Expected D2 of index to be 2 got ", places.dim(1), " at position ", i);
    if (is_number(inputs.values[i])) return error("Input values should be of internal type 7 but received 9");
    if (values.rank() != 1) return error("Input values should be a vector but received shape ", values.ToString(), " at position ", i);
    if (places.dim(0) != values.dim(0)) return error("Expected size of values to be ", places.dim(0), " got ", values.dim(0), " at position ", i);
    if (shape.rank() != 1) return error("Input shapes should be a vector but received shape ", shape.ToString(), " at position ", i);
    if (shape.dim(0) != 2) return error("shape should imply a 2D tensor, but got ", shape.ToString(), " at position ", i);
  }
  for (size_t i = 0; i < inputs.dense.size(); ++i) {
    const Shape& shape = inputs.dense[i].shape();
    if (is_number(inputs.dense[i])) return error("Dense inputs should be of internal type 7 but received 9");
    if (shape.rank() != 2) return error("Dense inputs should be a matrix but received shape ", shape.ToString(), " at position ", i);
  }
  const int64_t batch = inputs.batch();
  for (size_t i = 0; i < inputs.shapes.size(); ++i) {
    if (inputs.shapes[i].IntAt(0) != batch) return error("Expected batch size ", batch, " got ", inputs.shapes[i].IntAt(0), " at position ", i);
  }
  for (size_t i = 0; i < inputs.dense.size(); ++i) {
    if (inputs.dense[i].shape().dim(0) != batch) {
      return error("Expected batch size ", batch, " got ", inputs.dense[i].shape().dim(0), " at dense tensor ", i);
    }
  }
  return CheckBatch(batch);
}

absl::StatusOr<std::vector<Tensor>> SparseCross(const AttrMap& attrs, Tensors inputs, bool given_separator) {
  std::string separator = kSeparator;
  if (given_separator) {
    if (inputs.empty() || inputs.back().dtype() != DataType::kString) return absl::InvalidArgumentError("has no separator");
    if (inputs.back().shape().rank() != 0) return absl::InvalidArgumentError("Input separator should be a scalar.");
    separator = inputs.back().strings()[0];
    inputs.remove_suffix(1);
  }
  const auto sparse = static_cast<size_t>(std::max<int64_t>(attrs.GetOr<int64_t>("N", 0), 0));
  if (sparse > inputs.size() / 3) return absl::InvalidArgumentError("has fewer inputs than its sparse features have parts");
  const SparseInputs lists = {inputs.subspan(0, sparse), inputs.subspan(sparse, sparse), inputs.subspan(2 * sparse, sparse), inputs.subspan(3 * sparse)};
  const bool texts_only = !given_separator && attrs.GetOr<DataType>("internal_type", DataType::kInt64) == DataType::kString;
  MR_RETURN_IF_ERROR(CheckSparse(lists, texts_only));
  std::vector<TextFeature> features;
  for (size_t i = 0; i < sparse; ++i) features.push_back(SparseFeature(lists.indices[i], lists.values[i], lists.batch(), /*takes_earlier=*/false));
  for (const Tensor& dense : lists.dense) features.push_back(DenseFeature(dense));
  MR_ASSIGN_OR_RETURN(Crosses crosses, Crossed(features, lists.batch(), separator));
  const auto found = static_cast<int64_t>(crosses.texts.size());
  Tensor places(DataType::kInt64, Shape({found, 2}));
  int64_t longest = 0;
  for (int64_t b = 0; b < lists.batch(); ++b) {
    longest = std::max(longest, crosses.splits[b + 1] - crosses.splits[b]);
    for (int64_t k = crosses.splits[b]; k < crosses.splits[b + 1]; ++k) {
      places.mutable_as<int64_t>()[2 * k] = b;
      places.mutable_as<int64_t>()[2 * k + 1] = k - crosses.splits[b];
    }
  }
  return std::vector<Tensor>{std::move(places), Strings(std::move(crosses.texts)), Tensor::Vector<int64_t>({lists.batch(), longest})};
}

absl::Status CheckSplits(const Tensor& splits, int64_t values) {
  constexpr char kInvalid[] = "Invalid ragged splits: ";
  const int64_t count = splits.num_elements();
  if (count == 0) return absl::InvalidArgumentError(absl::StrCat(kInvalid, "ragged splits must have at least one splits, but is empty"));
  if (splits.IntAt(0) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(kInvalid, "first element of ragged splits  must be 0 but is ", splits.IntAt(0)));
  }
  for (int64_t i = 1; i < count; ++i) {
    if (splits.IntAt(i) >= splits.IntAt(i - 1)) continue;
    return absl::InvalidArgumentError(absl::StrCat(kInvalid, "ragged splits must be monotonically increasing, but ragged_splits[", i, "]=", splits.IntAt(i),
                                                   " is smaller than row_splits[", i - 1, "]=", splits.IntAt(i - 1)));
  }
  if (splits.IntAt(count - 1) == values) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(kInvalid, "last element of ragged splits must be the number of ragged values(", values, ") but is ",
                                                 splits.IntAt(count - 1)));
}

// The lists of inputs of RaggedCross.
struct RaggedInputs {
  Tensors values, splits, indices, sparse_values, shapes, dense;

  int64_t batch() const {
    if (!splits.empty()) return splits[0].num_elements() - 1;
    return !dense.empty() ? dense[0].shape().dim(0) : !shapes.empty() ? shapes[0].IntAt(0) : 0;
  }
};

absl::Status CheckRagged(const RaggedInputs& inputs) {
  const auto rank_2 = [] { return absl::InvalidArgumentError("tf.ragged.cross only supports inputs with rank=2."); };
  const auto batches = [] { return absl::InvalidArgumentError("inputs must all have the same batch dimension size."); };
  for (const Tensors places : {inputs.indices, inputs.shapes}) {
    MR_RETURN_IF_ERROR(ExpectPlaces(places));
  }
  for (const Tensors values : {inputs.values, inputs.sparse_values, inputs.dense}) {
    MR_RETURN_IF_ERROR(ExpectFeatures(values));
  }
  for (const Tensor& splits : inputs.splits) {
    if (!IsInteger(splits.dtype())) return absl::InvalidArgumentError(absl::StrCat("row splits are ", splits.type().ToString(), ", expected integers"));
  }
  for (size_t i = 0; i < inputs.values.size(); ++i) {
    if (inputs.values[i].shape().rank() != 1 || inputs.splits[i].shape().rank() != 1) return rank_2();
    MR_RETURN_IF_ERROR(CheckSplits(inputs.splits[i], inputs.values[i].num_elements()));
  }
  for (size_t i = 0; i < inputs.indices.size(); ++i) {
    const Shape &places = inputs.indices[i].shape(), &values = inputs.sparse_values[i].shape();
    const bool is_sparse = places.rank() == 2 && places.dim(1) == 2 && values.rank() == 1 && values.dim(0) == places.dim(0) &&
                           inputs.shapes[i].shape().rank() == 1;
    if (!is_sparse) return absl::InvalidArgumentError(absl::StrCat("Invalid SparseTensor ", i));
    if (inputs.shapes[i].num_elements() != 2) return rank_2();
  }
  for (const Tensor& dense : inputs.dense) {
    if (dense.shape().rank() != 2) return rank_2();
  }
  const int64_t batch = inputs.batch();
  for (const Tensor& splits : inputs.splits) {
    if (splits.num_elements() - 1 != batch) return batches();
  }
  for (const Tensor& shape : inputs.shapes) {
    if (shape.IntAt(0) != batch) return batches();
  }
  for (const Tensor& dense : inputs.dense) {
    if (dense.shape().dim(0) != batch) return batches();
  }
  return CheckBatch(batch);
}

absl::StatusOr<std::vector<TextFeature>> OrderedFeatures(const RaggedInputs& inputs, const std::string& order) {
  std::vector<TextFeature> features;
  size_t ragged = 0, sparse = 0, dense = 0;
  for (const char kind : order) {
    if (kind == 'R' && ragged < inputs.values.size()) {
      features.push_back(RaggedFeature(inputs.values[ragged], inputs.splits[ragged]));
      ++ragged;
    } else if (kind == 'S' && sparse < inputs.indices.size()) {
      features.push_back(SparseFeature(inputs.indices[sparse], inputs.sparse_values[sparse], inputs.batch(), /*takes_earlier=*/true));
      ++sparse;
    } else if (kind == 'D' && dense < inputs.dense.size()) {
      features.push_back(DenseFeature(inputs.dense[dense++]));
    } else if (kind == 'R' || kind == 'S' || kind == 'D') {
      return absl::InvalidArgumentError(absl::StrCat("input_order \"", order, "\" specifies reading more inputs of a kind than there are"));
    } else {
      return absl::InvalidArgumentError("Unexpected input_order value.");
    }
  }
  return features;
}

absl::StatusOr<std::vector<Tensor>> RaggedCross(const AttrMap& attrs, Tensors inputs) {
  const auto order = attrs.GetOr<std::string>("input_order", "");
  const size_t ragged = attrs.GetOr<std::vector<DataType>>("ragged_values_types", {}).size();
  const auto sparse = static_cast<size_t>(std::max<int64_t>(attrs.GetOr<int64_t>("Nsparse", 0), 0)), first_dense = 2 * ragged + 3 * sparse;
  if (first_dense > inputs.size()) return absl::InvalidArgumentError("has fewer inputs than its features have parts");
  const RaggedInputs lists = {inputs.subspan(0, ragged), inputs.subspan(ragged, ragged), inputs.subspan(2 * ragged, sparse),
                              inputs.subspan(2 * ragged + sparse, sparse), inputs.subspan(2 * ragged + 2 * sparse, sparse), inputs.subspan(first_dense)};
  if (ragged + sparse + lists.dense.size() != order.size()) return absl::InvalidArgumentError("Invalid length for input_order");
  MR_RETURN_IF_ERROR(CheckRagged(lists));
  MR_ASSIGN_OR_RETURN(const std::vector<TextFeature> features, OrderedFeatures(lists, order));
  MR_ASSIGN_OR_RETURN(Crosses crosses, Crossed(features, lists.batch(), kSeparator));
  Tensor splits = IntegersOf(attrs.GetOr<DataType>("out_row_splits_type", DataType::kInt64), crosses.splits);
  return std::vector<Tensor>{Strings(std::move(crosses.texts)), std::move(splits)};
}

}  // namespace

bool CrossesTexts(std::string_view op, const AttrMap& attrs) {
  if (op == "SparseCross") return attrs.GetOr<DataType>("out_type", DataType::kInt64) == DataType::kString;
  if (op == "RaggedCross") return attrs.GetOr<DataType>("out_values_type", DataType::kInt64) == DataType::kString;
  return op == "SparseCrossV2";
}

absl::StatusOr<std::vector<Tensor>> CrossedTexts(std::string_view op, const AttrMap& attrs, absl::Span<const Tensor> inputs) {
  if (op == "RaggedCross") return RaggedCross(attrs, inputs);
  return SparseCross(attrs, inputs, /*given_separator=*/op == "SparseCrossV2");
}

}  // namespace millrace
