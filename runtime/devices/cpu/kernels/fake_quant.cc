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
  // With 1 / step and the step of zero.
  static float Round(float x, float low, float high, float step, float inverse, float zero) {
    const float not_below = x < low ? low : x, clamped = high < not_below ? high : not_below;
    return std::floor((clamped - low) * inverse - zero + 0.5f) * step;
  }
  void RoundAll(const float* x, int64_t n, float* y) const {
    const Nudged range = *this;  // y might be the memory of this one, for what the compiler knows
    const float inverse = 1.0f / step, zero = std::floor(-low * inverse + 0.5f);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = Round(x[i], range.low, range.high, range.step, inverse, zero);
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

// The ranges of all channels, the few of narrow rows over and over: a loop over `width` elements takes `rows` rows.
class ChannelRanges {
 public:
  static constexpr int64_t kWide = 64;

  explicit ChannelRanges(const Quantizer& quantizer)
      : channels(quantizer.channels), rows(channels == 0 || channels >= kWide ? 1 : kWide / channels), width(rows * channels) {}
  int64_t scratch_bytes() const { return (6 * width * static_cast<int64_t>(sizeof(float)) + 63) / 64 * 64; }

  // Arrays of `width` elements in `scratch`.
  struct Arrays {
    float *low, *high, *step, *inverse, *zero;
    int32_t* empty;
  };
  Arrays Make(const Quantizer& quantizer, const KernelContext& context) const {
    float* const first = static_cast<float*>(context.scratch);
    const Arrays arrays = {first,         first + width,     first + 2 * width,
                           first + 3 * width, first + 4 * width, reinterpret_cast<int32_t*>(first + 5 * width)};
    for (int64_t k = 0; k < width; ++k) {
      const Nudged range = quantizer.Channel(context, k % channels);
      arrays.low[k] = range.low;
      arrays.high[k] = range.high;
      arrays.step[k] = range.step;
      arrays.inverse[k] = 1.0f / range.step;
      arrays.zero[k] = std::floor(-range.low * arrays.inverse[k] + 0.5f);
      arrays.empty[k] = range.empty ? 1 : 0;
    }
    return arrays;
  }

  int64_t channels, rows, width;
};

void RoundRows(const ChannelRanges::Arrays& ranges, const float* x, int64_t n, float* y) {
  const auto [low, high, step, inverse, zero, empty] = ranges;
#pragma GCC ivdep
  for (int64_t k = 0; k < n; ++k) {
    const float rounded = Nudged::Round(x[k], low[k], high[k], step[k], inverse[k], zero[k]);
    y[k] = empty[k] != 0 ? 0.0f : rounded;
  }
}

// (inputs[, min, max])
template <int kRange>
absl::StatusOr<std::unique_ptr<Kernel>> MakeFakeQuant(const OpInstance& node) {
  const Quantizer quantizer(node, 0, kRange);
  const ChannelRanges ranges(quantizer);
  const auto run = [quantizer, ranges](const KernelContext& context) {
    const float* in = context.input<float>(0);
    float* out = context.output<float>(0);
    if (quantizer.channels == 1) {
      const Nudged range = quantizer.Channel(context, 0);
      ParallelRange(context, quantizer.rows, kElementGrain, [&](int64_t begin, int64_t end) {
        range.empty ? static_cast<void>(std::fill(out + begin, out + end, 0.0f)) : range.RoundAll(in + begin, end - begin, out + begin);
      });
      return absl::OkStatus();
    }
    const ChannelRanges::Arrays arrays = ranges.Make(quantizer, context);
    const int64_t channels = ranges.channels;
    ParallelRange(context, quantizer.rows, std::max<int64_t>(kElementGrain / std::max<int64_t>(channels, 1), 1), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; r += ranges.rows) {
        RoundRows(arrays, in + r * channels, std::min(ranges.rows, end - r) * channels, out + r * channels);
      }
    });
    return absl::OkStatus();
  };
  return MakeKernel(run, quantizer.channels == 1 ? 0 : ranges.scratch_bytes());
}

struct EndSums {
  double below = 0, above = 0;
};
// What a range makes of a gradient: it passes inside, and else counts for an end. NaN times 0 stays NaN.
struct Passed {
  Passed(float gradient, float x, float low, float high, bool empty) {
    const float within = x >= low ? (x <= high ? 1.0f : 0.0f) : 0.0f;
    inside = gradient * (empty ? 1.0f : within);
    below = gradient * (empty ? 0.0f : x < low ? 1.0f : 0.0f);
    above = gradient * (empty ? 0.0f : x > high ? 1.0f : 0.0f);
  }
  float inside, below, above;
};

// Of `rows` elements of one channel.
EndSums PassRows(float low, float high, bool empty, const float* gradients, const float* in, int64_t rows, float* out) {
  EndSums sums;
  double below[kSumLanes] = {}, above[kSumLanes] = {};
  int64_t r = 0;
  for (; r + kSumLanes <= rows; r += kSumLanes) {
#pragma GCC ivdep
    for (int64_t k = 0; k < kSumLanes; ++k) {
      const Passed passed(gradients[r + k], in[r + k], low, high, empty);
      out[r + k] = passed.inside;
      below[k] += passed.below;
      above[k] += passed.above;
    }
  }
  for (int64_t k = 0; k < kSumLanes; ++k) {
    sums.below += below[k];
    sums.above += above[k];
  }
  for (; r < rows; ++r) {
    const Passed passed(gradients[r], in[r], low, high, empty);
    out[r] = passed.inside;
    sums.below += passed.below;
    sums.above += passed.above;
  }
  return sums;
}

// Of `rows` rows of several channels, whose sums are in the rows' order. `below` and `above` have one for each channel.
void PassRows(const ChannelRanges& ranges, const ChannelRanges::Arrays& arrays, const float* gradients, const float* in, int64_t rows, float* out,
              double* below, double* above) {
  const auto [low, high, step, inverse, zero, empty] = arrays;
  const int64_t channels = ranges.channels;
  std::fill_n(below, channels, 0.0);
  std::fill_n(above, channels, 0.0);
  for (int64_t r = 0; r < rows; r += ranges.rows) {
    const int64_t taken = std::min(ranges.rows, rows - r), n = taken * channels, at = r * channels;
    if (ranges.rows == 1) {
#pragma GCC ivdep
      for (int64_t k = 0; k < n; ++k) {
        const Passed passed(gradients[at + k], in[at + k], low[k], high[k], empty[k] != 0);
        out[at + k] = passed.inside;
        below[k] += passed.below;
        above[k] += passed.above;
      }
      continue;
    }
    float of_below[ChannelRanges::kWide], of_above[ChannelRanges::kWide];
#pragma GCC ivdep
    for (int64_t k = 0; k < n; ++k) {
      const Passed passed(gradients[at + k], in[at + k], low[k], high[k], empty[k] != 0);
      out[at + k] = passed.inside;
      of_below[k] = passed.below;
      of_above[k] = passed.above;
    }
    for (int64_t c = 0; c < channels; ++c) {
      double below_sum = below[c], above_sum = above[c];
      for (int64_t k = c; k < n; k += channels) {
        below_sum += of_below[k];
        above_sum += of_above[k];
      }
      below[c] = below_sum;
      above[c] = above_sum;
    }
  }
}

// (gradients, inputs[, min, max]): within the range the gradient passes, outside it goes to the end that cut it off.
template <int kRange>
absl::StatusOr<std::unique_ptr<Kernel>> MakeFakeQuantGradient(const OpInstance& node) {
  const Quantizer quantizer(node, 1, kRange);
  const ChannelRanges ranges(quantizer);
  const int64_t chunks = (quantizer.rows + kChunkRows - 1) / kChunkRows, channels = quantizer.channels;
  return MakeKernel(
      [=](const KernelContext& context) {
        const ChannelRanges::Arrays arrays = ranges.Make(quantizer, context);
        // Of a chunk what went to the lower ends of the channels, then what went to the upper ones.
        double* const sums = reinterpret_cast<double*>(static_cast<char*>(context.scratch) + ranges.scratch_bytes());
        const float *gradients = context.input<float>(0), *in = context.input<float>(1);
        float* out = context.output<float>(0);
        const int64_t grain = std::max<int64_t>(kElementGrain / kChunkRows / std::max<int64_t>(channels, 1), 1);
        ParallelRange(context, chunks, grain, [&](int64_t begin, int64_t end) {
          for (int64_t chunk = begin; chunk < end; ++chunk) {
            const int64_t row = chunk * kChunkRows, rows = std::min(kChunkRows, quantizer.rows - row), at = row * channels;
            double* const below = sums + 2 * chunk * channels;
            if (channels == 1) {
              const EndSums of_chunk = PassRows(arrays.low[0], arrays.high[0], kRange >= 0 && arrays.empty[0] != 0, gradients + at, in + at, rows, out + at);
              below[0] = of_chunk.below;
              below[1] = of_chunk.above;
            } else {
              PassRows(ranges, arrays, gradients + at, in + at, rows, out + at, below, below + channels);
            }
          }
        });
        for (int64_t c = 0; kRange >= 0 && c < channels; ++c) {
          EndSums total;
          for (int64_t chunk = 0; chunk < chunks; ++chunk) {
            total.below += sums[2 * chunk * channels + c];
            total.above += sums[(2 * chunk + 1) * channels + c];
          }
          context.output<float>(1)[c] = static_cast<float>(total.below);
          context.output<float>(2)[c] = static_cast<float>(total.above);
        }
        return absl::OkStatus();
      },
      ranges.scratch_bytes() + 2 * chunks * channels * static_cast<int64_t>(sizeof(double)));
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
