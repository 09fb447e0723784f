// Gradients of max pooling. In two dimensions the gradient of a window goes to its first maximum in memory order, in
// three to every element less than 1e-5 below the maximum: TensorFlow's rules.
#include "absl/container/inlined_vector.h"
#include "cpu/kernels/lanes.h"
#include "cpu/kernels/pool.h"
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

// Adds the gradients of a window to its first maxima, for `count` channels from the pointers on.
template <typename T>
void AddToFirstMaxima(const TapList& taps, const T* image, const T* gradients, int count, T* to) {
  using L = Lanes<T>;
  typename L::Vector best, value, gradient;
  typename L::Index at = {};
  const int64_t* offsets = taps.offsets.data();
  const auto n = static_cast<typename L::Integer>(taps.offsets.size());
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
    ForEachWindowReaching(geometry, first_row, last_row, [&](TapRange t0, TapRange t1, TapRange t2, int64_t index) {
      taps.Fill(geometry, {t0, t1, t2}, first_row, last_row);
      if (taps.offsets.empty()) return;
      const T* gradients = dy + image * image_windows + index * geometry.channels;
      int64_t c = 0;
      for (; c + kCount <= geometry.channels; c += kCount) {
        AddToFirstMaxima(taps, from + c, gradients + c, kCount, to + c);
      }
      const auto rest = static_cast<int>(geometry.channels - c);
      if (rest > 0) AddToFirstMaxima(taps, from + c, gradients + c, rest, to + c);
    });
  });
  return absl::OkStatus();
}

// MaxPool3DGrad(orig_input, orig_output, grad).
template <typename T>
absl::Status RunEveryMaximumGrad(const KernelContext& context, const PoolGeometry& geometry) {
  const T tie(1e-5);
  const T *input = context.input<T>(0), *output = context.input<T>(1), *dy = context.input<T>(2);
  T* dx = context.output<T>(0);
  const int64_t row_elements = geometry.input_row_elements();
  const int64_t image_elements = geometry.input_rows() * row_elements;
  const int64_t image_windows = geometry.output_rows() * geometry.output_row_elements();
  ParallelInputRows(context, geometry, [&](int64_t image, int64_t first_row, int64_t last_row) {
    const T* in = input + image * image_elements;
    T* to = dx + image * image_elements;
    std::fill(to + first_row * row_elements, to + last_row * row_elements, T(0));
    ForEachWindowReaching(geometry, first_row, last_row, [&](TapRange t0, TapRange t1, TapRange t2, int64_t index) {
      const T* maximum = output + image * image_windows + index * geometry.channels;
      const T* gradient = dy + image * image_windows + index * geometry.channels;
      ForEachTap(geometry, t0, t1, t2, [&](int64_t row, int64_t tap) {
        if (row < first_row || row >= last_row) return;
        const T* from = in + tap;
        T* into = to + tap;
#pragma GCC ivdep
        for (int64_t c = 0; c < geometry.channels; ++c) into[c] += maximum[c] - from[c] < tie ? gradient[c] : T(0);
      });
    });
  });
  return absl::OkStatus();
}

// MaxPoolGradGrad(orig_input, orig_output, grad): the element of grad at the first maximum of every window.
template <typename T>
absl::Status RunGradGrad(const KernelContext& context, const PoolGeometry& geometry) {
  using L = Lanes<T>;
  const auto& dims = geometry.dims;
  const int64_t image_elements = geometry.input_rows() * geometry.input_row_elements();
  ParallelOutputRows(context, geometry, [&](int64_t output_row) {
    const int64_t image = output_row / geometry.output_rows(), in_image = output_row % geometry.output_rows();
    const T *input = context.input<T>(0) + image * image_elements, *ddx = context.input<T>(2) + image * image_elements;
    T* to = context.output<T>(0) + output_row * geometry.output_row_elements();
    Window window{Taps(dims[0], in_image / dims[1].output), Taps(dims[1], in_image % dims[1].output), {}};
    for (int64_t j = 0; j < dims[2].output; ++j, to += geometry.channels) {
      window.t2 = Taps(dims[2], j);
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

enum class Rule { kFirstMaximum, kEveryMaximum, kGradGrad };

template <Rule kRule>
absl::StatusOr<std::unique_ptr<Kernel>> MakeGrad(const OpInstance& node) {
  const bool window_inputs = node.op == "MaxPoolGradV2" || node.op == "MaxPoolGradGradV2";
  MR_ASSIGN_OR_RETURN(const PoolGeometry geometry, PoolGeometryOf(node, node.inputs[0].shape, window_inputs ? 3 : -1));
  const auto make = [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
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
  AddKernel(registry, "MaxPool3DGrad", MakeGrad<Rule::kEveryMaximum>);
  for (const char* name : {"MaxPoolGradGrad", "MaxPoolGradGradV2", "MaxPool3DGradGrad"}) {
    AddKernel(registry, name, MakeGrad<Rule::kGradGrad>);
  }
}

}  // namespace millrace::cpu
