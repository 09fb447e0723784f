#include "cuda/launch/norm.h"

#include "cuda/launch/elementwise_math.h"
#include "cuda/launch/pack.h"
#include "cuda/launch/portable.h"

namespace millrace::cuda {
namespace {

struct Pair {
  double a, b;
};
struct PairSum {
  using RowsTakeTurns = void;  // channels, within each image, where they come first
  MR_DEVICE Pair Identity() const { return {0, 0}; }
  MR_DEVICE Pair Combine(Pair x, Pair y) const { return {x.a + y.a, x.b + y.b}; }
};

// Where term k of a channel, and the channel of an element, are.
struct ChannelIndex {
  bool first = false;   // channels before pixels
  Divider plane;        // pixels of one image, where they are
  Divider channels;
  MR_DEVICE int64_t At(int64_t channel, int64_t k) const {
    if (!first) return k * channels.by + channel;
    const Divider::Parts parts = plane.small_magic != 0 ? plane.Split<true>(k) : plane.Split<false>(k);
    return (parts.quotient * channels.by + channel) * plane.by + parts.rest;
  }
  MR_DEVICE int64_t ChannelOf(int64_t i) const {
    const int64_t line = first ? plane(i) : i;
    return line - channels(line) * channels.by;
  }
};
ChannelIndex IndexOf(const BatchNormShape& shape) {
  const int64_t n = shape.pixels * shape.channels;
  return {shape.channels_first, DivideBy(shape.plane, n), DivideBy(shape.channels, n)};
}

// What a channel's elements are multiplied by, and what becomes of one: gradients ask for it again, with the same bits.
MR_DEVICE inline float FactorOf(float scale, float variance, float epsilon) { return scale / sqrtf(variance + epsilon); }
template <typename T>
MR_DEVICE float Normalized(T x, float mean, float factor, float offset) {
  return (static_cast<float>(Widen(x)) - mean) * factor + offset;
}

// The largest number that T rounds to 0, half of its least one: what is above is positive as T, too.
template <typename T>
inline constexpr float kRoundsToZero = 0;
template <>
inline constexpr float kRoundsToZero<Half> = 0x1p-25f;
template <>
inline constexpr float kRoundsToZero<Bfloat16> = 0x1p-134f;

// The gradient `g` as ReluGrad passes it on to what T keeps of `y`: by 0 or 1, which needs no rounding.
template <typename T>
MR_DEVICE float ThroughRelu(float g, float y) {
  return FloatBinary(BinaryOp::kReluGrad, g, y > kRoundsToZero<T> ? 1.0f : 0.0f, 0.0f);
}

// The factor of a channel; with the first one's, the output that nobody uses is set.
MR_DEVICE inline float ForwardFactor(const BatchNormForward& f, float epsilon, int64_t c, float variance) {
  if (c == 0 && f.reserve != nullptr) *f.reserve = 0.0f;
  return FactorOf(f.scale[c], variance, epsilon);
}

// Mean and variance of every channel, from sums of differences to its first element.
template <typename T>
struct StatisticsBody : PairSum {
  BatchNormShape shape;
  ChannelIndex index;
  BatchNormForward f;
  float* factor;
  struct Terms {
    static constexpr int kAtOnce = 8;
    const StatisticsBody& body;
    int64_t channel;
    double shift;
    MR_DEVICE T Fetch(int64_t k) const { return static_cast<const T*>(body.f.x)[body.index.At(channel, k)]; }
    MR_DEVICE Pair Value(T term) const {
      const double d = static_cast<double>(Widen(term)) - shift;
      return {d, d * d};
    }
  };
  MR_DEVICE float Shift(int64_t channel) const {
    const float first = Widen(static_cast<const T*>(f.x)[index.At(channel, 0)]);
    return first - first == 0 ? first : 0.0f;
  }
  MR_DEVICE Terms Row(int64_t channel) const { return {*this, channel, static_cast<double>(Shift(channel))}; }
  MR_DEVICE void Store(int64_t c, Pair sums) const {
    const double count = static_cast<double>(shape.pixels), offset = sums.a / count;
    const float mean = static_cast<float>(Shift(c) + offset);
    const double spread = sums.b / count - offset * offset;
    const float variance = static_cast<float>(spread < 0 ? 0.0 : spread);
    const float unbiased = static_cast<float>(count / (count > 2 ? count - 1 : 1.0));
    f.mean_saved[c] = mean;
    f.variance_saved[c] = variance;
    factor[c] = ForwardFactor(f, shape.epsilon, c, variance);
    if (shape.average == 1.0f) {
      f.mean_out[c] = mean;
      f.variance_out[c] = variance * unbiased;
    } else {
      const float keep = 1.0f - shape.average;
      f.mean_out[c] = keep * f.old_mean[c] + shape.average * mean;
      f.variance_out[c] = keep * f.old_variance[c] + shape.average * unbiased * variance;
    }
  }
};

struct GivenStatisticsBody {
  float epsilon;
  BatchNormForward f;
  float* factor;
  MR_DEVICE void operator()(int64_t c) const {
    const float variance = f.old_variance[c];
    f.mean_out[c] = f.mean_saved[c] = f.old_mean[c];
    f.variance_out[c] = f.variance_saved[c] = variance;
    factor[c] = ForwardFactor(f, epsilon, c, variance);
  }
};

// y = rule.Value(a, b, numbers of the channel) over a whole tensor, kCount elements at once: neighbouring channels, or, with kFirst, of
// one. From the end to the start: the sums went the other way, and what they read last is in the cache still; what runs next finds the
// start there.
template <typename T, typename Rule, int kCount, bool kFirst>
struct PackBody {
  using Elements = Pack<T, kCount>;
  using Numbers = Pack<float, kCount>;
  ChannelIndex index;
  int64_t packs;
  Rule rule;
  MR_DEVICE void operator()(int64_t turn) const {
    const int64_t pack = packs - 1 - turn, c = index.ChannelOf(pack * kCount);
    const Elements a = static_cast<const Elements*>(rule.a)[pack];
    const Elements b = rule.b != nullptr ? static_cast<const Elements*>(rule.b)[pack] : a;
    Numbers numbers[Rule::kNumbers];
    MR_UNROLL for (int k = 0; k < Rule::kNumbers; ++k) {
      if constexpr (kFirst) {
        const float number = rule.numbers[k][c];
        MR_UNROLL for (int j = 0; j < kCount; ++j) numbers[k].of[j] = number;
      } else {
        numbers[k] = *reinterpret_cast<const Numbers*>(rule.numbers[k] + c);
      }
    }
    Elements y;
    MR_UNROLL for (int j = 0; j < kCount; ++j) {
      float of_channel[Rule::kNumbers];
      MR_UNROLL for (int k = 0; k < Rule::kNumbers; ++k) of_channel[k] = numbers[k].of[j];
      y.of[j] = rule.Value(a.of[j], b.of[j], of_channel);
    }
    static_cast<Elements*>(rule.y)[pack] = y;
  }
};

template <typename T, typename Rule>
void ForEachElement(const Queue& queue, const BatchNormShape& shape, const Rule& rule) {
  constexpr int kCount = 4;
  const ChannelIndex index = IndexOf(shape);
  const int64_t n = shape.pixels * shape.channels;
  const auto aligned = [](const void* at, size_t bytes) { return reinterpret_cast<uintptr_t>(at) % bytes == 0; };
  const auto whole = [&](const void* tensor) { return aligned(tensor, kCount * sizeof(T)); };
  bool together = (shape.channels_first ? shape.plane : shape.channels) % kCount == 0 && whole(rule.a) && whole(rule.b) && whole(rule.y);
  for (const float* numbers : rule.numbers) together = together && (shape.channels_first || aligned(numbers, kCount * sizeof(float)));
  if (!together) {
    ForEach(queue, n, PackBody<T, Rule, 1, true>{index, n, rule}, kManyBlocks);
  } else if (shape.channels_first) {
    ForEach(queue, n / kCount, PackBody<T, Rule, kCount, true>{index, n / kCount, rule}, kManyBlocks);
  } else {
    ForEach(queue, n / kCount, PackBody<T, Rule, kCount, false>{index, n / kCount, rule}, kManyBlocks);
  }
}

// Of x and perhaps what is added.
template <typename T>
struct NormalizeRule {
  static constexpr int kNumbers = 3;
  const void *a, *b;
  void* y;
  const float* numbers[kNumbers];  // mean, factor, offset
  bool relu;
  MR_DEVICE T Value(T x, T side, const float* of_channel) const {
    T value = Wide<T>::Narrow(Normalized(x, of_channel[0], of_channel[1], of_channel[2]));
    if (b != nullptr) value = BinaryOne(BinaryOp::kAdd, value, side, 0);
    return relu ? UnaryOne(UnaryOp::kRelu, value, 0) : value;
  }
};

// kRelu: a Relu is behind the batch norm.
template <typename T, bool kRelu>
struct GradientSumsBody : PairSum {
  BatchNormShape shape;
  ChannelIndex index;
  BatchNormBackward b;
  float *factor, *dy_mean, *slope, *forward;
  struct Loaded {
    T dy, x;
  };
  struct Terms {
    static constexpr int kAtOnce = 4;  // of two loads
    const GradientSumsBody& body;
    int64_t channel;
    double mean;
    float narrow_mean, forward, offset;
    MR_DEVICE Loaded Fetch(int64_t k) const {
      const int64_t at = body.index.At(channel, k);
      return {static_cast<const T*>(body.b.dy)[at], static_cast<const T*>(body.b.x)[at]};
    }
    MR_DEVICE Pair Value(const Loaded& term) const {
      float incoming = static_cast<float>(Widen(term.dy));
      if constexpr (kRelu) incoming = ThroughRelu<T>(incoming, Normalized(term.x, narrow_mean, forward, offset));
      const double g = static_cast<double>(incoming);
      return {g, g * (static_cast<double>(Widen(term.x)) - mean)};
    }
  };
  MR_DEVICE Terms Row(int64_t c) const {
    Terms terms{*this, c, static_cast<double>(b.mean[c]), b.mean[c], 0, 0};
    if constexpr (kRelu) {
      terms.forward = FactorOf(b.scale[c], b.variance[c], shape.epsilon);
      terms.offset = b.offset[c];
    }
    return terms;
  }
  MR_DEVICE void Store(int64_t c, Pair sums) const {
    const double count = static_cast<double>(shape.pixels > 0 ? shape.pixels : 1);
    const double inverse = 1.0 / sqrt(static_cast<double>(b.variance[c] + shape.epsilon));
    b.d_offset[c] = static_cast<float>(sums.a);
    b.d_scale[c] = static_cast<float>(sums.b * inverse);
    factor[c] = static_cast<float>(b.scale[c] * inverse);
    dy_mean[c] = static_cast<float>(sums.a / count);
    slope[c] = static_cast<float>(sums.b / count * inverse * inverse);
    if constexpr (kRelu) forward[c] = FactorOf(b.scale[c], b.variance[c], shape.epsilon);
  }
};

// Of dy and x.
template <typename T, bool kRelu>
struct GradientRule {
  static constexpr int kNumbers = kRelu ? 6 : 4;
  const void *a, *b;
  void* y;
  const float* numbers[kNumbers];  // mean, factor, mean of dy, slope; then the forward factor and the offset
  bool training;
  MR_DEVICE T Value(T dy, T x, const float* of_channel) const {
    float g = static_cast<float>(Widen(dy));
    if constexpr (kRelu) g = ThroughRelu<T>(g, Normalized(x, of_channel[0], of_channel[4], of_channel[5]));
    const float centered = static_cast<float>(Widen(x)) - of_channel[0];
    return Wide<T>::Narrow(training ? of_channel[1] * (g - of_channel[2] - centered * of_channel[3]) : g * of_channel[1]);
  }
};

// Batch norm keeps its statistics in float.
template <typename Fn>
void ForNormType(Type type, const Fn& fn) {
  switch (type) {
    case Type::kFloat: return fn(Tag<float>());
    case Type::kHalf: return fn(Tag<Half>());
    case Type::kBfloat16: return fn(Tag<Bfloat16>());
    default: return;
  }
}

// Scratch behind the sums of chunks: up to so many numbers a channel.
constexpr int kScratchNumbers = 4;
float* BehindSums(const BatchNormShape& shape, void* scratch) {
  const int64_t sums = shape.channels * SumChunks(shape.channels, shape.pixels, !shape.channels_first);
  return reinterpret_cast<float*>(static_cast<Pair*>(scratch) + sums);
}

}  // namespace

int64_t BatchNormScratchBytes(const BatchNormShape& shape) {
  const int64_t sums = shape.channels * SumChunks(shape.channels, shape.pixels, !shape.channels_first) * static_cast<int64_t>(sizeof(Pair));
  return sums + kScratchNumbers * shape.channels * static_cast<int64_t>(sizeof(float));
}

void LaunchBatchNorm(const Queue& queue, Type type, const BatchNormShape& shape, const BatchNormForward& arguments,
                     void* scratch) {
  float* const factor = BehindSums(shape, scratch);
  ForNormType(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (shape.training) {
      StatisticsBody<T> body;
      body.shape = shape;
      body.index = IndexOf(shape);
      body.f = arguments;
      body.factor = factor;
      SumRows<Pair>(queue, shape.channels, shape.pixels, !shape.channels_first, scratch, body);
    } else {
      ForEach(queue, shape.channels, GivenStatisticsBody{shape.epsilon, arguments, factor});
    }
    ForEachElement<T>(queue, shape,
                      NormalizeRule<T>{arguments.x, arguments.side, arguments.y, {arguments.mean_saved, factor, arguments.offset}, arguments.relu});
  });
}

namespace {

template <typename T, bool kRelu>
void LaunchGradient(const Queue& queue, const BatchNormShape& shape, const BatchNormBackward& b, void* scratch) {
  GradientSumsBody<T, kRelu> body;
  body.shape = shape;
  body.index = IndexOf(shape);
  body.b = b;
  body.factor = BehindSums(shape, scratch);
  body.dy_mean = body.factor + shape.channels;
  body.slope = body.factor + 2 * shape.channels;
  body.forward = body.factor + 3 * shape.channels;
  SumRows<Pair>(queue, shape.channels, shape.pixels, !shape.channels_first, scratch, body);
  GradientRule<T, kRelu> rule{b.dy, b.x, b.dx, {b.mean, body.factor, body.dy_mean, body.slope}, shape.training};
  if constexpr (kRelu) {
    rule.numbers[4] = body.forward;
    rule.numbers[5] = b.offset;
  }
  ForEachElement<T>(queue, shape, rule);
}

}  // namespace

void LaunchBatchNormGrad(const Queue& queue, Type type, const BatchNormShape& shape, const BatchNormBackward& arguments,
                         void* scratch) {
  ForNormType(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    arguments.offset != nullptr ? LaunchGradient<T, true>(queue, shape, arguments, scratch)
                                : LaunchGradient<T, false>(queue, shape, arguments, scratch);
  });
}

}  // namespace millrace::cuda
