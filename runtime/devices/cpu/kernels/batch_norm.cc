// FusedBatchNorm and its gradient, all versions, alone or with a sum and a Relu behind (graph/fused_norm.h).
// Statistics are summed in double: one pass suffices, and results agree with the two-pass float computation to float rounding.
#include <cmath>
#include <limits>
#include <type_traits>

#include "cpu/kernels/channel_sums.h"
#include "cpu/kernels/plain_floats.h"
#include "cpu/kernels/register.h"
#include "graph/fused_norm.h"
#include "graph/window.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

// Bytes of scratch: sums per channel, partial sums, then `coefficients` rows of one float per column.
struct Workspace {
  double* sums;
  double* partial;
  float* coefficients;

  static int64_t Bytes(const ChannelView& view, int coefficients) {
    return AlignUp(2 * view.channels * 8) + AlignUp(ChannelSumsScratch(view) * 8) +
           coefficients * AlignUp(view.width * 4);
  }
  Workspace(void* scratch, const ChannelView& view) {
    char* base = static_cast<char*>(scratch);
    sums = reinterpret_cast<double*>(base);
    partial = reinterpret_cast<double*>(base + AlignUp(2 * view.channels * 8));
    coefficients = reinterpret_cast<float*>(base + AlignUp(2 * view.channels * 8) + AlignUp(ChannelSumsScratch(view) * 8));
  }
  float* coefficient(const ChannelView& view, int i) const { return coefficients + i * AlignUp(view.width * 4) / 4; }
};

// Fills columns beyond the channels with copies, so that a row of `width` columns can be walked straight.
void Repeat(const ChannelView& view, float* values) {
  for (int64_t c = view.channels; c < view.width; ++c) values[c] = values[c - view.channels];
}

struct BatchNormAttrs {
  bool training;
  float epsilon;
  float average;
  NormEpilogue epilogue;
};

absl::StatusOr<BatchNormAttrs> ReadAttrs(const OpInstance& node) {
  BatchNormAttrs attrs{node.attrs.GetOr<bool>("is_training", true), node.attrs.GetOr<float>("epsilon", 1e-4f),
                       node.attrs.GetOr<float>("exponential_avg_factor", 1.0f), {}};
  if (node.op == kFusedNorm) {
    MR_ASSIGN_OR_RETURN(attrs.epilogue, NormEpilogueOf(node.attrs));
  } else {
    attrs.epilogue.relu = node.op == kFusedNormGrad;
  }
  return attrs;
}

// By what a normalised element's distance from the mean is multiplied.
float FactorOf(float scale, float variance, float epsilon) { return scale / std::sqrt(variance + epsilon); }

template <typename T>
T Normalized(T x, float mean, float factor, float offset) {
  return static_cast<T>((static_cast<float>(x) - mean) * factor + offset);
}

template <typename Stored>
using PlainFor = std::conditional_t<std::is_same_v<Stored, Eigen::bfloat16>, PlainBfloat16,
                                    std::conditional_t<std::is_same_v<Stored, Eigen::half>, PlainHalf, Stored>>;

// Sum and Relu of single elements as the ops alone have them.
template <bool kSide, bool kRelu, typename T>
T Behind(T y, const T* side, int64_t e) {
  if constexpr (kSide) y = static_cast<T>(static_cast<float>(y) + static_cast<float>(side[e]));
  if constexpr (kRelu) {
    const float value = static_cast<float>(y);
    y = value > 0.0f || value != value ? y : static_cast<T>(0.0f);
  }
  return y;
}

absl::StatusOr<ChannelView> ViewOf(const OpInstance& node) {
  MR_ASSIGN_OR_RETURN(const DataLayout layout, ParseDataFormat(node.attrs.GetOr<std::string>("data_format", "NHWC")));
  return MakeChannelView(node.inputs[0].shape, layout.channels_first);
}

// Mean and biased variance of every channel into reserve outputs 3 and 4, the moving values into 1 and 2.
template <typename T>
void ComputeStatistics(const KernelContext& context, const ChannelView& view, const BatchNormAttrs& attrs,
                       const Workspace& work) {
  const T* x = context.input<T>(0);
  float* shift = work.coefficient(view, 0);
  for (int64_t c = 0; c < view.channels; ++c) {
    const float first = static_cast<float>(x[c * view.inner]);
    shift[c] = std::isfinite(first) ? first : 0.0f;
  }
  Repeat(view, shift);
  const auto terms = [x, shift](int64_t e, int64_t column, double& sum, double& square) {
    const double d = static_cast<double>(static_cast<float>(x[e])) - static_cast<double>(shift[column]);
    sum += d;
    square += d * d;
  };
  SumPerChannel(context, view, terms, work.partial, work.sums);
  const double count = static_cast<double>(view.per_channel());
  const float unbiased = static_cast<float>(count / std::max(count - 1.0, 1.0));
  const float* old_mean = context.input<float>(3);
  const float* old_variance = context.input<float>(4);
  float *mean_out = context.output<float>(1), *variance_out = context.output<float>(2);
  float *mean_saved = context.output<float>(3), *variance_saved = context.output<float>(4);
  for (int64_t c = 0; c < view.channels; ++c) {
    const double offset = work.sums[c] / count;
    const float mean = static_cast<float>(shift[c] + offset);
    const double spread = work.sums[view.channels + c] / count - offset * offset;
    const float variance = static_cast<float>(spread < 0 ? 0.0 : spread);
    mean_saved[c] = mean;
    variance_saved[c] = variance;
    if (attrs.average == 1.0f) {
      mean_out[c] = mean;
      variance_out[c] = variance * unbiased;
    } else {
      const float keep = 1.0f - attrs.average;
      mean_out[c] = keep * old_mean[c] + attrs.average * mean;
      variance_out[c] = keep * old_variance[c] + attrs.average * unbiased * variance;
    }
  }
}

// What TensorFlow gives for an empty batch: no statistics.
void FillEmpty(const KernelContext& context, const ChannelView& view) {
  for (int64_t c = 0; c < view.channels; ++c) {
    for (int i = 1; i <= 2; ++i) context.output<float>(i)[c] = std::numeric_limits<float>::quiet_NaN();
    for (int i = 3; i <= 4; ++i) context.output<float>(i)[c] = 0.0f;
  }
}

template <typename T>
absl::Status RunForward(const KernelContext& context, const ChannelView& view, const BatchNormAttrs& attrs) {
  if (context.instance->outputs.size() > 5) *context.output<float>(5) = 0.0f;
  if (view.elements() == 0) {
    FillEmpty(context, view);
    return absl::OkStatus();
  }
  const Workspace work(context.scratch, view);
  if (attrs.training) {
    ComputeStatistics<T>(context, view, attrs, work);
  } else {
    for (int i = 0; i < 2; ++i) {
      const float* given = context.input<float>(3 + i);
      std::copy(given, given + view.channels, context.output<float>(1 + i));
      std::copy(given, given + view.channels, context.output<float>(3 + i));
    }
  }
  float *mean = work.coefficient(view, 0), *factor = work.coefficient(view, 1), *offset = work.coefficient(view, 2);
  for (int64_t c = 0; c < view.channels; ++c) {
    mean[c] = context.output<float>(3)[c];
    factor[c] = FactorOf(context.input<float>(1)[c], context.output<float>(4)[c], attrs.epsilon);
    offset[c] = context.input<float>(2)[c];
  }
  for (float* values : {mean, factor, offset}) Repeat(view, values);
  const T* x = context.input<T>(0);
  const T* side = attrs.epilogue.side ? context.input<T>(5) : nullptr;
  T* y = context.output<T>(0);
  const auto normalize = [&](auto with_side, auto with_relu) {
    ForEachByChannel(context, view, [=](int64_t e, int64_t column) {
      y[e] = Behind<decltype(with_side)::value, decltype(with_relu)::value>(Normalized(x[e], mean[column], factor[column], offset[column]), side, e);
    });
  };
  const std::true_type with;
  const std::false_type without;
  if (side != nullptr) {
    attrs.epilogue.relu ? normalize(with, with) : normalize(with, without);
  } else {
    attrs.epilogue.relu ? normalize(without, with) : normalize(without, without);
  }
  return absl::OkStatus();
}

// Gradients from dy (input 0), x (1), scale (2), the saved mean (3) and variance (4); with a Relu behind, of whose result only the
// sign matters, also from offset (5).
template <typename T, bool kRelu>
absl::Status RunBackward(const KernelContext& context, const ChannelView& view, const BatchNormAttrs& attrs) {
  float *d_scale = context.output<float>(1), *d_offset = context.output<float>(2);
  const Workspace work(context.scratch, view);
  const T *dy = context.input<T>(0), *x = context.input<T>(1);
  T* dx = context.output<T>(0);
  float *mean = work.coefficient(view, 0), *factor = work.coefficient(view, 1);
  float *dy_mean = work.coefficient(view, 2), *slope = work.coefficient(view, 3);
  float *forward = kRelu ? work.coefficient(view, 4) : nullptr, *offset = kRelu ? work.coefficient(view, 5) : nullptr;
  std::copy(context.input<float>(3), context.input<float>(3) + view.channels, mean);
  Repeat(view, mean);
  if constexpr (kRelu) {
    for (int64_t c = 0; c < view.channels; ++c) {
      forward[c] = FactorOf(context.input<float>(2)[c], context.input<float>(4)[c], attrs.epsilon);
      offset[c] = context.input<float>(5)[c];
    }
    for (float* values : {forward, offset}) Repeat(view, values);
  }
  const auto incoming = [=](int64_t e, int64_t column) {
    const float g = static_cast<float>(dy[e]);
    if constexpr (!kRelu) return g;
    return g * static_cast<float>(static_cast<float>(Normalized(x[e], mean[column], forward[column], offset[column])) > 0.0f);
  };
  const auto terms = [incoming, x, mean](int64_t e, int64_t column, double& sum, double& product) {
    const double g = incoming(e, column);
    sum += g;
    product += g * (static_cast<double>(static_cast<float>(x[e])) - static_cast<double>(mean[column]));
  };
  SumPerChannel(context, view, terms, work.partial, work.sums);
  const double count = static_cast<double>(std::max<int64_t>(view.per_channel(), 1));
  for (int64_t c = 0; c < view.channels; ++c) {
    const double inverse = 1.0 / std::sqrt(static_cast<double>(context.input<float>(4)[c] + attrs.epsilon));
    const double sum = work.sums[c], product = work.sums[view.channels + c];
    d_offset[c] = static_cast<float>(sum);
    d_scale[c] = static_cast<float>(product * inverse);
    factor[c] = static_cast<float>(context.input<float>(2)[c] * inverse);
    dy_mean[c] = static_cast<float>(sum / count);
    slope[c] = static_cast<float>(product / count * inverse * inverse);
  }
  for (float* values : {factor, dy_mean, slope}) Repeat(view, values);
  if (attrs.training) {
    ForEachByChannel(context, view, [=](int64_t e, int64_t column) {
      const float centered = static_cast<float>(x[e]) - mean[column];
      dx[e] = static_cast<T>(factor[column] * (incoming(e, column) - dy_mean[column] - centered * slope[column]));
    });
  } else {
    ForEachByChannel(context, view, [=](int64_t e, int64_t column) {
      dx[e] = static_cast<T>(incoming(e, column) * factor[column]);
    });
  }
  return absl::OkStatus();
}

template <bool kBackward>
absl::StatusOr<std::unique_ptr<Kernel>> MakeBatchNorm(const OpInstance& node) {
  const DataType statistics = node.inputs[kBackward ? 2 : 1].dtype;
  if (statistics != DataType::kFloat || node.inputs[0].dtype == DataType::kDouble) {
    return UnsupportedType(node, statistics != DataType::kFloat ? statistics : node.inputs[0].dtype);
  }
  MR_ASSIGN_OR_RETURN(const ChannelView view, ViewOf(node));
  MR_ASSIGN_OR_RETURN(const BatchNormAttrs attrs, ReadAttrs(node));
  const bool relu = attrs.epilogue.relu;
  const int64_t scratch = Workspace::Bytes(view, !kBackward ? 3 : relu ? 6 : 4);
  return DispatchFloating(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = PlainFor<typename decltype(tag)::type>;
    return MakeKernel(
        [view, attrs, relu](const KernelContext& context) {
          if constexpr (!kBackward) return RunForward<T>(context, view, attrs);
          return relu ? RunBackward<T, true>(context, view, attrs) : RunBackward<T, false>(context, view, attrs);
        },
        scratch);
  });
}

}  // namespace

void RegisterBatchNormKernels(KernelRegistry& registry) {
  for (const char* name : {"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", kFusedNorm}) {
    AddKernel(registry, name, MakeBatchNorm<false>);
  }
  for (const char* name : {"FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3", kFusedNormGrad}) {
    AddKernel(registry, name, MakeBatchNorm<true>);
  }
}

}  // namespace millrace::cpu
