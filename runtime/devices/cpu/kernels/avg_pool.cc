// AvgPool and AvgPool3D and their gradients: the mean over the part of a window that lies inside the input.
#include "cpu/kernels/convert.h"
#include "cpu/kernels/plain_floats.h"
#include "cpu/kernels/pool.h"
#include "cpu/kernels/pool_lines.h"
#include "cpu/kernels/pool_vectors.h"
#include "cpu/kernels/pool_windows.h"
#include "cpu/kernels/register.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

constexpr int64_t kBlock = 64;

template <typename T>
using SumFor = std::conditional_t<std::is_same_v<T, double>, double, float>;

// What stands for bfloat16.
template <typename T>
using PlainFor = std::conditional_t<std::is_same_v<T, Eigen::bfloat16>, PlainBfloat16, T>;

int64_t TapCount(TapRange t0, TapRange t1, TapRange t2) {
  return (t0.end - t0.begin) * (t1.end - t1.begin) * (t2.end - t2.begin);
}

// Numbers as they are added: 16-bit floats in `wide`.
template <typename T>
const SumFor<T>* AsSums(const Widening& widening, const T* numbers, int64_t n, SumFor<T>* wide) {
  if constexpr (sizeof(T) == 2) {
    widening.load(numbers, wide, n);
    return wide;
  } else {
    return numbers;
  }
}

template <typename T>
absl::Status RunAvgPool(const KernelContext& context, const PoolGeometry& geometry) {
  using Sum = SumFor<T>;
  const Widening widening = WideningOf(context.output_type(0).dtype);
  const T* input = context.input<T>(0);
  T* output = context.output<T>(0);
  const int64_t image_elements = geometry.input_rows() * geometry.input_row_elements();
  ParallelOutputRows(context, geometry, [&](int64_t row, int64_t image, TapRange t0, TapRange t1) {
    const T* from = input + image * image_elements;
    T* to = output + row * geometry.output_row_elements();
    for (int64_t j = 0; j < geometry.dims[2].output; ++j, to += geometry.channels) {
      const TapRange t2 = Taps(geometry.dims[2], j);
      const Sum count = static_cast<Sum>(TapCount(t0, t1, t2));
      int64_t block = 0;
      // Blocks of a fixed size are summed in registers.
      const auto cover = [&](auto channels, int64_t last) {
        for (; block + channels <= last; block += channels) {
          Sum sums[kBlock] = {}, wide[kBlock];
          ForEachTap(geometry, t0, t1, t2, [&](int64_t, int64_t tap) {
            const Sum* source = AsSums(widening, from + tap + block, channels, wide);
            for (int64_t c = 0; c < channels; ++c) sums[c] += source[c];
          });
          for (int64_t c = 0; c < channels; ++c) sums[c] /= count;
          if constexpr (sizeof(T) == 2) {
            widening.store(sums, to + block, channels);
          } else {
            std::copy_n(sums, channels, to + block);
          }
        }
      };
      cover(std::integral_constant<int64_t, kBlock>(), geometry.channels);
      cover(std::integral_constant<int64_t, kBlock / 4>(), geometry.channels);
      if (block < geometry.channels) cover(geometry.channels - block, geometry.channels);
    }
  });
  return absl::OkStatus();
}

// Whether lines of windows side by side pay. Not for half: its conversions keep loops from being vectorised.
template <typename T>
bool LinesPay(const PoolGeometry& geometry) {
  return !std::is_same_v<T, Eigen::half> && geometry.dims[2].output > 1;
}

template <typename T>
absl::Status RunAvgPoolLines(const KernelContext& context, const PoolGeometry& geometry) {
  using Sum = SumFor<T>;
  using Plain = PlainFor<T>;
  const WindowDim& columns = geometry.dims[2];
  const TapRange whole = WholeWindows(columns);
  const int64_t channels = geometry.channels, image_elements = geometry.input_rows() * geometry.input_row_elements();
  ParallelOutputRows(context, geometry, [&](int64_t row, int64_t image, TapRange t0, TapRange t1) {
    const Plain* from = context.input<Plain>(0) + image * image_elements;
    ForColumnParts(geometry, [&](TapRange part) {
      Sum sums[kLineElements];
      std::fill_n(sums, (part.end - part.begin) * channels, Sum(0));
      ForOutputLines(geometry, t0, t1, part, [&](int64_t windows, int64_t at, int64_t tap) {
        Sum* into = sums + at;
        const Plain* source = from + tap;
        ForLine(windows, channels, columns.stride, [=](int64_t out, int64_t in) { into[out] += static_cast<Sum>(source[in]); });
      });
      ForAlikeColumns(part, whole, [&](int64_t first, int64_t windows) {
        const Sum count = static_cast<Sum>(TapCount(t0, t1, Taps(columns, first)));
        const Sum* of_windows = sums + (first - part.begin) * channels;
        Plain* to = context.output<Plain>(0) + row * geometry.output_row_elements() + first * channels;
        for (int64_t e = 0; e < windows * channels; ++e) to[e] = static_cast<Plain>(of_windows[e] / count);
      });
    });
  });
  return absl::OkStatus();
}

template <typename T>
absl::Status RunAvgPoolVectors(const KernelContext& context, const PoolGeometry& geometry) {
  const int64_t image_elements = geometry.input_rows() * geometry.input_row_elements();
  ParallelOutputRows(context, geometry, [&](int64_t row, int64_t image, TapRange t0, TapRange t1) {
    FoldOutputRow(geometry, context.input<T>(0) + image * image_elements, t0, t1, T(0), context.output<T>(0) + row * geometry.output_row_elements(),
                  [](const auto& value, auto& sum) { sum += value; },
                  [=](auto& sum, TapRange t2) { sum /= static_cast<T>(TapCount(t0, t1, t2)); });
  });
  return absl::OkStatus();
}

// AvgPoolGrad(orig_input_shape, grad).
template <typename T>
absl::Status RunAvgPoolGrad(const KernelContext& context, const PoolGeometry& geometry) {
  using Sum = SumFor<T>;
  const T* dy = context.input<T>(1);
  T* dx = context.output<T>(0);
  const int64_t row_elements = geometry.input_row_elements();
  const int64_t image_elements = geometry.input_rows() * row_elements;
  const int64_t image_windows = geometry.output_rows() * geometry.output_row_elements();
  ParallelInputRows(context, geometry, [&](int64_t image, int64_t first_row, int64_t last_row) {
    T* to = dx + image * image_elements;
    std::fill(to + first_row * row_elements, to + last_row * row_elements, T(0));
    ForEachWindowReaching(geometry, first_row, last_row, [&](TapRange t0, TapRange t1, TapRange t2, int64_t window) {
      const T* gradient = dy + image * image_windows + window * geometry.channels;
      const Sum share = Sum(1) / static_cast<Sum>(TapCount(t0, t1, t2));
      ForEachTap(geometry, t0, t1, t2, [&](int64_t row, int64_t tap) {
        if (row < first_row || row >= last_row) return;
        T* into = to + tap;
#pragma GCC ivdep
        for (int64_t c = 0; c < geometry.channels; ++c) {
          into[c] = static_cast<T>(static_cast<Sum>(into[c]) + static_cast<Sum>(gradient[c]) * share);
        }
      });
    });
  });
  return absl::OkStatus();
}

template <typename T>
absl::Status RunAvgPoolGradLines(const KernelContext& context, const PoolGeometry& geometry) {
  using Sum = SumFor<T>;
  using Plain = PlainFor<T>;
  const WindowDim& columns = geometry.dims[2];
  const TapRange whole = WholeWindows(columns);
  const int64_t channels = geometry.channels, row_elements = geometry.input_row_elements();
  const int64_t image_windows = geometry.output_rows() * geometry.output_row_elements();
  ParallelInputRows(context, geometry, [&](int64_t image, int64_t first_row, int64_t last_row) {
    const Plain* dy = context.input<Plain>(1) + image * image_windows;
    for (int64_t row = first_row; row < last_row; ++row) {
      Plain* to = context.output<Plain>(0) + (image * geometry.input_rows() + row) * row_elements;
      std::fill_n(to, row_elements, Plain(0));
      ForWindowLines(geometry, row, [&](TapRange t0, TapRange t1, TapRange run, int64_t k, int64_t row_windows) {
        ForAlikeColumns(run, whole, [&](int64_t first, int64_t windows) {
          const Sum share = Sum(1) / static_cast<Sum>(TapCount(t0, t1, Taps(columns, first)));
          const Plain* gradient = dy + row_windows + first * channels;
          Plain* into = to + (columns.Start(first) + k) * channels;
          ForLine(windows, channels, columns.stride, [=](int64_t out, int64_t in) {
            into[in] = static_cast<Plain>(static_cast<Sum>(into[in]) + static_cast<Sum>(gradient[out]) * share);
          });
        });
      });
    }
  });
  return absl::OkStatus();
}

template <typename T>
absl::Status RunAvgPoolGradVectors(const KernelContext& context, const PoolGeometry& geometry, const std::vector<TapRange>& by_column) {
  using L = Lanes<T>;
  const WindowDim& columns = geometry.dims[2];
  const TapRange whole = WholeWindows(columns);
  const int64_t image_elements = geometry.input_rows() * geometry.input_row_elements();
  const int64_t image_windows = geometry.output_rows() * geometry.output_row_elements();
  ParallelInputRows(context, geometry, [&](int64_t image, int64_t first_row, int64_t last_row) {
    const T* dy = context.input<T>(1) + image * image_windows;
    int64_t known = 1;  // taps
    T share = 1;
    for (int64_t row = first_row; row < last_row; ++row) {
      SumOverWindows(geometry, by_column, row, context.output<T>(0) + image * image_elements,
                     [&](int64_t, int64_t window, const WindowRow& of_row, int64_t j, auto& sum) {
                       const bool is_whole = j >= whole.begin && j < whole.end;
                       const TapRange t2 = is_whole ? TapRange{0, columns.window} : Taps(columns, j);
                       if (const int64_t taps = of_row.taps * (t2.end - t2.begin); taps != known) {
                         known = taps;
                         share = T(1) / static_cast<T>(taps);
                       }
                       typename L::Vector gradient;
                       L::Load(dy + window, L::kCount, gradient);
                       sum += gradient * share;
                     });
    }
  });
  return absl::OkStatus();
}

// Elsewhere lines of windows, or one window after another, are as fast: of many channels and of windows that share no columns.
template <bool kGradient>
bool VectorsPay(const PoolGeometry& geometry) {
  constexpr int64_t kSmallWindow = 27;
  const bool share = geometry.dims[2].window > geometry.dims[2].stride;
  if (kGradient) return share && geometry.channels < kBlock && geometry.window_elements() <= kSmallWindow;
  return HasWholeWindows(geometry) && (share || geometry.channels <= kBlock);
}

template <bool kGradient>
absl::StatusOr<std::unique_ptr<Kernel>> MakeAvgPool(const OpInstance& node) {
  const Shape& input = kGradient ? node.outputs[0].shape : node.inputs[0].shape;
  MR_ASSIGN_OR_RETURN(const PoolGeometry geometry, PoolGeometryOf(node, input));
  return DispatchFloating(node, node.outputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_floating_point_v<T>) {
      if (ChannelsFillVectors<T>(geometry) && VectorsPay<kGradient>(geometry)) {
        if constexpr (kGradient) {
          return MakeKernel([geometry, by_column = WindowsByColumn(geometry)](const KernelContext& context) {
            return RunAvgPoolGradVectors<T>(context, geometry, by_column);
          });
        }
        return MakeKernel([geometry](const KernelContext& context) { return RunAvgPoolVectors<T>(context, geometry); });
      }
    }
    return MakeKernel([geometry](const KernelContext& context) {
      const bool lines = LinesPay<T>(geometry);
      if constexpr (kGradient) return lines ? RunAvgPoolGradLines<T>(context, geometry) : RunAvgPoolGrad<T>(context, geometry);
      // The sums of many channels stay in registers.
      return lines && geometry.channels < kBlock ? RunAvgPoolLines<T>(context, geometry) : RunAvgPool<T>(context, geometry);
    });
  });
}

}  // namespace

void RegisterAvgPoolKernels(KernelRegistry& registry) {
  for (const char* name : {"AvgPool", "AvgPool3D"}) AddKernel(registry, name, MakeAvgPool<false>);
  for (const char* name : {"AvgPoolGrad", "AvgPool3DGrad"}) AddKernel(registry, name, MakeAvgPool<true>);
}

}  // namespace millrace::cpu
