#include "cuda/launch/window.h"

#include "cuda/launch/crew.h"
#include "cuda/launch/layout.h"
#include "cuda/launch/lowest.h"
#include "cuda/launch/portable.h"

namespace millrace::cuda {
namespace {

// From so many channels on, neighbouring threads take neighbouring ones in sums over pixels.
inline constexpr int64_t kManyChannels = 16;

// Windows [begin, end) along one axis of which position `at` is part, where each spans so many positions.
struct Reach {
  int64_t begin, end;
};
MR_DEVICE inline Reach WindowsOf(int64_t at, int64_t pad, int64_t span, const Divider& stride, int64_t windows) {
  const int64_t low = at + pad - span + 1, high = stride(at + pad) + 1;
  return {low <= 0 ? 0 : stride(low + stride.by - 1), high < windows ? high : windows};
}

template <typename T>
struct DilationWindows {
  using W = typename Wide<T>::type;
  DilationShape s;
  Divider channels, out_columns, out_rows;
  const T* images;
  const T* filter;

  struct Found {
    W largest;
    int32_t tap;  // the first of equal ones; -1: there is no pixel
    int64_t top, left;
  };
  MR_DEVICE Found At(int64_t i) const {
    const int64_t pixel = channels(i), c = i - pixel * channels.by, line = out_columns(pixel), image = out_rows(line);
    Found found = {kLowest<T>, -1, (line - image * out_rows.by) * s.stride_y - s.pad_y,
                   (pixel - line * out_columns.by) * s.stride_x - s.pad_x};
    for (int64_t a = 0, y = found.top; a < s.filter_rows && y < s.rows; ++a, y += s.rate_y) {
      if (y < 0) continue;
      const T* const row = images + (image * s.rows + y) * s.columns * s.channels + c;
      for (int64_t b = 0, x = found.left; b < s.filter_columns && x < s.columns; ++b, x += s.rate_x) {
        if (x < 0) continue;
        const int64_t tap = a * s.filter_columns + b;
        const T sum = Wide<T>::Narrow(static_cast<W>(Widen(row[x * s.channels]) + Widen(filter[tap * s.channels + c])));
        if (!(Widen(sum) > found.largest)) continue;
        found.largest = Widen(sum);
        found.tap = static_cast<int32_t>(tap);
      }
    }
    return found;
  }
};
int64_t WindowCount(const DilationShape& shape) { return shape.batch * shape.out_rows * shape.out_columns; }
int64_t Results(const DilationShape& shape) { return WindowCount(shape) * shape.channels; }
template <typename T>
DilationWindows<T> WindowsOver(const DilationShape& shape, const void* images, const void* filter) {
  const int64_t n = Results(shape);
  return {shape, DivideBy(shape.channels, n), DivideBy(shape.out_columns, n), DivideBy(shape.out_rows, n),
          static_cast<const T*>(images), static_cast<const T*>(filter)};
}

template <typename T>
struct DilationBody {
  DilationWindows<T> windows;
  MR_DEVICE T operator()(int64_t i) const { return Wide<T>::Narrow(windows.At(i).largest); }
};

// Which tap of the filter, or pixel of the image, takes the gradient. Where a window has no pixel, its corner does.
template <typename T, bool kOfFilter>
struct DilationPlaceBody {
  DilationWindows<T> windows;
  MR_DEVICE int32_t operator()(int64_t i) const {
    const DilationShape& s = windows.s;
    const auto found = windows.At(i);
    if (kOfFilter) return found.tap < 0 ? 0 : found.tap;
    if (found.tap < 0) return static_cast<int32_t>((found.top < 0 ? 0 : found.top) * s.columns + (found.left < 0 ? 0 : found.left));
    const int32_t wide = static_cast<int32_t>(s.filter_columns), row = found.tap / wide, column = found.tap - row * wide;
    return static_cast<int32_t>((found.top + row * s.rate_y) * s.columns + found.left + column * s.rate_x);
  }
};

template <typename T>
struct DilationInputBody {
  using W = typename Wide<T>::type;
  DilationShape s;
  Divider channels, columns, rows, stride_y, stride_x;
  const int32_t* places;
  const T* gradient;
  // Taps never meet a position so far into the window; corners that have no pixel are at 0 or at the window's start.
  MR_DEVICE static bool Misses(int64_t at, int64_t into, int64_t rate) { return rate > 1 && at > 0 && into % rate != 0; }
  MR_DEVICE T operator()(int64_t i) const {
    const int64_t pixel = channels(i), c = i - pixel * channels.by, line = columns(pixel), image = rows(line);
    const int64_t x = pixel - line * columns.by, y = line - image * rows.by, mine = y * s.columns + x;
    const Reach up = WindowsOf(y, s.pad_y, (s.filter_rows - 1) * s.rate_y + 1, stride_y, s.out_rows);
    const Reach along = WindowsOf(x, s.pad_x, (s.filter_columns - 1) * s.rate_x + 1, stride_x, s.out_columns);
    W sum = 0;
    for (int64_t a = up.begin; a < up.end; ++a) {
      if (Misses(y, y + s.pad_y - a * s.stride_y, s.rate_y)) continue;
      for (int64_t b = along.begin; b < along.end; ++b) {
        if (Misses(x, x + s.pad_x - b * s.stride_x, s.rate_x)) continue;
        const int64_t at = ((image * s.out_rows + a) * s.out_columns + b) * s.channels + c;
        if (places[at] == mine) sum = static_cast<W>(sum + Widen(gradient[at]));
      }
    }
    return Wide<T>::Narrow(sum);
  }
};

// A row is a weight, its terms are the windows.
template <typename T>
struct DilationFilterBody {
  using W = typename Wide<T>::type;
  Divider channels;
  const int32_t* places;
  const T* gradient;
  T* out;
  struct Term {
    int32_t place;
    T gradient;
  };
  struct Windows {
    static constexpr int kAtOnce = 4;
    const DilationFilterBody& body;
    int64_t tap, channel;
    MR_DEVICE Term Fetch(int64_t k) const {
      const int64_t at = k * body.channels.by + channel;
      return {body.places[at], body.gradient[at]};
    }
    MR_DEVICE W Value(const Term& term) const { return term.place == tap ? Widen(term.gradient) : W(0); }
  };
  MR_DEVICE Windows Row(int64_t row) const {
    const int64_t tap = channels(row);
    return {*this, tap, row - tap * channels.by};
  }
  MR_DEVICE W Identity() const { return W(0); }
  MR_DEVICE W Combine(W a, W b) const { return static_cast<W>(a + b); }
  MR_DEVICE void Store(int64_t row, W sum) const { out[row] = Wide<T>::Narrow(sum); }
};

int64_t Weights(const DilationShape& shape) { return shape.filter_rows * shape.filter_columns * shape.channels; }
bool InColumns(const DilationShape& shape) { return shape.channels >= kManyChannels; }
// Of the sums of chunks, whatever the type.
int64_t FilterPartialBytes(const DilationShape& shape) {
  return Weights(shape) * SumChunks(Weights(shape), WindowCount(shape), InColumns(shape)) * static_cast<int64_t>(sizeof(double));
}

// Image, channel and position of elements, row-major over these dimensions.
struct PoolSpot {
  int64_t image, channel, at[3];
};
struct PoolIndex {
  Divider channels, dims[3];
  MR_DEVICE PoolSpot At(int64_t i) const {
    int64_t pixel = channels(i);
    PoolSpot spot = {0, i - pixel * channels.by, {0, 0, 0}};
    for (int d = 2; d >= 0; --d) {
      const int64_t next = dims[d](pixel);
      spot.at[d] = pixel - next * dims[d].by;
      pixel = next;
    }
    spot.image = pixel;
    return spot;
  }
  MR_DEVICE int64_t Offset(int64_t a, int64_t b, int64_t c, int64_t channel) const {
    return ((a * dims[1].by + b) * dims[2].by + c) * channels.by + channel;
  }
};
int64_t Elements(const PoolShape& shape, const int64_t* dims) { return dims[0] * dims[1] * dims[2] * shape.channels; }
PoolIndex IndexOf(const PoolShape& shape, const int64_t* dims) {
  const int64_t n = shape.batch * Elements(shape, dims);
  return {DivideBy(shape.channels, n), {DivideBy(dims[0], n), DivideBy(dims[1], n), DivideBy(dims[2], n)}};
}

template <typename T>
struct ArgmaxBody {
  PoolShape shape;
  PoolIndex in, out;
  int64_t image;  // elements of one
  bool in_batch, wide;
  const T* x;
  T* y;
  void* places;
  MR_DEVICE void operator()(int64_t i) const {
    const PoolSpot spot = out.At(i);
    int64_t begin[3], end[3], place = -1;
    for (int d = 0; d < 3; ++d) {
      const int64_t start = spot.at[d] * shape.stride[d] - shape.pad[d], stop = start + shape.window[d];
      begin[d] = start < 0 ? 0 : start;
      end[d] = stop < shape.in[d] ? stop : shape.in[d];
    }
    const T* const from = x + spot.image * image;
    T best = {};
    for (int64_t a = begin[0]; a < end[0]; ++a) {
      for (int64_t b = begin[1]; b < end[1]; ++b) {
        for (int64_t c = begin[2]; c < end[2]; ++c) {
          const int64_t at = in.Offset(a, b, c, spot.channel);
          const T value = from[at];
          if (place >= 0 && !(Widen(best) < Widen(value))) continue;
          best = value;
          place = at;
        }
      }
    }
    y[i] = best;
    if (in_batch) place += spot.image * image;
    wide ? static_cast<int64_t*>(places)[i] = place : static_cast<int32_t*>(places)[i] = static_cast<int32_t>(place);
  }
};

// Places as they are in their images, and which images have one outside its window.
struct ImagePlaceBody {
  Queue queue;
  PoolShape shape;
  PoolIndex in, out;
  int64_t image;
  bool in_batch, wide;
  const void* places;
  int32_t* in_image;
  int32_t* has_strays;
  MR_DEVICE void operator()(int64_t i) const {
    const PoolSpot window = out.At(i);
    int64_t place = IndexAt(places, wide, i);
    if (in_batch) place -= window.image * image;
    if (place < 0 || place >= image) return ReportIndex(queue, 2, i, place, image);
    in_image[i] = static_cast<int32_t>(place);
    const PoolSpot spot = in.At(place);
    bool strays = spot.channel != window.channel;
    for (int d = 0; d < 3; ++d) {
      const int64_t into = spot.at[d] - (window.at[d] * shape.stride[d] - shape.pad[d]);
      strays = strays || into < 0 || into >= shape.window[d];
    }
#if defined(__CUDA_ARCH__)
    if (strays) atomicOr(&has_strays[window.image], 1);
#else
    if (strays) has_strays[window.image] = 1;
#endif
  }
};

// The gradients of windows around this element whose place it is. Images that have strays are StraysTask's.
template <typename T>
struct ArgmaxGradBody {
  using W = typename Wide<T>::type;
  PoolShape shape;
  PoolIndex in, out;
  Divider stride[3];
  int64_t image, windows;  // elements of an image, of its windows
  const T* dy;
  const int32_t* places;
  const int32_t* has_strays;
  MR_DEVICE T operator()(int64_t i) const {
    const PoolSpot spot = in.At(i);
    const int64_t first = spot.image * windows, mine = i - spot.image * image;
    W sum = 0;
    const auto add = [&](int64_t at) {
      if (places[at] == mine) sum = static_cast<W>(sum + Widen(dy[at]));
    };
    if (has_strays[spot.image] != 0) return T{};
    Reach reach[3];
    for (int d = 0; d < 3; ++d) reach[d] = WindowsOf(spot.at[d], shape.pad[d], shape.window[d], stride[d], shape.out[d]);
    for (int64_t a = reach[0].begin; a < reach[0].end; ++a) {
      for (int64_t b = reach[1].begin; b < reach[1].end; ++b) {
        for (int64_t c = reach[2].begin; c < reach[2].end; ++c) add(first + out.Offset(a, b, c, spot.channel));
      }
    }
    return Wide<T>::Narrow(sum);
  }
};

// Of an image that has strays, a tile of elements: each is one thread's, which goes through the places of all windows in their order.
template <typename T>
struct StraysTask {
  using W = typename Wide<T>::type;
  static constexpr int kTile = 32768 / sizeof(W), kAtOnce = kThreads;
  struct Shared {
    W sums[kTile], gradients[kAtOnce];
    int32_t places[kAtOnce];  // in the tile, or beyond it
  };
  Divider tiles;  // of an image
  int64_t image, windows;
  const T* dy;
  const int32_t* places;
  const int32_t* has_strays;
  T* dx;
  template <typename Crew>
  MR_DEVICE void Add(const Crew& crew, int count, int elements, Shared& shared) const {
    for (int k = 0; k < count; ++k) {
      const int32_t place = shared.places[k];
      if (place < 0 || place >= elements || place % crew.size() != crew.rank()) continue;
      shared.sums[place] = static_cast<W>(shared.sums[place] + shared.gradients[k]);
    }
  }
  template <typename Crew>
  MR_DEVICE void operator()(const Crew& crew, int64_t task, Shared& shared) const {
    const int64_t of = tiles(task), begin = (task - of * tiles.by) * kTile;
    if (has_strays[of] == 0) return;
    const int elements = static_cast<int>(image - begin < kTile ? image - begin : kTile);
    for (int i = crew.rank(); i < elements; i += crew.size()) shared.sums[i] = 0;
    for (int64_t base = 0; base < windows; base += kAtOnce) {
      const int count = static_cast<int>(windows - base < kAtOnce ? windows - base : kAtOnce);
      for (int k = crew.rank(); k < count; k += crew.size()) {
        const int64_t at = of * windows + base + k;
        shared.places[k] = static_cast<int32_t>(places[at] - begin);
        shared.gradients[k] = Widen(dy[at]);
      }
      crew.Sync();
      Add(crew, count, elements, shared);
      crew.Sync();
    }
    for (int i = crew.rank(); i < elements; i += crew.size()) dx[of * image + begin + i] = Wide<T>::Narrow(shared.sums[i]);
  }
};

}  // namespace

void LaunchDilation(const Queue& queue, Type type, const DilationShape& shape, const void* images, const void* filter, void* out) {
  ForNumeric(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    MapEach(queue, Results(shape), static_cast<T*>(out), DilationBody<T>{WindowsOver<T>(shape, images, filter)});
  });
}

int64_t DilationGradScratchBytes(bool of_filter, const DilationShape& shape) {
  return (of_filter ? FilterPartialBytes(shape) : 0) + Results(shape) * static_cast<int64_t>(sizeof(int32_t));
}

void LaunchDilationGrad(const Queue& queue, Type type, bool of_filter, const DilationShape& shape, const void* images,
                        const void* filter, const void* gradient, void* out, void* scratch) {
  ForNumeric(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const DilationWindows<T> windows = WindowsOver<T>(shape, images, filter);
    const T* const dy = static_cast<const T*>(gradient);
    if (of_filter) {
      int32_t* const places = reinterpret_cast<int32_t*>(static_cast<char*>(scratch) + FilterPartialBytes(shape));
      MapEach(queue, Results(shape), places, DilationPlaceBody<T, true>{windows});
      const DilationFilterBody<T> body = {DivideBy(shape.channels, Weights(shape)), places, dy, static_cast<T*>(out)};
      SumRows<typename Wide<T>::type>(queue, Weights(shape), WindowCount(shape), InColumns(shape), scratch, body);
      return;
    }
    int32_t* const places = static_cast<int32_t*>(scratch);
    MapEach(queue, Results(shape), places, DilationPlaceBody<T, false>{windows});
    const int64_t n = shape.batch * shape.rows * shape.columns * shape.channels;
    const auto by_stride = [](int64_t stride, int64_t size, int64_t reach) { return DivideBy(stride, size + 2 * reach + stride); };
    const DilationInputBody<T> body = {shape, DivideBy(shape.channels, n), DivideBy(shape.columns, n), DivideBy(shape.rows, n),
                                       by_stride(shape.stride_y, shape.rows, shape.filter_rows * shape.rate_y),
                                       by_stride(shape.stride_x, shape.columns, shape.filter_columns * shape.rate_x), places, dy};
    MapEach(queue, n, static_cast<T*>(out), body);
  });
}

void LaunchArgmaxPool(const Queue& queue, Type type, const PoolShape& shape, bool in_batch, bool wide, const void* x, void* y,
                      void* places) {
  ForNumeric(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const ArgmaxBody<T> body = {shape, IndexOf(shape, shape.in), IndexOf(shape, shape.out), Elements(shape, shape.in), in_batch, wide,
                                static_cast<const T*>(x), static_cast<T*>(y), places};
    ForEach(queue, shape.batch * Elements(shape, shape.out), body);
  });
}

int64_t ArgmaxPoolGradScratchBytes(const PoolShape& shape) {
  return shape.batch * (1 + Elements(shape, shape.out)) * static_cast<int64_t>(sizeof(int32_t));
}

void LaunchArgmaxPoolGrad(const Queue& queue, Type type, const PoolShape& shape, bool in_batch, bool wide, const void* dy,
                          const void* places, void* dx, void* scratch) {
  const PoolIndex in = IndexOf(shape, shape.in), out = IndexOf(shape, shape.out);
  const int64_t image = Elements(shape, shape.in), windows = Elements(shape, shape.out);
  int32_t *const has_strays = static_cast<int32_t*>(scratch), *const in_image = has_strays + shape.batch;
  LaunchZero(queue, has_strays, shape.batch * static_cast<int64_t>(sizeof(int32_t)));
  ForEach(queue, shape.batch * windows, ImagePlaceBody{queue, shape, in, out, image, in_batch, wide, places, in_image, has_strays});
  ForNumeric(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ArgmaxGradBody<T> body = {shape, in, out, {}, image, windows, static_cast<const T*>(dy), in_image, has_strays};
    for (int d = 0; d < 3; ++d) {
      body.stride[d] = DivideBy(shape.stride[d], shape.in[d] + shape.pad[d] + shape.window[d] + shape.stride[d]);
    }
    MapEach(queue, shape.batch * image, static_cast<T*>(dx), body);
    using Strays = StraysTask<T>;
    const int64_t tiles = CeilDiv(image, Strays::kTile), tasks = shape.batch * tiles;
    ForEachTask(queue, tasks, Strays{DivideBy(tiles, tasks), image, windows, body.dy, in_image, has_strays, static_cast<T*>(dx)});
  });
}

}  // namespace millrace::cuda
