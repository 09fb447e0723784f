// MaxPool, MaxPoolV2, MaxPool3D. As in TensorFlow a window's maximum starts from the lowest finite value and NaN never
// wins, but for nodes with kPoolsAsXla: there it starts from -inf, and NaN always wins, as one without sign and payload.
#include <bit>
#include <limits>
#include <type_traits>

#include "cpu/kernels/pool.h"
#include "cpu/kernels/pool_lines.h"
#include "cpu/kernels/pool_vectors.h"
#include "cpu/kernels/pool_windows.h"
#include "cpu/kernels/register.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

template <typename T>
constexpr bool kIsShortFloat = std::is_same_v<T, Eigen::half> || std::is_same_v<T, Eigen::bfloat16>;

template <bool kAsXla, typename T>
T Least() {
  if constexpr (kAsXla) {
    return -std::numeric_limits<T>::infinity();
  } else {
    return Eigen::NumTraits<T>::lowest();
  }
}

// Of 16-bit floats by their bits, as signed magnitudes, so that loops vectorise. `into` is no NaN, or, as XLA has it, one without a sign.
template <bool kAsXla, typename T>
[[gnu::always_inline]] inline void MaxInto(const T& from, T& into) {
  if constexpr (kIsShortFloat<T>) {
    constexpr int16_t kInfinity = std::is_same_v<T, Eigen::half> ? 0x7c00 : 0x7f80;
    const auto& value = reinterpret_cast<const int16_t&>(from);
    auto& best = reinterpret_cast<int16_t&>(into);
    const int16_t size = value & 0x7fff, best_size = best & 0x7fff;
    const int16_t key = value < 0 ? -size : size, best_key = best < 0 ? -best_size : best_size;
    if constexpr (kAsXla) {
      const bool nan = size > kInfinity;
      best = (key > best_key) | nan ? (nan ? size : value) : best;
    } else {
      best = (key > best_key) & (size <= kInfinity) ? value : best;
    }
  } else if constexpr (kAsXla) {
    using Bits = std::conditional_t<sizeof(T) == sizeof(int64_t), int64_t, int32_t>;
    const T larger = from > into ? from : into;
    into = std::bit_cast<T>(std::bit_cast<Bits>(larger) | -static_cast<Bits>(from != from));
  } else {
    into = from > into ? from : into;
  }
}

template <bool kAsXla, typename T>
[[gnu::always_inline]] inline void MaxInto(const T* __restrict__ from, int64_t channels, T* __restrict__ into) {
  for (int64_t c = 0; c < channels; ++c) MaxInto<kAsXla>(from[c], into[c]);
}

// Elements of a part of a row that is kept.
constexpr int64_t kRowPart = 2048;
// So many are a loop of their own for a tap of a window.
constexpr int64_t kManyChannels = 64;

// Whether maxima over the rows of windows come first, then those over columns: where windows share columns, or of few channels, of 16-bit
// floats also where loops over lines with strides would be slow. Of zeros of both signs it may be another one than otherwise.
template <typename T>
bool RowsFirst(const PoolGeometry& geometry) {
  constexpr int64_t kFewChannels = 16;
  const int64_t rows = geometry.dims[0].window * geometry.dims[1].window, channels = geometry.channels;
  const WindowDim& columns = geometry.dims[2];
  const bool strides = kIsShortFloat<T> && columns.stride > 1 && channels < kManyChannels && channels % kFewChannels != 0;
  const bool share = rows * columns.window > 2 * (rows * std::min(columns.stride, columns.window) + columns.window);
  return rows > 1 && channels > 0 && columns.window * channels <= kRowPart && (share || channels < kFewChannels || strides);
}

// Output columns [first, last) of a row, from the maxima over rows; kChannels of 0 stands for any number.
template <bool kAsXla, int kChannels, typename T>
void MaxOverColumns(const PoolGeometry& geometry, const T* maxima, int64_t first, int64_t last, T* to) {
  const int64_t channels = kChannels > 0 ? kChannels : geometry.channels, origin = Taps(geometry.dims[2], first).begin;
  for (int64_t j = first; j < last; ++j, to += channels) {
    const TapRange taps = Taps(geometry.dims[2], j);
    for (int64_t tap = taps.begin; tap < taps.end; ++tap) MaxInto<kAsXla>(maxima + (tap - origin) * channels, channels, to);
  }
}

template <bool kAsXla, typename T>
void MaxOfRows(const PoolGeometry& geometry, const T* from, TapRange t0, TapRange t1, T* to) {
  T maxima[kRowPart];
  const WindowDim& columns = geometry.dims[2];
  const int64_t channels = geometry.channels, at_once = (kRowPart / channels - columns.window) / columns.stride + 1;
  for (int64_t first = 0; first < columns.output; first += at_once) {
    const int64_t last = std::min(first + at_once, columns.output), begin = Taps(columns, first).begin;
    const int64_t elements = std::max<int64_t>(Taps(columns, last - 1).end - begin, 0) * channels;
    std::fill_n(maxima, elements, Least<kAsXla, T>());
    ForEachTap(geometry, t0, t1, {begin, begin + 1}, [&](int64_t, int64_t tap) { MaxInto<kAsXla>(from + tap, elements, maxima); });
    const auto over_columns = channels == 1 ? &MaxOverColumns<kAsXla, 1, T> : channels == 2 ? &MaxOverColumns<kAsXla, 2, T>
                              : channels == 3 ? &MaxOverColumns<kAsXla, 3, T> : channels == 4 ? &MaxOverColumns<kAsXla, 4, T>
                                                                              : &MaxOverColumns<kAsXla, 0, T>;
    over_columns(geometry, maxima, first, last, to + first * channels);
  }
}

// Every NaN as the one that has no sign and no payload, however its maximum was found.
template <typename T>
void UnifyNans(T* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) values[i] = values[i] == values[i] ? values[i] : std::numeric_limits<T>::quiet_NaN();
}

template <bool kAsXla, typename T>
absl::Status RunMaxPool(const KernelContext& context, const PoolGeometry& geometry) {
  const int64_t image_elements = geometry.input_rows() * geometry.input_row_elements(), row_elements = geometry.output_row_elements();
  // find(from, t0, t1, to) of every row, from its image.
  const auto in_rows = [&](const auto& find) {
    ParallelOutputRows(context, geometry, [&](int64_t row, int64_t image, TapRange t0, TapRange t1) {
      T* to = context.output<T>(0) + row * row_elements;
      find(context.input<T>(0) + image * image_elements, t0, t1, to);
      if constexpr (kAsXla) UnifyNans(to, row_elements);
    });
    return absl::OkStatus();
  };
  if (RowsFirst<T>(geometry)) {
    return in_rows([&](const T* from, TapRange t0, TapRange t1, T* to) {
      std::fill_n(to, row_elements, Least<kAsXla, T>());
      MaxOfRows<kAsXla>(geometry, from, t0, t1, to);
    });
  }
  if constexpr (std::is_floating_point_v<T>) {
    if (ChannelsFillVectors<T>(geometry) && geometry.channels <= kManyChannels && HasWholeWindows(geometry)) {
      return in_rows([&](const T* from, TapRange t0, TapRange t1, T* to) {
        FoldOutputRow(geometry, from, t0, t1, Least<kAsXla, T>(), to,
                      [](const auto& value, auto& maximum) {
                        if constexpr (kAsXla) {
                          const auto larger = value > maximum ? value : maximum;
                          const auto nan = value != value;
                          maximum = std::bit_cast<decltype(larger + larger)>(std::bit_cast<decltype(nan | nan)>(larger) | nan);
                        } else {
                          maximum = value > maximum ? value : maximum;
                        }
                      },
                      [](const auto&, TapRange) {});
      });
    }
  }
  if (geometry.channels < kManyChannels) {
    return in_rows([&](const T* from, TapRange t0, TapRange t1, T* to) {
      std::fill_n(to, row_elements, Least<kAsXla, T>());
      ForColumnParts(geometry, [&](TapRange part) {
        ForOutputLines(geometry, t0, t1, part, [&](int64_t windows, int64_t at, int64_t tap) {
          T* maxima = to + part.begin * geometry.channels + at;
          const T* source = from + tap;
          ForLine(windows, geometry.channels, geometry.dims[2].stride, [=](int64_t out, int64_t in) { MaxInto<kAsXla>(source[in], maxima[out]); });
        });
      });
    });
  }
  return in_rows([&](const T* from, TapRange t0, TapRange t1, T* to) {
    std::fill_n(to, row_elements, Least<kAsXla, T>());
    for (int64_t j = 0; j < geometry.dims[2].output; ++j, to += geometry.channels) {
      ForEachTap(geometry, t0, t1, Taps(geometry.dims[2], j),
                 [&](int64_t, int64_t tap) { MaxInto<kAsXla>(from + tap, geometry.channels, to); });
    }
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeMaxPool(const OpInstance& node) {
  MR_ASSIGN_OR_RETURN(const PoolGeometry geometry,
                      PoolGeometryOf(node, node.inputs[0].shape, node.op == "MaxPoolV2" ? 1 : -1));
  const bool as_xla = node.attrs.GetOr<bool>(kPoolsAsXla, false);
  return DispatchNumeric(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_floating_point_v<T> || kIsShortFloat<T>) {
      if (as_xla) return MakeKernel([geometry](const KernelContext& context) { return RunMaxPool<true, T>(context, geometry); });
    }
    return MakeKernel([geometry](const KernelContext& context) { return RunMaxPool<false, T>(context, geometry); });
  });
}

}  // namespace

void RegisterMaxPoolKernels(KernelRegistry& registry) {
  for (const char* name : {"MaxPool", "MaxPoolV2", "MaxPool3D"}) AddKernel(registry, name, MakeMaxPool);
}

}  // namespace millrace::cpu
