// Gradients of max pooling. In two dimensions the gradient of a window goes to its first maximum in memory order, in
// three to every element less than 1e-5 below the maximum: TensorFlow's rules. Of nodes with kPoolsAsXla it goes to the first maximum always.
#include <limits>

#include "absl/container/inlined_vector.h"
#include "cpu/kernels/lanes.h"
#include "cpu/kernels/pool.h"
#include "cpu/kernels/pool_lines.h"
#include "cpu/kernels/pool_vectors.h"
#include "cpu/kernels/pool_windows.h"
#include "cpu/kernels/register.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

struct Window {
  TapRange t0, t1, t2;
};

// The number of the first maximum among the taps of a window, for `count` channels from `image` on. The first tap
// counts whatever it holds (a NaN there stays).
template <typename T>
void FindFirstMaximum(const PoolGeometry& geometry, const Window& window, const T* image, int count,
                      typename Lanes<T>::Index& at) {
  typename Lanes<T>::Vector best, value;
  typename Lanes<T>::Integer number = 0;
  at = typename Lanes<T>::Index{};
  ForEachTap(geometry, window.t0, window.t1, window.t2, [&](int64_t, int64_t tap) {
    if (number == 0) {
      Lanes<T>::Load(image + tap, count, best);
    } else {
      Lanes<T>::Load(image + tap, count, value);
      const auto larger = best < value;
      best = larger ? value : best;
      at = larger ? number - typename Lanes<T>::Index{} : at;
    }
    ++number;
  });
}

// Where the taps of a window are, in order of memory, and which of them belong to the rows of a shard.
struct TapList {
  absl::InlinedVector<int64_t, 64> offsets;
  int64_t first_own = 0, last_own = 0;

  void Fill(const PoolGeometry& geometry, const Window& window, int64_t first_row, int64_t last_row) {
    offsets.clear();
    first_own = last_own = 0;
    ForEachTap(geometry, window.t0, window.t1, window.t2, [&](int64_t row, int64_t tap) {
      offsets.push_back(tap);
      first_own += row < first_row;
      last_own += row < last_row;
    });
  }
};

// Adds the gradients of a window to its first maxima, for `count` channels from the pointers on. The window has `size` taps.
template <typename T, typename Size>
void AddToFirstMaxima(const TapList& taps, Size size, const T* image, const T* gradients, int count, T* to) {
  using L = Lanes<T>;
  typename L::Vector best, value, gradient;
  typename L::Index at = {};
  const int64_t* offsets = taps.offsets.data();
  const auto n = static_cast<typename L::Integer>(size);
  L::Load(image + offsets[0], count, best);
  for (typename L::Integer number = 1; number < n; ++number) {
    L::Load(image + offsets[number], count, value);
    const auto larger = best < value;
    best = larger ? value : best;
    at = larger ? number - typename L::Index{} : at;
  }
  L::Load(gradients, count, gradient);
  for (auto number = static_cast<typename L::Integer>(taps.first_own); number < taps.last_own; ++number) {
    L::Load(to + offsets[number], count, value);
    value += at == number ? gradient : typename L::Vector{};
    L::Store(value, count, to + offsets[number]);
  }
}

// MaxPoolGrad(orig_input, orig_output, grad).
template <typename T>
absl::Status RunFirstMaximumGrad(const KernelContext& context, const PoolGeometry& geometry) {
  constexpr int kCount = Lanes<T>::kCount;
  const WindowDim& columns = geometry.dims[2];
  const T *input = context.input<T>(0), *dy = context.input<T>(2);
  T* dx = context.output<T>(0);
  const int64_t row_elements = geometry.input_row_elements();
  const int64_t image_elements = geometry.input_rows() * row_elements;
  const int64_t image_windows = geometry.output_rows() * geometry.output_row_elements();
  ParallelInputRows(context, geometry, [&](int64_t image, int64_t first_row, int64_t last_row) {
    const T* from = input + image * image_elements;
    T* to = dx + image * image_elements;
    TapList taps;
    std::fill(to + first_row * row_elements, to + last_row * row_elements, T(0));
    const auto add = [&](auto count, int64_t shift, const T* gradients) {
      int64_t c = 0;
      for (; c + kCount <= geometry.channels; c += kCount) AddToFirstMaxima(taps, count, from + shift + c, gradients + c, kCount, to + shift + c);
      const auto rest = static_cast<int>(geometry.channels - c);
      if (rest > 0) AddToFirstMaxima(taps, count, from + shift + c, gradients + c, rest, to + shift + c);
    };
    ForEachWindowRowReaching(geometry, first_row, last_row, [&](TapRange t0, TapRange t1, int64_t row) {
      ForAlikeColumns({0, columns.output}, WholeWindows(columns), [&](int64_t first, int64_t windows) {
        taps.Fill(geometry, {t0, t1, Taps(columns, first)}, first_row, last_row);
        if (taps.offsets.empty()) return;
        const T* gradients = dy + image * image_windows + (row * columns.output + first) * geometry.channels;
        for (int64_t w = 0; w < windows; ++w, gradients += geometry.channels) {
          const int64_t shift = w * columns.stride * geometry.channels;
          taps.offsets.size() == 4 ? add(std::integral_constant<int64_t, 4>(), shift, gradients) : add(taps.offsets.size(), shift, gradients);
        }
      });
    });
  });
  return absl::OkStatus();
}

// Calls fn(input row, number of the tap, windows, output element, input element) for runs of windows side by side among output columns `part`,
// tap after tap of the rows that t0 and t1 cover; of a row the last tap first if `backwards`. Elements are counted as ForOutputLines counts them.
template <typename Fn>
void ForTapLines(const PoolGeometry& geometry, TapRange t0, TapRange t1, TapRange part, bool backwards, Fn&& fn) {
  const WindowDim& columns = geometry.dims[2];
  int64_t number = 0;
  ForEachTap(geometry, t0, t1, {0, 1}, [&](int64_t row, int64_t row_at) {
    for (int64_t i = 0; i < columns.window; ++i) {
      const int64_t k = backwards ? columns.window - 1 - i : i;
      const TapRange run = Common(OutputsWithTap(columns, k), part);
      if (run.begin == run.end) continue;
      fn(row, number + k, run.end - run.begin, (run.begin - part.begin) * geometry.channels, row_at + (columns.Start(run.begin) + k) * geometry.channels);
    }
    number += columns.window;
  });
}

// Half is not faster by lines.
template <typename T>
constexpr bool kHasLines = std::is_floating_point_v<T> || std::is_same_v<T, Eigen::bfloat16>;

// Of channels that do not fill vectors, so few that an array holds those of a window; of bfloat16 only where lines are faster.
template <typename T>
bool GradientGoesByLines(const PoolGeometry& geometry) {
  const int64_t most = std::is_floating_point_v<T> ? kLineElements : geometry.dims[2].stride == 1 ? 63 : 50;
  return kHasLines<T> && geometry.channels % Lanes<T>::kCount != 0 && geometry.channels <= most;
}

// The same a line at a time, bfloat16 as float. Every element sees windows in the same order.
template <typename T>
absl::Status RunFirstMaximumGradLines(const KernelContext& context, const PoolGeometry& geometry) {
  using Integer = typename Lanes<T>::Integer;
  using Value = typename Lanes<T>::Value;
  using Plain = typename Lanes<T>::Plain;
  const int64_t channels = geometry.channels, row_elements = geometry.input_row_elements(), stride = geometry.dims[2].stride;
  ParallelInputRows(context, geometry, [&](int64_t image, int64_t first_row, int64_t last_row) {
    const Plain* from = context.input<Plain>(0) + image * geometry.input_rows() * row_elements;
    const Plain* gradients = context.input<Plain>(2) + image * geometry.output_rows() * geometry.output_row_elements();
    Plain* to = context.output<Plain>(0) + image * geometry.input_rows() * row_elements;
    std::fill(to + first_row * row_elements, to + last_row * row_elements, Plain(0));
    // Loops over strides only copy or add: compared there as well, g++ 12 vectorises doubles of 3 channels into something else.
    Value best[kLineElements] = {}, values[kLineElements];
    Integer at[kLineElements];
    ForEachWindowRowReaching(geometry, first_row, last_row, [&](TapRange t0, TapRange t1, int64_t windows) {
      ForColumnParts(geometry, [&](TapRange part) {
        std::fill_n(at, (part.end - part.begin) * channels, Integer(-1));
        ForTapLines(geometry, t0, t1, part, false, [&](int64_t, int64_t tap, int64_t n, int64_t out_at, int64_t in_at) {
          const Plain* x = from + in_at;
          ForLine(n, channels, stride, [=, to = values](int64_t out, int64_t in) { to[out] = static_cast<Value>(x[in]); });
          for (int64_t e = 0; e < n * channels; ++e) {
            const bool larger = (at[out_at + e] < 0) | (best[out_at + e] < values[e]);
            best[out_at + e] = larger ? values[e] : best[out_at + e];
            at[out_at + e] = larger ? static_cast<Integer>(tap) : at[out_at + e];
          }
        });
        const Plain* of_part = gradients + windows * geometry.output_row_elements() + part.begin * channels;
        ForTapLines(geometry, t0, t1, part, true, [&](int64_t row, int64_t tap, int64_t n, int64_t out_at, int64_t in_at) {
          if (row < first_row || row >= last_row) return;
          const Plain* gradient = of_part + out_at;
          for (int64_t e = 0; e < n * channels; ++e) values[e] = at[out_at + e] == tap ? static_cast<Value>(gradient[e]) : Value(0);
          Plain* into = to + in_at;
          ForLine(n, channels, stride, [=, from = values](int64_t out, int64_t in) { into[in] = Plain(static_cast<Value>(into[in]) + from[out]); });
        });
      });
    });
  });
  return absl::OkStatus();
}

// Wide windows share most of their taps: the maxima of every input row's part of a window are found once, for a vector of
// channels of an image at a time, and windows take them from the rows that they cover.
template <typename T>
struct RowMaximum {
  typename Lanes<T>::Vector best;
  typename Lanes<T>::Index at;  // pixel of the image
};

// `units`: parts that it is shared out in, images by vectors of channels. The other way has more of them.
bool WindowsAreWide(const PoolGeometry& geometry, int64_t units) {
  constexpr int64_t kWide = 36, kFewUnits = 4;
  const auto& [depth, rows, columns] = geometry.dims;
  const int64_t taps = rows.window * columns.window;
  return depth.input == 1 && depth.output == 1 && depth.window == 1 && geometry.channels > 0 && taps >= kWide &&
         taps * std::min(units, kFewUnits) > kFewUnits * (std::min(rows.stride, rows.window) * columns.window + rows.window) &&
         rows.input * columns.input <= std::numeric_limits<int32_t>::max();
}

template <typename T>
class WideWindowGrad final : public Kernel {
 public:
  explicit WideWindowGrad(const PoolGeometry& geometry)
      : geometry_(geometry), rows_(geometry.dims[1]), columns_(geometry.dims[2]), blocks_((geometry.channels + L::kCount - 1) / L::kCount) {
    const int64_t image_bytes = rows_.input * columns_.input * geometry.channels * static_cast<int64_t>(sizeof(T));
    const int64_t scratch = std::max(int64_t{4} << 20, geometry.batch * image_bytes / 4);
    const int64_t most = std::clamp<int64_t>(scratch / std::max<int64_t>(ring_bytes(), 1), 1, kMaxShards);
    shards_ = NumShards(geometry.batch * blocks_, 1, most);
  }

  int64_t scratch_bytes() const override { return shards_ * ring_bytes(); }

  absl::Status Run(const KernelContext& context) const override {
    const int64_t image_elements = rows_.input * columns_.input * geometry_.channels;
    const int64_t image_windows = geometry_.output_rows() * geometry_.output_row_elements();
    const int64_t units = geometry_.batch * blocks_;
    context.parallel->For(shards_, [&](int64_t shard) {
      auto* ring = reinterpret_cast<RowMaximum<T>*>(static_cast<std::byte*>(context.scratch) + shard * ring_bytes());
      for (int64_t unit = units * shard / shards_; unit < units * (shard + 1) / shards_; ++unit) {
        const int64_t image = unit / blocks_, channel = unit % blocks_ * L::kCount;
        RunImage(context.input<T>(0) + image * image_elements + channel, context.input<T>(2) + image * image_windows + channel,
                 static_cast<int>(std::min<int64_t>(L::kCount, geometry_.channels - channel)), ring,
                 context.output<T>(0) + image * image_elements + channel);
      }
    });
    return absl::OkStatus();
  }

 private:
  using L = Lanes<T>;
  using Integer = typename L::Integer;

  // As many rows as a window has of the image, a maximum per output column in each.
  int64_t ring_rows() const { return std::max<int64_t>(std::min(rows_.window, rows_.input), 1); }
  int64_t ring_bytes() const { return ring_rows() * columns_.output * static_cast<int64_t>(sizeof(RowMaximum<T>)); }
  RowMaximum<T>* RowIn(RowMaximum<T>* ring, int64_t row) const { return ring + row % ring_rows() * columns_.output; }

  void RunImage(const T* image, const T* gradients, int count, RowMaximum<T>* ring, T* to) const {
    const int64_t channels = geometry_.channels;
    for (int64_t pixel = 0; pixel < rows_.input * columns_.input; ++pixel) std::fill_n(to + pixel * channels, count, T(0));
    int64_t next = 0;  // row that is not in the ring yet
    for (int64_t j1 = 0; j1 < rows_.output; ++j1) {
      const TapRange t1 = Taps(rows_, j1);
      for (next = std::max(next, t1.begin); next < t1.end; ++next) FindMaxima(image, next, count, RowIn(ring, next));
      for (int64_t j2 = 0; j2 < columns_.output; ++j2, gradients += channels) {
        const TapRange t2 = Taps(columns_, j2);
        if (t1.begin >= t1.end || t2.begin >= t2.end) continue;
        typename L::Index at;
        FindFirst(image, t1, t2.begin, j2, count, ring, at);
        for (int i = 0; i < count; ++i) {
          T& into = to[at[i] * channels + i];
          into = static_cast<T>(static_cast<typename L::Value>(into) + static_cast<typename L::Value>(gradients[i]));
        }
      }
    }
  }

  // Of the columns of every window. Where none is larger than the least of values it is the first.
  void FindMaxima(const T* image, int64_t row, int count, RowMaximum<T>* maxima) const {
    using Limits = std::numeric_limits<typename L::Value>;
    constexpr auto kLeast = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    for (int64_t j2 = 0; j2 < columns_.output; ++j2) {
      const TapRange t2 = Taps(columns_, j2);
      auto pixel = static_cast<Integer>(row * columns_.input + t2.begin);
      typename L::Vector best = kLeast - typename L::Vector{}, value;
      typename L::Index at = pixel - typename L::Index{};
      for (int64_t tap = t2.begin; tap < t2.end; ++tap, ++pixel) {
        L::Load(image + pixel * geometry_.channels, count, value);
        const auto larger = best < value;
        best = larger ? value : best;
        at = larger ? pixel - typename L::Index{} : at;
      }
      maxima[j2] = {best, at};
    }
  }

  void FindFirst(const T* image, TapRange t1, int64_t column, int64_t j2, int count, RowMaximum<T>* ring, typename L::Index& at) const {
    const RowMaximum<T>& first = RowIn(ring, t1.begin)[j2];
    typename L::Vector best = first.best;
    at = first.at;
    for (int64_t row = t1.begin + 1; row < t1.end; ++row) {
      const RowMaximum<T>& other = RowIn(ring, row)[j2];
      const auto larger = best < other.best;
      best = larger ? other.best : best;
      at = larger ? other.at : at;
    }
    // A NaN at the first tap stays.
    const auto pixel = static_cast<Integer>(t1.begin * columns_.input + column);
    typename L::Vector value;
    L::Load(image + pixel * geometry_.channels, count, value);
    at = value == value ? at : pixel - typename L::Index{};
  }

  const PoolGeometry geometry_;
  const WindowDim rows_, columns_;
  const int64_t blocks_;  // vectors of channels
  int64_t shards_ = 1;
};

// MaxPool3DGrad(orig_input, orig_output, grad).
template <typename T>
absl::Status RunEveryMaximumGrad(const KernelContext& context, const PoolGeometry& geometry) {
  const T tie(1e-5);
  const WindowDim& columns = geometry.dims[2];
  const int64_t channels = geometry.channels, row_elements = geometry.input_row_elements();
  const int64_t image_windows = geometry.output_rows() * geometry.output_row_elements();
  ParallelInputRows(context, geometry, [&](int64_t image, int64_t first_row, int64_t last_row) {
    for (int64_t row = first_row; row < last_row; ++row) {
      const int64_t row_at = (image * geometry.input_rows() + row) * row_elements;
      T* to = context.output<T>(0) + row_at;
      std::fill_n(to, row_elements, T(0));
      ForWindowLines(geometry, row, [&](TapRange, TapRange, TapRange run, int64_t k, int64_t row_windows) {
        const int64_t window = image * image_windows + row_windows + run.begin * channels, at = (columns.Start(run.begin) + k) * channels;
        const T *from = context.input<T>(0) + row_at + at, *maximum = context.input<T>(1) + window, *gradient = context.input<T>(2) + window;
        T* into = to + at;
        ForLine(run.end - run.begin, channels, columns.stride,
                [=](int64_t out, int64_t in) { into[in] += maximum[out] - from[in] < tie ? gradient[out] : T(0); });
      });
    }
  });
  return absl::OkStatus();
}

// MaxPoolGradGrad(orig_input, orig_output, grad): the element of grad at the first maximum of every window.
template <typename T>
absl::Status RunGradGrad(const KernelContext& context, const PoolGeometry& geometry) {
  using L = Lanes<T>;
  const int64_t image_elements = geometry.input_rows() * geometry.input_row_elements();
  ParallelOutputRows(context, geometry, [&](int64_t row, int64_t image, TapRange t0, TapRange t1) {
    const T *input = context.input<T>(0) + image * image_elements, *ddx = context.input<T>(2) + image * image_elements;
    T* to = context.output<T>(0) + row * geometry.output_row_elements();
    Window window{t0, t1, {}};
    for (int64_t j = 0; j < geometry.dims[2].output; ++j, to += geometry.channels) {
      window.t2 = Taps(geometry.dims[2], j);
      for (int64_t channel = 0; channel < geometry.channels; channel += L::kCount) {
        const int count = static_cast<int>(std::min<int64_t>(L::kCount, geometry.channels - channel));
        typename L::Index at;
        FindFirstMaximum(geometry, window, input + channel, count, at);
        typename L::Integer number = 0;
        ForEachTap(geometry, window.t0, window.t1, window.t2, [&](int64_t, int64_t tap) {
          for (int i = 0; i < count; ++i) {
            if (at[i] == number) to[channel + i] = ddx[tap + channel + i];
          }
          ++number;
        });
      }
    }
  });
  return absl::OkStatus();
}

template <typename T>
absl::Status RunEveryMaximumGradVectors(const KernelContext& context, const PoolGeometry& geometry, const std::vector<TapRange>& by_column) {
  using L = Lanes<T>;
  const T tie(1e-5);
  const int64_t image_elements = geometry.input_rows() * geometry.input_row_elements();
  const int64_t image_windows = geometry.output_rows() * geometry.output_row_elements();
  ParallelInputRows(context, geometry, [&](int64_t image, int64_t first_row, int64_t last_row) {
    const T* from = context.input<T>(0) + image * image_elements;
    const T *maxima = context.input<T>(1) + image * image_windows, *gradients = context.input<T>(2) + image * image_windows;
    T* to = context.output<T>(0) + image * image_elements;
    for (int64_t row = first_row; row < last_row; ++row) {
      SumOverWindows(geometry, by_column, row, to, [=](int64_t position, int64_t window, const WindowRow&, int64_t, auto& sum) {
        typename L::Vector value, maximum, gradient;
        L::Load(from + position, L::kCount, value);
        L::Load(maxima + window, L::kCount, maximum);
        L::Load(gradients + window, L::kCount, gradient);
        sum += maximum - value < tie ? gradient : typename L::Vector{};
      });
    }
  });
  return absl::OkStatus();
}

enum class Rule { kFirstMaximum, kEveryMaximum, kGradGrad };

template <Rule kRule>
absl::StatusOr<std::unique_ptr<Kernel>> MakeGrad(const OpInstance& node) {
  const bool window_inputs = node.op == "MaxPoolGradV2" || node.op == "MaxPoolGradGradV2";
  MR_ASSIGN_OR_RETURN(const PoolGeometry geometry, PoolGeometryOf(node, node.inputs[0].shape, window_inputs ? 3 : -1));
  const auto make = [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    if constexpr (kRule == Rule::kFirstMaximum) {
      constexpr int64_t kLanes = Lanes<T>::kCount;
      if (WindowsAreWide(geometry, geometry.batch * ((geometry.channels + kLanes - 1) / kLanes))) return std::make_unique<WideWindowGrad<T>>(geometry);
    }
    if constexpr (kRule == Rule::kEveryMaximum && std::is_floating_point_v<T>) {
      if (ChannelsFillVectors<T>(geometry)) {
        return MakeKernel([geometry, by_column = WindowsByColumn(geometry)](const KernelContext& context) {
          return RunEveryMaximumGradVectors<T>(context, geometry, by_column);
        });
      }
    }
    if constexpr (kRule == Rule::kFirstMaximum && kHasLines<T>) {
      if (GradientGoesByLines<T>(geometry)) {
        return MakeKernel([geometry](const KernelContext& context) { return RunFirstMaximumGradLines<T>(context, geometry); });
      }
    }
    return MakeKernel([geometry](const KernelContext& context) {
      if constexpr (kRule == Rule::kFirstMaximum) return RunFirstMaximumGrad<T>(context, geometry);
      if constexpr (kRule == Rule::kEveryMaximum) return RunEveryMaximumGrad<T>(context, geometry);
      if constexpr (kRule == Rule::kGradGrad) return RunGradGrad<T>(context, geometry);
    });
  };
  if constexpr (kRule == Rule::kEveryMaximum) {
    return DispatchFloating(node, node.inputs[0].dtype, make);
  } else {
    return DispatchNumeric(node, node.inputs[0].dtype, make);
  }
}

}  // namespace

void RegisterMaxPoolGradKernels(KernelRegistry& registry) {
  for (const char* name : {"MaxPoolGrad", "MaxPoolGradV2"}) AddKernel(registry, name, MakeGrad<Rule::kFirstMaximum>);
  AddKernel(registry, "MaxPool3DGrad", [](const OpInstance& node) {
    return node.attrs.GetOr<bool>(kPoolsAsXla, false) ? MakeGrad<Rule::kFirstMaximum>(node) : MakeGrad<Rule::kEveryMaximum>(node);
  });
  for (const char* name : {"MaxPoolGradGrad", "MaxPoolGradGradV2", "MaxPool3DGradGrad"}) {
    AddKernel(registry, name, MakeGrad<Rule::kGradGrad>);
  }
}

}  // namespace millrace::cpu
