#include "cuda/launch/pool.h"

#include "cuda/launch/portable.h"

namespace millrace::cuda {
namespace {

// Where an element is: image, channel, and position in space.
struct Spot {
  int64_t image, channel, at[3];
};

// Decodes indices of the input or the output, and finds elements.
struct Grid {
  Divider channels, size[3];
  int64_t plane;

  MR_DEVICE Spot Decode(int64_t i) const {
    Spot spot;
    const int64_t pixel = channels(i);
    spot.channel = i - pixel * channels.by;
    i = pixel;
    for (int d = 2; d >= 0; --d) {
      const int64_t next = size[d](i);
      spot.at[d] = i - next * size[d].by;
      i = next;
    }
    spot.image = i;
    return spot;
  }
  MR_DEVICE int64_t Offset(const Spot& spot, int64_t a, int64_t b, int64_t c) const {
    return (spot.image * plane + (a * size[1].by + b) * size[2].by + c) * channels.by + spot.channel;
  }
};

Grid GridOf(const PoolShape& shape, const int64_t* size) {
  const int64_t plane = size[0] * size[1] * size[2], n = shape.batch * shape.channels * plane;
  return {DivideBy(shape.channels, n),
          {DivideBy(size[0], n), DivideBy(size[1], n), DivideBy(size[2], n)}, plane};
}

// Positions [begin, end) of a window, or windows of a position, along one dimension.
struct Reach {
  int64_t begin, end;
};
struct Box {
  Reach r[3];
  MR_DEVICE int64_t Count() const { return (r[0].end - r[0].begin) * (r[1].end - r[1].begin) * (r[2].end - r[2].begin); }
};
MR_DEVICE inline Box WindowAt(const PoolShape& p, int64_t a, int64_t b, int64_t c) {
  const int64_t out[3] = {a, b, c};
  Box box;
  for (int d = 0; d < 3; ++d) {
    const int64_t start = out[d] * p.stride[d] - p.pad[d], end = start + p.window[d];
    box.r[d] = {start < 0 ? 0 : start, end < p.in[d] ? end : p.in[d]};
  }
  return box;
}

template <typename T>
struct PoolBody {
  bool average;
  PoolShape p;
  Grid in, out;
  const T* x;
  MR_DEVICE T operator()(int64_t i) const {
    using W = typename Wide<T>::type;
    const Spot spot = out.Decode(i);
    const Box box = WindowAt(p, spot.at[0], spot.at[1], spot.at[2]);
    W sum = W(0), best = static_cast<W>(sizeof(W) == 8 ? -1.7976931348623157e308 : -3.4028234663852886e38);
    for (int64_t a = box.r[0].begin; a < box.r[0].end; ++a) {
      for (int64_t b = box.r[1].begin; b < box.r[1].end; ++b) {
        for (int64_t c = box.r[2].begin; c < box.r[2].end; ++c) {
          const W value = Widen(x[in.Offset(spot, a, b, c)]);
          sum = static_cast<W>(sum + value);
          if (best < value) best = value;
        }
      }
    }
    return Wide<T>::Narrow(average ? sum / static_cast<W>(box.Count()) : best);
  }
};

// Offset of the first maximum in a window; -1 for one that lies in the padding alone.
template <typename T>
MR_DEVICE int64_t FirstMaximum(const Grid& in, const T* x, const Spot& spot, const Box& box) {
  int64_t best_at = -1;
  typename Wide<T>::type best = 0;
  for (int64_t a = box.r[0].begin; a < box.r[0].end; ++a) {
    for (int64_t b = box.r[1].begin; b < box.r[1].end; ++b) {
      for (int64_t c = box.r[2].begin; c < box.r[2].end; ++c) {
        const int64_t at = in.Offset(spot, a, b, c);
        const auto value = Widen(x[at]);
        if (best_at >= 0 && !(best < value)) continue;
        best = value;
        best_at = at;
      }
    }
  }
  return best_at;
}

// Where in the window at (a, b, c) a position is, padding counted.
MR_DEVICE inline int32_t TapOf(const PoolShape& p, const int64_t* at, int64_t a, int64_t b, int64_t c) {
  const int64_t out[3] = {a, b, c};
  int64_t tap = 0;
  for (int d = 0; d < 3; ++d) tap = tap * p.window[d] + at[d] - (out[d] * p.stride[d] - p.pad[d]);
  return static_cast<int32_t>(tap);
}

template <typename T>
struct FirstTapBody {
  PoolShape p;
  Grid in, out;
  const T* x;
  MR_DEVICE int32_t operator()(int64_t i) const {
    const Spot spot = out.Decode(i);
    const int64_t at = FirstMaximum(in, x, spot, WindowAt(p, spot.at[0], spot.at[1], spot.at[2]));
    return at < 0 ? -1 : TapOf(p, in.Decode(at).at, spot.at[0], spot.at[1], spot.at[2]);
  }
};

template <typename T>
struct PoolGradBody {
  PoolGradRule rule;
  PoolShape p;
  Grid in, out;
  Divider stride[3];
  const T* x;
  const T* y;
  const T* dy;
  const int32_t* taps;  // of every window's first maximum

  // Windows of which input position `at` is part.
  MR_DEVICE Reach WindowsOf(int d, int64_t at) const {
    const int64_t low = at + p.pad[d] - p.window[d] + 1, high = stride[d](at + p.pad[d]) + 1;
    return {low <= 0 ? 0 : stride[d](low + p.stride[d] - 1), high < p.out[d] ? high : p.out[d]};
  }
  // Whether element i takes the gradient of the window at (a, b, c), whose output is at `window`.
  MR_DEVICE bool Takes(int64_t i, const Spot& spot, int64_t window, int64_t a, int64_t b, int64_t c) const {
    using W = typename Wide<T>::type;
    if (rule == PoolGradRule::kEveryMaximum) return Widen(y[window]) - Widen(x[i]) < W(1e-5);
    return taps[window] == TapOf(p, spot.at, a, b, c);
  }
  MR_DEVICE T operator()(int64_t i) const {
    using W = typename Wide<T>::type;
    const Spot spot = in.Decode(i);
    const Reach ra = WindowsOf(0, spot.at[0]), rb = WindowsOf(1, spot.at[1]), rc = WindowsOf(2, spot.at[2]);
    W sum = W(0);
    for (int64_t a = ra.begin; a < ra.end; ++a) {
      for (int64_t b = rb.begin; b < rb.end; ++b) {
        for (int64_t c = rc.begin; c < rc.end; ++c) {
          const int64_t window = out.Offset(spot, a, b, c);
          if (rule == PoolGradRule::kAverage) {
            sum = static_cast<W>(sum + Widen(dy[window]) * (W(1) / static_cast<W>(WindowAt(p, a, b, c).Count())));
          } else if (Takes(i, spot, window, a, b, c)) {
            sum = static_cast<W>(sum + Widen(dy[window]));
          }
        }
      }
    }
    return Wide<T>::Narrow(sum);
  }
};

template <typename T>
struct PoolGradGradBody {
  PoolShape p;
  Grid in, out;
  const T* x;
  const T* ddx;
  MR_DEVICE T operator()(int64_t i) const {
    const Spot spot = out.Decode(i);
    const int64_t at = FirstMaximum(in, x, spot, WindowAt(p, spot.at[0], spot.at[1], spot.at[2]));
    return at < 0 ? T{} : ddx[at];
  }
};

int64_t Elements(const PoolShape& shape, const int64_t* size) {
  return shape.batch * shape.channels * size[0] * size[1] * size[2];
}

}  // namespace

void LaunchPool(const Queue& queue, Type type, bool average, const PoolShape& shape, const void* x, void* y) {
  ForFloating(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    MapEach(queue, Elements(shape, shape.out), static_cast<T*>(y),
        PoolBody<T>{average, shape, GridOf(shape, shape.in), GridOf(shape, shape.out), static_cast<const T*>(x)});
  });
}

// The images of `shape` that are gone through at once, so that scratch stays small beside large tensors. Where nothing is kept
// of them, all.
PoolShape PoolGradPart(PoolGradRule rule, PoolShape shape) {
  constexpr int64_t kElements = int64_t{4} << 20;
  if (rule != PoolGradRule::kFirstMaximum || shape.batch == 0) return shape;
  const int64_t of_image = Elements(shape, shape.out) / shape.batch, images = of_image > 0 ? kElements / of_image : shape.batch;
  shape.batch = images < 1 ? 1 : images < shape.batch ? images : shape.batch;
  return shape;
}
int64_t PoolGradScratchBytes(PoolGradRule rule, const PoolShape& shape) {
  if (rule != PoolGradRule::kFirstMaximum) return 0;
  return Elements(PoolGradPart(rule, shape), shape.out) * static_cast<int64_t>(sizeof(int32_t));
}

void LaunchPoolGrad(const Queue& queue, Type type, PoolGradRule rule, const PoolShape& shape, const void* x, const void* y,
                    const void* dy, void* dx, void* scratch) {
  int32_t* const taps = static_cast<int32_t*>(scratch);
  const PoolShape part = PoolGradPart(rule, shape);
  const Grid in = GridOf(part, part.in), out = GridOf(part, part.out);
  ForFloating(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto behind = [](const void* tensor, int64_t elements) {
      return tensor == nullptr ? nullptr : static_cast<const T*>(tensor) + elements;
    };
    PoolGradBody<T> body = {rule, part, in, out, {}, nullptr, nullptr, nullptr, taps};
    for (int d = 0; d < 3; ++d) {
      body.stride[d] = DivideBy(shape.stride[d], shape.in[d] + shape.pad[d] + shape.window[d] + shape.stride[d]);
    }
    const int64_t inputs = Elements(part, part.in), outputs = Elements(part, part.out);
    for (int64_t image = 0, k = 0; image < shape.batch; image += part.batch, ++k) {
      const int64_t images = shape.batch - image < part.batch ? shape.batch - image : part.batch;
      body.x = behind(x, k * inputs);
      body.y = behind(y, k * outputs);
      body.dy = behind(dy, k * outputs);
      if (rule == PoolGradRule::kFirstMaximum) {
        MapEach(queue, outputs / part.batch * images, taps, FirstTapBody<T>{part, in, out, body.x});
      }
      MapEach(queue, inputs / part.batch * images, static_cast<T*>(dx) + k * inputs, body);
    }
  });
}

void LaunchPoolGradGrad(const Queue& queue, Type type, const PoolShape& shape, const void* x, const void* ddx, void* dy) {
  ForFloating(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    MapEach(queue, Elements(shape, shape.out), static_cast<T*>(dy),
        PoolGradGradBody<T>{shape, GridOf(shape, shape.in), GridOf(shape, shape.out), static_cast<const T*>(x),
                            static_cast<const T*>(ddx)});
  });
}

}  // namespace millrace::cuda
