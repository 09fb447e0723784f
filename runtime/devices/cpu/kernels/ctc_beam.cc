// Beam search over the labellings of a sequence: Graves et al., "Connectionist Temporal Classification" (2006), prefixes
// kept in a tree, their probabilities with and without a blank at the end apart. As TensorFlow's decoder, the last class
// is the blank.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/rare.h"
#include "cpu/kernels/real_shapes.h"

namespace millrace::cpu {
namespace {

template <typename T>
constexpr T kNever = -std::numeric_limits<T>::infinity();

template <typename T>
T LogSum(T a, T b) {
  if (a == kNever<T>) return b;
  if (b == kNever<T>) return a;
  return std::max(a, b) + std::log1p(std::exp(std::min(a, b) - std::max(a, b)));
}

// Logarithms of the probabilities of a prefix: all its alignments, those that end in a blank, those that end in its last label.
template <typename T>
struct Chances {
  T total = kNever<T>, blank = kNever<T>, label = kNever<T>;
};

template <typename T>
struct Prefix {
  Prefix* parent = nullptr;
  int64_t label = -1;
  Chances<T> before, now;
  std::vector<Prefix> longer;  // by label, once it is expanded
  bool active() const { return now.total != kNever<T>; }
};

template <typename T>
class BeamSearch {
 public:
  BeamSearch(int64_t classes, int64_t width) : blank_(classes - 1), width_(static_cast<size_t>(width)) {
    root_.now.total = root_.now.blank = 0;
    beam_.push_back(&root_);
  }

  void Step(const T* scores) {
    const T most = *std::max_element(scores, scores + blank_ + 1);
    T sum = 0;
    for (int64_t c = 0; c <= blank_; ++c) sum += std::exp(scores[c] - most);
    const T norm = most + std::log(sum);
    const std::vector<Prefix<T>*> branches = Sorted();
    beam_.clear();
    for (Prefix<T>* b : branches) b->before = b->now;
    for (Prefix<T>* b : branches) {
      if (b->parent != nullptr) {
        if (b->parent->active()) {
          const Chances<T>& parent = b->parent->before;
          b->now.label = LogSum(b->now.label, b->label == b->parent->label ? parent.blank : parent.total);
        }
        b->now.label += scores[b->label] - norm;
      }
      b->now.blank = b->before.total + scores[blank_] - norm;
      b->now.total = LogSum(b->now.blank, b->now.label);
      Push(b);
    }
    for (Prefix<T>* b : branches) {
      if (IsCandidate(b->before)) Expand(b, scores, norm);
    }
  }

  // The best prefixes first; fewer than asked for where the beam has no more.
  std::vector<Prefix<T>*> Sorted() const {
    std::vector<Prefix<T>*> sorted = beam_;
    std::stable_sort(sorted.begin(), sorted.end(), [](const Prefix<T>* a, const Prefix<T>* b) { return a->now.total > b->now.total; });
    return sorted;
  }

 private:
  bool IsCandidate(const Chances<T>& chances) const {
    return chances.total > kNever<T> && (beam_.size() < width_ || chances.total > (*Worst())->now.total);
  }

  typename std::vector<Prefix<T>*>::const_iterator Worst() const {
    return std::min_element(beam_.begin(), beam_.end(), [](const Prefix<T>* a, const Prefix<T>* b) { return a->now.total < b->now.total; });
  }

  void Push(Prefix<T>* prefix) {
    if (beam_.size() == width_) beam_.erase(Worst());
    beam_.push_back(prefix);
  }

  void Expand(Prefix<T>* b, const T* scores, T norm) {
    if (b->longer.empty()) {
      b->longer.resize(blank_);
      for (int64_t c = 0; c < blank_; ++c) {
        b->longer[c].parent = b;
        b->longer[c].label = c;
      }
    }
    for (Prefix<T>& c : b->longer) {
      if (c.active()) continue;
      c.now.blank = kNever<T>;
      c.now.label = c.now.total = scores[c.label] - norm + (c.label == b->label ? b->before.blank : b->before.total);
      if (IsCandidate(c.now)) {
        if (beam_.size() == width_) (*Worst())->now = {};
        Push(&c);
      } else {
        c.before = c.now = {};
      }
    }
  }

  const int64_t blank_;
  const size_t width_;
  Prefix<T> root_;
  std::vector<Prefix<T>*> beam_;
};

template <typename T>
std::vector<int64_t> LabelsOf(const Prefix<T>* prefix, bool merge_repeated) {
  std::vector<int64_t> labels;
  int64_t last = -1;
  for (; prefix->parent != nullptr; prefix = prefix->parent) {
    if (!merge_repeated || prefix->label != last) labels.push_back(prefix->label);
    last = prefix->label;
  }
  std::reverse(labels.begin(), labels.end());
  return labels;
}

template <typename T>
absl::Status Decode(const KernelContext& context) {
  const Shape& shape = context.input_type(0).shape;
  const int64_t time = shape.dim(0), batch = shape.dim(1), classes = shape.dim(2);
  const AttrMap& attrs = context.instance->attrs;
  const int64_t width = attrs.GetOr<int64_t>("beam_width", 1);
  const int paths = static_cast<int>(attrs.GetOr<int64_t>("top_paths", 1));
  const bool merge = attrs.GetOr<bool>("merge_repeated", true);
  if (classes < 1 || time < 1) return absl::InvalidArgumentError("inputs must not be empty");
  std::vector<int64_t> found(paths, 0), longest(paths, 0);
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t length = context.input<int32_t>(1)[b];
    if (length < 0 || length > time) return absl::InvalidArgumentError(absl::StrCat("sequence_length(", b, ") = ", length, ", expected 0 to ", time));
    BeamSearch<T> search(classes, width);
    for (int64_t t = 0; t < length; ++t) search.Step(context.input<T>(0) + (t * batch + b) * classes);
    const std::vector<Prefix<T>*> best = search.Sorted();
    if (static_cast<int>(best.size()) < paths) {
      return absl::InvalidArgumentError(absl::StrCat("Less leaves in the beam search than requested: ", best.size(), " of ", paths));
    }
    for (int p = 0; p < paths; ++p) {
      const std::vector<int64_t> labels = LabelsOf(best[p], merge);
      for (size_t k = 0; k < labels.size(); ++k) {
        int64_t* index = context.output<int64_t>(p) + 2 * found[p];
        index[0] = b;
        index[1] = static_cast<int64_t>(k);
        context.output<int64_t>(paths + p)[found[p]++] = labels[k];
      }
      longest[p] = std::max(longest[p], static_cast<int64_t>(labels.size()));
      context.output<T>(3 * paths)[b * paths + p] = best[p]->now.total;
    }
  }
  for (int p = 0; p < paths; ++p) {
    context.output<int64_t>(2 * paths + p)[0] = batch;
    context.output<int64_t>(2 * paths + p)[1] = longest[p];
    SetRealRows(context, p, paths + p, found[p], 2);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeBeamSearch(const OpInstance& node) {
  if (node.inputs[0].dtype == DataType::kDouble) return MakeKernel([](const KernelContext& context) { return Decode<double>(context); });
  if (node.inputs[0].dtype == DataType::kFloat) return MakeKernel([](const KernelContext& context) { return Decode<float>(context); });
  return UnsupportedType(node, node.inputs[0].dtype);
}

}  // namespace

void RegisterCtcBeamKernels(KernelRegistry& registry) { AddKernel(registry, "CTCBeamSearchDecoder", MakeBeamSearch); }

}  // namespace millrace::cpu
