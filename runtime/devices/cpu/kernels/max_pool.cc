// MaxPool, MaxPoolV2, MaxPool3D. As in TensorFlow a window's maximum starts from the lowest finite value and NaN never
// wins.
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

// Of 16-bit floats by their bits, as signed magnitudes, so that loops vectorise. `into` is no NaN.
template <typename T>
[[gnu::always_inline]] inline void MaxInto(const T& from, T& into) {
  if constexpr (kIsShortFloat<T>) {
    constexpr int16_t kInfinity = std::is_same_v<T, Eigen::half> ? 0x7c00 : 0x7f80;
    const auto& value = reinterpret_cast<const int16_t&>(from);
    auto& best = reinterpret_cast<int16_t&>(into);
    const int16_t size = value & 0x7fff, best_size = best & 0x7fff;
    const int16_t key = value < 0 ? -size : size, best_key = best < 0 ? -best_size : best_size;
    best = (key > best_key) & (size <= kInfinity) ? value : best;
  } else {
    into = from > into ? from : into;
  }
}

template <typename T>
[[gnu::always_inline]] inline void MaxInto(const T* __restrict__ from, int64_t channels, T* __restrict__ into) {
  for (int64_t c = 0; c < channels; ++c) MaxInto(from[c], into[c]);
}

// Elements of a part of a row that is kept.
constexpr int64_t kRowPart = 2048;
// So many are a loop of their own for a tap of a window.
constexpr int64_t kManyChannels = 64;

// Whether maxima over the rows of windows come first, then those over columns: where windows share columns, or of few channels. Of
// zeros of both signs it may be another one than otherwise.
bool RowsFirst(const PoolGeometry& geometry) {
  constexpr int64_t kFewChannels = 16;
  const int64_t rows = geometry.dims[0].window * geometry.dims[1].window;
  const WindowDim& columns = geometry.dims[2];
  const bool share = rows * columns.window > 2 * (rows * std::min(columns.stride, columns.window) + columns.window);
  return rows > 1 && geometry.channels > 0 && (share || geometry.channels < kFewChannels) && columns.window * geometry.channels <= kRowPart;
}

// Output columns [first, last) of a row, from the maxima over rows; kChannels of 0 stands for any number.
template <int kChannels, typename T>
void MaxOverColumns(const PoolGeometry& geometry, const T* maxima, int64_t first, int64_t last, T* to) {
  const int64_t channels = kChannels > 0 ? kChannels : geometry.channels, origin = Taps(geometry.dims[2], first).begin;
  for (int64_t j = first; j < last; ++j, to += channels) {
    const TapRange taps = Taps(geometry.dims[2], j);
    for (int64_t tap = taps.begin; tap < taps.end; ++tap) MaxInto(maxima + (tap - origin) * channels, channels, to);
  }
}

template <typename T>
void MaxOfRows(const PoolGeometry& geometry, const T* from, TapRange t0, TapRange t1, T* to) {
  T maxima[kRowPart];
  const WindowDim& columns = geometry.dims[2];
  const int64_t channels = geometry.channels, at_once = (kRowPart / channels - columns.window) / columns.stride + 1;
  for (int64_t first = 0; first < columns.output; first += at_once) {
    const int64_t last = std::min(first + at_once, columns.output), begin = Taps(columns, first).begin;
    const int64_t elements = std::max<int64_t>(Taps(columns, last - 1).end - begin, 0) * channels;
    std::fill_n(maxima, elements, Eigen::NumTraits<T>::lowest());
    ForEachTap(geometry, t0, t1, {begin, begin + 1}, [&](int64_t, int64_t tap) { MaxInto(from + tap, elements, maxima); });
    const auto over_columns = channels == 1 ? &MaxOverColumns<1, T> : channels == 2 ? &MaxOverColumns<2, T> : channels == 3 ? &MaxOverColumns<3, T>
                              : channels == 4 ? &MaxOverColumns<4, T> : &MaxOverColumns<0, T>;
    over_columns(geometry, maxima, first, last, to + first * channels);
  }
}

template <typename T>
absl::Status RunMaxPool(const KernelContext& context, const PoolGeometry& geometry) {
  const T* input = context.input<T>(0);
  T* output = context.output<T>(0);
  const int64_t image_elements = geometry.input_rows() * geometry.input_row_elements();
  if (RowsFirst(geometry)) {
    ParallelOutputRows(context, geometry, [&](int64_t row, int64_t image, TapRange t0, TapRange t1) {
      T* to = output + row * geometry.output_row_elements();
      std::fill(to, to + geometry.output_row_elements(), Eigen::NumTraits<T>::lowest());
      MaxOfRows(geometry, input + image * image_elements, t0, t1, to);
    });
    return absl::OkStatus();
  }
  if constexpr (std::is_floating_point_v<T>) {
    if (ChannelsFillVectors<T>(geometry) && geometry.channels <= kManyChannels && HasWholeWindows(geometry)) {
      ParallelOutputRows(context, geometry, [&](int64_t row, int64_t image, TapRange t0, TapRange t1) {
        FoldOutputRow(geometry, input + image * image_elements, t0, t1, Eigen::NumTraits<T>::lowest(), output + row * geometry.output_row_elements(),
                      [](const auto& value, auto& maximum) { maximum = value > maximum ? value : maximum; }, [](const auto&, TapRange) {});
      });
      return absl::OkStatus();
    }
  }
  if (geometry.channels < kManyChannels) {
    ParallelOutputRows(context, geometry, [&](int64_t row, int64_t image, TapRange t0, TapRange t1) {
      const T* from = input + image * image_elements;
      T* to = output + row * geometry.output_row_elements();
      std::fill_n(to, geometry.output_row_elements(), Eigen::NumTraits<T>::lowest());
      ForColumnParts(geometry, [&](TapRange part) {
        ForOutputLines(geometry, t0, t1, part, [&](int64_t windows, int64_t at, int64_t tap) {
          T* maxima = to + part.begin * geometry.channels + at;
          const T* source = from + tap;
          ForLine(windows, geometry.channels, geometry.dims[2].stride, [=](int64_t out, int64_t in) { MaxInto(source[in], maxima[out]); });
        });
      });
    });
    return absl::OkStatus();
  }
  ParallelOutputRows(context, geometry, [&](int64_t row, int64_t image, TapRange t0, TapRange t1) {
    const T* from = input + image * image_elements;
    T* to = output + row * geometry.output_row_elements();
    std::fill(to, to + geometry.output_row_elements(), Eigen::NumTraits<T>::lowest());
    for (int64_t j = 0; j < geometry.dims[2].output; ++j, to += geometry.channels) {
      ForEachTap(geometry, t0, t1, Taps(geometry.dims[2], j),
                 [&](int64_t, int64_t tap) { MaxInto(from + tap, geometry.channels, to); });
    }
  });
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeMaxPool(const OpInstance& node) {
  MR_ASSIGN_OR_RETURN(const PoolGeometry geometry,
                      PoolGeometryOf(node, node.inputs[0].shape, node.op == "MaxPoolV2" ? 1 : -1));
  return DispatchNumeric(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([geometry](const KernelContext& context) { return RunMaxPool<T>(context, geometry); });
  });
}

}  // namespace

void RegisterMaxPoolKernels(KernelRegistry& registry) {
  for (const char* name : {"MaxPool", "MaxPoolV2", "MaxPool3D"}) AddKernel(registry, name, MakeMaxPool);
}

}  // namespace millrace::cpu
