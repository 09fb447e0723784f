// What k-means is made of: first centers drawn far from one another (Arthur and Vassilvitskii, SODA 2007; Bachem et al., AAAI 2016) and
// the centers nearest to each point.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/rarest.h"
#include "cpu/kernels/uniform_below.h"
#include "cpu/kernels/values.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

float Product(const float* a, const float* b, int64_t n) {
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// Draws points one by one, each in proportion to its squared distance to the nearest of those drawn before.
class FarPoints {
 public:
  FarPoints(const float* points, int64_t count, int64_t dims, int64_t seed)
      : points_(points), count_(count), dims_(dims), words_(Philox::FromSeeds(static_cast<uint64_t>(seed), 0)),
        norms_(count), nearest_(count, std::numeric_limits<float>::infinity()), sums_(count), drawn_(count, false) {
    for (int64_t i = 0; i < count; ++i) norms_[i] = 0.5f * Product(points + i * dims, points + i * dims, dims);
  }

  // One more point: the best of `tries`, by how near all points are to their nearest one then.
  int64_t Next(int64_t tries) {
    float total = 0;
    for (int64_t i = 0; i < count_; ++i) sums_[i] = total += nearest_[i];
    int64_t best = 0;
    float least = std::numeric_limits<float>::infinity();
    std::vector<float> best_nearest(count_);
    for (int64_t t = 0; t < tries; ++t) {
      const int64_t candidate = Draw();
      std::vector<float> nearer = NearestWith(candidate);
      float potential = 0;
      for (float distance : nearer) potential += distance;
      if (!(potential < least) && tries > 1) continue;
      least = potential;
      best = candidate;
      best_nearest.swap(nearer);
    }
    nearest_.swap(best_nearest);
    drawn_[best] = true;
    ++num_drawn_;
    return best;
  }

 private:
  int64_t Draw() {
    if (num_drawn_ == 0) return static_cast<int64_t>(UniformBelow(static_cast<uint64_t>(count_), words_));
    // Where rounding leaves points that were drawn all of the distance, no draw would ever end.
    constexpr int kMostDraws = 100000;
    const float total = sums_[count_ - 1];
    for (int draw = 0; draw < kMostDraws; ++draw) {
      int64_t index;
      if (total > 0) {
        const float at = UniformFloat(words_()) * total;
        index = std::min<int64_t>(std::upper_bound(sums_.begin(), sums_.end(), at) - sums_.begin(), count_ - 1);
      } else {
        index = static_cast<int64_t>(UniformBelow(static_cast<uint64_t>(count_), words_));
      }
      if (!drawn_[index]) return index;
    }
    return std::find(drawn_.begin(), drawn_.end(), false) - drawn_.begin();
  }

  std::vector<float> NearestWith(int64_t center) const {
    std::vector<float> nearest(count_);
    for (int64_t i = 0; i < count_; ++i) {
      const float product = Product(points_ + i * dims_, points_ + center * dims_, dims_);
      nearest[i] = std::min(nearest_[i], norms_[i] - product + norms_[center]);
    }
    return nearest;
  }

  const float* points_;
  int64_t count_, dims_, num_drawn_ = 0;
  PhiloxWords words_;
  std::vector<float> norms_;    // half of squared lengths
  std::vector<float> nearest_;  // half of the squared distance to the nearest point drawn
  std::vector<float> sums_;     // of `nearest_`, up to each point
  std::vector<bool> drawn_;
};

// (points, num_to_sample, seed, num_retries_per_sample)
absl::Status DrawCenters(const KernelContext& context) {
  const ValueReader reader(context);
  MR_ASSIGN_OR_RETURN(const int64_t seed, reader.scalar(2));
  MR_ASSIGN_OR_RETURN(int64_t retries, reader.scalar(3));
  const Shape& shape = context.input_type(0).shape;
  const int64_t centers = context.output_type(0).shape.dim(0), dims = shape.dim(1);
  if (retries < 0) retries = 2 + static_cast<int64_t>(std::log(static_cast<double>(centers)));
  constexpr int64_t kMostRetries = 1 << 20;
  if (retries > kMostRetries) return absl::InvalidArgumentError(absl::StrCat("num_retries_per_sample is ", retries, ", expected at most ", kMostRetries));
  FarPoints points(context.input<float>(0), shape.dim(0), dims, seed);
  for (int64_t c = 0; c < centers; ++c) {
    std::copy_n(context.input<float>(0) + points.Next(1 + retries) * dims, dims, context.output<float>(0) + c * dims);
  }
  return absl::OkStatus();
}

// (distances, seed): the last state of a chain that goes on to the next point with a probability of how much farther it is.
absl::Status RunChain(const KernelContext& context) {
  MR_ASSIGN_OR_RETURN(const int64_t seed, ValueReader(context).scalar(1));
  PhiloxWords words(Philox::FromSeeds(static_cast<uint64_t>(seed), 0));
  const float* distances = context.input<float>(0);
  int64_t selected = 0;
  for (int64_t i = 1; i < context.input_type(0).shape.dim(0); ++i) {
    if (distances[i] > UniformFloat(words()) * distances[selected]) selected = i;
  }
  context.output<int64_t>(0)[0] = selected;
  return absl::OkStatus();
}

// The k centers nearest to `point`, nearest first; of equally near ones the first.
void FindNearest(const float* point, const float* centers, const std::vector<float>& half_norms, int64_t dims, int64_t k, int64_t* indices,
                 float* distances) {
  int64_t found = 0;
  for (int64_t c = 0; c < static_cast<int64_t>(half_norms.size()); ++c) {
    const float distance = half_norms[c] - Product(point, centers + c * dims, dims);
    if (found == k && !(distance < distances[k - 1])) continue;
    int64_t at = found < k ? found++ : k - 1;
    for (; at > 0 && distance < distances[at - 1]; --at) {
      distances[at] = distances[at - 1];
      indices[at] = indices[at - 1];
    }
    distances[at] = distance;
    indices[at] = c;
  }
  const float norm = 0.5f * Product(point, point, dims);
  for (int64_t i = 0; i < k; ++i) distances[i] = 2.0f * (distances[i] + norm);
}

// (points, centers, k) -> indices, squared distances
absl::Status NearestCenters(const KernelContext& context) {
  const Shape &points = context.input_type(0).shape, &centers = context.input_type(1).shape;
  const int64_t dims = points.dim(1), k = context.output_type(0).shape.dim(1);
  std::vector<float> half_norms(centers.dim(0));
  const float* at = context.input<float>(1);
  for (int64_t c = 0; c < centers.dim(0); ++c) half_norms[c] = 0.5f * Product(at + c * dims, at + c * dims, dims);
  const int64_t work = std::max<int64_t>(centers.dim(0) * dims, 1);
  if (k == 0) return absl::OkStatus();
  ParallelRange(context, points.dim(0), std::max<int64_t>(kElementGrain / work, 1), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      FindNearest(context.input<float>(0) + i * dims, at, half_norms, dims, k, context.output<int64_t>(0) + i * k, context.output<float>(1) + i * k);
    }
  });
  return absl::OkStatus();
}

}  // namespace

void RegisterClusteringKernels(KernelRegistry& registry) {
  AddKernel(registry, "KmeansPlusPlusInitialization", [](const OpInstance&) -> KernelOr { return MakeKernel(DrawCenters); });
  AddKernel(registry, "KMC2ChainInitialization", [](const OpInstance&) -> KernelOr { return MakeKernel(RunChain); });
  AddKernel(registry, "NearestNeighbors", [](const OpInstance&) -> KernelOr { return MakeKernel(NearestCenters); });
}

}  // namespace millrace::cpu
