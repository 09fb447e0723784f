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

// Mean and variance of every channel, from sums of differences to its first element.
template <typename T>
struct StatisticsBody : PairSum {
  BatchNormShape shape;
  BatchNormForward f;
  MR_DEVICE float Shift(int64_t channel) const {
    const float first = Widen(static_cast<const T*>(f.x)[channel]);
    return first - first == 0 ? first : 0.0f;
  }
  MR_DEVICE Pair Load(int64_t channel, int64_t k) const {
    const double value = Widen(static_cast<const T*>(f.x)[k * shape.channels + channel]);
    const double d = value - static_cast<double>(Shift(channel));
    return {d, d * d};
  }
  MR_DEVICE void Store(int64_t c, Pair sums) const {
    const double count = static_cast<double>(shape.pixels), offset = sums.a / count;
    const float mean = static_cast<float>(Shift(c) + offset);
    const double spread = sums.b / count - offset * offset;
    const float variance = static_cast<float>(spread < 0 ? 0.0 : spread);
    const float unbiased = static_cast<float>(count / (count > 2 ? count - 1 : 1.0));
    f.mean_saved[c] = mean;
    f.variance_saved[c] = variance;
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
  BatchNormForward f;
  MR_DEVICE void operator()(int64_t c) const {
    f.mean_out[c] = f.mean_saved[c] = f.old_mean[c];
    f.variance_out[c] = f.variance_saved[c] = f.old_variance[c];
  }
};

template <typename T>
struct NormalizeBody {
  int64_t channels;
  float epsilon;
  BatchNormForward f;
  MR_DEVICE void operator()(int64_t i) const {
    const int64_t c = i % channels;
    const float factor = f.scale[c] / sqrtf(f.variance_saved[c] + epsilon);
    const float x = static_cast<float>(Widen(static_cast<const T*>(f.x)[i]));
    static_cast<T*>(f.y)[i] = Wide<T>::Narrow((x - f.mean_saved[c]) * factor + f.offset[c]);
  }
};

template <typename T>
struct GradientSumsBody : PairSum {
  BatchNormShape shape;
  BatchNormBackward b;
  float *factor, *dy_mean, *slope;
  MR_DEVICE Pair Load(int64_t channel, int64_t k) const {
    const int64_t at = k * shape.channels + channel;
    const double g = Widen(static_cast<const T*>(b.dy)[at]);
    const double x = Widen(static_cast<const T*>(b.x)[at]);
    return {g, g * (x - static_cast<double>(b.mean[channel]))};
  }
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
  BatchNormShape shape;
  BatchNormBackward b;
  const float *factor, *dy_mean, *slope;
  MR_DEVICE void operator()(int64_t i) const {
    const int64_t c = i % shape.channels;
    const float g = static_cast<float>(Widen(static_cast<const T*>(b.dy)[i]));
    const float centered = static_cast<float>(Widen(static_cast<const T*>(b.x)[i])) - b.mean[c];
    const float dx = shape.training ? factor[c] * (g - dy_mean[c] - centered * slope[c]) : g * factor[c];
    static_cast<T*>(b.dx)[i] = Wide<T>::Narrow(dx);
  }
};

// Input rows (or columns) [begin, end) of a window.
struct Reach {
  int64_t begin, end;
};
MR_DEVICE inline Reach WindowAt(const PoolShape& p, int d, int64_t out) {
  const int64_t start = out * p.stride[d] - p.pad[d], end = start + p.window[d];
  return {start < 0 ? 0 : start, end < p.in[d] ? end : p.in[d]};
}

template <typename T>
struct PoolBody {
  bool average;
  PoolShape p;
  const T* x;
  T* y;
  MR_DEVICE void operator()(int64_t i) const {
    using W = typename Wide<T>::type;
    const int64_t c = i % p.channels, w = i / p.channels % p.out[1], h = i / p.channels / p.out[1] % p.out[0];
    const int64_t n = i / p.channels / p.out[1] / p.out[0];
    const Reach rows = WindowAt(p, 0, h), columns = WindowAt(p, 1, w);
    W sum = W(0), best = static_cast<W>(sizeof(W) == 8 ? -1.7976931348623157e308 : -3.4028234663852886e38);
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      for (int64_t q = columns.begin; q < columns.end; ++q) {
        const W value = Widen(x[((n * p.in[0] + r) * p.in[1] + q) * p.channels + c]);
        sum = static_cast<W>(sum + value);
        if (best < value) best = value;
      }
    }
    const W count = static_cast<W>((rows.end - rows.begin) * (columns.end - columns.begin));
    y[i] = Wide<T>::Narrow(average ? sum / count : best);
  }
};

template <typename T>
struct PoolGradBody {
  bool average;
  PoolShape p;
  const T* x;
  const T* dy;
  T* dx;

  // Windows of which input element `at` is part: [begin, end).
  MR_DEVICE Reach WindowsOf(int d, int64_t at) const {
    const int64_t low = at + p.pad[d] - p.window[d] + 1, high = (at + p.pad[d]) / p.stride[d] + 1;
    return {low <= 0 ? 0 : (low + p.stride[d] - 1) / p.stride[d], high < p.out[d] ? high : p.out[d]};
  }
  MR_DEVICE bool IsFirstMaximum(int64_t n, int64_t c, Reach rows, Reach columns, int64_t h, int64_t w) const {
    int64_t best_r = rows.begin, best_q = columns.begin;
    auto best = Widen(x[((n * p.in[0] + best_r) * p.in[1] + best_q) * p.channels + c]);
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      for (int64_t q = columns.begin; q < columns.end; ++q) {
        const auto value = Widen(x[((n * p.in[0] + r) * p.in[1] + q) * p.channels + c]);
        if (best < value) {
          best = value;
          best_r = r;
          best_q = q;
        }
      }
    }
    return best_r == h && best_q == w;
  }
  MR_DEVICE void operator()(int64_t i) const {
    using W = typename Wide<T>::type;
    const int64_t c = i % p.channels, w = i / p.channels % p.in[1], h = i / p.channels / p.in[1] % p.in[0];
    const int64_t n = i / p.channels / p.in[1] / p.in[0];
    const Reach out_rows = WindowsOf(0, h), out_columns = WindowsOf(1, w);
    W sum = W(0);
    for (int64_t a = out_rows.begin; a < out_rows.end; ++a) {
      for (int64_t b = out_columns.begin; b < out_columns.end; ++b) {
        const Reach rows = WindowAt(p, 0, a), columns = WindowAt(p, 1, b);
        const W g = Widen(dy[((n * p.out[0] + a) * p.out[1] + b) * p.channels + c]);
        if (average) {
          sum = static_cast<W>(sum + g / static_cast<W>((rows.end - rows.begin) * (columns.end - columns.begin)));
        } else if (IsFirstMaximum(n, c, rows, columns, h, w)) {
          sum = static_cast<W>(sum + g);
        }
      }
    }
    dx[i] = Wide<T>::Narrow(sum);
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

}  // namespace

int64_t BatchNormScratchBytes(const BatchNormShape& shape) {
  const int64_t sums = shape.channels * SumChunks(shape.channels, shape.pixels) * static_cast<int64_t>(sizeof(Pair));
  return sums + 3 * shape.channels * static_cast<int64_t>(sizeof(float));
}

void LaunchBatchNorm(const Queue& queue, Type type, const BatchNormShape& shape, const BatchNormForward& arguments,
                     void* scratch) {
  ForNormType(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (shape.training) {
      StatisticsBody<T> body;
      body.shape = shape;
      body.f = arguments;
      SumRows<Pair>(queue, shape.channels, shape.pixels, true, scratch, body);
    } else {
      ForEach(queue, shape.channels, GivenStatisticsBody{arguments});
    }
    ForEach(queue, shape.pixels * shape.channels, NormalizeBody<T>{shape.channels, shape.epsilon, arguments});
  });
}

void LaunchBatchNormGrad(const Queue& queue, Type type, const BatchNormShape& shape, const BatchNormBackward& arguments,
                         void* scratch) {
  Pair* partial = static_cast<Pair*>(scratch);
  float* factor = reinterpret_cast<float*>(partial + shape.channels * SumChunks(shape.channels, shape.pixels));
  ForNormType(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    GradientSumsBody<T> body;
    body.shape = shape;
    body.b = arguments;
    body.factor = factor;
    body.dy_mean = factor + shape.channels;
    body.slope = factor + 2 * shape.channels;
    SumRows<Pair>(queue, shape.channels, shape.pixels, true, partial, body);
    ForEach(queue, shape.pixels * shape.channels,
            GradientBody<T>{shape, arguments, body.factor, body.dy_mean, body.slope});
  });
}

void LaunchPool(const Queue& queue, Type type, bool average, const PoolShape& shape, const void* x, void* y) {
  ForFloating(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ForEach(queue, shape.batch * shape.out[0] * shape.out[1] * shape.channels,
            PoolBody<T>{average, shape, static_cast<const T*>(x), static_cast<T*>(y)});
  });
}

void LaunchPoolGrad(const Queue& queue, Type type, bool average, const PoolShape& shape, const void* x, const void* dy,
                    void* dx) {
  ForFloating(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ForEach(queue, shape.batch * shape.in[0] * shape.in[1] * shape.channels,
            PoolGradBody<T>{average, shape, static_cast<const T*>(x), static_cast<const T*>(dy), static_cast<T*>(dx)});
  });
}

}  // namespace millrace::cuda
