// NonMaxSuppression: boxes by falling score, less those that overlap a chosen one too much.
#include <cmath>
#include <queue>
#include <vector>

#include "cpu/kernels/common.h"
#include "cpu/kernels/rare.h"
#include "cpu/kernels/values.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

struct Limits {
  int64_t most = 0;
  float overlap = 0.5f, score = std::numeric_limits<float>::lowest(), sigma = 0;
};

// Corners in any order.
template <typename T>
float Overlap(const T* a, const T* b) {
  const auto low = [](const T* box, int d) { return std::min(static_cast<float>(box[d]), static_cast<float>(box[d + 2])); };
  const auto high = [](const T* box, int d) { return std::max(static_cast<float>(box[d]), static_cast<float>(box[d + 2])); };
  float area_a = 1, area_b = 1, common = 1;
  for (int d : {0, 1}) {
    area_a *= high(a, d) - low(a, d);
    area_b *= high(b, d) - low(b, d);
    common *= std::max(std::min(high(a, d), high(b, d)) - std::max(low(a, d), low(b, d)), 0.0f);
  }
  return area_a <= 0 || area_b <= 0 ? 0.0f : common / (area_a + area_b - common);
}

struct Candidate {
  int32_t box;
  float score;
  // Chosen boxes before this one have lowered the score already.
  size_t seen;
};
struct Later {
  bool operator()(const Candidate& a, const Candidate& b) const {
    return a.score < b.score || (a.score == b.score && a.box > b.box);
  }
};

// With sigma, overlapping boxes lose score (Bodla et al. 2017) instead of being dropped. overlap_of(i, j) for i later than j.
template <typename T, typename OverlapOf>
std::vector<Candidate> ChooseBy(OverlapOf overlap_of, const T* scores, int64_t n, const Limits& limits) {
  std::priority_queue<Candidate, std::vector<Candidate>, Later> queue;
  for (int64_t i = 0; i < n; ++i) {
    const float score = static_cast<float>(scores[i]);
    if (score > limits.score) queue.push({static_cast<int32_t>(i), score, 0});
  }
  std::vector<Candidate> chosen;
  while (static_cast<int64_t>(chosen.size()) < limits.most && !queue.empty()) {
    Candidate next = queue.top();
    queue.pop();
    const float before = next.score;
    bool dropped = false;
    for (size_t j = chosen.size(); j > next.seen && !dropped; --j) {
      const float overlap = overlap_of(next.box, chosen[j - 1].box);
      if (limits.sigma > 0) {
        next.score *= std::exp(-0.5f / limits.sigma * overlap * overlap);
        if (next.score <= limits.score) break;
      } else {
        dropped = overlap > limits.overlap;
      }
    }
    next.seen = chosen.size();
    if (dropped) continue;
    if (next.score == before) {
      chosen.push_back(next);
    } else if (next.score > limits.score) {
      queue.push(next);
    }
  }
  return chosen;
}

template <typename T>
std::vector<Candidate> Choose(const T* boxes, const T* scores, int64_t n, const Limits& limits) {
  const auto overlap_of = [boxes](int64_t i, int64_t j) { return Overlap(boxes + 4 * i, boxes + 4 * j); };
  return ChooseBy(overlap_of, scores, n, limits);
}

absl::StatusOr<Limits> LimitsOf(const KernelContext& context) {
  const OpInstance& node = *context.instance;
  Limits limits;
  MR_ASSIGN_OR_RETURN(limits.most, ValueReader(context).scalar(2));
  limits.most = std::max<int64_t>(limits.most, 0);
  const auto number = [&](int i) {
    const void* data = ValueReader(context).data(i);
    if (node.inputs[i].dtype == DataType::kHalf) return static_cast<float>(*static_cast<const Eigen::half*>(data));
    return *static_cast<const float*>(data);
  };
  limits.overlap = node.inputs.size() > 3 ? number(3) : node.attrs.GetOr("iou_threshold", 0.5f);
  if (node.inputs.size() > 4) limits.score = number(4);
  if (node.inputs.size() > 5) limits.sigma = number(5);
  const bool any_measure = node.op == "NonMaxSuppressionWithOverlaps";
  if (!any_measure && !(limits.overlap >= 0 && limits.overlap <= 1)) {
    return absl::InvalidArgumentError("iou_threshold must be in [0, 1]");
  }
  if (!(limits.sigma >= 0)) return absl::InvalidArgumentError("soft_nms_sigma_val must be >= 0");
  return limits;
}

// (boxes, scores, max_output_size[, iou_threshold[, score_threshold[, soft_nms_sigma]]]) -> indices[, scores][, count]
template <typename T>
absl::Status Suppress(const KernelContext& context) {
  const OpInstance& node = *context.instance;
  MR_ASSIGN_OR_RETURN(const Limits limits, LimitsOf(context));
  const std::vector<Candidate> chosen =
      Choose(context.input<T>(0), context.input<T>(1), context.input_type(1).shape.num_elements(), limits);
  const int64_t count = static_cast<int64_t>(chosen.size());
  const bool padded = node.attrs.GetOr("pad_to_max_output_size", false), with_scores = node.op == "NonMaxSuppressionV5";
  const int64_t rows = padded ? limits.most : count;
  for (int64_t i = 0; i < rows; ++i) context.output<int32_t>(0)[i] = i < count ? chosen[i].box : 0;
  for (int64_t i = 0; with_scores && i < rows; ++i) context.output<T>(1)[i] = i < count ? T(chosen[i].score) : T(0);
  if (node.outputs.size() > 1) *context.output<int32_t>(static_cast<int>(node.outputs.size()) - 1) = static_cast<int32_t>(count);
  if (context.output_shapes != nullptr && !padded) {
    context.output_shapes[0] = Shape({count});
    if (with_scores) context.output_shapes[1] = Shape({count});
  }
  return absl::OkStatus();
}

// The boxes chosen of every class, by falling score.
absl::Status Combine(const KernelContext& context) {
  const Shape &boxes = context.input_type(0).shape, &scores = context.input_type(1).shape;
  const int64_t n = boxes.dim(1), kinds = boxes.dim(2), classes = scores.dim(2), most = context.output_type(1).shape.dim(1);
  const ValueReader reader(context);
  Limits limits;
  MR_ASSIGN_OR_RETURN(limits.most, reader.scalar(2));
  limits.overlap = *static_cast<const float*>(reader.data(4));
  limits.score = *static_cast<const float*>(reader.data(5));
  if (!(limits.overlap >= 0 && limits.overlap <= 1)) return absl::InvalidArgumentError("iou_threshold must be in [0, 1]");
  const bool clip = context.instance->attrs.GetOr("clip_boxes", true);
  struct Found {
    float score;
    int64_t of_class;
    const float* box;
  };
  std::vector<float> own_boxes(n * 4), own_scores(n);
  for (int64_t b = 0; b < boxes.dim(0); ++b) {
    std::vector<Found> found;
    for (int64_t c = 0; c < classes; ++c) {
      const auto box = [&](int64_t i) { return context.input<float>(0) + ((b * n + i) * kinds + (kinds == 1 ? 0 : c)) * 4; };
      for (int64_t i = 0; i < n; ++i) {
        std::copy_n(box(i), 4, own_boxes.data() + 4 * i);
        own_scores[i] = context.input<float>(1)[(b * n + i) * classes + c];
      }
      for (const Candidate& chosen : Choose(own_boxes.data(), own_scores.data(), n, limits)) {
        found.push_back({chosen.score, c, box(chosen.box)});
      }
    }
    std::stable_sort(found.begin(), found.end(), [](const Found& x, const Found& y) { return x.score > y.score; });
    const int64_t count = std::min<int64_t>(most, static_cast<int64_t>(found.size()));
    for (int64_t k = 0; k < most; ++k) {
      const int64_t at = b * most + k;
      for (int d = 0; d < 4; ++d) {
        const float value = k < count ? found[k].box[d] : 0.0f;
        context.output<float>(0)[4 * at + d] = clip ? std::max(std::min(value, 1.0f), 0.0f) : value;
      }
      context.output<float>(1)[at] = k < count ? found[k].score : 0.0f;
      context.output<float>(2)[at] = k < count ? static_cast<float>(found[k].of_class) : 0.0f;
    }
    context.output<int32_t>(3)[b] = static_cast<int32_t>(count);
  }
  return absl::OkStatus();
}

// (overlaps [n,n], scores, max_output_size, overlap_threshold, score_threshold) -> indices
absl::Status SuppressByOverlaps(const KernelContext& context) {
  MR_ASSIGN_OR_RETURN(const Limits limits, LimitsOf(context));
  const int64_t n = context.input_type(1).shape.num_elements();
  const float* overlaps = context.input<float>(0);
  const std::vector<Candidate> chosen =
      ChooseBy([&](int64_t i, int64_t j) { return overlaps[i * n + j]; }, context.input<float>(1), n, limits);
  for (size_t i = 0; i < chosen.size(); ++i) context.output<int32_t>(0)[i] = chosen[i].box;
  if (context.output_shapes != nullptr) context.output_shapes[0] = Shape({static_cast<int64_t>(chosen.size())});
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeByOverlaps(const OpInstance&) {
  return MakeKernel([](const KernelContext& context) { return SuppressByOverlaps(context); });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeCombined(const OpInstance&) {
  return MakeKernel([](const KernelContext& context) { return Combine(context); });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeSuppression(const OpInstance& node) {
  if (node.inputs[0].dtype == DataType::kHalf) return MakeKernel([](const KernelContext& c) { return Suppress<Eigen::half>(c); });
  if (node.inputs[0].dtype == DataType::kFloat) return MakeKernel([](const KernelContext& c) { return Suppress<float>(c); });
  return UnsupportedType(node, node.inputs[0].dtype);
}

}  // namespace

void RegisterSuppressionKernels(KernelRegistry& registry) {
  AddKernel(registry, "CombinedNonMaxSuppression", MakeCombined);
  AddKernel(registry, "NonMaxSuppressionWithOverlaps", MakeByOverlaps);
  for (const char* op : {"NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3", "NonMaxSuppressionV4", "NonMaxSuppressionV5"}) {
    AddKernel(registry, op, MakeSuppression);
  }
}

}  // namespace millrace::cpu
