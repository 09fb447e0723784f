#include "cuda/launch/image.h"

#include "cuda/launch/portable.h"

// Of the loop behind it: what is indexed by its counter alone stays in registers.
#if defined(__CUDA_ARCH__)
#define MR_UNROLL _Pragma("unroll")
#else
#define MR_UNROLL
#endif

namespace millrace::cuda {
namespace {

MR_DEVICE inline float NegativePower(float norm, float beta) {
  if (beta == 1.0f) return 1.0f / norm;
  if (beta == 0.5f) return 1.0f / sqrtf(norm);
  if (beta == 0.75f) return 1.0f / sqrtf(norm * sqrtf(norm));
  return expf(logf(norm) * -beta);
}

struct LrnWindow {
  LrnShape shape;
  Divider channels;
  MR_DEVICE int64_t ChannelOf(int64_t i) const { return i - channels(i) * channels.by; }
  // The sum of value(j) over the channels around that of element i.
  template <typename Value>
  MR_DEVICE float Sum(int64_t i, const Value& value) const {
    const int64_t c = ChannelOf(i), first = c < shape.radius ? -c : -shape.radius;
    const int64_t last = c + shape.radius < shape.channels ? shape.radius : shape.channels - 1 - c;
    float sum = 0;
    for (int64_t k = first; k <= last; ++k) sum += value(i + k);
    return sum;
  }
  template <typename T>
  MR_DEVICE float Norm(const T* x, int64_t i) const {
    return shape.bias + shape.alpha * Sum(i, [x](int64_t j) {
             const float value = Widen(x[j]);
             return value * value;
           });
  }
};

template <typename T>
struct LrnBody {
  LrnWindow window;
  const T* x;
  MR_DEVICE T operator()(int64_t i) const {
    return Wide<T>::Narrow(Widen(x[i]) * NegativePower(window.Norm(x, i), window.shape.beta));
  }
};

// Per element: its norm, and dy * y / norm, which the neighbours sum.
template <typename T>
struct LrnShareBody {
  LrnWindow window;
  const T* dy;
  const T* x;
  const T* y;
  float* norms;
  float* shares;
  MR_DEVICE void operator()(int64_t i) const {
    norms[i] = window.Norm(x, i);
    shares[i] = Widen(dy[i]) * Widen(y[i]) / norms[i];
  }
};

template <typename T>
struct LrnGradBody {
  LrnWindow window;
  const T* dy;
  const T* x;
  const float* norms;
  const float* shares;
  MR_DEVICE T operator()(int64_t i) const {
    const float* const from = shares;
    const float sum = window.Sum(i, [from](int64_t j) { return from[j]; });
    const float factor = 2.0f * window.shape.alpha * window.shape.beta;
    return Wide<T>::Narrow(Widen(dy[i]) * NegativePower(norms[i], window.shape.beta) - factor * Widen(x[i]) * sum);
  }
};

template <typename Fn>
void ForFloat(Type type, const Fn& fn) {
  switch (type) {
    case Type::kFloat: return fn(Tag<float>());
    case Type::kHalf: return fn(Tag<Half>());
    case Type::kBfloat16: return fn(Tag<Bfloat16>());
    default: return;
  }
}

// The input positions, with weights, of one position of the output. Loops over them are unrolled, so that they stay in registers.
inline constexpr int kMostTaps = 4;
struct Taps {
  int count;
  int64_t index[kMostTaps];
  float weight[kMostTaps];
  MR_DEVICE bool Has(int k) const { return k < count && weight[k] != 0.0f; }
};

// The cubic kernel with coefficient `a` at distance x and x + 1.
MR_DEVICE inline float CubicNear(float a, float x) { return ((a + 2.0f) * x - (a + 3.0f)) * x * x + 1.0f; }
MR_DEVICE inline float CubicFar(float a, float x) {
  return ((a * (x + 1.0f) - 5.0f * a) * (x + 1.0f) + 8.0f * a) * (x + 1.0f) - 4.0f * a;
}

struct Sampler {
  ResizeShape shape;
  Divider channels, width, height;  // of the side that is walked

  MR_DEVICE Taps At(const ResizeAxis& axis, int64_t at) const {
    const float position = static_cast<float>(at);
    if (shape.nearest) {
      const float where = shape.half_pixel_centers ? (position + 0.5f) * axis.scale : position * axis.scale;
      const int64_t whole = static_cast<int64_t>(shape.align_corners ? roundf(where) : floorf(where));
      return {1, {whole < 0 ? 0 : whole < axis.input ? whole : axis.input - 1, 0, 0, 0}, {1.0f, 0.0f, 0.0f, 0.0f}};
    }
    const float where = shape.half_pixel_centers ? (position + 0.5f) * axis.scale - 0.5f : position * axis.scale;
    const float lower = floorf(where), lerp = where - lower;
    if (shape.cubic) return Cubic(axis, static_cast<int64_t>(lower), lerp);
    const int64_t low = static_cast<int64_t>(lower), high = static_cast<int64_t>(ceilf(where));
    return {2, {low < 0 ? 0 : low, high < axis.input ? high : axis.input - 1, 0, 0}, {1.0f - lerp, lerp, 0.0f, 0.0f}};
  }
  // Weights from TensorFlow's table of 1/1024 steps. With half pixel centers those of positions outside are dropped and
  // the others scaled to a sum of 1; otherwise positions outside count as the nearest one inside.
  MR_DEVICE Taps Cubic(const ResizeAxis& axis, int64_t lower, float lerp) const {
    constexpr float kSteps = 1024.0f, kLeast = 1.17549435e-38f;
    const bool half = shape.half_pixel_centers;
    const float a = half ? -0.5f : -0.75f, step = rintf(lerp * kSteps), x = step / kSteps, y = (kSteps - step) / kSteps;
    Taps taps = {4, {0, 0, 0, 0}, {CubicFar(a, x), CubicNear(a, x), CubicNear(a, y), CubicFar(a, y)}};
    float sum = 0;
MR_UNROLL
    for (int k = 0; k < kMostTaps; ++k) {
      const int64_t at = lower - 1 + k, inside = at < 0 ? 0 : at < axis.input ? at : axis.input - 1;
      if (half && inside != at) taps.weight[k] = 0.0f;
      taps.index[k] = inside;
      sum += taps.weight[k];
    }
    if (half && fabsf(sum) >= 1000.0f * kLeast) {
MR_UNROLL
      for (int k = 0; k < kMostTaps; ++k) taps.weight[k] *= 1.0f / sum;
    }
    return taps;
  }
  struct Spot {
    int64_t image, row, column, channel;
  };
  MR_DEVICE Spot SpotOf(int64_t i) const {
    const int64_t pixel = channels(i), line = width(pixel), image = height(line);
    return {image, line - image * height.by, pixel - line * width.by, i - pixel * channels.by};
  }
};

Sampler SamplerOf(const ResizeShape& shape, int64_t height, int64_t width) {
  const int64_t n = shape.batch * height * width * shape.channels;
  return {shape, DivideBy(shape.channels, n), DivideBy(width, n), DivideBy(height, n)};
}

template <typename T>
struct BlendedBody {
  Sampler sampler;
  const T* x;
  MR_DEVICE float operator()(int64_t i) const {
    const auto spot = sampler.SpotOf(i);
    const ResizeAxis &rows = sampler.shape.rows, &columns = sampler.shape.columns;
    const Taps down = sampler.At(rows, spot.row), across = sampler.At(columns, spot.column);
    float result = 0;
MR_UNROLL
    for (int b = 0; b < kMostTaps; ++b) {
      if (!across.Has(b)) continue;
      float column = 0;
MR_UNROLL
      for (int a = 0; a < kMostTaps; ++a) {
        if (!down.Has(a)) continue;
        const int64_t at = ((spot.image * rows.input + down.index[a]) * columns.input + across.index[b]) *
                               sampler.shape.channels + spot.channel;
        column += down.weight[a] * static_cast<float>(Widen(x[at]));
      }
      result += across.weight[b] * column;
    }
    return result;
  }
};

template <typename T>
struct NearestBody {
  Sampler sampler;
  const T* x;
  MR_DEVICE T operator()(int64_t i) const {
    const auto spot = sampler.SpotOf(i);
    const ResizeAxis &rows = sampler.shape.rows, &columns = sampler.shape.columns;
    return x[((spot.image * rows.input + sampler.At(rows, spot.row).index[0]) * columns.input +
              sampler.At(columns, spot.column).index[0]) * sampler.shape.channels + spot.channel];
  }
};

// Output positions that may fall on an input position: a few more than do.
struct Range {
  int64_t begin, end;
};
MR_DEVICE inline Range Touching(const ResizeAxis& axis, int64_t at) {
  if (!(axis.scale > 0)) return {0, axis.output};
  const double scale = static_cast<double>(axis.scale);
  const int64_t low = at == 0 ? 0 : static_cast<int64_t>(floor((static_cast<double>(at) - 2.0) / scale)) - 2;
  const int64_t high = at == axis.input - 1 ? axis.output : static_cast<int64_t>(ceil((static_cast<double>(at) + 3.0) / scale)) + 2;
  return {low < 0 ? 0 : low, high < axis.output ? high : axis.output};
}

// The transposed map: each input element walks the gradients that touch it, in order.
template <typename G, typename T>
struct ResizeGradBody {
  Sampler sampler;
  const G* dy;
  MR_DEVICE T operator()(int64_t i) const {
    using W = typename Wide<T>::type;
    const auto spot = sampler.SpotOf(i);
    const ResizeAxis &rows = sampler.shape.rows, &columns = sampler.shape.columns;
    const Range down = Touching(rows, spot.row), across = Touching(columns, spot.column);
    W sum = W(0);
    for (int64_t y = down.begin; y < down.end; ++y) {
      const Taps row = sampler.At(rows, y);
MR_UNROLL
      for (int a = 0; a < kMostTaps; ++a) {
        if (!row.Has(a) || row.index[a] != spot.row) continue;
        W spread = W(0);
        for (int64_t x = across.begin; x < across.end; ++x) {
          const Taps column = sampler.At(columns, x);
MR_UNROLL
          for (int b = 0; b < kMostTaps; ++b) {
            if (!column.Has(b) || column.index[b] != spot.column) continue;
            const int64_t at = ((spot.image * rows.output + y) * columns.output + x) * sampler.shape.channels + spot.channel;
            spread += column.weight[b] * static_cast<W>(Widen(dy[at]));
          }
        }
        sum = Widen(Wide<T>::Narrow(sum + row.weight[a] * spread));
      }
    }
    return Wide<T>::Narrow(sum);
  }
};

}  // namespace

void LaunchLrn(const Queue& queue, Type type, const LrnShape& shape, const void* x, void* y) {
  const int64_t n = shape.positions * shape.channels;
  ForFloat(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    MapEach(queue, n, static_cast<T*>(y), LrnBody<T>{{shape, DivideBy(shape.channels, n)}, static_cast<const T*>(x)});
  });
}

// Positions at a time: what one launch leaves for the next stays in the device's cache, and scratch stays small beside
// large tensors.
int64_t LrnGradPositions(const LrnShape& shape) {
  constexpr int64_t kElements = int64_t{4} << 20;
  const int64_t positions = kElements / shape.channels;
  return positions < 1 ? 1 : positions < shape.positions ? positions : shape.positions;
}
int64_t LrnGradScratchBytes(const LrnShape& shape) { return 2 * LrnGradPositions(shape) * shape.channels * 4; }

void LaunchLrnGrad(const Queue& queue, Type type, const LrnShape& shape, const void* dy, const void* x, const void* y,
                   void* dx, void* scratch) {
  const int64_t all = shape.positions * shape.channels, most = LrnGradPositions(shape) * shape.channels;
  float *norms = static_cast<float*>(scratch), *shares = norms + most;
  const LrnWindow window = {shape, DivideBy(shape.channels, most)};
  ForFloat(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t done = 0; done < all; done += most) {
      const int64_t n = all - done < most ? all - done : most;
      const T *g = static_cast<const T*>(dy) + done, *in = static_cast<const T*>(x) + done, *out = static_cast<const T*>(y) + done;
      ForEach(queue, n, LrnShareBody<T>{window, g, in, out, norms, shares});
      MapEach(queue, n, static_cast<T*>(dx) + done, LrnGradBody<T>{window, g, in, norms, shares});
    }
  });
}

void LaunchResizeBlended(const Queue& queue, Type type, const ResizeShape& shape, const void* x, float* y) {
  const Sampler sampler = SamplerOf(shape, shape.rows.output, shape.columns.output);
  ForNumeric(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    MapEach(queue, shape.batch * shape.rows.output * shape.columns.output * shape.channels, y,
        BlendedBody<T>{sampler, static_cast<const T*>(x)});
  });
}

void LaunchResizeNearest(const Queue& queue, int bytes, const ResizeShape& shape, const void* x, void* y) {
  ForSize(bytes, [&](auto tag) {
    using T = typename decltype(tag)::type;
    MapEach(queue, shape.batch * shape.rows.output * shape.columns.output * shape.channels, static_cast<T*>(y),
        NearestBody<T>{SamplerOf(shape, shape.rows.output, shape.columns.output), static_cast<const T*>(x)});
  });
}

void LaunchResizeGrad(const Queue& queue, Type type, const ResizeShape& shape, const void* dy, void* dx) {
  const Sampler sampler = SamplerOf(shape, shape.rows.input, shape.columns.input);
  const int64_t n = shape.batch * shape.rows.input * shape.columns.input * shape.channels;
  ForFloating(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (shape.nearest) {
      return MapEach(queue, n, static_cast<T*>(dx), ResizeGradBody<T, T>{sampler, static_cast<const T*>(dy)});
    }
    MapEach(queue, n, static_cast<T*>(dx), ResizeGradBody<float, T>{sampler, static_cast<const float*>(dy)});
  });
}

}  // namespace millrace::cuda
