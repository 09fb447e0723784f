// Candidate samplers: classes drawn for a loss over a part of them, with the counts that are to be expected.
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/families.h"
#include "cpu/kernels/random_stream.h"
#include "cpu/kernels/real_shapes.h"
#include "cpu/kernels/uniform_below.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

// Words of the stream that a run reserves for each candidate.
constexpr uint64_t kWordsPerCandidate = 2048;

// Every class alike.
struct UniformClasses {
  explicit UniformClasses(const AttrMap& attrs) : range(attrs.GetOr<int64_t>("range_max", 1)) {}
  int64_t Draw(PhiloxWords& words) const {
    return static_cast<int64_t>(UniformBelow(static_cast<uint64_t>(range), words));
  }
  float Probability(int64_t) const { return 1.0f / static_cast<float>(range); }
  int64_t range;
};

// Class k with probability log((k + 2) / (k + 1)) / log(range + 1): words sorted by how often they occur.
struct LogUniformClasses {
  explicit LogUniformClasses(const AttrMap& attrs)
      : range(attrs.GetOr<int64_t>("range_max", 1)), log_range(std::log1p(static_cast<double>(range))) {}
  int64_t Draw(PhiloxWords& words) const {
    const uint32_t first = words(), second = words();
    return (static_cast<int64_t>(std::exp(UniformDouble(first, second) * log_range)) - 1) % range;
  }
  float Probability(int64_t k) const {
    return static_cast<float>(std::log((static_cast<double>(k) + 2.0) / (static_cast<double>(k) + 1.0)) / log_range);
  }
  int64_t range;
  double log_range;
};

// Class k with a probability in proportion to a power of how often it was counted, by the alias method: a column of equal width for
// each class, filled up by one of the classes that have more than their share.
struct CountedClasses {
  explicit CountedClasses(const AttrMap& attrs) {
    const auto counts = attrs.GetOr<std::vector<float>>("unigrams", {});
    const float distortion = attrs.GetOr<float>("distortion", 1.0f);
    const int64_t reserved = attrs.GetOr<int64_t>("num_reserved_ids", 0), shards = attrs.GetOr<int64_t>("num_shards", 1);
    const int64_t shard = attrs.GetOr<int64_t>("shard", 0);
    // As TensorFlow does it: of reserved classes those of this part, and the counted ones are numbered from there on.
    for (int64_t k = shard; k < reserved; k += shards) weights.push_back(0.0f);
    const int64_t first = static_cast<int64_t>(weights.size());
    for (size_t i = 0; i < counts.size(); ++i) {
      if ((first + static_cast<int64_t>(i)) % shards != shard) continue;
      weights.push_back(std::pow(counts[i], distortion));
      total += weights.back();
    }
    FillColumns();
  }

  void FillColumns() {
    const double mean = std::accumulate(weights.begin(), weights.end(), 0.0) / static_cast<double>(weights.size());
    std::vector<double> share;
    std::vector<int64_t> poor, rich;
    for (size_t k = 0; k < weights.size(); ++k) {
      share.push_back(weights[k] / mean);
      (share[k] < 1.0 ? poor : rich).push_back(static_cast<int64_t>(k));
    }
    other.resize(weights.size());
    std::iota(other.begin(), other.end(), 0);
    while (!poor.empty() && !rich.empty()) {
      const int64_t low = poor.back(), high = rich.back();
      poor.pop_back();
      rich.pop_back();
      other[low] = high;
      share[high] -= 1.0 - share[low];
      (share[high] < 1.0 ? poor : rich).push_back(high);
    }
    own.assign(share.begin(), share.end());
    // What is left is as full as rounding allows.
    for (const auto* left : {&poor, &rich}) {
      for (int64_t k : *left) own[k] = 1.0f;
    }
  }

  int64_t Draw(PhiloxWords& words) const {
    const float place = UniformFloat(words());
    const int64_t column = words() % static_cast<uint32_t>(weights.size());
    return place < own[column] ? column : other[column];
  }
  float Probability(int64_t k) const {
    return k < 0 || k >= static_cast<int64_t>(weights.size()) ? 0.0f : static_cast<float>(weights[k] / total);
  }

  std::vector<float> weights;
  double total = 0;
  std::vector<float> own;      // of a column, for its own class
  std::vector<int64_t> other;  // whose is the rest
};

// How often a class of probability p is among `count` candidates that took `tries` draws.
float ExpectedCount(float p, int64_t count, int64_t tries) {
  if (tries == count) return p * static_cast<float>(count);
  return static_cast<float>(-std::expm1(static_cast<double>(tries) * std::log1p(-p)));
}

absl::Status CheckTrueClasses(const KernelContext& context, int64_t trues, int64_t range) {
  for (int64_t i = 0; i < trues; ++i) {
    const int64_t given = context.input<int64_t>(0)[i];
    if (given >= 0 && given < range) continue;
    return absl::InvalidArgumentError(absl::StrCat("`true_candidate` out of range [0, ", range, "), received ", given));
  }
  return absl::OkStatus();
}

template <typename Classes>
absl::StatusOr<std::unique_ptr<Kernel>> MakeSampler(const OpInstance& node) {
  const int64_t count = node.outputs[0].shape.num_elements(), trues = node.inputs[0].shape.num_elements();
  const bool unique = node.attrs.GetOr<bool>("unique", false);
  const Classes classes(node.attrs);
  const int64_t range = node.attrs.GetOr<int64_t>("range_max", 1);
  const RandomStream stream(node);
  return MakeKernel([=](const KernelContext& context) -> absl::Status {
    MR_RETURN_IF_ERROR(CheckTrueClasses(context, trues, range));
    PhiloxWords words(stream.Reserve(context, kWordsPerCandidate * count / Philox::kWords));
    int64_t* sampled = context.output<int64_t>(0);
    int64_t tries = count;
    if (unique) {
      tries = 0;
      std::unordered_set<int64_t> taken;
      for (int64_t i = 0; i < count; ++tries) {
        const int64_t drawn = classes.Draw(words);
        if (taken.insert(drawn).second) sampled[i++] = drawn;
      }
    } else {
      for (int64_t i = 0; i < count; ++i) sampled[i] = classes.Draw(words);
    }
    for (int64_t i = 0; i < trues; ++i) {
      context.output<float>(1)[i] = ExpectedCount(classes.Probability(context.input<int64_t>(0)[i]), count, tries);
    }
    for (int64_t i = 0; i < count; ++i) {
      context.output<float>(2)[i] = ExpectedCount(classes.Probability(sampled[i]), count, tries);
    }
    return absl::OkStatus();
  });
}

// All classes, each once.
absl::StatusOr<std::unique_ptr<Kernel>> MakeAllClasses(const OpInstance& node) {
  const int64_t count = node.outputs[0].shape.num_elements(), trues = node.inputs[0].shape.num_elements();
  return MakeKernel([=](const KernelContext& context) -> absl::Status {
    MR_RETURN_IF_ERROR(CheckTrueClasses(context, trues, count));
    std::iota(context.output<int64_t>(0), context.output<int64_t>(0) + count, 0);
    std::fill_n(context.output<float>(1), trues, 1.0f);
    std::fill_n(context.output<float>(2), count, 1.0f);
    return absl::OkStatus();
  });
}

// True classes that were sampled: (row, position among the samples, a weight that makes its logit vanish).
absl::StatusOr<std::unique_ptr<Kernel>> MakeAccidentalHits(const OpInstance& node) {
  const int64_t trues = node.inputs[0].shape.num_elements(), count = node.inputs[1].shape.num_elements();
  const int64_t per_row = node.inputs[0].shape.dim(1);
  return MakeKernel([=](const KernelContext& context) {
    std::unordered_map<int64_t, int64_t> position;
    for (int64_t i = 0; i < count; ++i) position[context.input<int64_t>(1)[i]] = i;
    int64_t hits = 0;
    for (int64_t i = 0; i < trues; ++i) {
      const auto found = position.find(context.input<int64_t>(0)[i]);
      if (found == position.end()) continue;
      context.output<int32_t>(0)[hits] = static_cast<int32_t>(i / per_row);
      context.output<int64_t>(1)[hits] = found->second;
      context.output<float>(2)[hits] = -std::numeric_limits<float>::max();
      ++hits;
    }
    for (int i = 0; i < 3; ++i) SetRealShape(context, i, Shape({hits}));
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterCandidateKernels(KernelRegistry& registry) {
  AddKernel(registry, "UniformCandidateSampler", MakeSampler<UniformClasses>);
  AddKernel(registry, "LogUniformCandidateSampler", MakeSampler<LogUniformClasses>);
  AddKernel(registry, "FixedUnigramCandidateSampler", MakeSampler<CountedClasses>);
  AddKernel(registry, "AllCandidateSampler", MakeAllClasses);
  AddKernel(registry, "ComputeAccidentalHits", MakeAccidentalHits);
}

}  // namespace millrace::cpu
