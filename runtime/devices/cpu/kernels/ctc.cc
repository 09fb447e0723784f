// Connectionist temporal classification (Graves et al., ICML 2006): the loss of a label sequence summed over all its
// alignments with the input, and its gradient. Logarithms throughout, in double.
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/register.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

constexpr double kLogZero = -std::numeric_limits<double>::infinity();

double LogSumExp(double a, double b) {
  if (a == kLogZero) return b;
  if (b == kLogZero) return a;
  return a > b ? a + std::log1p(std::exp(b - a)) : b + std::log1p(std::exp(a - b));
}

struct CtcAttrs {
  bool collapse_repeated, merge_repeated, ignore_longer;
  bool blank_first;  // class 0 is the blank (CTCLossV2), not the last one
};

struct CtcSizes {
  int64_t time, batch, classes, labels;
};

// Scratch of a run. States of all sequences lie one after another: a sequence of k labels has 2k + 1 states, its
// labels with blanks between and around.
struct CtcScratch {
  int64_t* first_label;  // [batch + 1], into `label`
  int64_t* count;        // [batch], labels left after preprocessing; -1: nothing to compute
  int32_t* label;        // [labels]
  double* alpha;         // time rows per sequence: [time, states of the sequence]
  double* beta;          // two rows per sequence
  double* log_sum;       // [batch, time], of the exponentials of the inputs
  double* by_class;      // [batch, classes]

  static int64_t States(const CtcSizes& sizes) { return 2 * sizes.labels + sizes.batch; }
  static int64_t Bytes(const CtcSizes& sizes) {
    return AlignUp((sizes.batch + 1) * 8) + AlignUp(sizes.batch * 8) + AlignUp(sizes.labels * 4) +
           AlignUp(sizes.time * States(sizes) * 8) + AlignUp(2 * States(sizes) * 8) +
           AlignUp(sizes.batch * sizes.time * 8) + AlignUp(sizes.batch * sizes.classes * 8);
  }
  CtcScratch(void* memory, const CtcSizes& sizes) {
    char* at = static_cast<char*>(memory);
    const auto take = [&at](int64_t bytes) {
      char* begin = at;
      at += AlignUp(bytes);
      return begin;
    };
    first_label = reinterpret_cast<int64_t*>(take((sizes.batch + 1) * 8));
    count = reinterpret_cast<int64_t*>(take(sizes.batch * 8));
    label = reinterpret_cast<int32_t*>(take(sizes.labels * 4));
    alpha = reinterpret_cast<double*>(take(sizes.time * States(sizes) * 8));
    beta = reinterpret_cast<double*>(take(2 * States(sizes) * 8));
    log_sum = reinterpret_cast<double*>(take(sizes.batch * sizes.time * 8));
    by_class = reinterpret_cast<double*>(take(sizes.batch * sizes.classes * 8));
  }
};

// The extents of the labels of every sequence: indices are [sequence, position], in order.
absl::Status GroupLabels(const KernelContext& context, const CtcSizes& sizes, CtcScratch& scratch) {
  const int64_t* indices = context.input<int64_t>(1);
  std::fill(scratch.first_label, scratch.first_label + sizes.batch + 1, 0);
  for (int64_t i = 0; i < sizes.labels; ++i) {
    const int64_t sequence = indices[2 * i], position = indices[2 * i + 1];
    if (sequence < 0 || sequence >= sizes.batch || position < 0) {
      return absl::InvalidArgumentError(absl::StrCat("labels_indices[", i, "] is [", sequence, ",", position,
                                                     "], expected a sequence in [0, ", sizes.batch, ")"));
    }
    if (i > 0 && (sequence < indices[2 * i - 2] || (sequence == indices[2 * i - 2] && position <= indices[2 * i - 1]))) {
      return absl::InvalidArgumentError(
          absl::StrCat("labels_indices[", i, "] is [", sequence, ",", position, "], which is repeated or out of order"));
    }
    ++scratch.first_label[sequence + 1];
  }
  for (int64_t b = 0; b < sizes.batch; ++b) {
    if (scratch.first_label[b + 1] == 0) return absl::InvalidArgumentError(absl::StrCat("sequence ", b, " has no labels"));
    scratch.first_label[b + 1] += scratch.first_label[b];
  }
  return absl::OkStatus();
}

// The labels of sequence `b` as the loss takes them: repeated ones collapsed when asked, nulls at the end dropped.
absl::Status PrepareLabels(const KernelContext& context, const CtcAttrs& attrs, const CtcSizes& sizes, int64_t b,
                           CtcScratch& scratch) {
  const int32_t* values = context.input<int32_t>(2);
  const int64_t length = context.input<int32_t>(3)[b], begin = scratch.first_label[b], end = scratch.first_label[b + 1];
  if (length < 0 || length > sizes.time) {
    return absl::InvalidArgumentError(
        absl::StrCat("sequence_length[", b, "] is ", length, ", expected [0, ", sizes.time, "]"));
  }
  int64_t kept = 0;
  bool ended = false;
  for (int64_t i = begin; i < end; ++i) {
    if (attrs.collapse_repeated && i > begin && values[i] == values[i - 1]) continue;
    if (values[i] < (attrs.blank_first ? 1 : 0) || (attrs.blank_first && values[i] >= sizes.classes)) {
      return absl::InvalidArgumentError(absl::StrCat("label ", values[i], " of sequence ", b, " is out of range"));
    }
    if (!attrs.blank_first && values[i] >= sizes.classes - 1) {
      ended = true;
      continue;
    }
    if (ended) {
      return absl::InvalidArgumentError(absl::StrCat("label ", values[i], " of sequence ", b,
                                                     " follows a null label (one of at least ", sizes.classes - 1, ")"));
    }
    scratch.label[begin + kept++] = values[i];
  }
  if (!attrs.ignore_longer && end - begin > length) {
    return absl::InvalidArgumentError(absl::StrCat("sequence ", b, " has ", end - begin, " labels but only ", length,
                                                   " times; ignore_longer_outputs_than_inputs would skip it"));
  }
  scratch.count[b] = length == 0 || kept > length ? -1 : kept;
  return absl::OkStatus();
}

// One sequence: its states, which may follow which, and the log probabilities of the input.
template <typename T>
class Sequence {
 public:
  Sequence(const T* inputs, const CtcAttrs& attrs, const CtcSizes& sizes, int64_t b, int64_t length, CtcScratch& scratch)
      : inputs_(inputs + b * sizes.classes), stride_(sizes.batch * sizes.classes), classes_(sizes.classes),
        length_(length), merge_(attrs.merge_repeated), blank_(attrs.blank_first ? 0 : sizes.classes - 1),
        labels_(scratch.label + scratch.first_label[b]), states_(2 * scratch.count[b] + 1),
        alpha_(scratch.alpha + sizes.time * (2 * scratch.first_label[b] + b)),
        beta_(scratch.beta + 2 * (2 * scratch.first_label[b] + b)), log_sum_(scratch.log_sum + b * sizes.time),
        by_class_(scratch.by_class + b * sizes.classes) {
    for (int64_t t = 0; t < length_; ++t) log_sum_[t] = LogSum(inputs_ + t * stride_);
  }

  double Loss() {
    std::fill(alpha_, alpha_ + length_ * states_, kLogZero);
    for (int64_t u = 0; u < std::min<int64_t>(states_, 2); ++u) alpha_[u] = LogProbability(0, u);
    for (int64_t t = 1; t < length_; ++t) {
      const double* before = alpha_ + (t - 1) * states_;
      for (int64_t u = 0; u < states_; ++u) {
        double sum = MayStay(u) ? before[u] : kLogZero;
        if (u > 0) sum = LogSumExp(sum, before[u - 1]);
        if (u > 1 && MaySkipTo(u)) sum = LogSumExp(sum, before[u - 2]);
        alpha_[t * states_ + u] = sum + LogProbability(t, u);
      }
    }
    const double* last = alpha_ + (length_ - 1) * states_;
    log_total_ = states_ > 1 ? LogSumExp(last[states_ - 1], last[states_ - 2]) : last[0];
    return -log_total_;
  }

  // Requires Loss(). Where no alignment is possible the gradient is the softmax alone.
  void Gradient(T* gradient) {
    double *beta = beta_, *next = beta_ + states_;
    for (int64_t t = length_ - 1; t >= 0; --t) {
      for (int64_t u = 0; u < states_; ++u) beta[u] = t + 1 < length_ ? Beta(t, u, next) : u + 2 >= states_ ? 0 : kLogZero;
      std::fill(by_class_, by_class_ + classes_, kLogZero);
      for (int64_t u = 0; u < states_; ++u) {
        double& sum = by_class_[ClassOf(u)];
        sum = LogSumExp(sum, alpha_[t * states_ + u] + beta[u]);
      }
      T* to = gradient + t * stride_;
      for (int64_t c = 0; c < classes_; ++c) {
        const double share = log_total_ == kLogZero ? 0.0 : std::exp(by_class_[c] - log_total_);
        to[c] = static_cast<T>(std::exp(static_cast<double>(inputs_[t * stride_ + c]) - log_sum_[t]) - share);
      }
      std::swap(beta, next);
    }
  }

 private:
  int64_t ClassOf(int64_t state) const { return state % 2 == 0 ? blank_ : labels_[state / 2]; }
  double LogProbability(int64_t t, int64_t state) const {
    return static_cast<double>(inputs_[t * stride_ + ClassOf(state)]) - log_sum_[t];
  }
  bool MayStay(int64_t state) const { return merge_ || state % 2 == 0; }
  // From the label before to that of `state`, past the blank.
  bool MaySkipTo(int64_t state) const {
    return state % 2 == 1 && !(merge_ && labels_[state / 2] == labels_[state / 2 - 1]);
  }
  // The log probability of the rest of the labels after state u at time t.
  double Beta(int64_t t, int64_t u, const double* next) const {
    double sum = MayStay(u) ? next[u] + LogProbability(t + 1, u) : kLogZero;
    if (u + 1 < states_) sum = LogSumExp(sum, next[u + 1] + LogProbability(t + 1, u + 1));
    if (u + 2 < states_ && MaySkipTo(u + 2)) sum = LogSumExp(sum, next[u + 2] + LogProbability(t + 1, u + 2));
    return sum;
  }
  double LogSum(const T* row) const {
    double largest = row[0];
    for (int64_t c = 1; c < classes_; ++c) largest = std::max<double>(largest, row[c]);
    double sum = 0;
    for (int64_t c = 0; c < classes_; ++c) sum += std::exp(static_cast<double>(row[c]) - largest);
    return largest + std::log(sum);
  }

  const T* inputs_;
  int64_t stride_, classes_, length_;
  bool merge_;
  int64_t blank_;
  const int32_t* labels_;
  int64_t states_;
  double *alpha_, *beta_, *log_sum_, *by_class_;
  double log_total_ = kLogZero;
};

template <typename T>
absl::Status RunCtc(const KernelContext& context, const CtcAttrs& attrs, const CtcSizes& sizes) {
  CtcScratch scratch(context.scratch, sizes);
  MR_RETURN_IF_ERROR(GroupLabels(context, sizes, scratch));
  for (int64_t b = 0; b < sizes.batch; ++b) MR_RETURN_IF_ERROR(PrepareLabels(context, attrs, sizes, b, scratch));
  T *loss = context.output<T>(0), *gradient = context.output<T>(1);
  ParallelRange(context, sizes.batch, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      loss[b] = T(0);
      for (int64_t t = 0; t < sizes.time; ++t) {
        std::fill_n(gradient + (t * sizes.batch + b) * sizes.classes, sizes.classes, T(0));
      }
      if (scratch.count[b] < 0) continue;
      Sequence<T> sequence(context.input<T>(0), attrs, sizes, b, context.input<int32_t>(3)[b], scratch);
      loss[b] = static_cast<T>(sequence.Loss());
      sequence.Gradient(gradient + b * sizes.classes);
    }
  });
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeCtcLoss(const OpInstance& node) {
  const CtcAttrs attrs{node.attrs.GetOr<bool>("preprocess_collapse_repeated", false),
                       node.attrs.GetOr<bool>("ctc_merge_repeated", true),
                       node.attrs.GetOr<bool>("ignore_longer_outputs_than_inputs", false), node.op == "CTCLossV2"};
  const Shape& inputs = node.inputs[0].shape;
  const CtcSizes sizes{inputs.dim(0), inputs.dim(1), inputs.dim(2), node.inputs[2].shape.num_elements()};
  const int64_t bytes = CtcScratch::Bytes(sizes);
  if (node.inputs[0].dtype == DataType::kFloat) {
    return MakeKernel([=](const KernelContext& context) { return RunCtc<float>(context, attrs, sizes); }, bytes);
  }
  if (node.inputs[0].dtype == DataType::kDouble) {
    return MakeKernel([=](const KernelContext& context) { return RunCtc<double>(context, attrs, sizes); }, bytes);
  }
  return UnsupportedType(node, node.inputs[0].dtype);
}

}  // namespace

void RegisterCtcKernels(KernelRegistry& registry) {
  AddKernel(registry, "CTCLoss", MakeCtcLoss);
  AddKernel(registry, "CTCLossV2", MakeCtcLoss);
}

}  // namespace millrace::cpu
