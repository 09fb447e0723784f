// Fake quantisation: floats rounded to the steps of a range that is shifted a little so that zero is a step.
#include <algorithm>
#include <cmath>

#include "cpu/kernels/common.h"
#include "cpu/kernels/families.h"

namespace millrace::cpu {
namespace {

struct Levels {
  explicit Levels(const OpInstance& node)
      : lowest(node.attrs.GetOr<bool>("narrow_range", false) ? 1.0f : 0.0f),
        highest(static_cast<float>((int64_t{1} << node.attrs.GetOr<int64_t>("num_bits", 8)) - 1)) {}
  float lowest, highest;
};

// The range nudged so that zero lies on a step.
struct Nudged {
  Nudged(const Levels& levels, float min, float max) : empty(min == 0 && max == 0) {
    step = (max - min) / (levels.highest - levels.lowest);
    const float zero = levels.lowest - min / step;
    const float at = zero < levels.lowest ? levels.lowest : zero > levels.highest ? levels.highest : std::round(zero);
    low = (levels.lowest - at) * step;
    high = (levels.highest - at) * step;
  }
  float Round(float x) const {
    const float inverse = 1.0f / step;
    return Round(x, inverse, std::floor(-low * inverse + 0.5f));
  }
  // With 1 / step and the step of zero.
  float Round(float x, float inverse, float zero) const {
    const float not_below = x < low ? low : x, clamped = high < not_below ? high : not_below;
    return std::floor((clamped - low) * inverse - zero + 0.5f) * step;
  }
  void RoundAll(const float* x, int64_t n, float* y) const {
    const Nudged range = *this;  // y might be the memory of this one, for what the compiler knows
    const float inverse = 1.0f / step, zero = std::floor(-low * inverse + 0.5f);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = range.Round(x[i], inverse, zero);
  }

  bool empty;  // min and max are 0: everything is
  float step, low, high;
};

struct Quantizer {
  explicit Quantizer(const OpInstance& node, int data, int range) : levels(node), range(range) {
    const Shape& shape = node.inputs[data].shape;
    const bool per_channel = range >= 0 && node.inputs[range].shape.rank() == 1;
    channels = per_channel ? shape.dim(shape.rank() - 1) : 1;
    rows = channels == 0 ? 0 : shape.num_elements() / channels;
    min = node.attrs.GetOr<float>("min", -6.0f);
    max = node.attrs.GetOr<float>("max", 6.0f);
  }
  Nudged Channel(const KernelContext& context, int64_t c) const {
    return range < 0 ? Nudged(levels, min, max)
                     : Nudged(levels, context.input<float>(range)[c], context.input<float>(range + 1)[c]);
  }

  Levels levels;
  int range;  // input of the minimum, the maximum follows; -1: attributes
  int64_t rows, channels;
  float min, max;
};

// Rows of a chunk of the gradient, whose sums are added up in the chunks' order.
constexpr int64_t kChunkRows = 8192;
// Of one channel, sums are taken in as many lanes.
constexpr int64_t kSumLanes = 16;

// (inputs[, min, max])
template <int kRange>
absl::StatusOr<std::unique_ptr<Kernel>> MakeFakeQuant(const OpInstance& node) {
  const Quantizer quantizer(node, 0, kRange);
  return MakeKernel([quantizer](const KernelContext& context) {
    const float* in = context.input<float>(0);
    float* out = context.output<float>(0);
    for (int64_t c = 0; c < quantizer.channels; ++c) {
      const Nudged range = quantizer.Channel(context, c);
      const int64_t stride = quantizer.channels;
      ParallelRange(context, quantizer.rows, kElementGrain, [&](int64_t begin, int64_t end) {
        if (stride == 1 && !range.empty) {
          range.RoundAll(in + begin, end - begin, out + begin);
          return;
        }
        for (int64_t r = begin; r < end; ++r) out[r * stride + c] = range.empty ? 0.0f : range.Round(in[r * stride + c]);
      });
    }
    return absl::OkStatus();
  });
}

struct EndSums {
  double below = 0, above = 0;
};
// What a range makes of the gradients of `rows` elements that are `stride` apart.
template <bool kHasRange>
struct GradientPart {
  void Take(float gradient, float x, float* out, double& below, double& above) const {
    const bool inside = (kHasRange & range.empty) | ((x >= range.low) & (x <= range.high));
    below += gradient * static_cast<float>(!inside & (x < range.low));  // NaN times 0 stays NaN
    above += gradient * static_cast<float>(!inside & (x > range.high));
    *out = gradient * static_cast<float>(inside);
  }
  EndSums Run(const float* gradients, const float* in, int64_t rows, int64_t stride, float* out) const {
    const GradientPart part = *this;  // not in memory that `out` might be, for what the compiler knows
    EndSums sums;
    int64_t r = 0;
    if (stride == 1) {
      double below[kSumLanes] = {}, above[kSumLanes] = {};
      for (; r + kSumLanes <= rows; r += kSumLanes) {
#pragma GCC ivdep
        for (int64_t k = 0; k < kSumLanes; ++k) part.Take(gradients[r + k], in[r + k], &out[r + k], below[k], above[k]);
      }
      for (int64_t k = 0; k < kSumLanes; ++k) {
        sums.below += below[k];
        sums.above += above[k];
      }
    }
    for (; r < rows; ++r) part.Take(gradients[r * stride], in[r * stride], &out[r * stride], sums.below, sums.above);
    return sums;
  }

  Nudged range;
};

// (gradients, inputs[, min, max]): within the range the gradient passes, outside it goes to the end that cut it off.
template <int kRange>
absl::StatusOr<std::unique_ptr<Kernel>> MakeFakeQuantGradient(const OpInstance& node) {
  const Quantizer quantizer(node, 1, kRange);
  const int64_t chunks = (quantizer.rows + kChunkRows - 1) / kChunkRows, channels = quantizer.channels;
  return MakeKernel(
      [=](const KernelContext& context) {
        EndSums* const sums = static_cast<EndSums*>(context.scratch);
        for (int64_t c = 0; c < channels; ++c) {
          const Nudged range = quantizer.Channel(context, c);
          const GradientPart<(kRange >= 0)> part{range};
          ParallelRange(context, chunks, kElementGrain / kChunkRows, [&](int64_t begin, int64_t end) {
            for (int64_t chunk = begin; chunk < end; ++chunk) {
              const int64_t row = chunk * kChunkRows, at = row * channels + c;
              sums[chunk] = part.Run(context.input<float>(0) + at, context.input<float>(1) + at,
                                     std::min(kChunkRows, quantizer.rows - row), channels, context.output<float>(0) + at);
            }
          });
          if (kRange < 0) continue;
          EndSums total;
          for (int64_t chunk = 0; chunk < chunks; ++chunk) {
            total.below += sums[chunk].below;
            total.above += sums[chunk].above;
          }
          context.output<float>(1)[c] = static_cast<float>(total.below);
          context.output<float>(2)[c] = static_cast<float>(total.above);
        }
        return absl::OkStatus();
      },
      chunks * static_cast<int64_t>(sizeof(EndSums)));
}

}  // namespace

void RegisterFakeQuantKernels(KernelRegistry& registry) {
  AddKernel(registry, "FakeQuantWithMinMaxArgs", MakeFakeQuant<-1>);
  AddKernel(registry, "FakeQuantWithMinMaxVars", MakeFakeQuant<1>);
  AddKernel(registry, "FakeQuantWithMinMaxVarsPerChannel", MakeFakeQuant<1>);
  AddKernel(registry, "FakeQuantWithMinMaxArgsGradient", MakeFakeQuantGradient<-1>);
  AddKernel(registry, "FakeQuantWithMinMaxVarsGradient", MakeFakeQuantGradient<2>);
  AddKernel(registry, "FakeQuantWithMinMaxVarsPerChannelGradient", MakeFakeQuantGradient<2>);
}

}  // namespace millrace::cpu
