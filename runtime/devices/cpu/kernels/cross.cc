// Crossed features: the hash of every combination of one value of each feature of an example.
#include <farmhash.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/rare.h"
#include "cpu/kernels/real_shapes.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

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
  std::vector<int64_t> of_texts;  // what `values` are where the feature is of strings
};

// Input `i` as the feature's values: numbers as they are, the fingerprints of strings, which are known when planning.
void TakeValues(const KernelContext& context, int i, Feature& feature) {
  if (context.input_type(i).dtype != DataType::kString) {
    feature.values = context.input<int64_t>(i);
    return;
  }
  for (const std::string& text : context.instance->input_values[i].strings()) {
    feature.of_texts.push_back(static_cast<int64_t>(util::Fingerprint64(text.data(), text.size())));
  }
  feature.values = feature.of_texts.data();
}

absl::StatusOr<Feature> SparseFeature(const KernelContext& context, int i, int sparse, int64_t batch) {
  Feature feature;
  TakeValues(context, sparse + i, feature);
  feature.first.assign(batch, 0);
  feature.count.assign(batch, 0);
  const int64_t values = context.input_type(sparse + i).shape.num_elements();
  if (context.input_type(i).shape.rank() != 2 || context.input_type(i).shape.dim(1) != 2 || context.input_type(i).shape.dim(0) != values) {
    return absl::InvalidArgumentError(absl::StrCat("indices of feature ", i, " are ", context.input_type(i).ToString(), ", expected [", values, ",2]"));
  }
  int64_t last = 0;
  for (int64_t k = 0; k < values; ++k) {
    const int64_t example = context.input<int64_t>(i)[2 * k];
    if (example < last || example >= batch) {
      return absl::InvalidArgumentError(absl::StrCat("index ", k, " of feature ", i, " is of example ", example, ", expected them in order and below ", batch));
    }
    if (feature.count[example]++ == 0) feature.first[example] = k;
    last = example;
  }
  return feature;
}

absl::Status Cross(const KernelContext& context) {
  const AttrMap& attrs = context.instance->attrs;
  const int sparse = static_cast<int>(attrs.GetOr<int64_t>("N", 0)), inputs = static_cast<int>(context.instance->inputs.size());
  const uint64_t buckets = static_cast<uint64_t>(attrs.GetOr<int64_t>("num_buckets", 0));
  const uint64_t key = static_cast<uint64_t>(attrs.GetOr<int64_t>("hash_key", 0));
  const int64_t batch = sparse > 0 ? context.input<int64_t>(2 * sparse)[0] : inputs > 0 ? context.input_type(0).shape.dim(0) : 0;
  if (batch < 0 || batch > (int64_t{1} << 40)) return absl::InvalidArgumentError(absl::StrCat("batch size ", batch));
  std::vector<Feature> features;
  for (int i = 0; i < sparse; ++i) {
    if (context.input<int64_t>(2 * sparse + i)[0] != batch) return absl::InvalidArgumentError("features have different batch sizes");
    MR_ASSIGN_OR_RETURN(Feature feature, SparseFeature(context, i, sparse, batch));
    features.push_back(std::move(feature));
  }
  for (int i = 3 * sparse; i < inputs; ++i) {
    const Shape& shape = context.input_type(i).shape;
    if (shape.dim(0) != batch) return absl::InvalidArgumentError("features have different batch sizes");
    Feature& feature = features.emplace_back();
    TakeValues(context, i, feature);
    for (int64_t b = 0; b < batch; ++b) feature.first.push_back(b * shape.dim(1));
    feature.count.assign(batch, shape.dim(1));
  }
  int64_t found = 0, longest = 0;
  std::vector<int64_t> at(features.size());
  for (int64_t b = 0; b < batch; ++b) {
    int64_t crosses = features.empty() ? 0 : 1;
    for (const Feature& feature : features) crosses *= feature.count[b];
    longest = std::max(longest, crosses);
    std::fill(at.begin(), at.end(), 0);
    for (int64_t k = 0; k < crosses; ++k) {
      uint64_t hash = key;
      for (size_t f = 0; f < features.size(); ++f) hash = Mixed(hash, static_cast<uint64_t>(features[f].values[features[f].first[b] + at[f]]));
      context.output<int64_t>(0)[2 * found] = b;
      context.output<int64_t>(0)[2 * found + 1] = k;
      context.output<int64_t>(1)[found++] = static_cast<int64_t>(buckets > 0 ? hash % buckets : hash % INT64_MAX);
      for (size_t f = features.size(); f-- > 0;) {  // the last feature's values change first
        if (++at[f] < features[f].count[b]) break;
        at[f] = 0;
      }
    }
  }
  context.output<int64_t>(2)[0] = batch;
  context.output<int64_t>(2)[1] = longest;
  SetRealRows(context, 0, 1, found, 2);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeCross(const OpInstance&) { return MakeKernel(Cross); }

}  // namespace

void RegisterCrossKernels(KernelRegistry& registry) { AddKernel(registry, "SparseCross", MakeCross); }

}  // namespace millrace::cpu
