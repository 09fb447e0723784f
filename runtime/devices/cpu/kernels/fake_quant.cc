// Fake quantisation: floats rounded to the steps of a range that is shifted a little so that zero is a step.
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
    const float inverse = 1.0f / step, zero = std::floor(-low * inverse + 0.5f);
    const float clamped = std::min(std::max(x, low), high);
    return std::floor((clamped - low) * inverse - zero + 0.5f) * step;
  }
  bool Holds(float x) const { return x >= low && x <= high; }

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
        for (int64_t r = begin; r < end; ++r) out[r * stride + c] = range.empty ? 0.0f : range.Round(in[r * stride + c]);
      });
    }
    return absl::OkStatus();
  });
}

// (gradients, inputs[, min, max]): within the range the gradient passes, outside it goes to the end that cut it off.
template <int kRange>
absl::StatusOr<std::unique_ptr<Kernel>> MakeFakeQuantGradient(const OpInstance& node) {
  const Quantizer quantizer(node, 1, kRange);
  return MakeKernel([quantizer](const KernelContext& context) {
    const float *gradients = context.input<float>(0), *in = context.input<float>(1);
    for (int64_t c = 0; c < quantizer.channels; ++c) {
      const Nudged range = quantizer.Channel(context, c);
      double below = 0, above = 0;
      for (int64_t r = 0; r < quantizer.rows; ++r) {
        const int64_t i = r * quantizer.channels + c;
        const float gradient = gradients[i], x = in[i];
        const bool inside = (range.empty && kRange >= 0) || range.Holds(x);
        below += gradient * static_cast<float>(!inside && x < range.low);  // NaN times 0 stays NaN
        above += gradient * static_cast<float>(!inside && x > range.high);
        context.output<float>(0)[i] = gradient * static_cast<float>(inside);
      }
      if (kRange < 0) continue;
      context.output<float>(1)[c] = static_cast<float>(below);
      context.output<float>(2)[c] = static_cast<float>(above);
    }
    return absl::OkStatus();
  });
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
