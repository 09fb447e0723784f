// Crossed features: the hash of every combination of one value of each feature of an example.
#include <farmhash.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/rare.h"
#include "cpu/kernels/real_shapes.h"
#include "cpu/kernels/values.h"
#include "graph/feature_crosses.h"
#include "graph/sip_hash.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

constexpr int64_t kMostExamples = int64_t{1} << 40;

// Two fingerprints as one: the mixing step of MurmurHash64A (A. Appleby).
uint64_t Mixed(uint64_t a, uint64_t b) {
  constexpr uint64_t kFactor = 0xc6a4a7935bd1e995;
  const auto fold = [](uint64_t x) { return x ^ (x >> 47); };
  uint64_t mixed = a ^ kFactor;
  mixed ^= fold(b * kFactor) * kFactor;
  mixed *= kFactor;
  mixed = fold(mixed) * kFactor;
  return fold(mixed);
}

// Values of a feature: those of example b are values[first[b] .. first[b] + count[b]).
struct Feature {
  const int64_t* values = nullptr;
  std::vector<int64_t> first, count;
  std::vector<int64_t> hashes;  // what `values` are where the feature is of strings, or its numbers are hashed
};

// How an op makes numbers of values and of their combinations.
struct Hashing {
  int64_t buckets = 0;
  std::optional<uint64_t> begin;                // the hash of no values; without it a combination's hash begins with its first value
  std::optional<std::array<uint64_t, 2>> salt;  // of the hash of texts and numbers
  bool hashes_numbers = false;                  // those of sparse features, without a salt, too

  int64_t Of(std::string_view text) const {
    return static_cast<int64_t>(salt.has_value() ? SipHash(*salt, text) : util::Fingerprint64(text.data(), text.size()));
  }
  // TensorFlow hashes half of a number.
  int64_t Of(int64_t number) const { return Of(std::string_view(reinterpret_cast<const char*>(&number), sizeof(int32_t))); }
};

// Input `i` as the feature's values: numbers as they are or their hashes, the hashes of strings, which are known when planning.
void TakeValues(const KernelContext& context, int i, const Hashing& hashing, bool hash_numbers, Feature& feature) {
  if (context.input_type(i).dtype == DataType::kString) {
    for (const std::string& text : context.instance->input_values[i].strings()) feature.hashes.push_back(hashing.Of(text));
  } else if (hash_numbers) {
    const int64_t* numbers = context.input<int64_t>(i);
    for (int64_t k = 0; k < context.input_type(i).shape.num_elements(); ++k) feature.hashes.push_back(hashing.Of(numbers[k]));
  } else {
    feature.values = context.input<int64_t>(i);
    return;
  }
  feature.values = feature.hashes.data();
}

// Feature `number` of indices and values in these inputs.
absl::StatusOr<Feature> SparseFeature(const KernelContext& context, int number, int indices, int values_at, const Hashing& hashing, int64_t batch) {
  Feature feature;
  TakeValues(context, values_at, hashing, hashing.hashes_numbers || hashing.salt.has_value(), feature);
  feature.first.assign(batch, 0);
  feature.count.assign(batch, 0);
  const int64_t values = context.input_type(values_at).shape.num_elements();
  const TensorType& type = context.input_type(indices);
  if (type.shape.rank() != 2 || type.shape.dim(1) != 2 || type.shape.dim(0) != values) {
    return absl::InvalidArgumentError(absl::StrCat("indices of feature ", number, " are ", type.ToString(), ", expected [", values, ",2]"));
  }
  int64_t last = 0;
  for (int64_t k = 0; k < values; ++k) {
    const int64_t example = context.input<int64_t>(indices)[2 * k];
    if (example < last || example >= batch) {
      return absl::InvalidArgumentError(absl::StrCat("index ", k, " of feature ", number, " is of example ", example, ", expected them in order and below ", batch));
    }
    if (feature.count[example]++ == 0) feature.first[example] = k;
    last = example;
  }
  return feature;
}

// Calls take(hash) for every combination of the features' values of example b, those of the last feature changing first.
template <typename Take>
void HashCombinations(const std::vector<Feature>& features, int64_t b, const Hashing& hashing, Take&& take) {
  const uint64_t buckets = hashing.buckets > 0 ? static_cast<uint64_t>(hashing.buckets) : INT64_MAX;
  int64_t crosses = features.empty() ? 0 : 1;
  for (const Feature& feature : features) crosses *= feature.count[b];
  std::vector<int64_t> at(features.size(), 0);
  for (int64_t k = 0; k < crosses; ++k) {
    std::optional<uint64_t> hash = hashing.begin;
    for (size_t f = 0; f < features.size(); ++f) {
      const auto value = static_cast<uint64_t>(features[f].values[features[f].first[b] + at[f]]);
      hash = hash.has_value() ? Mixed(*hash, value) : value;
    }
    take(static_cast<int64_t>(*hash % buckets));
    for (size_t f = features.size(); f-- > 0;) {
      if (++at[f] < features[f].count[b]) break;
      at[f] = 0;
    }
  }
}

Feature DenseFeature(const KernelContext& context, int i, const Hashing& hashing) {
  const Shape& shape = context.input_type(i).shape;
  Feature feature;
  TakeValues(context, i, hashing, hashing.salt.has_value(), feature);
  for (int64_t b = 0; b < shape.dim(0); ++b) feature.first.push_back(b * shape.dim(1));
  feature.count.assign(shape.dim(0), shape.dim(1));
  return feature;
}

Hashing HashingOfAttrs(const OpInstance& node) {
  Hashing hashing;
  hashing.buckets = node.attrs.GetOr<int64_t>("num_buckets", 0);
  hashing.begin = static_cast<uint64_t>(node.attrs.GetOr<int64_t>("hash_key", 0));
  return hashing;
}

// From inputs: buckets, whether to use the salt, the salt.
absl::StatusOr<Hashing> HashingOfInputs(const KernelContext& context, int first) {
  const ValueReader reader(context);
  Hashing hashing;
  MR_ASSIGN_OR_RETURN(hashing.buckets, reader.scalar(first));
  MR_ASSIGN_OR_RETURN(const Ints salt, reader.ints(first + 2));
  hashing.hashes_numbers = true;
  if (*static_cast<const bool*>(reader.data(first + 1))) hashing.salt = {static_cast<uint64_t>(salt[0]), static_cast<uint64_t>(salt[1])};
  return hashing;
}

absl::Status Cross(const KernelContext& context) {
  const AttrMap& attrs = context.instance->attrs;
  const bool salted = context.instance->op == "SparseCrossHashed";
  const int sparse = static_cast<int>(attrs.GetOr<int64_t>("N", 0)), inputs = static_cast<int>(context.instance->inputs.size()) - (salted ? 3 : 0);
  Hashing hashing = HashingOfAttrs(*context.instance);
  if (salted) {
    MR_ASSIGN_OR_RETURN(hashing, HashingOfInputs(context, inputs));
  }
  const int64_t batch = sparse > 0 ? context.input<int64_t>(2 * sparse)[0] : inputs > 0 ? context.input_type(0).shape.dim(0) : 0;
  if (batch < 0 || batch > kMostExamples) return absl::InvalidArgumentError(absl::StrCat("batch size ", batch));
  std::vector<Feature> features;
  for (int i = 0; i < sparse; ++i) {
    if (context.input<int64_t>(2 * sparse + i)[0] != batch) return absl::InvalidArgumentError("features have different batch sizes");
    MR_ASSIGN_OR_RETURN(Feature feature, SparseFeature(context, i, i, sparse + i, hashing, batch));
    features.push_back(std::move(feature));
  }
  for (int i = 3 * sparse; i < inputs; ++i) {
    const Shape& shape = context.input_type(i).shape;
    if (shape.dim(0) != batch) return absl::InvalidArgumentError("features have different batch sizes");
    features.push_back(DenseFeature(context, i, hashing));
  }
  int64_t found = 0, longest = 0;
  for (int64_t b = 0; b < batch; ++b) {
    int64_t crosses = 0;
    HashCombinations(features, b, hashing, [&](int64_t hash) {
      context.output<int64_t>(0)[2 * found] = b;
      context.output<int64_t>(0)[2 * found + 1] = crosses++;
      context.output<int64_t>(1)[found++] = hash;
    });
    longest = std::max(longest, crosses);
  }
  context.output<int64_t>(2)[0] = batch;
  context.output<int64_t>(2)[1] = longest;
  SetRealRows(context, 0, 1, found, 2);
  return absl::OkStatus();
}

// Values and row splits in these inputs.
absl::StatusOr<Feature> RaggedFeature(const KernelContext& context, int values_at, int splits_at, const Hashing& hashing) {
  MR_ASSIGN_OR_RETURN(const Ints splits, ValueReader(context).ints(splits_at));
  Feature feature;
  TakeValues(context, values_at, hashing, /*hash_numbers=*/false, feature);
  const int64_t values = context.input_type(values_at).shape.num_elements();
  if (splits.empty() || splits.front() != 0 || splits.back() != values || !std::is_sorted(splits.begin(), splits.end())) {
    return absl::InvalidArgumentError(absl::StrCat("Invalid row splits of input ", splits_at, ": expected them to grow from 0 to ", values));
  }
  for (size_t b = 0; b + 1 < splits.size(); ++b) {
    feature.first.push_back(splits[b]);
    feature.count.push_back(splits[b + 1] - splits[b]);
  }
  return feature;
}

// Features of RaggedCross in the order that `input_order` names them by kind: (ragged values, ragged row splits, sparse indices,
// sparse values, sparse shapes, dense features), each a list.
absl::StatusOr<std::vector<Feature>> OrderedFeatures(const KernelContext& context, const Hashing& hashing) {
  const AttrMap& attrs = context.instance->attrs;
  const auto order = attrs.GetOr<std::string>("input_order", "");
  const int sparse = static_cast<int>(attrs.GetOr<int64_t>("Nsparse", 0));
  const int ragged = static_cast<int>(std::count(order.begin(), order.end(), 'R')), first_sparse = 2 * ragged;
  int next_ragged = 0, next_sparse = 0, next_dense = 2 * ragged + 3 * sparse;
  std::vector<Feature> features;
  for (const char kind : order) {
    if (kind == 'R') {
      MR_ASSIGN_OR_RETURN(features.emplace_back(), RaggedFeature(context, next_ragged, ragged + next_ragged, hashing));
      ++next_ragged;
    } else if (kind == 'S') {
      const int indices = first_sparse + next_sparse;
      MR_ASSIGN_OR_RETURN(const Ints dims, ValueReader(context).ints(indices + 2 * sparse));
      const int64_t batch = dims[0];
      if (batch < 0 || batch > kMostExamples) return absl::InvalidArgumentError(absl::StrCat("batch size ", batch));
      const int number = static_cast<int>(features.size());
      MR_ASSIGN_OR_RETURN(features.emplace_back(), SparseFeature(context, number, indices, indices + sparse, hashing, batch));
      ++next_sparse;
    } else {
      features.push_back(DenseFeature(context, next_dense++, hashing));
    }
    if (features.back().count.size() != features.front().count.size()) {
      return absl::InvalidArgumentError("inputs must all have the same batch dimension size.");
    }
  }
  return features;
}

template <typename Splits>
absl::Status CrossRagged(const KernelContext& context) {
  const Hashing hashing = HashingOfAttrs(*context.instance);
  MR_ASSIGN_OR_RETURN(const std::vector<Feature> features, OrderedFeatures(context, hashing));
  const int64_t batch = features.empty() ? 0 : static_cast<int64_t>(features[0].count.size()), most = context.output_type(0).shape.dim(0);
  if (batch + 1 != context.output_type(1).shape.dim(0)) return absl::InvalidArgumentError("the batch is another one than planned for");
  int64_t total = 0;
  for (int64_t b = 0; b < batch; ++b) {
    int64_t crosses = 1;
    for (const Feature& feature : features) crosses *= feature.count[b];
    total += crosses;
  }
  if (total > std::min<int64_t>(most, std::numeric_limits<Splits>::max())) return absl::InvalidArgumentError(absl::StrCat(total, " crosses are too many"));
  int64_t found = 0;
  context.output<Splits>(1)[0] = 0;
  for (int64_t b = 0; b < batch; ++b) {
    HashCombinations(features, b, hashing, [&](int64_t hash) { context.output<int64_t>(0)[found++] = hash; });
    context.output<Splits>(1)[b + 1] = static_cast<Splits>(found);
  }
  SetRealShape(context, 0, Shape({found}));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeRaggedCross(const OpInstance& node) {
  if (CrossesTexts(node.op, node.attrs)) return MakeStringCodes(node);
  if (node.outputs[1].dtype == DataType::kInt32) return MakeKernel(CrossRagged<int32_t>);
  return MakeKernel(CrossRagged<int64_t>);
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeCross(const OpInstance& node) {
  if (CrossesTexts(node.op, node.attrs)) return MakeStringCodes(node);
  return MakeKernel(Cross);
}

}  // namespace

void RegisterCrossKernels(KernelRegistry& registry) {
  AddKernel(registry, "SparseCross", MakeCross);
  AddKernel(registry, "SparseCrossHashed", MakeCross);
  AddKernel(registry, "RaggedCross", MakeRaggedCross);
}

}  // namespace millrace::cpu
