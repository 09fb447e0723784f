#include "cuda/launch/pool.h"

#include <cmath>
#include <initializer_list>

#include "cuda/launch/lowest.h"
#include "cuda/launch/pack.h"
#include "cuda/launch/pool_planes.h"
#include "cuda/launch/portable.h"

namespace millrace::cuda {
namespace {

// Before a loop of few turns, which costs more than it gains where it is unrolled.
#if defined(__CUDA_ARCH__)
#define MR_ROLLED _Pragma("unroll 1")
#else
#define MR_ROLLED
#endif

// Tensors of fewer than 2^31 elements, windows of at most kMostTaps; and all others.
inline constexpr int64_t kMostTaps = 254;
struct Small {
  using Int = int32_t;
  using Tap = uint8_t;
  using Division = QuickDivider;
  static Division By(int64_t by, int64_t bound) { return QuickDivideBy(by, bound); }
};
struct Large {
  using Int = int64_t;
  using Tap = int32_t;
  using Division = Divider;
  static Division By(int64_t by, int64_t bound) { return DivideBy(by, bound); }
};

// What stands for no element of a window.
template <typename Size>
inline constexpr auto kNoTap = static_cast<typename Size::Tap>(-1);

// Where an element is: image, channel, and position in space.
template <typename Int>
struct Spot {
  Int image, channel, at[3];
};

// Decodes indices of packs of the input or the output, and finds elements.
template <typename Size>
struct Grid {
  using Int = typename Size::Int;
  typename Size::Division packs, size[3];  // packs of channels
  Int dims[3], lanes, channels, plane;

  MR_DEVICE Spot<Int> Decode(Int i) const {
    Spot<Int> spot;
    const Int pixel = packs(i);
    spot.channel = (i - pixel * packs.by) * lanes;
    i = pixel;
    for (int d = 2; d >= 0; --d) {
      const Int next = size[d](i);
      spot.at[d] = i - next * size[d].by;
      i = next;
    }
    spot.image = i;
    return spot;
  }
  MR_DEVICE Int Offset(const Spot<Int>& spot, Int a, Int b, Int c) const {
    return (spot.image * plane + (a * dims[1] + b) * dims[2] + c) * channels + spot.channel;
  }
};

template <typename Size>
Grid<Size> GridOf(const PoolShape& shape, const int64_t* size, int lanes) {
  using Int = typename Size::Int;
  const int64_t plane = size[0] * size[1] * size[2], n = shape.batch * shape.channels * plane;
  return {Size::By(shape.channels / lanes, n),
          {Size::By(size[0], n), Size::By(size[1], n), Size::By(size[2], n)},
          {static_cast<Int>(size[0]), static_cast<Int>(size[1]), static_cast<Int>(size[2])},
          static_cast<Int>(lanes),
          static_cast<Int>(shape.channels),
          static_cast<Int>(plane)};
}

// Positions [begin, end) of a window, or windows of a position, along one dimension.
template <typename Int>
struct Reach {
  Int begin, end;
};

template <typename Size>
struct Geometry {
  using Int = typename Size::Int;
  Grid<Size> in, out;
  Int window[3], stride[3], pad[3];
  typename Size::Division by_stride[3];

  MR_DEVICE Reach<Int> WindowAt(int d, Int at) const {
    const Int start = at * stride[d] - pad[d], end = start + window[d], size = in.dims[d];
    return {start < 0 ? 0 : start, end < size ? end : size};
  }
  MR_DEVICE Int Count(Int a, Int b, Int c) const {
    const Reach<Int> ra = WindowAt(0, a), rb = WindowAt(1, b), rc = WindowAt(2, c);
    return (ra.end - ra.begin) * (rb.end - rb.begin) * (rc.end - rc.begin);
  }
  // Windows of which input position `at` is part.
  MR_DEVICE Reach<Int> WindowsOf(int d, Int at) const {
    const Int low = at + pad[d] - window[d] + 1, high = by_stride[d](at + pad[d]) + 1, size = out.dims[d];
    return {low <= 0 ? 0 : by_stride[d](low + stride[d] - 1), high < size ? high : size};
  }
  // Where in the window at (a, b, c) a position is, padding counted.
  MR_DEVICE Int TapOf(const Int* at, Int a, Int b, Int c) const {
    const Int first = at[0] - (a * stride[0] - pad[0]), second = at[1] - (b * stride[1] - pad[1]);
    return (first * window[1] + second) * window[2] + at[2] - (c * stride[2] - pad[2]);
  }
  // visit(elements, offset, tap) for every position of the window at `spot`, in their order.
  template <int kLanes, typename T, typename Visit>
  MR_DEVICE void EachOfWindow(const T* x, const Spot<Int>& spot, const Visit& visit) const {
    const Reach<Int> ra = WindowAt(0, spot.at[0]), rb = WindowAt(1, spot.at[1]), rc = WindowAt(2, spot.at[2]);
    for (Int a = ra.begin; a < ra.end; ++a) {
      for (Int b = rb.begin; b < rb.end; ++b) {
        const Int at[3] = {a, b, rc.begin};
        Int offset = in.Offset(spot, a, b, rc.begin), tap = TapOf(at, spot.at[0], spot.at[1], spot.at[2]);
        for (Int c = rc.begin; c < rc.end; ++c) {
          visit(Load<kLanes>(x + offset), offset, tap);
          offset += in.channels;
          ++tap;
        }
      }
    }
  }
};

template <typename Size>
Geometry<Size> GeometryOf(const PoolShape& shape, int lanes) {
  Geometry<Size> geometry = {GridOf<Size>(shape, shape.in, lanes), GridOf<Size>(shape, shape.out, lanes), {}, {}, {}, {}};
  for (int d = 0; d < 3; ++d) {
    geometry.window[d] = static_cast<typename Size::Int>(shape.window[d]);
    geometry.stride[d] = static_cast<typename Size::Int>(shape.stride[d]);
    geometry.pad[d] = static_cast<typename Size::Int>(shape.pad[d]);
    geometry.by_stride[d] = Size::By(shape.stride[d], shape.in[d] + shape.pad[d] + shape.window[d] + shape.stride[d]);
  }
  return geometry;
}

template <typename T, typename Size, int kLanes>
struct PoolBody {
  PoolRule rule;
  Geometry<Size> g;
  const T* x;
  T* y;
  MR_DEVICE void operator()(int64_t i) const {
    using W = typename Wide<T>::type;
    using Int = typename Size::Int;
    const Spot<Int> spot = g.out.Decode(static_cast<Int>(i));
    const bool as_xla = rule == PoolRule::kMaximumAsXla;
    W sum[kLanes], best[kLanes];
    for (int j = 0; j < kLanes; ++j) {
      sum[j] = W(0);
      best[j] = as_xla ? static_cast<W>(-HUGE_VAL) : kLowest<T>;
    }
    g.template EachOfWindow<kLanes>(x, spot, [&](const Pack<T, kLanes>& elements, Int, Int) {
      for (int j = 0; j < kLanes; ++j) {
        const W value = Widen(elements.of[j]);
        sum[j] = static_cast<W>(sum[j] + value);
        if (best[j] < value || (as_xla && value != value)) best[j] = value;
      }
    });
    const W count = static_cast<W>(g.Count(spot.at[0], spot.at[1], spot.at[2]));
    Pack<T, kLanes> result;
    for (int j = 0; j < kLanes; ++j) {
      if (best[j] != best[j]) best[j] = static_cast<W>(NAN);
      result.of[j] = Wide<T>::Narrow(rule == PoolRule::kAverage ? sum[j] / count : best[j]);
    }
    Store(y + i * kLanes, result);
  }
};

// The first maximum of every window; none of one that lies in the padding alone.
template <typename T, typename Size, int kLanes>
struct FirstTapBody {
  using Tap = typename Size::Tap;
  Geometry<Size> g;
  const T* x;
  Tap* taps;
  MR_DEVICE void operator()(int64_t i) const {
    using Int = typename Size::Int;
    typename Wide<T>::type best[kLanes] = {};
    Pack<Tap, kLanes> first;
    for (int j = 0; j < kLanes; ++j) first.of[j] = kNoTap<Size>;
    g.template EachOfWindow<kLanes>(x, g.out.Decode(static_cast<Int>(i)), [&](const Pack<T, kLanes>& elements, Int, Int tap) {
      for (int j = 0; j < kLanes; ++j) {
        const auto value = Widen(elements.of[j]);
        if (first.of[j] != kNoTap<Size> && !(best[j] < value)) continue;
        best[j] = value;
        first.of[j] = static_cast<Tap>(tap);
      }
    });
    Store(taps + i * kLanes, first);
  }
};

template <PoolGradRule kRule, typename T, typename Size, int kLanes>
struct PoolGradBody {
  using W = typename Wide<T>::type;
  using Int = typename Size::Int;
  Geometry<Size> g;
  const T* x;
  const T* y;
  const T* dy;
  T* dx;
  const typename Size::Tap* taps;  // of every window's first maximum

  // Adds the gradient of the window at offset `window` to what takes it of the elements `mine`, which are its tap `tap`.
  MR_DEVICE void Add(Int window, Int tap, W share, const Pack<T, kLanes>& mine, W* sums) const {
    const Pack<T, kLanes> gradient = Load<kLanes>(dy + window);
    if constexpr (kRule == PoolGradRule::kAverage) {
      for (int j = 0; j < kLanes; ++j) sums[j] = static_cast<W>(sums[j] + Widen(gradient.of[j]) * share);
    } else if constexpr (kRule == PoolGradRule::kFirstMaximum) {
      const auto first = Load<kLanes>(taps + window);
      for (int j = 0; j < kLanes; ++j) {
        if (first.of[j] == tap) sums[j] = static_cast<W>(sums[j] + Widen(gradient.of[j]));
      }
    } else {
      const Pack<T, kLanes> maxima = Load<kLanes>(y + window);
      for (int j = 0; j < kLanes; ++j) {
        if (Widen(maxima.of[j]) - Widen(mine.of[j]) < W(1e-5)) sums[j] = static_cast<W>(sums[j] + Widen(gradient.of[j]));
      }
    }
  }
  MR_DEVICE void operator()(int64_t i) const {
    const Spot<Int> spot = g.in.Decode(static_cast<Int>(i));
    const Reach<Int> ra = g.WindowsOf(0, spot.at[0]), rb = g.WindowsOf(1, spot.at[1]), rc = g.WindowsOf(2, spot.at[2]);
    Pack<T, kLanes> mine = {};
    if constexpr (kRule == PoolGradRule::kEveryMaximum) mine = Load<kLanes>(x + i * kLanes);
    W sums[kLanes] = {};
    MR_ROLLED
    for (Int a = ra.begin; a < ra.end; ++a) {
      MR_ROLLED
      for (Int b = rb.begin; b < rb.end; ++b) {
        Int window = g.out.Offset(spot, a, b, rc.begin), tap = g.TapOf(spot.at, a, b, rc.begin);
        MR_ROLLED
        for (Int c = rc.begin; c < rc.end; ++c) {
          W share = W(1);
          if constexpr (kRule == PoolGradRule::kAverage) share = W(1) / static_cast<W>(g.Count(a, b, c));
          Add(window, tap, share, mine, sums);
          window += g.out.channels;
          tap -= g.stride[2];
        }
      }
    }
    Pack<T, kLanes> result;
    for (int j = 0; j < kLanes; ++j) result.of[j] = Wide<T>::Narrow(sums[j]);
    Store(dx + i * kLanes, result);
  }
};

// The gradient where windows lie beside each other without padding and cover the input, so that each element is of one: an index is
// of kLanes outputs beside each other and their windows. kPack elements are moved together: of channels, or, kAlong, of the one
// channel of windows that are two wide. kSide: of the windows' last two dimensions, 0 where that is not known when compiling.
// `dx` overlaps no operand.
template <typename T, int kPack, int kSide, bool kAlong>
struct ApartGradBody {
  using W = typename Wide<T>::type;
  static constexpr int kLanes = kAlong ? kPack / 2 : kPack;
  PoolGradRule rule;
  QuickDivider packs, columns, rows;  // of outputs
  int32_t channels, line, in_rows, window[3];  // line: elements of the input's innermost rows
  const T* x;
  const T* y;
  const T* dy;
  T* dx;

  // visit(offset, tap) for what is moved together of windows whose first elements are at `start`; of kAlong that is two taps.
  template <typename Visit>
  MR_DEVICE void EachOfWindows(int32_t start, const Visit& visit) const {
    const int32_t high = kSide > 0 ? kSide : window[1], wide = kSide > 0 ? kSide : window[2];
    int32_t tap = 0;
    for (int32_t a = 0; a < window[0]; ++a) {
      for (int32_t b = 0; b < high; ++b) {
        int32_t offset = start + (a * in_rows + b) * line;
        for (int32_t c = 0; c < wide; c += kAlong ? 2 : 1) {
          visit(offset, tap);
          offset += channels;
          tap += kAlong ? 2 : 1;
        }
      }
    }
  }
  MR_DEVICE static constexpr int LaneOf(int j) { return kAlong ? j / 2 : j; }
  MR_DEVICE static constexpr int TapOf(int j) { return kAlong ? j % 2 : 0; }

  MR_DEVICE int32_t StartOf(int32_t i) const {
    const int32_t pixel = packs(i), line_of_windows = columns(pixel), plane = rows(line_of_windows);
    const int32_t column = (pixel - line_of_windows * columns.by) * (kAlong ? kLanes : 1), row = line_of_windows - plane * rows.by;
    return (plane * window[0] * in_rows + row * window[1]) * line + column * window[2] * channels + (i - pixel * packs.by) * kLanes;
  }
  MR_DEVICE void ToFirst(int32_t start, const W* gradient) const {
    W best[kLanes] = {};
    int32_t first[kLanes] = {};
    EachOfWindows(start, [&](int32_t offset, int32_t tap) {
      const Pack<T, kPack> elements = Load<kPack>(x + offset);
      for (int j = 0; j < kPack; ++j) {
        const W value = Widen(elements.of[j]);
        if (tap + TapOf(j) > 0 && !(best[LaneOf(j)] < value)) continue;
        best[LaneOf(j)] = value;
        first[LaneOf(j)] = tap + TapOf(j);
      }
    });
    EachOfWindows(start, [&](int32_t offset, int32_t tap) {
      Pack<T, kPack> result;
      for (int j = 0; j < kPack; ++j) {
        result.of[j] = Wide<T>::Narrow(first[LaneOf(j)] == tap + TapOf(j) ? gradient[LaneOf(j)] : W(0));
      }
      Store(dx + offset, result);
    });
  }
  MR_DEVICE void ToEvery(int32_t start, const Pack<T, kLanes>& maxima, const W* gradient) const {
    const T* __restrict__ const from = x;
    T* __restrict__ const to = dx;
    EachOfWindows(start, [&](int32_t offset, int32_t) {
      const Pack<T, kPack> elements = Load<kPack>(from + offset);
      Pack<T, kPack> result;
      for (int j = 0; j < kPack; ++j) {
        const bool takes = Widen(maxima.of[LaneOf(j)]) - Widen(elements.of[j]) < W(1e-5);
        result.of[j] = Wide<T>::Narrow(takes ? gradient[LaneOf(j)] : W(0));
      }
      Store(to + offset, result);
    });
  }
  MR_DEVICE void operator()(int64_t i) const {
    const int32_t start = StartOf(static_cast<int32_t>(i));
    const Pack<T, kLanes> gradients = Load<kLanes>(dy + i * kLanes);
    W gradient[kLanes];
    for (int j = 0; j < kLanes; ++j) gradient[j] = W(0) + Widen(gradients.of[j]);  // as the sum of one term
    if (rule == PoolGradRule::kFirstMaximum) {
      ToFirst(start, gradient);
    } else {
      ToEvery(start, Load<kLanes>(y + i * kLanes), gradient);
    }
  }
};

template <typename T>
struct PoolGradGradBody {
  Geometry<Large> g;
  const T* x;
  const T* ddx;
  MR_DEVICE T operator()(int64_t i) const {
    int64_t best_at = -1;
    typename Wide<T>::type best = 0;
    g.EachOfWindow<1>(x, g.out.Decode(i), [&](const Pack<T, 1>& element, int64_t at, int64_t) {
      const auto value = Widen(element.of[0]);
      if (best_at >= 0 && !(best < value)) return;
      best = value;
      best_at = at;
    });
    return best_at < 0 ? T{} : ddx[best_at];
  }
};

int64_t Elements(const PoolShape& shape, const int64_t* size) {
  return shape.batch * shape.channels * size[0] * size[1] * size[2];
}

bool IsSmall(const PoolShape& shape) {
  constexpr int64_t kBound = int64_t{1} << 31;
  bool small = Elements(shape, shape.in) < kBound && Elements(shape, shape.out) < kBound;
  int64_t taps = 1;
  for (int d = 0; d < 3; ++d) {
    small = small && shape.window[d] <= kMostTaps && shape.stride[d] < kBound / 4 && shape.in[d] < kBound / 4;
    taps *= small ? shape.window[d] : 1;
  }
  return small && taps <= kMostTaps;
}

// How many channels are taken together: 16 bytes of them, where all tensors have them so.
template <typename T>
bool InPacks(const PoolShape& shape, std::initializer_list<const void*> tensors) {
  uintptr_t low = static_cast<uintptr_t>(shape.channels * static_cast<int64_t>(sizeof(T)));
  for (const void* tensor : tensors) low |= reinterpret_cast<uintptr_t>(tensor);  // one that is not there is aligned
  return low % sizeof(Sixteen) == 0;
}

template <int kValue>
struct Number {
  static constexpr int value = kValue;
};
template <typename Fn>
void ForRule(PoolGradRule rule, const Fn& fn) {
  switch (rule) {
    case PoolGradRule::kAverage: return fn(Number<static_cast<int>(PoolGradRule::kAverage)>());
    case PoolGradRule::kFirstMaximum: return fn(Number<static_cast<int>(PoolGradRule::kFirstMaximum)>());
    case PoolGradRule::kEveryMaximum: return fn(Number<static_cast<int>(PoolGradRule::kEveryMaximum)>());
  }
}
// fn(sizes, number of channels that are taken together).
template <typename T, typename Fn>
void ForSizes(const PoolShape& shape, std::initializer_list<const void*> tensors, const Fn& fn) {
  if (!IsSmall(shape)) return fn(Tag<Large>(), Number<1>());
  if (!InPacks<T>(shape, tensors)) return fn(Tag<Small>(), Number<1>());
  fn(Tag<Small>(), Number<sizeof(Sixteen) / sizeof(T)>());
}

// Whether ApartGradBody has the gradient.
bool AreApart(PoolGradRule rule, const PoolShape& shape) {
  bool apart = rule != PoolGradRule::kAverage && IsSmall(shape);
  for (int d = 0; d < 3; ++d) {
    apart = apart && shape.pad[d] == 0 && shape.stride[d] == shape.window[d] && shape.in[d] == shape.out[d] * shape.window[d];
  }
  return apart;
}

template <int kPack, int kSide, bool kAlong, typename T>
void LaunchApartGrad(const Queue& queue, PoolGradRule rule, const PoolShape& shape, const T* x, const T* y, const T* dy, T* dx) {
  using Body = ApartGradBody<T, kPack, kSide, kAlong>;
  const int64_t n = Elements(shape, shape.out) / Body::kLanes;
  Body body = {rule, Small::By(kAlong ? 1 : shape.channels / kPack, n), Small::By(shape.out[2] / (kAlong ? Body::kLanes : 1), n),
               Small::By(shape.out[1], n), static_cast<int32_t>(shape.channels), static_cast<int32_t>(shape.in[2] * shape.channels),
               static_cast<int32_t>(shape.in[1]), {}, x, y, dy, dx};
  for (int d = 0; d < 3; ++d) body.window[d] = static_cast<int32_t>(shape.window[d]);
  ForEach(queue, n, body);
}
template <typename T>
void RunApartGrad(const Queue& queue, PoolGradRule rule, const PoolShape& shape, const T* x, const T* y, const T* dy, T* dx) {
  constexpr int kPack = sizeof(Sixteen) / sizeof(T), kWindows = kPack / 2;
  if (shape.window[1] == 2 && shape.window[2] == 2) {
    if (InPacks<T>(shape, {x, y, dy, dx})) return LaunchApartGrad<kPack, 2, false>(queue, rule, shape, x, y, dy, dx);
    PoolShape row = shape;  // as InPacks asks it of channels
    row.channels = shape.in[2];
    const bool along = shape.channels == 1 && shape.out[2] % kWindows == 0 && InPacks<T>(row, {x, y, dy, dx});
    if (along) return LaunchApartGrad<kPack, 2, true>(queue, rule, shape, x, y, dy, dx);
  }
  LaunchApartGrad<1, 0, false>(queue, rule, shape, x, y, dy, dx);
}

// Whether LaunchPlaneGrad has the gradient, by windows of this size and stride.
bool ArePlanes(PoolGradRule rule, const PoolShape& shape, int64_t window, int64_t stride) {
  bool planes = rule == PoolGradRule::kFirstMaximum && IsSmall(shape) && shape.channels == 1;
  planes = planes && shape.in[0] == 1 && shape.out[0] == 1 && shape.window[0] == 1 && shape.pad[0] == 0;
  for (int d = 1; d < 3; ++d) planes = planes && shape.window[d] == window && shape.stride[d] == stride && shape.pad[d] < window;
  return planes && shape.batch * CellsAlong(shape, 1) * CellsAlong(shape, 2) < int64_t{1} << 31;
}
// Whether it was launched.
template <typename T>
bool RunPlaneGrad(const Queue& queue, PoolGradRule rule, const PoolShape& shape, const T* x, const T* dy, T* dx, void* scratch) {
  auto* const firsts = static_cast<uint8_t*>(scratch);
  if (ArePlanes(rule, shape, 3, 2)) {
    LaunchPlaneGrad<3, 2>(queue, shape, x, dy, dx, firsts);
  } else if (ArePlanes(rule, shape, 3, 1)) {
    LaunchPlaneGrad<3, 1>(queue, shape, x, dy, dx, firsts);
  } else {
    return false;
  }
  return true;
}

}  // namespace

void LaunchPool(const Queue& queue, Type type, PoolRule rule, const PoolShape& shape, const void* x, void* y) {
  ForFloating(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ForSizes<T>(shape, {x, y}, [&](auto sizes, auto lanes) {
      using Size = typename decltype(sizes)::type;
      constexpr int kLanes = decltype(lanes)::value;
      ForEach(queue, Elements(shape, shape.out) / kLanes,
              PoolBody<T, Size, kLanes>{rule, GeometryOf<Size>(shape, kLanes), static_cast<const T*>(x), static_cast<T*>(y)});
    });
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
  if (rule != PoolGradRule::kFirstMaximum || AreApart(rule, shape)) return 0;
  const PoolShape part = PoolGradPart(rule, shape);
  return Elements(part, shape.out) * static_cast<int64_t>(IsSmall(part) ? sizeof(Small::Tap) : sizeof(Large::Tap));
}

void LaunchPoolGrad(const Queue& queue, Type type, PoolGradRule rule, const PoolShape& shape, const void* x, const void* y,
                    const void* dy, void* dx, void* scratch) {
  const PoolShape part = PoolGradPart(rule, shape);
  const int64_t inputs = Elements(part, part.in), outputs = Elements(part, part.out);
  ForFloating(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (AreApart(rule, shape)) {
      return RunApartGrad(queue, rule, shape, static_cast<const T*>(x), static_cast<const T*>(y), static_cast<const T*>(dy),
                          static_cast<T*>(dx));
    }
    const auto behind = [](const void* tensor, int64_t elements) {
      return tensor == nullptr ? nullptr : static_cast<const T*>(tensor) + elements;
    };
    ForSizes<T>(part, {x, y, dy, dx, scratch}, [&](auto sizes, auto lanes) {
      using Size = typename decltype(sizes)::type;
      constexpr int kLanes = decltype(lanes)::value;
      const Geometry<Size> geometry = GeometryOf<Size>(part, kLanes);
      auto* const taps = static_cast<typename Size::Tap*>(scratch);
      for (int64_t image = 0, k = 0; image < shape.batch; image += part.batch, ++k) {
        const int64_t images = shape.batch - image < part.batch ? shape.batch - image : part.batch;
        const T* const from = behind(x, k * inputs);
        PoolShape these = part;
        these.batch = images;
        if (RunPlaneGrad(queue, rule, these, from, behind(dy, k * outputs), static_cast<T*>(dx) + k * inputs, scratch)) continue;
        if (rule == PoolGradRule::kFirstMaximum) {
          ForEach(queue, outputs / part.batch * images / kLanes, FirstTapBody<T, Size, kLanes>{geometry, from, taps});
        }
        ForRule(rule, [&](auto known) {
          ForEach(queue, inputs / part.batch * images / kLanes,
                  PoolGradBody<PoolGradRule{decltype(known)::value}, T, Size, kLanes>{
                      geometry, from, behind(y, k * outputs), behind(dy, k * outputs), static_cast<T*>(dx) + k * inputs, taps});
        });
      }
    });
  });
}

void LaunchPoolGradGrad(const Queue& queue, Type type, const PoolShape& shape, const void* x, const void* ddx, void* dy) {
  ForFloating(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    MapEach(queue, Elements(shape, shape.out), static_cast<T*>(dy),
            PoolGradGradBody<T>{GeometryOf<Large>(shape, 1), static_cast<const T*>(x), static_cast<const T*>(ddx)});
  });
}

}  // namespace millrace::cuda
