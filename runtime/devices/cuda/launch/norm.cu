#include "cuda/launch/norm.h"

#include "cuda/launch/portable.h"

namespace millrace::cuda {
namespace {

struct Pair {
  double a, b;
};
struct PairSum {
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

// What a channel's elements are multiplied by; with the first one's, the output that nobody uses is set.
MR_DEVICE inline float FactorOf(const BatchNormForward& f, float epsilon, int64_t c, float variance) {
  if (c == 0 && f.reserve != nullptr) *f.reserve = 0.0f;
  return f.scale[c] / sqrtf(variance + epsilon);
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
    factor[c] = FactorOf(f, shape.epsilon, c, variance);
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
    factor[c] = FactorOf(f, epsilon, c, variance);
  }
};

template <typename T>
struct NormalizeBody {
  ChannelIndex index;
  const float* factor;
  BatchNormForward f;
  MR_DEVICE T operator()(int64_t i) const {
    const int64_t c = index.ChannelOf(i);
    const float x = static_cast<float>(Widen(static_cast<const T*>(f.x)[i]));
    return Wide<T>::Narrow((x - f.mean_saved[c]) * factor[c] + f.offset[c]);
  }
};

template <typename T>
struct GradientSumsBody : PairSum {
  BatchNormShape shape;
  ChannelIndex index;
  BatchNormBackward b;
  float *factor, *dy_mean, *slope;
  struct Loaded {
    T dy, x;
  };
  struct Terms {
    static constexpr int kAtOnce = 4;  // of two loads
    const GradientSumsBody& body;
    int64_t channel;
    double mean;
    MR_DEVICE Loaded Fetch(int64_t k) const {
      const int64_t at = body.index.At(channel, k);
      return {static_cast<const T*>(body.b.dy)[at], static_cast<const T*>(body.b.x)[at]};
    }
    MR_DEVICE Pair Value(const Loaded& term) const {
      const double g = static_cast<double>(Widen(term.dy));
      return {g, g * (static_cast<double>(Widen(term.x)) - mean)};
    }
  };
  MR_DEVICE Terms Row(int64_t channel) const { return {*this, channel, static_cast<double>(b.mean[channel])}; }
  MR_DEVICE void Store(int64_t c, Pair sums) const {
    const double count = static_cast<double>(shape.pixels > 0 ? shape.pixels : 1);
    const double inverse = 1.0 / sqrt(static_cast<double>(b.variance[c] + shape.epsilon));
    b.d_offset[c] = static_cast<float>(sums.a);
    b.d_scale[c] = static_cast<float>(sums.b * inverse);
    factor[c] = static_cast<float>(b.scale[c] * inverse);
    dy_mean[c] = static_cast<float>(sums.a / count);
    slope[c] = static_cast<float>(sums.b / count * inverse * inverse);
  }
};

template <typename T>
struct GradientBody {
  ChannelIndex index;
  bool training;
  BatchNormBackward b;
  const float *factor, *dy_mean, *slope;
  MR_DEVICE T operator()(int64_t i) const {
    const int64_t c = index.ChannelOf(i);
    const float g = static_cast<float>(Widen(static_cast<const T*>(b.dy)[i]));
    const float centered = static_cast<float>(Widen(static_cast<const T*>(b.x)[i])) - b.mean[c];
    return Wide<T>::Narrow(training ? factor[c] * (g - dy_mean[c] - centered * slope[c]) : g * factor[c]);
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

// Scratch behind the sums of chunks: up to three numbers a channel.
float* BehindSums(const BatchNormShape& shape, void* scratch) {
  const int64_t sums = shape.channels * SumChunks(shape.channels, shape.pixels, !shape.channels_first);
  return reinterpret_cast<float*>(static_cast<Pair*>(scratch) + sums);
}

}  // namespace

int64_t BatchNormScratchBytes(const BatchNormShape& shape) {
  const int64_t sums = shape.channels * SumChunks(shape.channels, shape.pixels, !shape.channels_first) * static_cast<int64_t>(sizeof(Pair));
  return sums + 3 * shape.channels * static_cast<int64_t>(sizeof(float));
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
    const int64_t n = shape.pixels * shape.channels;
    Map(queue, n, static_cast<T*>(arguments.y), NormalizeBody<T>{IndexOf(shape), factor, arguments});
  });
}

void LaunchBatchNormGrad(const Queue& queue, Type type, const BatchNormShape& shape, const BatchNormBackward& arguments,
                         void* scratch) {
  float* const factor = BehindSums(shape, scratch);
  ForNormType(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    GradientSumsBody<T> body;
    body.shape = shape;
    body.index = IndexOf(shape);
    body.b = arguments;
    body.factor = factor;
    body.dy_mean = factor + shape.channels;
    body.slope = factor + 2 * shape.channels;
    SumRows<Pair>(queue, shape.channels, shape.pixels, !shape.channels_first, scratch, body);
    const int64_t n = shape.pixels * shape.channels;
    Map(queue, n, static_cast<T*>(arguments.dx),
        GradientBody<T>{IndexOf(shape), shape.training, arguments, body.factor, body.dy_mean, body.slope});
  });
}

}  // namespace millrace::cuda
