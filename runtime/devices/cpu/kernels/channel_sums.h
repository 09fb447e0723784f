// Two sums per channel over a large tensor, in double and in an order that depends on sizes alone: the statistics
// of batch normalisation and their gradients.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_CHANNEL_SUMS_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_CHANNEL_SUMS_H_

#include "cpu/kernels/common.h"

namespace millrace::cpu {

// A tensor seen as [outer, channels, inner]: inner is 1 when channels are last. Channels-last tensors with few
// channels are walked in rows of `width` = several positions, so that loops over a row vectorise; element e then
// belongs to channel (e % width) % channels.
struct ChannelView {
  int64_t outer = 0;
  int64_t channels = 1;
  int64_t inner = 1;
  int64_t width = 1;
  int64_t elements() const { return outer * channels * inner; }
  int64_t per_channel() const { return outer * inner; }
};

inline ChannelView MakeChannelView(const Shape& shape, bool channels_first) {
  ChannelView view;
  view.channels = shape.dim(channels_first ? 1 : shape.rank() - 1);
  view.outer = channels_first ? shape.dim(0) : 1;
  for (int i = channels_first ? 2 : 0; i < shape.rank() - (channels_first ? 0 : 1); ++i) {
    (channels_first ? view.inner : view.outer) *= shape.dim(i);
  }
  view.width = std::max<int64_t>(view.channels, 1);
  if (view.inner == 1) {
    while (view.width < 64 && view.width % 16 != 0) view.width += view.channels;
  }
  return view;
}

// Shards of whole rows (channels last) or planes (channels first).
inline int64_t ChannelShards(const ChannelView& view) {
  const int64_t units = view.inner == 1 ? view.elements() / view.width : view.outer * view.channels;
  const int64_t unit = view.inner == 1 ? view.width : view.inner;
  return NumShards(units, std::max<int64_t>(kElementGrain / std::max<int64_t>(unit, 1), 1));
}

// Doubles of scratch that SumPerChannel needs.
inline int64_t ChannelSumsScratch(const ChannelView& view) {
  return 2 * (view.inner == 1 ? ChannelShards(view) * view.width : view.outer * view.channels);
}

namespace internal {

// Terms: void operator()(int64_t element, int64_t column, double& first, double& second) const.
template <typename Terms>
void SumRows(const Terms& terms, int64_t begin, int64_t end, int64_t width, double* first, double* second) {
  std::fill(first, first + width, 0.0);
  std::fill(second, second + width, 0.0);
  int64_t e = begin;
  for (; e + 4 * width <= end; e += 4 * width) {
#pragma GCC ivdep
    for (int64_t c = 0; c < width; ++c) {
      double a = first[c], b = second[c];
      terms(e + c, c, a, b);
      terms(e + width + c, c, a, b);
      terms(e + 2 * width + c, c, a, b);
      terms(e + 3 * width + c, c, a, b);
      first[c] = a;
      second[c] = b;
    }
  }
  for (; e < end; e += width) {
    const int64_t columns = std::min(width, end - e);
#pragma GCC ivdep
    for (int64_t c = 0; c < columns; ++c) terms(e + c, c, first[c], second[c]);
  }
}

template <typename Terms>
void SumPlane(const Terms& terms, int64_t begin, int64_t end, int64_t channel, double* first, double* second) {
  constexpr int kLanes = 16;
  double a[kLanes] = {}, b[kLanes] = {};
  int64_t e = begin;
  for (; e + kLanes <= end; e += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) terms(e + lane, channel, a[lane], b[lane]);
  }
  for (int lane = 0; e + lane < end; ++lane) terms(e + lane, channel, a[lane], b[lane]);
  for (int lane = 1; lane < kLanes; ++lane) {
    a[0] += a[lane];
    b[0] += b[lane];
  }
  *first = a[0];
  *second = b[0];
}

}  // namespace internal

// sums[c] and sums[channels + c]: the totals of `terms` over the elements of channel c. A column is an index into
// [0, width) that names the element's channel (the channel itself when channels are first).
template <typename Terms>
void SumPerChannel(const KernelContext& context, const ChannelView& view, const Terms& terms, double* scratch,
                   double* sums) {
  const int64_t shards = ChannelShards(view), channels = view.channels;
  std::fill(sums, sums + 2 * channels, 0.0);
  if (view.inner == 1) {
    const int64_t width = view.width, rows = view.elements() / width;
    context.parallel->For(shards, [&](int64_t s) {
      const int64_t end = s + 1 == shards ? view.elements() : rows * (s + 1) / shards * width;
      double* first = scratch + 2 * s * width;
      internal::SumRows(terms, rows * s / shards * width, end, width, first, first + width);
    });
    for (int64_t s = 0; s < shards; ++s) {
      for (int64_t part = 0; part < 2; ++part) {
        const double* partial = scratch + (2 * s + part) * width;
        for (int64_t group = 0; group < width; group += channels) {
          for (int64_t c = 0; c < channels; ++c) sums[part * channels + c] += partial[group + c];
        }
      }
    }
    return;
  }
  const int64_t planes = view.outer * channels;
  context.parallel->For(shards, [&](int64_t s) {
    for (int64_t p = planes * s / shards; p < planes * (s + 1) / shards; ++p) {
      internal::SumPlane(terms, p * view.inner, (p + 1) * view.inner, p % channels, scratch + 2 * p,
                         scratch + 2 * p + 1);
    }
  });
  for (int64_t p = 0; p < planes; ++p) {
    sums[p % channels] += scratch[2 * p];
    sums[channels + p % channels] += scratch[2 * p + 1];
  }
}

// Calls apply(element, column) for every element, in loops that vectorise and may run in place.
template <typename Apply>
void ForEachByChannel(const KernelContext& context, const ChannelView& view, const Apply& apply) {
  const int64_t shards = ChannelShards(view);
  if (view.inner == 1) {
    const int64_t width = view.width, rows = view.elements() / width;
    context.parallel->For(shards, [&](int64_t s) {
      const int64_t end = s + 1 == shards ? view.elements() : rows * (s + 1) / shards * width;
      for (int64_t e = rows * s / shards * width; e < end; e += width) {
        const int64_t columns = std::min(width, end - e);
#pragma GCC ivdep
        for (int64_t c = 0; c < columns; ++c) apply(e + c, c);
      }
    });
    return;
  }
  const int64_t planes = view.outer * view.channels;
  context.parallel->For(shards, [&](int64_t s) {
    for (int64_t p = planes * s / shards; p < planes * (s + 1) / shards; ++p) {
      const int64_t channel = p % view.channels, end = (p + 1) * view.inner;
#pragma GCC ivdep
      for (int64_t e = p * view.inner; e < end; ++e) apply(e, channel);
    }
  });
}

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_CHANNEL_SUMS_H_
