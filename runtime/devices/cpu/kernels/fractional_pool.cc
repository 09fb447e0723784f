// Pooling over windows of changing size (Graham, "Fractional max-pooling", 2014), with TensorFlow's windows of a seed.
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/random_stream.h"
#include "cpu/kernels/rare.h"
#include "cpu/kernels/values.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

// Sizes of the windows.
std::vector<int64_t> PseudoRandomSizes(int64_t in, int64_t out, PhiloxWords words) {
  const double alpha = static_cast<double>(in) / static_cast<double>(out);
  const int64_t k = in / out;
  const double most = std::min((static_cast<double>(k) + 2) / alpha - 1,
                               static_cast<double>(in + 1 - k) / alpha - static_cast<double>(out - 1));
  const uint32_t high = words(), low = words();
  const double u = UniformDouble(high, low) * most;
  std::vector<int64_t> places(out + 1, 1), sizes(out);
  places[out] = in + 1;
  for (int64_t i = 1; i < out; ++i) places[i] = static_cast<int64_t>(std::ceil(alpha * (static_cast<double>(i) + u)));
  for (int64_t i = 0; i < out; ++i) sizes[i] = places[i + 1] - places[i];
  return sizes;
}

std::vector<int64_t> ShuffledSizes(int64_t in, int64_t out, PhiloxWords words) {
  std::vector<int64_t> sizes(out, in / out);
  for (int64_t i = 0; i < in % out; ++i) ++sizes[i];
  for (int64_t i = 0; i + 1 < out; ++i) std::swap(sizes[i], sizes[i + words() % static_cast<uint32_t>(out - i)]);
  return sizes;
}

// First element of each window, and the end.
void Places(const KernelContext& context, int64_t in, int output, bool pseudo_random, uint64_t used_before) {
  const int64_t out = context.output_type(output).shape.dim(0) - 1;
  std::vector<int64_t> sizes;
  if (out > 0) {
    const AttrMap& attrs = context.instance->attrs;
    Philox philox;
    if (attrs.GetOr<bool>("deterministic", false)) {
      philox = Philox::FromSeeds(attrs.GetOr<int64_t>("seed", 0), attrs.GetOr<int64_t>("seed2", 0));
      philox.Skip(used_before);
    } else {
      philox = RandomStream(*context.instance).Reserve(context, kSamplesPerOutput * static_cast<uint64_t>(out));
    }
    sizes = pseudo_random ? PseudoRandomSizes(in, out, PhiloxWords(philox)) : ShuffledSizes(in, out, PhiloxWords(philox));
  }
  int64_t* places = context.output<int64_t>(output);
  places[0] = 0;
  std::partial_sum(sizes.begin(), sizes.end(), places + 1);
}

// Samples that TensorFlow reserves for a row of windows, of one size too.
uint64_t SamplesFor(int64_t out, bool pseudo_random) {
  if (out == 0) return 0;
  const uint64_t words = pseudo_random ? 2 : static_cast<uint64_t>(out);
  return (words + Philox::kWords - 1) / Philox::kWords;
}

struct Windows {
  int64_t batch, rows, columns, channels;  // of the input
  const int64_t *row, *column;             // places
  int64_t out_rows, out_columns;
  bool overlapping;

  absl::Status Check() const {
    for (const auto& [places, count, size] : {std::make_tuple(row, out_rows, rows), std::make_tuple(column, out_columns, columns)}) {
      for (int64_t i = 0; i <= count; ++i) {
        const bool inside = places[i] >= 0 && places[i] <= size && (i == 0 || places[i] > places[i - 1]);
        if (!inside) return absl::InvalidArgumentError(absl::StrCat("pooling sequence value ", places[i], " at ", i, " is not between its neighbours and ", size));
      }
    }
    return absl::OkStatus();
  }
  static int64_t End(const int64_t* places, int64_t i, int64_t size, bool overlapping) {
    return std::min(overlapping ? places[i + 1] + 1 : places[i + 1], size);
  }
  // fn(window's first output element, pixels' first input elements), pixel by pixel; before(…) and after(…) around a window.
  template <typename Pixel, typename Done>
  void ForEach(Pixel pixel, Done done) const {
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t r = 0; r < out_rows; ++r) {
        const int64_t row_end = End(row, r, rows, overlapping);
        for (int64_t c = 0; c < out_columns; ++c) {
          const int64_t column_end = End(column, c, columns, overlapping);
          const int64_t out = ((b * out_rows + r) * out_columns + c) * channels;
          for (int64_t y = row[r]; y < row_end; ++y) {
            for (int64_t x = column[c]; x < column_end; ++x) pixel(out, ((b * rows + y) * columns + x) * channels);
          }
          done(out, (row_end - row[r]) * (column_end - column[c]));
        }
      }
    }
  }
};

Windows WindowsOf(const Shape& in, const Shape& out, const int64_t* row, const int64_t* column, const OpInstance& node) {
  return {in.dim(0), in.dim(1), in.dim(2), in.dim(3), row, column, out.dim(1), out.dim(2), node.attrs.GetOr<bool>("overlapping", false)};
}

template <typename T, bool kMax>
absl::Status Pool(const KernelContext& context) {
  const Shape &in = context.input_type(0).shape, &out = context.output_type(0).shape;
  const bool pseudo_random = context.instance->attrs.GetOr<bool>("pseudo_random", false);
  Places(context, in.dim(1), 1, pseudo_random, 0);
  Places(context, in.dim(2), 2, pseudo_random, SamplesFor(out.dim(1), pseudo_random));
  const Windows windows = WindowsOf(in, out, context.output<int64_t>(1), context.output<int64_t>(2), *context.instance);
  const T* from = context.input<T>(0);
  T* to = context.output<T>(0);
  std::fill_n(to, out.num_elements(), kMax ? std::numeric_limits<T>::lowest() : T(0));
  windows.ForEach(
      [&](int64_t at, int64_t pixel) {
        for (int64_t c = 0; c < windows.channels; ++c) {
          if constexpr (kMax) {
            to[at + c] = std::max(to[at + c], from[pixel + c]);
          } else {
            to[at + c] = static_cast<T>(to[at + c] + from[pixel + c]);
          }
        }
      },
      [&](int64_t at, int64_t count) {
        for (int64_t c = 0; c < windows.channels && !kMax; ++c) to[at + c] = static_cast<T>(to[at + c] / static_cast<T>(count));
      });
  return absl::OkStatus();
}

// The first of the largest elements of a window gets its gradient.
template <typename T>
absl::Status MaxGrad(const KernelContext& context) {
  const Shape &in = context.input_type(0).shape, &out = context.input_type(2).shape;
  const Windows windows = WindowsOf(in, out, context.input<int64_t>(3), context.input<int64_t>(4), *context.instance);
  MR_RETURN_IF_ERROR(windows.Check());
  const T *from = context.input<T>(0), *gradient = context.input<T>(2);
  T* to = context.output<T>(0);
  std::fill_n(to, in.num_elements(), T(0));
  std::vector<int64_t> best(windows.channels, -1);
  windows.ForEach(
      [&](int64_t, int64_t pixel) {
        for (int64_t c = 0; c < windows.channels; ++c) {
          if (best[c] < 0 || from[pixel + c] > from[best[c]]) best[c] = pixel + c;
        }
      },
      [&](int64_t at, int64_t) {
        for (int64_t c = 0; c < windows.channels; ++c) {
          if (best[c] >= 0) to[best[c]] = static_cast<T>(to[best[c]] + gradient[at + c]);
          best[c] = -1;
        }
      });
  return absl::OkStatus();
}

template <typename T>
absl::Status AvgGrad(const KernelContext& context) {
  const Shape &in = context.output_type(0).shape, &out = context.input_type(1).shape;
  const Windows windows = WindowsOf(in, out, context.input<int64_t>(2), context.input<int64_t>(3), *context.instance);
  MR_RETURN_IF_ERROR(windows.Check());
  std::vector<double> sums(in.num_elements(), 0);
  std::vector<int64_t> pixels;
  windows.ForEach([&](int64_t, int64_t pixel) { pixels.push_back(pixel); },
                  [&](int64_t at, int64_t count) {
                    for (int64_t pixel : pixels) {
                      for (int64_t c = 0; c < windows.channels; ++c) {
                        sums[pixel + c] += static_cast<double>(context.input<T>(1)[at + c]) / static_cast<double>(count);
                      }
                    }
                    pixels.clear();
                  });
  std::transform(sums.begin(), sums.end(), context.output<T>(0), [](double value) { return static_cast<T>(value); });
  return absl::OkStatus();
}

template <typename Make>
KernelOr ForTypes(const OpInstance& node, DataType type, Make make) {
  switch (type) {
    case DataType::kFloat: return make(TypeTag<float>());
    case DataType::kDouble: return make(TypeTag<double>());
    case DataType::kInt32: return make(TypeTag<int32_t>());
    case DataType::kInt64: return make(TypeTag<int64_t>());
    default: return UnsupportedType(node, type);
  }
}

template <bool kMax>
KernelOr MakePool(const OpInstance& node) {
  return ForTypes(node, node.inputs[0].dtype, [](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([](const KernelContext& context) { return Pool<T, kMax>(context); });
  });
}
KernelOr MakeMaxGrad(const OpInstance& node) {
  return ForTypes(node, node.inputs[0].dtype, [](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([](const KernelContext& context) { return MaxGrad<T>(context); });
  });
}
KernelOr MakeAvgGrad(const OpInstance& node) {
  return ForTypes(node, node.inputs[1].dtype, [](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([](const KernelContext& context) { return AvgGrad<T>(context); });
  });
}

}  // namespace

void RegisterFractionalPoolKernels(KernelRegistry& registry) {
  AddKernel(registry, "FractionalMaxPool", MakePool<true>);
  AddKernel(registry, "FractionalAvgPool", MakePool<false>);
  AddKernel(registry, "FractionalMaxPoolGrad", MakeMaxGrad);
  AddKernel(registry, "FractionalAvgPoolGrad", MakeAvgGrad);
}

}  // namespace millrace::cpu
