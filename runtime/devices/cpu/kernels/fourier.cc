// Discrete Fourier transforms over the last one to three dimensions, of any length, by Eigen's FFT in double precision.
#include <unsupported/Eigen/FFT>

#include "cpu/kernels/complex.h"
#include "cpu/kernels/families.h"

namespace millrace::cpu {
namespace {

using Number = std::complex<double>;

enum class Direction { kForward, kBackward };

// Unscaled, `out` is not `in`. Eigen keeps the factors and roots of each length, here for each thread.
void Transform(Direction direction, int64_t length, const Number* in, Number* out) {
  using Fft = Eigen::FFT<double>;
  thread_local Fft fft(Fft::impl_type(), Fft::Unscaled);
  if (length == 1) {  // of which Eigen 3.4 makes a butterfly without room for it
    *out = *in;
  } else if (direction == Direction::kForward) {
    fft.fwd(out, in, length);
  } else {
    fft.inv(out, in, length);
  }
}

// Lines along one dimension of an array: element i of line (before, after) is at (before * size + i) * after_size + after.
struct Lines {
  Lines(const Shape& shape, int dim) : size(shape.dim(dim)) {
    for (int d = 0; d < dim; ++d) before *= shape.dim(d);
    for (int d = dim + 1; d < shape.rank(); ++d) after *= shape.dim(d);
  }
  int64_t size, before = 1, after = 1;
};

// Transforms every line of `data` (complex numbers of shape `shape`) along `dim`. Scratch: 2 * size numbers a shard.
template <typename C>
void TransformLines(const KernelContext& context, Direction direction, const Shape& shape, int dim, C* data,
                    Number* scratch) {
  const Lines lines(shape, dim);
  const int64_t n = lines.size, count = lines.before * lines.after;
  const double scale = direction == Direction::kBackward ? 1.0 / static_cast<double>(n) : 1;
  const int64_t shards = NumShards(count, std::max<int64_t>(kElementGrain / 8 / std::max<int64_t>(n, 1), 1));
  context.parallel->For(shards, [&](int64_t s) {
    Number *in = scratch + s * 2 * n, *out = in + n;
    for (int64_t line = count * s / shards; line < count * (s + 1) / shards; ++line) {
      C* first = data + line / lines.after * n * lines.after + line % lines.after;
      for (int64_t i = 0; i < n; ++i) in[i] = Number(first[i * lines.after]);
      Transform(direction, n, in, out);
      for (int64_t i = 0; i < n; ++i) first[i * lines.after] = C(out[i] * scale);
    }
  });
}

int64_t ScratchOf(const Shape& shape, int dims) {
  int64_t longest = 0;
  for (int d = shape.rank() - dims; d < shape.rank(); ++d) longest = std::max(longest, shape.dim(d));
  return kMaxShards * 2 * longest * static_cast<int64_t>(sizeof(Number));
}

template <int kDims, Direction kDirection>
absl::StatusOr<std::unique_ptr<Kernel>> MakeFft(const OpInstance& node) {
  const Shape shape = node.outputs[0].shape;
  return DispatchComplex(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using C = typename decltype(tag)::type;
    return MakeKernel(
        [=](const KernelContext& context) {
          C* data = context.output<C>(0);
          if (data != context.input<C>(0)) std::copy_n(context.input<C>(0), shape.num_elements(), data);
          if (shape.num_elements() == 0) return absl::OkStatus();
          for (int d = 0; d < kDims; ++d) {
            TransformLines(context, kDirection, shape, shape.rank() - kDims + d, data, static_cast<Number*>(context.scratch));
          }
          return absl::OkStatus();
        },
        ScratchOf(shape, kDims));
  });
}

// Calls visit(row of `from`, row of `to`) for the rows (lines of the last dimension) of the overlap of two arrays that
// differ in the last dimensions; other rows of `to` are not visited.
template <typename Visit>
void ForEachCommonRow(const Shape& from, const Shape& to, Visit&& visit) {
  int64_t rows = 1;
  for (int d = 0; d + 1 < to.rank(); ++d) rows *= to.dim(d);
  for (int64_t row = 0; row < rows; ++row) {
    int64_t rest = row, other = 0, stride = 1;
    bool common = true;
    for (int d = to.rank() - 2; d >= 0; --d) {
      const int64_t i = rest % to.dim(d);
      rest /= to.dim(d);
      common = common && i < from.dim(d);
      other += i * stride;
      stride *= from.dim(d);
    }
    if (common) visit(other, row);
  }
}

// Real numbers, cropped to fft_length, to the half of the spectrum that is not a mirror image.
template <int kDims>
absl::StatusOr<std::unique_ptr<Kernel>> MakeRfft(const OpInstance& node) {
  const Shape in = node.inputs[0].shape, out = node.outputs[0].shape;
  if (node.input_values.size() < 2 || node.input_values[1].empty()) return absl::InvalidArgumentError("fft_length is not known");
  const int64_t n = node.input_values[1].IntAt(kDims - 1), half = out.dim(out.rank() - 1);
  return DispatchComplex(node, node.outputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using C = typename decltype(tag)::type;
    using T = typename C::value_type;
    return MakeKernel(
        [=](const KernelContext& context) {
          if (out.num_elements() == 0) return absl::OkStatus();
          Number *line = static_cast<Number*>(context.scratch), *result = line + n;
          ForEachCommonRow(in, out, [&](int64_t from, int64_t to) {
            const T* x = context.input<T>(0) + from * in.dim(in.rank() - 1);
            for (int64_t i = 0; i < n; ++i) line[i] = static_cast<double>(x[i]);
            Transform(Direction::kForward, n, line, result);
            for (int64_t i = 0; i < half; ++i) context.output<C>(0)[to * half + i] = C(result[i]);
          });
          for (int d = 0; d + 1 < kDims; ++d) {
            TransformLines(context, Direction::kForward, out, out.rank() - kDims + d, context.output<C>(0), line);
          }
          return absl::OkStatus();
        },
        std::max(ScratchOf(out, kDims), 2 * n * static_cast<int64_t>(sizeof(Number))));
  });
}

// The inverse: half a spectrum, cropped to fft_length / 2 + 1, to real numbers.
template <int kDims>
absl::StatusOr<std::unique_ptr<Kernel>> MakeIrfft(const OpInstance& node) {
  const Shape in = node.inputs[0].shape, out = node.outputs[0].shape;
  const int64_t n = out.dim(out.rank() - 1), half = n / 2 + 1;
  Shape middle = out;
  middle.set_dim(out.rank() - 1, half);
  const int64_t spectrum = AlignUp(middle.num_elements() * DataTypeSize(node.inputs[0].dtype));
  return DispatchComplex(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using C = typename decltype(tag)::type;
    using T = typename C::value_type;
    return MakeKernel(
        [=](const KernelContext& context) {
          if (out.num_elements() == 0) return absl::OkStatus();
          C* values = static_cast<C*>(context.scratch);
          Number* line = reinterpret_cast<Number*>(static_cast<char*>(context.scratch) + spectrum);
          Number* result = line + n;
          ForEachCommonRow(in, middle, [&](int64_t from, int64_t to) {
            std::copy_n(context.input<C>(0) + from * in.dim(in.rank() - 1), half, values + to * half);
          });
          for (int d = 0; d + 1 < kDims; ++d) {
            TransformLines(context, Direction::kBackward, middle, out.rank() - kDims + d, values, line);
          }
          for (int64_t row = 0; row < out.num_elements() / n; ++row) {
            const C* x = values + row * half;
            line[0] = static_cast<double>(x[0].real());
            for (int64_t i = 1; i < half; ++i) line[i] = Number(x[i]);
            if (n % 2 == 0) line[n / 2] = line[n / 2].real();
            for (int64_t i = half; i < n; ++i) line[i] = std::conj(line[n - i]);
            Transform(Direction::kBackward, n, line, result);
            T* y = context.output<T>(0) + row * n;
            for (int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(result[i].real() / static_cast<double>(n));
          }
          return absl::OkStatus();
        },
        spectrum + std::max(ScratchOf(middle, kDims), 2 * n * static_cast<int64_t>(sizeof(Number))));
  });
}

}  // namespace

void RegisterFourierKernels(KernelRegistry& registry) {
  AddKernel(registry, "FFT", MakeFft<1, Direction::kForward>);
  AddKernel(registry, "FFT2D", MakeFft<2, Direction::kForward>);
  AddKernel(registry, "FFT3D", MakeFft<3, Direction::kForward>);
  AddKernel(registry, "IFFT", MakeFft<1, Direction::kBackward>);
  AddKernel(registry, "IFFT2D", MakeFft<2, Direction::kBackward>);
  AddKernel(registry, "IFFT3D", MakeFft<3, Direction::kBackward>);
  AddKernel(registry, "RFFT", MakeRfft<1>);
  AddKernel(registry, "RFFT2D", MakeRfft<2>);
  AddKernel(registry, "RFFT3D", MakeRfft<3>);
  AddKernel(registry, "IRFFT", MakeIrfft<1>);
  AddKernel(registry, "IRFFT2D", MakeIrfft<2>);
  AddKernel(registry, "IRFFT3D", MakeIrfft<3>);
}

}  // namespace millrace::cpu
