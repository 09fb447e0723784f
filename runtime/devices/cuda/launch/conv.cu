#include "cuda/launch/conv.h"

#include "cuda/launch/portable.h"

namespace millrace::cuda {
namespace {

struct Point {
  int64_t at[3];
};

// What all three parts share: indices of images, channels and pixels.
struct ConvIndex {
  DirectConv s;
  Divider in_size[3], out_size[3], taps_size[3];
  Divider in_channels, out_channels, in_plane, out_plane, outputs_per_group, inner, taps;

  MR_DEVICE static Point Decode(const Divider* size, int64_t i) {
    Point point;
    for (int d = 2; d >= 0; --d) {
      const int64_t next = size[d](i);
      point.at[d] = i - next * size[d].by;
      i = next;
    }
    return point;
  }
  // Image, channel and pixel of element i of a tensor with these channels.
  struct Place {
    int64_t image, channel, pixel;
  };
  MR_DEVICE Place PlaceOf(int64_t i, const Divider& channels, const Divider& plane) const {
    if (s.channels_first) {
      const int64_t line = plane(i), image = channels(line);
      return {image, line - image * channels.by, i - line * plane.by};
    }
    const int64_t line = channels(i), image = plane(line);
    return {image, i - line * channels.by, line - image * plane.by};
  }
  MR_DEVICE int64_t Input(int64_t image, int64_t channel, int64_t pixel) const {
    return s.channels_first ? (image * in_channels.by + channel) * in_plane.by + pixel
                            : (image * in_plane.by + pixel) * in_channels.by + channel;
  }
  MR_DEVICE int64_t Output(int64_t image, int64_t channel, int64_t pixel) const {
    return s.channels_first ? (image * out_channels.by + channel) * out_plane.by + pixel
                            : (image * out_plane.by + pixel) * out_channels.by + channel;
  }
  // The input pixel under a tap of an output pixel; -1 in the padding.
  MR_DEVICE int64_t Under(const Point& out, const Point& tap) const {
    int64_t pixel = 0;
    for (int d = 0; d < 3; ++d) {
      const int64_t at = out.at[d] * s.stride[d] - s.pad[d] + tap.at[d] * s.dilation[d];
      if (at < 0 || at >= s.in[d]) return -1;
      pixel = pixel * s.in[d] + at;
    }
    return pixel;
  }
  // The output pixel that sees an input pixel through a tap; -1 where there is none.
  MR_DEVICE int64_t Seeing(const Point& in, const Point& tap) const {
    int64_t pixel = 0;
    for (int d = 0; d < 3; ++d) {
      const int64_t at = in.at[d] + s.pad[d] - tap.at[d] * s.dilation[d];
      if (at < 0 || at % s.stride[d] != 0 || at / s.stride[d] >= s.out[d]) return -1;
      pixel = pixel * s.out[d] + at / s.stride[d];
    }
    return pixel;
  }
};

ConvIndex IndexOf(const DirectConv& s) {
  ConvIndex index;
  index.s = s;
  const int64_t in_plane = s.in[0] * s.in[1] * s.in[2], out_plane = s.out[0] * s.out[1] * s.out[2];
  const int64_t taps = s.kernel[0] * s.kernel[1] * s.kernel[2], inner = s.in_channels / s.groups;
  int64_t bound = s.batch * s.in_channels * in_plane;
  if (s.batch * s.out_channels * out_plane > bound) bound = s.batch * s.out_channels * out_plane;
  if (taps * inner * s.out_channels > bound) bound = taps * inner * s.out_channels;
  for (int d = 0; d < 3; ++d) {
    index.in_size[d] = DivideBy(s.in[d], bound);
    index.out_size[d] = DivideBy(s.out[d], bound);
    index.taps_size[d] = DivideBy(s.kernel[d], bound);
  }
  index.in_channels = DivideBy(s.in_channels, bound);
  index.out_channels = DivideBy(s.out_channels, bound);
  index.in_plane = DivideBy(in_plane, bound);
  index.out_plane = DivideBy(out_plane, bound);
  index.outputs_per_group = DivideBy(s.out_channels / s.groups, bound);
  index.inner = DivideBy(inner, bound);
  index.taps = DivideBy(taps, bound);
  return index;
}

template <typename T>
struct ForwardBody {
  ConvIndex c;
  const T* x;
  const T* w;
  MR_DEVICE T operator()(int64_t i) const {
    const auto place = c.PlaceOf(i, c.out_channels, c.out_plane);
    const Point out = ConvIndex::Decode(c.out_size, place.pixel);
    const int64_t first = c.outputs_per_group(place.channel) * c.inner.by;
    double sum = 0;
    for (int64_t t = 0; t < c.taps.by; ++t) {
      const int64_t pixel = c.Under(out, ConvIndex::Decode(c.taps_size, t));
      if (pixel < 0) continue;
      for (int64_t k = 0; k < c.inner.by; ++k) {
        sum += static_cast<double>(Widen(x[c.Input(place.image, first + k, pixel)])) *
               static_cast<double>(Widen(w[(t * c.inner.by + k) * c.out_channels.by + place.channel]));
      }
    }
    return Wide<T>::Narrow(static_cast<typename Wide<T>::type>(sum));
  }
};

template <typename T>
struct InputBody {
  ConvIndex c;
  const T* w;
  const T* dy;
  MR_DEVICE T operator()(int64_t i) const {
    const auto place = c.PlaceOf(i, c.in_channels, c.in_plane);
    const Point in = ConvIndex::Decode(c.in_size, place.pixel);
    const int64_t group = c.inner(place.channel), k = place.channel - group * c.inner.by;
    const int64_t first = group * c.outputs_per_group.by;
    double sum = 0;
    for (int64_t t = 0; t < c.taps.by; ++t) {
      const int64_t pixel = c.Seeing(in, ConvIndex::Decode(c.taps_size, t));
      if (pixel < 0) continue;
      for (int64_t o = first; o < first + c.outputs_per_group.by; ++o) {
        sum += static_cast<double>(Widen(dy[c.Output(place.image, o, pixel)])) *
               static_cast<double>(Widen(w[(t * c.inner.by + k) * c.out_channels.by + o]));
      }
    }
    return Wide<T>::Narrow(static_cast<typename Wide<T>::type>(sum));
  }
};

// A row per element of the filter, a term per output pixel of the batch.
template <typename T>
struct FilterBody {
  ConvIndex c;
  const T* x;
  const T* dy;
  T* dw;
  MR_DEVICE double Identity() const { return 0; }
  MR_DEVICE double Combine(double a, double b) const { return a + b; }
  MR_DEVICE double Load(int64_t row, int64_t term) const {
    const int64_t line = c.out_channels(row), o = row - line * c.out_channels.by;
    const int64_t t = c.inner(line), k = line - t * c.inner.by;
    const int64_t image = c.out_plane(term), pixel = term - image * c.out_plane.by;
    const int64_t under = c.Under(ConvIndex::Decode(c.out_size, pixel), ConvIndex::Decode(c.taps_size, t));
    if (under < 0) return 0;
    return static_cast<double>(Widen(x[c.Input(image, c.outputs_per_group(o) * c.inner.by + k, under)])) *
           static_cast<double>(Widen(dy[c.Output(image, o, pixel)]));
  }
  MR_DEVICE void Store(int64_t row, double acc) const {
    dw[row] = Wide<T>::Narrow(static_cast<typename Wide<T>::type>(acc));
  }
};

struct SpreadBody {
  RowSpread s;
  int64_t z, y;  // the taps' row
  Divider channels, in_x, out_y, out_z, step;
  const float* products;
  float* input;
  MR_DEVICE void operator()(int64_t i) const {
    int64_t channel = 0;
    if (!s.channels_first) channel = Next(channels, &i);
    const int64_t x = Next(in_x, &i), oy = Next(out_y, &i), oz = Next(out_z, &i);
    if (s.channels_first) channel = Next(channels, &i);
    const int64_t ox = step(x), tap = x - ox * step.by, image = i;
    const int64_t row = (oz * s.out[1] + oy) * s.out[2], plane = s.out[0] * s.out[1] * s.out[2];
    const int64_t from = s.channels_first ? ((image * s.taps + tap) * channels.by + channel) * plane + row + ox
                                          : ((image * plane + row + ox) * s.taps + tap) * channels.by + channel;
    const int64_t line = s.channels_first ? image * channels.by + channel : image;
    const int64_t at = ((line * s.in[0] + oz * s.stride[0] + z) * s.in[1] + oy * s.stride[1] + y) * s.in[2] + x;
    const float value = tap < s.taps && ox < s.out[2] ? products[from] : 0;
    input[s.channels_first ? at : at * channels.by + channel] = value;
  }
  // The innermost of the indices that are left in i.
  MR_DEVICE static int64_t Next(const Divider& size, int64_t* i) {
    const int64_t outer = size(*i), inner = *i - outer * size.by;
    *i = outer;
    return inner;
  }
};

int64_t FilterElements(const DirectConv& s) {
  return s.kernel[0] * s.kernel[1] * s.kernel[2] * (s.in_channels / s.groups) * s.out_channels;
}
int64_t OutputPixels(const DirectConv& s) { return s.batch * s.out[0] * s.out[1] * s.out[2]; }

}  // namespace

void LaunchConvForward(const Queue& queue, Type type, const DirectConv& shape, const void* input, const void* filter,
                       void* output) {
  ForFloating(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    MapEach(queue, OutputPixels(shape) * shape.out_channels, static_cast<T*>(output),
        ForwardBody<T>{IndexOf(shape), static_cast<const T*>(input), static_cast<const T*>(filter)});
  });
}

void LaunchConvInput(const Queue& queue, Type type, const DirectConv& shape, const void* filter, const void* output,
                     void* input) {
  ForFloating(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    MapEach(queue, shape.batch * shape.in_channels * shape.in[0] * shape.in[1] * shape.in[2], static_cast<T*>(input),
        InputBody<T>{IndexOf(shape), static_cast<const T*>(filter), static_cast<const T*>(output)});
  });
}

int64_t ConvFilterScratchBytes(const DirectConv& shape) {
  const int64_t rows = FilterElements(shape), chunks = SumChunks(rows, OutputPixels(shape), true);
  return chunks > 1 ? rows * chunks * 8 : 0;
}

void LaunchConvFilter(const Queue& queue, Type type, const DirectConv& shape, const void* input, const void* output,
                      void* filter, void* scratch) {
  ForFloating(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    SumRows<double>(queue, FilterElements(shape), OutputPixels(shape), true, scratch,
                    FilterBody<T>{IndexOf(shape), static_cast<const T*>(input), static_cast<const T*>(output),
                                  static_cast<T*>(filter)});
  });
}

void LaunchSpreadRows(const Queue& queue, const RowSpread& shape, int64_t z, int64_t y, const void* products, void* input) {
  const int64_t elements = shape.batch * shape.channels * shape.out[0] * shape.out[1] * shape.in[2];
  SpreadBody body{shape, z, y, {}, {}, {}, {}, {}, static_cast<const float*>(products), static_cast<float*>(input)};
  body.channels = DivideBy(shape.channels, elements);
  body.in_x = DivideBy(shape.in[2], elements);
  body.out_y = DivideBy(shape.out[1], elements);
  body.out_z = DivideBy(shape.out[0], elements);
  body.step = DivideBy(shape.stride[2], elements);
  ForEach(queue, elements, body);
}

}  // namespace millrace::cuda
